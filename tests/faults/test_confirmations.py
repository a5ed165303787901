"""Reads in front of which the replica is asked whether it still has what it had proved."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.gtid import GtidSet
from protocol.packet import frame
from proxy.server.exchange import Purpose
from routing.consistency.decision import Level
from tests.faults.client import Client
from tests.faults.peers import OK, err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.table_fixture import COUNT, apply, count, execute, table_fixture
from tests.faults.test_prepared import counted, prepare
from tests.faults.test_prepared import execute as execute_prepared

QUESTION = b"SELECT GTID_SUBSET"
PATIENT = "/* tidegate wait_budget=5s */"


@asynccontextmanager
async def read_once(age: float = 0.0, **options: Any) -> AsyncIterator[tuple[ProxyFixture, Client]]:
    """A session that has written and read that on its replica; nothing is applied any more."""
    async with table_fixture(proof_max_age=age, self_audit=0.0, **options) as proxy:
        apply(proxy, True)
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        assert await count(client, PATIENT) == 1
        apply(proxy, False)
        yield proxy, client


def results(proxy: ProxyFixture) -> tuple[float, float, float]:
    name = "tidegate_confirmations_total"
    held, lost, unanswered = (
        proxy.count(name, result) for result in ("held", "lost", "unanswered")
    )
    return held, lost, unanswered


def questions(proxy: ProxyFixture) -> int:
    (replica,) = proxy.cluster.replicas
    return len([text for text in statements_of(replica) if text.startswith(QUESTION.decode())])


async def test_every_read_that_relies_on_a_proof_asks_at_an_age_of_0() -> None:
    async with read_once() as (proxy, client):
        assert results(proxy) == (1, 0, 0)  # that of its WAIT
        for _ in range(3):
            assert await count(client) == 1
        assert results(proxy) == (4, 0, 0)
        assert questions(proxy) == 3
        stranger = await proxy.session()
        assert await count(stranger) == 1  # it need not see anything
        assert await count(client, "/* tidegate consistency=BEST_EFFORT */") == 1
        assert questions(proxy) == 3
        assert proxy.statements("replica", "known", "ok") == 5


async def test_one_answer_serves_all() -> None:
    async with read_once(age=3600.0) as (proxy, client):
        for _ in range(3):
            assert await count(client) == 1
        assert questions(proxy) == 0
        (server,) = proxy.shared.topology.replicas
        server.confirmed_at -= 3600
        others = [await proxy.session() for _ in range(2)]
        for session in (client, *others):
            assert await count(session) == 1
        assert questions(proxy) == 1
        assert results(proxy) == (1, 0, 0)


async def test_a_replica_that_has_lost_what_it_had(caplog: pytest.LogCaptureFixture) -> None:
    async with read_once() as (proxy, client):
        (replica,) = proxy.cluster.replicas
        (server,) = proxy.shared.topology.replicas
        epoch = server.epoch
        replica.gtids.executed = GtidSet()
        assert await count(client) == 1
        assert results(proxy)[1] == 1
        assert proxy.statements("primary", "audit_failed", "ok") == 1
        assert server.epoch == epoch + 1
        assert not server.applied
        assert [r.getMessage() for r in caplog.records if "it was rebuilt" in r.msg] == [
            f"replica {replica.address} does not have any more what it had proved: it was rebuilt,"
            " or lost transactions; until it has them again, reads that need them go elsewhere"
        ]
        # Now it is asked to wait, over another connection, and says the truth.
        assert await count(client) == 1
        assert proxy.statements("wait_timeout") == 1
        assert results(proxy)[1] == 1


async def test_a_wait_finds_out_as_well() -> None:
    """What it waits for is there, and something else is not."""
    async with read_once(wait_budget=5.0) as (proxy, client):
        (replica,) = proxy.cluster.replicas
        (server,) = proxy.shared.topology.replicas
        had = replica.gtids.executed
        await execute(client, "INSERT INTO t VALUES (2)")
        (session,) = proxy.shared.sessions
        replica.gtids.executed = session.state.required
        assert session.state.required
        assert not had <= session.state.required
        assert await count(client) == 2
        assert results(proxy)[1] == 1
        assert proxy.statements("primary", "audit_failed", "ok") == 1
        assert not server.applied


async def test_a_wait_that_runs_out_finds_out_as_well() -> None:
    # A replica that needed longer for what it has applied would not be asked.
    async with read_once(wait_budget=1.0) as (proxy, client):
        (replica,) = proxy.cluster.replicas
        (server,) = proxy.shared.topology.replicas
        await execute(client, "INSERT INTO t VALUES (2)")
        replica.gtids.executed = GtidSet()
        assert await count(client) == 2
        assert results(proxy)[1] == 1
        assert proxy.statements("primary", "wait_timeout", "ok") == 1
        assert not server.applied


ANSWERS = {
    "an error": err(1105),
    "NULL": rows([None, b"1"], columns=2),
    "no word of the order": rows([b"1", None], columns=2),
    "no row": rows(columns=2),
    "one value": rows([b"1"]),
    "one value too many": rows([b"1", b"1", b"1"], columns=3),
    "2": rows([b"2", b"1"], columns=2),
    "two rows": rows([b"0", b"1"], [b"0", b"1"], columns=2),
    "an OK": frame(OK, 1),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_read_without_an_answer_goes_elsewhere(case: str) -> None:
    """It confirms nothing, and speaks against nothing but this one read."""
    async with read_once() as (proxy, client):
        (server,) = proxy.shared.topology.replicas
        confirmed_at = server.confirmed_at
        proxy.cluster.replicas[0].faults.raw_reply(ANSWERS[case], matching=QUESTION)
        assert await count(client) == 1
        assert results(proxy) == (1, 0, 1)
        assert server.confirmed_at == confirmed_at
        assert server.applied
        assert proxy.statements("primary", "audit_failed", "ok") == 1
        assert await count(client) == 1
        assert results(proxy) == (2, 0, 1)


@pytest.mark.parametrize("broken", [b"", b"\0\0\0\1", b"\x01\0\0", rows([b"1"])[:-3]])
async def test_a_replica_that_breaks_instead(broken: bytes) -> None:
    async with read_once() as (proxy, client):
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(broken, matching=QUESTION)
        faults.drop_connection_after(0, matching=b"COUNT")
        assert await count(client) == 1
        assert proxy.statements("primary", "replica_lost", "ok") == 1
        assert await count(client) == 1


async def test_the_client_leaves_meanwhile() -> None:
    async with read_once() as (proxy, client):
        gate = proxy.cluster.replicas[0].faults.hold_reply(QUESTION)
        client.send(b"\x03" + COUNT.encode())
        await eventually(lambda: gate.held == 1)
        client.abort()
        gate.open()


# The order of commits.


@pytest.mark.parametrize("level", ["READ_ALL_WRITES", "MONOTONIC_READS", "READ_OWN_WRITES"])
async def test_a_replica_that_does_not_keep_the_order(level: str) -> None:
    async with read_once(consistency=Level(level)) as (proxy, client):
        (server,) = proxy.shared.topology.replicas
        assert server.ordered
        proxy.cluster.replicas[0].faults.raw_reply(rows([b"1", b"0"], columns=2), matching=QUESTION)
        assert await count(client) == 1
        assert not server.ordered
        assert results(proxy)[1:] == (0, 0)
        in_order = level == "READ_ALL_WRITES"
        assert proxy.statements("primary", "commit_order", "ok") == in_order
        assert await count(client) == 1
        assert proxy.statements("primary", "commit_order", "ok") == 2 * in_order
        assert server.ordered is not in_order  # others have asked anew


@pytest.mark.parametrize("level", ["READ_ALL_WRITES", "MONOTONIC_READS", "READ_OWN_WRITES"])
async def test_only_reads_in_order_ask_with_every_wait(level: str) -> None:
    async with read_once(age=3600.0, consistency=Level(level)) as (proxy, _):
        (replica,) = proxy.cluster.replicas
        waits = [text for text in statements_of(replica) if "WAIT_FOR" in text]
        assert waits
        for text in waits:
            assert ("commit_order" in text) is (level == "READ_ALL_WRITES")


# What else may stand between the question and the read.


async def test_a_read_only_transaction_begins_elsewhere() -> None:
    async with read_once() as (proxy, client):
        (replica,) = proxy.cluster.replicas
        await execute(client, "START TRANSACTION READ ONLY")
        assert await count(client) == 1
        assert await count(client) == 1  # of the snapshot: nothing is asked again
        assert questions(proxy) == 1
        await execute(client, "COMMIT")
        replica.gtids.executed = GtidSet()
        await execute(client, "START TRANSACTION READ ONLY")
        for _ in range(2):
            assert await count(client) == 1
        assert proxy.statements("primary", "audit_failed", "ok") == 1
        await execute(client, "COMMIT")
        assert results(proxy)[1] == 1


async def test_a_prepared_statement_is_run_elsewhere() -> None:
    async with read_once() as (proxy, client):
        (replica,) = proxy.cluster.replicas
        statement = await prepare(client, COUNT)
        for _ in range(2):
            assert counted(await execute_prepared(client, statement)) == 1
        assert questions(proxy) >= 2
        replica.gtids.executed = GtidSet()
        assert counted(await execute_prepared(client, statement)) == 1
        assert proxy.statements("primary", "audit_failed", "ok") == 1


@pytest.mark.parametrize("purpose", [Purpose.CONFIRM, Purpose.WAIT, Purpose.AUDIT])
async def test_an_answer_that_comes_as_the_session_ends_changes_nothing(purpose: Purpose) -> None:
    """Its client was told that the primary is gone; the replica's connection is not closed yet."""
    async with read_once() as (proxy, client):
        gate = proxy.cluster.replicas[0].faults.hold_reply(QUESTION)
        client.send(b"\x03" + COUNT.encode())
        await eventually(lambda: gate.held == 1)
        (session,) = proxy.shared.sessions
        replica = session._servers.active
        session._own_answers.end_lost("its primary is gone")
        session.aside(replica, purpose)
        gate.open()
        assert (await client.last_error()).code == 2013
