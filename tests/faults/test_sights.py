"""What a client was shown, in whole or in part, no later read may be older than."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.constants import Command
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response_stream import PREPARED
from proxy.client.connection import STREAM_ABOVE
from proxy.server.gtid_question import PROBE_SQL
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from tests.faults.client import Client, query
from tests.faults.peers import OK, err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.table_fixture import COUNT, count, execute, table_fixture
from tests.support.doubts import may_have_seen

LEVELS = ("MONOTONIC_READS", "READ_ALL_WRITES")
WAIT_FOR_OWNED = b"REGEXP_REPLACE(@@GLOBAL.gtid_owned"
"""What asks the primary to finish what it is committing."""
OTHER = "11111111-1111-1111-1111-111111111111"
UNFINISHED = {
    "1": rows([b"1"]),
    "NULL": rows([None]),
    "no row": rows(),
    "an error": err(1317),
    "an OK": frame(OK, 1),
}


@asynccontextmanager
async def seen(**options: Any) -> AsyncIterator[tuple[ProxyFixture, Client]]:
    """A session that was shown something by a replica, and has to read from the primary."""
    async with table_fixture(**{"consistency": Level.MONOTONIC_READS, **options}) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "SELECT GET_LOCK('here', 1)")
        (session,) = proxy.shared.sessions
        may_have_seen(session.state.own_scope)
        proxy.shared.probes.patience = 10.0  # whoever is slow to open a gate does not fail a read
        yield proxy, client


@pytest.mark.parametrize("case", UNFINISHED)
async def test_a_primary_that_does_not_say_that_it_finished_is_not_read(case: str) -> None:
    async with seen() as (proxy, client):
        proxy.cluster.primary.faults.raw_reply(UNFINISHED[case], matching=WAIT_FOR_OWNED)
        before = statements_of(proxy.cluster.primary).count(COUNT)
        client.send_bytes(frame(query(COUNT), 0) + frame(query("SELECT @@version"), 0))
        error = (await client.answer()).error
        assert error.code == 3024
        assert "is still committing" in error.message
        # What was sent right behind gets its own answer.
        assert (await client.answer()).value is not None
        assert statements_of(proxy.cluster.primary).count(COUNT) == before
        assert proxy.count("tidegate_stale_reads_total") == 0
        assert await count(client) == 0


async def test_the_statement_is_not_sent_before_the_primary_has_finished() -> None:
    async with seen() as (proxy, client):
        gate = proxy.cluster.primary.faults.hold_reply(WAIT_FOR_OWNED)
        before = statements_of(proxy.cluster.primary).count(COUNT)
        client.send(query(COUNT))
        await eventually(lambda: gate.held == 1)
        assert statements_of(proxy.cluster.primary).count(COUNT) == before
        gate.open()
        assert (await client.answer()).value == b"0"
        texts = statements_of(proxy.cluster.primary)
        # It is asked once; what the primary shows from then on is no older.
        assert await count(client) == 0
        assert [
            WAIT_FOR_OWNED.decode() in text for text in statements_of(proxy.cluster.primary)
        ].count(True) == 1
        assert texts[-1] == COUNT


async def test_the_primary_breaks_while_it_is_asked_to_finish() -> None:
    async with seen() as (proxy, client):
        proxy.cluster.primary.faults.drop_connection_after(0, matching=WAIT_FOR_OWNED)
        client.send(query(COUNT))
        assert (await client.last_error()).code == 2013


async def test_the_client_leaves_while_the_primary_is_asked_to_finish() -> None:
    async with seen() as (proxy, client):
        gate = proxy.cluster.primary.faults.hold_reply(WAIT_FOR_OWNED)
        client.send(query(COUNT))
        await eventually(lambda: gate.held == 1)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        gate.open()


@pytest.mark.parametrize("policy", TimeoutPolicy)
async def test_a_primary_that_does_not_even_say_that_the_budget_ran_out(
    policy: TimeoutPolicy,
) -> None:
    """Nobody waits for that: what only the primary can show is refused, whatever the policy is."""
    async with seen(on_timeout=policy, wait_budget=0.05) as (proxy, client):
        proxy.shared.probes.patience = 0.05
        faults = proxy.cluster.primary.faults
        first, second = faults.hold_reply(WAIT_FOR_OWNED), faults.hold_reply(WAIT_FOR_OWNED)
        before = statements_of(proxy.cluster.primary).count(COUNT)
        error = (await client.query(COUNT)).error
        assert error.code == 3024
        assert "the primary is still committing" in error.message
        # The late answer is not taken for that to the next one.
        proxy.shared.probes.patience = 10.0
        client.send(query(COUNT))
        first.open()
        await eventually(lambda: second.held == 1)
        assert statements_of(proxy.cluster.primary).count(COUNT) == before
        second.open()
        assert (await client.answer()).value == b"0"
        assert proxy.count("tidegate_stale_reads_total") == 0


async def test_a_read_goes_where_what_was_seen_has_arrived_meanwhile() -> None:
    """It left late replicas; by the time that the primary has not finished, one has caught up."""
    async with table_fixture(replicas=1, consistency=Level.MONOTONIC_READS) as proxy:
        direct = await proxy.direct()
        client = await proxy.session()
        assert await count(client) == 0
        proxy.shared.probes.patience = 10.0
        (session,) = proxy.shared.sessions
        await execute(direct, "INSERT INTO t VALUES (1)")
        (replica,) = proxy.shared.topology.replicas
        replica.timed_out(proxy.shared.now() + 1000)
        may_have_seen(session.state.own_scope)
        executed = proxy.cluster.primary.gtids.executed
        answer = rows([f"{OTHER}:99#5".encode(), executed.text.encode(), b"ON"], columns=3)
        proxy.cluster.primary.faults.raw_reply(answer, matching=PROBE_SQL)
        gate = proxy.cluster.primary.faults.hold_reply(WAIT_FOR_OWNED, raw=rows([b"1"]))
        client.send(query(COUNT))
        await eventually(lambda: gate.held == 1)
        proxy.cluster.replicas[0].applying = True
        await proxy.caught_up()
        replica.add_proof(executed | GtidSet.parse(f"{OTHER}:99"), replica.epoch)
        gate.open()
        assert (await client.answer()).value == b"1"
        assert proxy.statements("replica", "read", "known") == 2
        assert proxy.count("tidegate_fallbacks_total", "wait_timeout") == 1


@pytest.mark.parametrize("policy", TimeoutPolicy)
async def test_an_execution_in_parts_waits_too(policy: TimeoutPolicy) -> None:
    async with seen(on_timeout=policy) as (proxy, client):
        sql = b"SELECT COUNT(*) FROM t WHERE id <> ?"
        prepared = await client.command(b"\x16" + sql, PREPARED)
        proxy.cluster.primary.faults.raw_reply(rows([b"1"]), matching=WAIT_FOR_OWNED)
        value = b"x" * STREAM_ABOVE
        execute = prepared.packets[0][1:5] + b"\0\1\0\0\0" + b"\0\1\xfd\0"
        execute += b"\xfd" + len(value).to_bytes(3, "little") + value
        client.send(bytes((Command.COM_STMT_EXECUTE,)) + execute)
        client.send(query("SELECT @@version"))
        answer = await client.answer(text=False)
        if policy is TimeoutPolicy.STALE:
            assert answer.ok
            assert proxy.count("tidegate_stale_reads_total") == 1
        else:
            assert answer.error.code == 3024
        assert (await client.answer()).value is not None


async def test_what_may_write_runs_behind_the_question() -> None:
    """Whatever the answer is; and counts as stale where it shows something."""
    async with seen() as (proxy, client):
        faults = proxy.cluster.primary.faults
        faults.raw_reply(rows([b"1"]), matching=WAIT_FOR_OWNED)
        await execute(client, "INSERT INTO t VALUES (1)")
        assert proxy.count("tidegate_stale_reads_total") == 0
        faults.raw_reply(rows([b"1"]), matching=WAIT_FOR_OWNED)
        await execute(client, "SELECT COUNT(*) FROM t; INSERT INTO t VALUES (2)")
        assert proxy.count("tidegate_stale_reads_total") == 1


@pytest.mark.parametrize("sql", ["SET NAMES utf8mb4", "USE test", "COMMIT", "SELECT ROW_COUNT()"])
async def test_what_shows_no_data_is_not_kept_waiting(sql: str) -> None:
    async with seen() as (proxy, client):
        await execute(client, sql)
        assert not any(
            WAIT_FOR_OWNED.decode() in text for text in statements_of(proxy.cluster.primary)
        )


@pytest.mark.parametrize("level", LEVELS)
async def test_the_primary_finishes_what_a_probe_saw_it_committing(level: str) -> None:
    """The read that asked for the probe may end up there, where the replicas are late."""
    async with table_fixture(consistency=Level(level)) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        (session,) = proxy.shared.sessions
        may_have_seen(session.state.own_scope)
        owned = f"{OTHER}:99#5".encode()
        executed = proxy.cluster.primary.gtids.executed.text.encode()
        proxy.cluster.primary.faults.raw_reply(
            rows([owned, executed, b"ON"], columns=3), matching=PROBE_SQL
        )
        for replica in proxy.shared.topology.replicas:
            replica.timed_out(proxy.shared.now() + 1000)
        assert await count(client) == 0
        texts = statements_of(proxy.cluster.primary)
        assert proxy.count("tidegate_probes_total") == 1
        assert texts[-1] == COUNT
        assert "gtid_owned,_latin1'#" in texts[-2]


@pytest.mark.parametrize("lost", ["server", "client"])
async def test_what_was_shown_in_part_was_shown(lost: str) -> None:
    async with table_fixture(scope=Scope.USER, consistency=Level.MONOTONIC_READS) as proxy:
        other = await proxy.session()
        assert await count(other) == 0
        client = await proxy.session()
        await execute(other, "SET tidegate_consistency = DEFAULT")
        (state,) = proxy.shared.scopes.states()
        state.seen_on = None
        begun = rows([b"1"])[:-20]
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(begun, matching=COUNT.encode())
        client.send(query(COUNT))
        await client.read_packet()
        if lost == "server":
            for replica in proxy.cluster.replicas:
                await replica.stop()
        else:
            client.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        assert state.is_unbounded
