"""With ``table-dependencies = auto`` the primary's log is read while replicas are late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.gtid import EMPTY, GtidSet
from proxy.monitor import binlog_stream, transaction_follower
from routing.servers.topology import Server
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import execute
from tests.faults.test_killing_across_workers import workers
from tests.faults.test_table_dependencies import ACTIVE, OPTIONS, READ, active

READ_BYTES = "tidegate_table_dependencies_read_bytes_total"
LOOKS = 5
AUTO = OPTIONS | {"table_dependencies": "auto", "wait_budget": 0.05}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(binlog_stream, "BACKOFF_FIRST_S", 0.02)


@asynccontextmanager
async def resting(**more: Any) -> AsyncIterator[ProxyFixture]:
    """A proxy that has seen that the log may be read, and reads it no more."""
    async with proxy_fixture(1, **(AUTO | more)) as proxy:
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        await rests(proxy)
        yield proxy


async def rests(proxy: ProxyFixture) -> None:
    tables = proxy.shared.topology.transaction_tables
    await eventually(lambda: tables.cause == "replicas are not late")
    await eventually(lambda: proxy.count(ACTIVE) == 0)
    assert proxy.shared.topology.current_tables is None


async def looked_at(server: Server) -> None:
    """Wait until the monitor has looked at it some times from now on."""
    looks = {server.seen_at}

    def seen() -> bool:
        looks.add(server.seen_at)
        return len(looks) > LOOKS

    await eventually(seen)


def replica_of(proxy: ProxyFixture) -> Server:
    (server,) = proxy.shared.topology.replicas
    return server


async def write(proxy: ProxyFixture) -> GtidSet:
    """What a write past the proxy committed."""
    before = proxy.cluster.primary.gtids.executed
    await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
    return proxy.cluster.primary.gtids.executed - before


async def meets_late_replica(proxy: ProxyFixture) -> None:
    """A client's reads wait for its writes, in vain, until the log is read."""
    client = await proxy.session()
    async with asyncio.timeout(30):
        while proxy.shared.topology.current_tables is None:
            await execute(client, "INSERT INTO t VALUES (1)")
            await execute(client, "SELECT COUNT(*) FROM t")


async def test_while_replicas_keep_up_it_is_not_read() -> None:
    async with resting() as proxy:
        received = proxy.count(READ_BYTES)
        assert received > 0  # it was seen that it may be
        for _ in range(LOOKS):
            await write(proxy)
        await proxy.caught_up()
        await looked_at(replica_of(proxy))
        assert proxy.count(READ_BYTES) == received
        assert proxy.shared.topology.current_tables is None


async def test_reads_that_wait_have_it_read_from_where_the_replicas_are() -> None:
    async with resting() as proxy:
        proxy.cluster.replicas[0].applying = False
        unread = await write(proxy)
        tables = proxy.shared.topology.transaction_tables
        await looked_at(replica_of(proxy))
        assert tables.still_required(unread, EMPTY, READ) is unread  # it was not read yet
        await meets_late_replica(proxy)
        await eventually(lambda: unread <= tables.read_through)
        assert not unread & replica_of(proxy).applied
        # The mocker logs statements, which may change anything: so it was read, not taken as known.
        assert tables.still_required(unread, replica_of(proxy).applied, READ) is unread
        assert tables.version > 1
        proxy.cluster.replicas[0].applying = True
        await proxy.caught_up()


async def test_a_replica_that_stays_late_is_noticed_though_no_read_waits() -> None:
    async with resting() as proxy:
        server = replica_of(proxy)
        proxy.cluster.replicas[0].applying = False
        await meets_late_replica(proxy)
        found = server.lateness.at
        await write(proxy)
        await eventually(lambda: server.lateness.at > found)
        proxy.cluster.replicas[0].applying = True
        executed = proxy.cluster.primary.gtids.executed
        await eventually(lambda: executed <= server.applied)
        await looked_at(server)
        found = server.lateness.at
        await looked_at(server)
        assert server.lateness.at == found


async def test_it_rests_again_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_follower, "_LINGER_S", 0.5)
    async with resting() as proxy:
        tables = proxy.shared.topology.transaction_tables
        for _ in range(2):
            proxy.cluster.replicas[0].applying = False
            await meets_late_replica(proxy)
            proxy.cluster.replicas[0].applying = True
            await proxy.caught_up()
            await rests(proxy)
            unread = await write(proxy)
            assert tables.still_required(unread, EMPTY, READ) is unread
            assert not unread & tables.read_through


async def test_it_is_read_once_in_each_term() -> None:
    async with resting(failover="read_only") as proxy:
        topology = proxy.shared.topology
        term, received = topology.term, proxy.count(READ_BYTES)
        old, new = proxy.cluster.primary, proxy.cluster.replicas[0]
        old.read_only = True
        await new.unfollow()
        new.set_variable("read_only", False)
        await eventually(lambda: topology.term != term)
        await eventually(lambda: proxy.count(READ_BYTES) > received)
        await rests(proxy)


async def test_the_option_counts_at_once() -> None:
    async with resting() as proxy:
        live = proxy.shared.live
        live.change(replace(live.config, table_dependencies="on"), live.materials)
        await active(proxy)
        await looked_at(replica_of(proxy))
        await active(proxy)
        live.change(replace(live.config, table_dependencies="auto"), live.materials)
        await rests(proxy)


async def test_another_workers_reads_have_it_read(tmp_path: Path) -> None:
    async with workers(tmp_path, 1, 2, **AUTO) as (first, second):
        await execute(await first.direct(), "CREATE TABLE t (id INT)")
        await first.caught_up()
        await rests(first)
        await eventually(lambda: second.shared.topology.current_tables is None)
        first.cluster.replicas[0].applying = False
        await meets_late_replica(second)
        assert first.shared.topology.current_tables is not None
        first.cluster.replicas[0].applying = True
        await first.caught_up()
        for proxy in (first, second):  # each waits until the servers are left
            await proxy.monitor.stop()
