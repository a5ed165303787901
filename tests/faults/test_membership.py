"""Servers that come and go while the proxy runs: what they are sent, and what sessions meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from protocol.gtid import GtidSet
from proxy.monitor.membership import Found
from proxy.observe import closed_labels
from proxy.observe.metrics import MAX_FORMER_SERVERS
from tests.faults.client import PASSWORD, Client
from tests.faults.proxy_fixture import (
    ACCOUNTS,
    ProxyFixture,
    before,
    eventually,
    statements_of,
)
from tests.faults.table_fixture import COUNT, LEVELS, count, execute

WATCHED: dict[str, Any] = {
    "monitor_user": "app",
    "monitor_password": PASSWORD.encode(),
    "monitor_interval": 0.1,
    "connect_timeout": 1.0,
    "wait_budget": 1.0,
}
SOURCE = "a test"


@asynccontextmanager
async def growing(configured: int = 1, **options: Any) -> AsyncIterator[ProxyFixture]:
    """A proxy that knows of fewer replicas than there are; `t` is empty everywhere."""
    async with (
        Cluster(3, accounts=ACCOUNTS, schemas=("test",)) as cluster,
        before(
            cluster.primary.address,
            [replica.address for replica in cluster.replicas[:configured]],
            cluster,
            **{**WATCHED, **options},
        ) as proxy,
    ):
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        yield proxy


def found(*servers: Server, fit: bool = True) -> list[Found]:
    return [Found(server.address, SOURCE, fit=fit) for server in servers]


def names(proxy: ProxyFixture) -> list[str]:
    return [server.name for server in proxy.shared.topology.replicas]


async def come(proxy: ProxyFixture, *servers: Server) -> None:
    proxy.monitor.membership.apply(found(*servers))
    await eventually(lambda: {server.address for server in servers} <= set(names(proxy)))


async def readers(
    proxy: ProxyFixture, number: int = 6, level: str = "READ_OWN_WRITES"
) -> list[Client]:
    """Sessions with consecutive ids, each of which has read once."""
    sessions = [await proxy.session() for _ in range(number)]
    for session in sessions:
        await execute(session, f"SET tidegate_consistency = '{level}'")
        await count(session)
    return sessions


def reads_of(server: Server) -> int:
    return statements_of(server).count(COUNT)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_server_that_comes_is_read_after_it_was_looked_at_and_compared(level: str) -> None:
    async with growing() as proxy:
        new = proxy.cluster.replicas[1]
        primary = proxy.cluster.primary
        sessions = await readers(proxy, level=level)
        gate = primary.faults.hold_reply(b"SELECT @@server_uuid")  # no look at the primary ends
        await eventually(lambda: gate.held > 0)
        proxy.monitor.membership.apply(found(new))
        (server,) = proxy.shared.topology.standby
        await eventually(lambda: server.uuid != "")
        if level == "READ_OWN_WRITES":
            for session in sessions:
                await count(session)
        assert reads_of(new) == 0
        assert new.address not in names(proxy)
        gate.open()
        await eventually(lambda: new.address in names(proxy))
        # What has seen something may stay where that was shown.
        for session in sessions + await readers(proxy, level=level):
            await count(session)
        assert 0 < reads_of(new) < 2 * len(sessions)


async def test_a_server_with_transactions_of_its_own_is_found_out_before_it_is_read() -> None:
    async with growing() as proxy:
        new, primary = proxy.cluster.replicas[1], proxy.cluster.primary
        new.gtids.executed |= GtidSet.parse(f"{primary.gtids.server_uuid}:1000".encode())
        sessions = await readers(proxy)
        proxy.monitor.membership.apply(found(new))
        await eventually(lambda: new.address in names(proxy))
        for session in sessions:
            await count(session)
        assert reads_of(new) == 0
        (server,) = [s for s in proxy.shared.topology.replicas if s.name == new.address]
        assert server.has_diverged
        # Nor if it goes and comes back.
        proxy.monitor.membership.apply([])
        await come(proxy, new)
        for session in sessions:
            await count(session)
        assert reads_of(new) == 0


async def test_a_server_that_cannot_be_looked_at_gets_no_read() -> None:
    async with growing() as proxy:
        new = proxy.cluster.replicas[1]
        await new.stop()
        proxy.monitor.membership.apply(found(new))
        sessions = await readers(proxy)
        await asyncio.sleep(0.2)
        assert new.address not in names(proxy)
        await new.start()
        await eventually(lambda: new.address in names(proxy))
        for session in sessions:
            await count(session)
        assert reads_of(new) > 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", ["gone", pytest.param("unfit", marks=pytest.mark.not_fast)])
async def test_a_server_that_goes_gets_no_further_statement(level: str, how: str) -> None:
    async with growing(kept_connections=8) as proxy:
        old = proxy.cluster.replicas[1]
        await come(proxy, old)
        sessions = await readers(proxy, level=level)
        leaving = await proxy.session()
        for session in sessions:
            await count(session)
            await count(session)
        await count(leaving)
        leaving.abort()
        assert reads_of(old) > 0
        proxy.monitor.membership.apply([] if how == "gone" else found(old, fit=False))
        before_it = reads_of(old)
        for session in sessions:
            for _ in range(3):
                await count(session)
            await execute(session, "INSERT INTO t VALUES (1)")
            await count(session)
            assert (await session.query("SHOW WARNINGS")).ok
        for session in await readers(proxy):
            await count(session)
        assert reads_of(old) == before_it
        if how == "gone":
            await eventually(lambda: old.connections == 0)
            for family, series in proxy.shared.metrics.snapshot()["values"].items():
                if not family.endswith("_total"):
                    assert not [labels for labels, _ in series if old.address in labels], family
        else:
            await eventually(lambda: old.connections == 1)  # the monitor's
            rows = (await sessions[0].query("SHOW TIDEGATE SERVERS")).rows
            up = {row[0]: row[2] for row in rows}
            assert up[old.address.encode()] == b"no"
            await eventually(lambda: proxy.count("tidegate_server_up", old.address) == 0)
            await come(proxy, old)
            await readers(proxy, level=level)
            assert reads_of(old) > before_it


async def test_a_read_under_way_ends_normally() -> None:
    async with growing(configured=0) as proxy:
        old = proxy.cluster.replicas[0]
        await come(proxy, old)
        session = await proxy.session()
        await execute(session, "INSERT INTO t VALUES (7)")
        await proxy.caught_up()
        await count(session)
        gate = old.faults.hold_reply(b"SELECT id")
        reading = asyncio.create_task(session.query("SELECT id FROM t"))
        await eventually(lambda: gate.held > 0)
        proxy.monitor.membership.apply([])
        await asyncio.sleep(0.1)
        gate.open()
        assert (await reading).rows == [[b"7"]]
        await eventually(lambda: old.connections == 0)
        assert await count(session) == 1
        assert proxy.statements("primary", "no_replica") > 0


async def test_a_transaction_on_a_server_that_goes_is_not_continued_elsewhere() -> None:
    async with growing(configured=0) as proxy:
        old = proxy.cluster.replicas[0]
        await come(proxy, old)
        session = await proxy.session()
        await execute(session, "START TRANSACTION READ ONLY")
        assert await count(session) == 0
        assert reads_of(old) == 1
        await execute(await proxy.session(), "INSERT INTO t VALUES (1)")
        proxy.monitor.membership.apply([])
        answer = await session.query(COUNT)
        assert answer.error.code in (1213, 2013, 1105), answer.error
        assert reads_of(old) == 1


async def test_the_primary_is_not_let_go_and_configured_servers_stay() -> None:
    async with growing(configured=1) as proxy:
        proxy.monitor.membership.apply([])
        assert names(proxy) == [proxy.cluster.replicas[0].address]
        assert proxy.shared.topology.primary.name == proxy.cluster.primary.address
        session = await proxy.session()
        await execute(session, "INSERT INTO t VALUES (1)")
        assert await count(session) == 1


async def test_a_configured_server_by_another_name_does_not_come() -> None:
    async with growing(configured=1) as proxy:
        servers = [proxy.cluster.primary, proxy.cluster.replicas[0]]
        await eventually(lambda: all(s.uuid for s in proxy.shared.topology.servers))
        proxy.monitor.membership.apply(
            [
                Found(f"localhost:{server.port}", SOURCE, str(server.gtids.server_uuid))
                for server in servers
            ]
        )
        assert [server.name for server in proxy.shared.topology.watched] == [
            server.address for server in servers
        ]


async def test_sessions_keep_their_replicas_and_share_out_what_comes() -> None:
    async with growing(configured=2) as proxy:
        sessions = list(range(12))
        await readers(proxy, len(sessions))
        states = [session.state for session in proxy.shared.sessions]
        first = [proxy.shared.topology.replicas[state.preferred].name for state in states]
        await come(proxy, proxy.cluster.replicas[2])
        then = [proxy.shared.topology.replicas[state.preferred].name for state in states]
        assert then.count(proxy.cluster.replicas[2].address) == 4
        kept = [(a, b) for a, b in zip(first, then, strict=True) if a == b]
        assert len(kept) == 8
        proxy.monitor.membership.apply([])
        assert {state.preferred for state in states} == {0, 1}
        again = [proxy.shared.topology.replicas[state.preferred].name for state in states]
        assert all(a == b for a, b in zip(then, again, strict=True) if a in first)


async def test_what_is_kept_of_servers_that_have_gone_is_bounded() -> None:
    async with growing(configured=0) as proxy:
        for number in range(1, 200):
            proxy.monitor.membership.apply([Found(f"127.0.0.1:{number}", SOURCE)])
            await asyncio.sleep(0)
        proxy.monitor.membership.apply([])
        await eventually(lambda: len(proxy.monitor._tasks) == 1)
        labels = {
            label
            for series in proxy.shared.metrics.snapshot()["values"].values()
            for found_labels, _ in series
            for label in found_labels
            if label.startswith("127.0.0.1:")
        }
        assert len(labels) <= MAX_FORMER_SERVERS + 1
        assert len(proxy.shared.topology.watched) == 1


@pytest.mark.parametrize("diverged", [False, True])
async def test_a_server_that_has_gone_is_forgotten(diverged: bool) -> None:
    async with growing() as proxy:
        new, primary = proxy.cluster.replicas[1], proxy.cluster.primary
        if diverged:
            new.gtids.executed |= GtidSet.parse(f"{primary.gtids.server_uuid}:1000")
        sessions = await readers(proxy)
        for _ in range(3):
            await come(proxy, new)
            for session in sessions:
                await count(session)
            proxy.monitor.membership.apply([])
            await eventually(lambda: new.address not in names(proxy))
        slots, watched = proxy.shared.slots, set(proxy.shared.topology.watched)
        known = (slots._taken, slots._used, slots._queues, slots.giving)
        await eventually(lambda: all(set(of_servers) <= watched for of_servers in known))
        assert proxy.shared.primary_epoch._diverged <= watched


async def test_counters_of_a_server_begin_when_it_is_known() -> None:
    async with growing() as proxy:
        families = [*closed_labels.OF_SERVERS, *closed_labels.OF_REPLICAS]
        counted = {definition.name for definition in families} - {"tidegate_wait_duration_seconds"}
        configured = {str(proxy.shared.topology.primary.name), *names(proxy)}
        before_it_came = proxy.shared.metrics.snapshot()["values"]
        await come(proxy, *proxy.cluster.replicas)
        after = proxy.shared.metrics.snapshot()["values"]
        for name in counted:
            shown = {labels[0] for labels, _ in before_it_came[name]}
            assert shown <= configured
            assert set(names(proxy)) <= {labels[0] for labels, _ in after[name]}
