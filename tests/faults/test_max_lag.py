"""Replicas that are too far behind to be read, before mock servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.response import ErrPacket
from proxy.monitor.lag import TABLES
from routing.servers.rate_limit import RateLimit
from routing.servers.topology import Server
from tests.faults.client import PASSWORD, Client, query
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import apply, execute

READ = "SELECT COUNT(*) FROM t"
STOPPED = "tidegate_replica_replicating"
CROWDED = "tidegate_fallbacks_crowded_total"


class Full(RateLimit):
    """Has a token after `delay` seconds, or never."""

    def __init__(self, delay: float | None) -> None:
        super().__init__(1.0)
        self._delay = delay

    def reserve(self, now: float, most: float) -> float | None:
        return self._delay


@asynccontextmanager
async def limited(replicas: int = 1, **more: Any) -> AsyncIterator[ProxyFixture]:
    """Before a primary with a table `t`, and replicas that may be 100 ms behind."""
    options = {
        "monitor_user": "app",
        "monitor_password": PASSWORD.encode(),
        "monitor_interval": 0.02,
        "max_lag": 0.1,
        **more,
    }
    async with proxy_fixture(replicas, **options) as proxy:
        proxy.cluster.primary.administrators.add("app")
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        await eventually(
            lambda: all(
                replica.channels is not None
                and replica.staleness is not None
                and not replica.lagging
                for replica in proxy.shared.topology.replicas
            )
        )
        yield proxy


async def falls_behind(proxy: ProxyFixture, server: Server) -> None:
    apply(proxy, False)
    await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
    await eventually(lambda: server.lagging)


async def reader(client: Client) -> bytes | None:
    """The role of the server that a read goes to."""
    await client.query(READ)
    shown = await client.query("SHOW TIDEGATE LAST")
    return shown.rows[0][3]


@pytest.mark.parametrize("level", ["BEST_EFFORT", "READ_OWN_WRITES", "MONOTONIC_READS"])
async def test_a_session_leaves_a_replica_that_falls_too_far_behind_and_comes_back(
    level: str,
) -> None:
    async with limited() as proxy:
        client = await proxy.session()
        await client.query(f"SET tidegate_consistency = '{level}'")
        for _ in range(3):
            assert await reader(client) == b"replica"
        (server,) = proxy.shared.topology.replicas
        await falls_behind(proxy, server)
        for _ in range(3):
            assert await reader(client) == b"primary"
        assert proxy.statements("primary", "replica_lagging", "ok") == 3
        apply(proxy, True)
        await eventually(lambda: not server.lagging)
        await proxy.caught_up()
        await eventually(lambda: server.applied.covers(proxy.shared.topology.primary.applied))
        for _ in range(3):
            assert await reader(client) == b"replica"


async def test_a_read_only_transaction_that_reads_there_goes_on() -> None:
    async with limited() as proxy:
        client = await proxy.session()
        await client.query("START TRANSACTION READ ONLY")
        assert await reader(client) == b"replica"
        (server,) = proxy.shared.topology.replicas
        await falls_behind(proxy, server)
        assert await reader(client) == b"replica"
        await client.query("COMMIT")
        assert await reader(client) == b"primary"


async def test_off_is_no_limit_and_says_nonetheless_who_does_not_replicate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with limited(max_lag="off") as proxy:
        (server,) = proxy.shared.topology.replicas
        apply(proxy, False)
        await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
        await eventually(lambda: (server.lag or 0) > 0.3)
        assert not server.lagging
        assert proxy.count(STOPPED) == 0
        assert "does not replicate: its applier is stopped" in caplog.text
        apply(proxy, True)
        await eventually(lambda: proxy.count(STOPPED) == 1)


async def test_what_may_not_be_seen_is_not_known() -> None:
    async with limited() as proxy:
        (server,) = proxy.shared.topology.replicas
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(err(1142, "SELECT command denied"), TABLES[1].encode(), times=None)
        await eventually(lambda: server.channels is None)
        assert not proxy.shared.metrics.snapshot()["values"][STOPPED]
        await falls_behind(proxy, server)
        apply(proxy, True)
        await eventually(lambda: not server.lagging)


async def test_without_the_further_tables_only_reasons_and_delays_are_missing() -> None:
    async with limited() as proxy:
        (server,) = proxy.shared.topology.replicas
        denied = err(1142, "SELECT command denied")
        for table in (b"by_coordinator", b"applier_configuration"):
            proxy.cluster.replicas[0].faults.raw_reply(denied, table, times=None)
        seen = server.packets_received
        await eventually(lambda: server.packets_received > seen + 40)
        assert server.channels is not None
        assert server.channels.replicating
        assert not server.replication.cause


@pytest.mark.parametrize("level", ["BEST_EFFORT", "READ_OWN_WRITES"])
async def test_reads_go_to_the_primary_in_their_turn(level: str) -> None:
    async with limited() as proxy:
        client, leaving = await proxy.session(), await proxy.session()
        for session in (client, leaving):
            await session.query(f"SET tidegate_consistency = '{level}'")
        (server,) = proxy.shared.topology.replicas
        await falls_behind(proxy, server)
        proxy.shared.topology.primary_rate_limit = Full(0.02)
        assert await reader(client) == b"primary"
        proxy.shared.topology.primary_rate_limit = Full(30)
        leaving.send(query(READ))
        await eventually(lambda: proxy.count(CROWDED, "delayed") == 2)
        leaving.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        proxy.shared.topology.primary_rate_limit = Full(None)
        refused = ErrPacket.parse((await client.query(READ)).packets[-1])
        assert refused.code == 3024
        assert "primary-fallback-rate" in refused.message
        assert proxy.statements("primary", "replica_lagging", "ok") == 1
