"""Reads of which the replica itself is asked whether it has what they must see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.gtid import GtidSet
from protocol.packet import frame
from routing.consistency.decision import Level, TimeoutPolicy
from tests.faults.client import Client
from tests.faults.peers import OK, err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.table_fixture import (
    CLIENTS,
    COUNT,
    apply,
    count,
    execute,
    packets_of,
    table_fixture,
)

SUBSET = b"SELECT GTID_SUBSET"
WAIT = b"SELECT WAIT_FOR_EXECUTED_GTID_SET"


@asynccontextmanager
async def audited(share: float = 1.0, **options: Any) -> AsyncIterator[tuple[ProxyFixture, Client]]:
    """A session that has written; its replica has that, too, and the session has read there."""
    async with table_fixture(self_audit=share, **options) as proxy:
        apply(proxy, True)
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        assert await count(client, "/* tidegate wait_budget=5s */") == 1
        yield proxy, client


WRITE = "INSERT INTO t VALUES ({})"


def results(proxy: ProxyFixture) -> dict[str, float]:
    name = "tidegate_audited_reads_total"
    return {result: proxy.count(name, result) for result in ("held", "stale", "unanswered")}


def proven(proxy: ProxyFixture) -> float:
    return proxy.count("tidegate_stale_reads_proven_total")


def audits(proxy: ProxyFixture) -> int:
    (replica,) = proxy.cluster.replicas
    return len([text for text in statements_of(replica) if text.startswith("SELECT GTID_SUBSET")])


# On sound clusters.


@pytest.mark.parametrize("kind", CLIENTS)
async def test_audits_hold_and_nobody_sees_them(kind: str) -> None:
    async with audited(wait_budget=5.0) as (proxy, _):
        plain = await proxy.session(capabilities=CLIENTS[kind])
        expected = await packets_of(plain, "SELECT id FROM t")  # needs nothing: not audited
        assert results(proxy) == {"held": 1, "stale": 0, "unanswered": 0}
        client = await proxy.session(capabilities=CLIENTS[kind])
        await packets_of(client, "INSERT INTO t VALUES (2)")
        await packets_of(client, "DELETE FROM t WHERE id = 2")
        await proxy.caught_up()
        for _ in range(3):
            assert await packets_of(client, "SELECT id FROM t") == expected
        await packets_of(client, "USE second")
        await packets_of(client, "SET time_zone = '+00:00'")
        assert await packets_of(client, "SELECT id FROM test.t") == expected
        assert results(proxy) == {"held": 5, "stale": 0, "unanswered": 0}
        assert audits(proxy) == 5
        assert proven(proxy) == 0


async def test_which_reads_are_audited() -> None:
    async with audited() as (proxy, client):
        before = audits(proxy)
        assert await count(client, "/* tidegate consistency=BEST_EFFORT */") == 1
        await execute(client, "BEGIN")
        assert await count(client) == 1
        await execute(client, "COMMIT")
        stranger = await proxy.session()
        assert await count(stranger) == 1
        assert audits(proxy) == before
        for level in ("STRONG", "MONOTONIC_READS", "'BOUNDED_STALENESS(1ms)'"):
            assert await count(stranger, f"/* tidegate consistency={level} */") == 1
        assert audits(proxy) == before + 3
        assert results(proxy)["held"] == before + 3


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.25, 5), (0.5, 10), (0.999, 19)])
async def test_the_share(share: float, expected: int) -> None:
    async with audited(share) as (proxy, client):
        for _ in range(19):
            assert await count(client) == 1
        assert audits(proxy) == expected


async def test_nothing_is_proven_under_load() -> None:
    async with audited(wait_budget=5.0) as (proxy, _):
        proxy.cluster.replicas[0].apply_delay = 0.01
        clients = [await proxy.session() for _ in range(6)]
        for client in clients:
            await execute(client, "SELECT 1")

        async def work(client: Client, number: int) -> None:
            for round_ in range(6):
                await execute(client, WRITE.format(number))
                assert await count(client) > round_

        await asyncio.gather(*(work(client, n) for n, client in enumerate(clients)))
        found = results(proxy)
        assert found["held"] > 12
        assert found["stale"] == found["unanswered"] == proven(proxy) == 0


# A replica that lies, or that the proxy takes for newer than it is.


async def test_a_replica_whose_wait_says_what_is_not_so(caplog: pytest.LogCaptureFixture) -> None:
    async with audited() as (proxy, client):
        (replica,) = proxy.cluster.replicas
        apply(proxy, False)
        await execute(client, "INSERT INTO t VALUES (2)")
        lie = rows([b"0", b"1"], columns=2)
        replica.faults.raw_reply(lie, matching=WAIT, times=None)
        wait = "/* tidegate wait_budget=5s */"
        for number in (1, 2):
            assert await count(client, wait) == 2
            assert proven(proxy) == number
        assert proxy.statements("primary", "audit_failed", "ok") == 2
        assert proxy.count("tidegate_fallbacks_total", "audit_failed") == 2
        messages = [r.getMessage() for r in caplog.records if "was taken to have" in r.msg]
        assert len(messages) == 2
        assert replica.address in messages[0]
        assert "waited" in messages[0]
        replica.faults.clear()
        apply(proxy, True)
        await proxy.caught_up()
        assert await count(client, wait) == 2
        assert proven(proxy) == 2


async def test_a_replica_that_lost_what_it_had() -> None:
    """Nobody was told; what was known of it counts no more once an audit has said so."""
    async with audited() as (proxy, client):
        (replica,) = proxy.cluster.replicas
        apply(proxy, False)
        assert await count(client) == 1
        held = results(proxy)["held"]
        replica.gtids.executed = GtidSet()
        assert await count(client) == 1
        assert proven(proxy) == 1
        assert proxy.statements("primary", "audit_failed") == 1
        (server,) = proxy.shared.topology.replicas
        assert not server.applied
        # Now it is asked to wait, and says the truth.
        assert await count(client) == 1
        assert proven(proxy) == 1
        assert results(proxy)["held"] == held
        # Without audits it would have been believed.
        assert proxy.statements("wait_timeout") == 1


async def test_what_is_given_openly_as_stale_is_not_proven() -> None:
    async with audited(on_timeout=TimeoutPolicy.STALE) as (proxy, client):
        apply(proxy, False)
        await execute(client, "INSERT INTO t VALUES (2)")
        assert await count(client) == 1
        assert proxy.count("tidegate_stale_reads_total") == 1
        assert proven(proxy) == 0
        assert results(proxy)["unanswered"] == 0


# A replica that does not answer the question.

ANSWERS = {
    "an error": err(1105),
    "NULL": rows([None]),
    "no row": rows(),
    "2": rows([b"2"]),
    "two rows": rows([b"0"], [b"0"]),
    "an OK": frame(OK, 1),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_read_without_an_answer_goes_elsewhere(case: str) -> None:
    """It proves nothing, and speaks against nothing but this one read."""
    async with audited() as (proxy, client):
        (server,) = proxy.shared.topology.replicas
        proxy.cluster.replicas[0].faults.raw_reply(ANSWERS[case], matching=SUBSET)
        assert await count(client) == 1
        assert results(proxy)["unanswered"] == 1
        assert proven(proxy) == 0
        assert proxy.statements("replica", "known", "ok") == 1
        assert proxy.statements("primary", "audit_failed", "ok") == 1
        assert server.applied
        assert await count(client) == 1
        assert proxy.statements("replica", "known", "ok") == 2
        assert results(proxy)["held"] == 2


@pytest.mark.parametrize("broken", [b"", b"\0\0\0\1", b"\x01\0\0", rows([b"1"])[:-3]])
async def test_a_replica_that_breaks_instead(broken: bytes) -> None:
    async with audited() as (proxy, client):
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(broken, matching=SUBSET)
        faults.drop_connection_after(0, matching=b"COUNT")
        assert await count(client) == 1
        assert proxy.statements("primary", "replica_lost", "ok") == 1
        assert proven(proxy) == 0
        assert await count(client) == 1


async def test_the_client_leaves_meanwhile() -> None:
    async with audited() as (proxy, client):
        gate = proxy.cluster.replicas[0].faults.hold_reply(SUBSET)
        await client.command(b"\x0e")
        client.send(b"\x03" + COUNT.encode())
        await eventually(lambda: gate.held == 1)
        client.abort()
        gate.open()


async def test_audits_at_a_level_that_the_replica_tracks_for() -> None:
    """The tracker of the audit's own answer is not that of the read."""
    async with audited(consistency=Level.MONOTONIC_READS) as (proxy, client):
        for _ in range(3):
            assert await count(client) == 1
        assert results(proxy)["stale"] == results(proxy)["unanswered"] == 0
        assert results(proxy)["held"] >= 3
