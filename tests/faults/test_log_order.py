"""What a read relies on stands in the routing log before its record, and nothing that is not so."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mysql_mocker.state.faults import Gate
from protocol.gtid import GtidSet
from routing.record import RecordStream
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ProxyFixture, eventually
from tests.faults.table_fixture import COUNT, apply, count, execute, table_fixture


@dataclass
class Scene:
    """A written row that the replicas have, and a login to the first one that has not ended.

    Attributes:
        proxy: the servers and the proxy.
        client: a session that has written the row, and is connected to the replica.
        other: a session whose read waits for the login.
        gate: holds an answer of the replica to that login.
    """

    proxy: ProxyFixture
    client: Client
    other: Client
    gate: Gate
    log: RecordStream

    def records(self) -> list[dict[str, Any]]:
        """What the routing log holds."""
        return [json.loads(line) for line in self.log.take(1000).splitlines()]


@asynccontextmanager
async def _held_login(matching: bytes) -> AsyncIterator[Scene]:
    """Hold the answer to a statement with these bytes, which the proxy sends in a login."""
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table_fixture(log=log) as proxy:
        client, other = await proxy.session(), await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        apply(proxy, applying=True)
        await proxy.caught_up()
        gate = proxy.cluster.replicas[0].faults.hold_reply(matching=matching)
        other.send(query(COUNT))
        await eventually(lambda: gate.held)
        yield Scene(proxy, client, other, gate, log)


async def test_what_a_login_tells_is_told_before_the_login_ends() -> None:
    async with _held_login(b"transaction_read_only") as scene:
        replica = scene.proxy.shared.topology.replicas[0]
        written = scene.proxy.cluster.primary.gtids.executed.text
        await eventually(lambda: GtidSet.parse(written) <= replica.applied)
        assert await count(scene.client) == 1
        records = scene.records()
        read = records[-1]
        assert (read["class"], read["proof"]) == ("read", "known")
        proofs = [
            record
            for record in records
            if record["kind"] == "proof" and record["server"] == replica.name
        ]
        assert any(proof["proof_set"] == read["proof_set"] for proof in proofs)
        scene.gate.open()
        assert (await scene.other.answer()).value == b"1"


async def test_what_an_incarnation_said_is_not_told_of_the_next_one() -> None:
    async with _held_login(b"gtid_owned") as scene:
        proxy = scene.proxy
        third = await proxy.session()
        written = proxy.cluster.primary.gtids.executed
        apply(proxy, applying=False)
        proxy.cluster.replicas[0].gtids.reset()
        assert await count(third) == 1
        assert proxy.shared.topology.replicas[0].epoch == 2
        scene.gate.open()
        assert (await scene.other.answer()).value == b"1"
        proofs = [
            record
            for record in scene.records()
            if record["kind"] == "proof" and record["incarnation"] == 2
        ]
        assert proofs
        assert not any(GtidSet.parse(proof["proof_set"]) & written for proof in proofs)
