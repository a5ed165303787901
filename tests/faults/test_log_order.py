"""What a read relies on stands in the routing log before its record, and nothing that is not so."""

import json

from protocol.gtid import GtidSet
from routing.record import RecordStream
from tests.faults.client import query
from tests.faults.stage import eventually
from tests.faults.table import COUNT, apply, count, does, table


async def test_what_a_login_tells_is_told_before_the_login_ends() -> None:
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table(log=log) as on:
        client, other = await on.session(), await on.session()
        assert await count(client) == 0
        await does(client, "INSERT INTO t VALUES (1)")
        apply(on, applying=True)
        await on.caught_up()
        replica = on.proxy.topology.replicas[0]
        gate = on.cluster.replicas[0].faults.hold_reply(matching=b"transaction_read_only")
        other.send(query(COUNT))
        await eventually(lambda: gate.held)
        written = on.cluster.primary.gtids.executed.text
        await eventually(lambda: GtidSet.parse(written) <= replica.applied)
        assert await count(client) == 1
        records = [json.loads(line) for line in log.take(1000).splitlines()]
        read = records[-1]
        assert (read["class"], read["proof"]) == ("read", "known")
        told = [it for it in records if it["kind"] == "proof" and it["server"] == replica.name]
        assert any(it["proof_set"] == read["proof_set"] for it in told)
        gate.open()
        assert (await other.answer()).value == b"1"


async def test_what_an_incarnation_said_is_not_told_of_the_next_one() -> None:
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table(log=log) as on:
        client, other, third = await on.session(), await on.session(), await on.session()
        assert await count(client) == 0
        await does(client, "INSERT INTO t VALUES (1)")
        apply(on, applying=True)
        await on.caught_up()
        replica = on.proxy.topology.replicas[0]
        gate = on.cluster.replicas[0].faults.hold_reply(matching=b"gtid_owned")
        other.send(query(COUNT))
        await eventually(lambda: gate.held)
        written = on.cluster.primary.gtids.executed
        apply(on, applying=False)
        on.cluster.replicas[0].gtids.reset()
        assert await count(third) == 1
        assert replica.epoch == 2
        gate.open()
        assert (await other.answer()).value == b"1"
        records = [json.loads(line) for line in log.take(1000).splitlines()]
        told = [it for it in records if it["kind"] == "proof" and it["incarnation"] == 2]
        assert told
        assert not any(GtidSet.parse(it["proof_set"]) & written for it in told)
