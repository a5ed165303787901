"""A lag spike: no more reads leave late replicas for the primary than it is to be given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from protocol.response import ErrPacket
from proxy.drain import drain
from routing.consistency.decision import TimeoutPolicy
from routing.servers.rate_limit import RateLimit
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.table_fixture import COUNT, apply, count, execute, table_fixture


@asynccontextmanager
async def late(
    clients: int, rate: float, **options: Any
) -> AsyncIterator[tuple[ProxyFixture, list[Client]]]:
    """Sessions that have written what no replica has; the primary takes `rate` of their reads."""
    async with table_fixture(primary_fallback_rate=rate, **options) as proxy:
        sessions = [await proxy.session() for _ in range(clients)]
        for client in sessions:
            assert await count(client) == 0
        for client in sessions:
            await execute(client, "INSERT INTO t VALUES (1)")
        yield proxy, sessions


def crowded(proxy: ProxyFixture, result: str) -> float:
    return proxy.count("tidegate_fallbacks_crowded_total", result)


def reads_of_the_primary(proxy: ProxyFixture) -> int:
    return statements_of(proxy.cluster.primary).count(COUNT)


class Full(RateLimit):
    """Has no token now, and one after `delay` seconds for everybody."""

    def __init__(self, delay: float) -> None:
        super().__init__(1.0)
        self.most: list[float] = []
        self.delay = delay

    def reserve(self, now: float, most: float) -> float | None:
        if not most:
            return None
        self.most.append(most)
        return self.delay


async def code(client: Client) -> int:
    """Read; 0, or the error."""
    packet = (await client.query(COUNT)).packets[-1]
    return ErrPacket.parse(packet).code if packet[0] == 0xFF else 0


async def test_reads_beyond_the_rate_fail() -> None:
    """A rate of one in two seconds, and a budget of 30 ms: one read gets through."""
    async with late(8, 0.5) as (proxy, clients):
        codes = await asyncio.gather(*map(code, clients))
        assert sorted(codes) == [0, *[3024] * 7]
        assert reads_of_the_primary(proxy) == 1
        assert crowded(proxy, "refused") == 7
        error = (await clients[0].query(COUNT)).error
        assert error.code == 3024
        assert "primary-fallback-rate" in error.message
        assert proxy.statements("flood", "error") == 8
        # What does not leave a late replica is not limited.
        for client in clients:
            await execute(client, "BEGIN")
            assert await count(client) == 8
            await execute(client, "COMMIT")
        apply(proxy, True)
        await proxy.caught_up()
        for client in clients:
            assert await count(client, "/* tidegate wait_budget=5s */") == 8


async def test_reads_within_one_more_budget_are_delayed() -> None:
    async with late(6, 1.0) as (proxy, clients):
        bucket = Full(0.02)
        proxy.shared.topology.primary_rate_limit = bucket
        assert await asyncio.gather(*map(code, clients)) == [0] * 6
        assert crowded(proxy, "delayed") == 6
        assert crowded(proxy, "refused") == 0
        assert bucket.most == [0.03] * 6


async def test_known_lag_makes_reads_wait_rather_than_leave() -> None:
    """A replica whose last wait ran out is left at once, but only by as many as may."""
    async with late(5, 0.5, wait_budget=0.2) as (proxy, clients):
        assert await code(clients[0]) == 0
        waits = len(
            [text for text in statements_of(proxy.cluster.replicas[0]) if "WAIT_FOR" in text]
        )
        reading = [asyncio.create_task(code(client)) for client in clients[1:]]
        await eventually(lambda: crowded(proxy, "waits") == 4)
        apply(proxy, True)
        assert await asyncio.gather(*reading) == [0] * 4
        assert reads_of_the_primary(proxy) == 1
        after = len(
            [text for text in statements_of(proxy.cluster.replicas[0]) if "WAIT_FOR" in text]
        )
        assert after > waits


async def test_a_client_leaves_while_its_read_is_delayed() -> None:
    async with late(2, 1.0) as (proxy, (first, second)):
        proxy.shared.topology.primary_rate_limit = Full(0.2)
        for client in (first, second):
            client.send(query(COUNT))
        await eventually(lambda: crowded(proxy, "delayed") == 2)
        before = reads_of_the_primary(proxy)
        first.abort()
        second.abort()
        await eventually(lambda: not proxy.shared.sessions)
        await asyncio.sleep(0.25)
        assert reads_of_the_primary(proxy) == before


async def test_the_primary_breaks_while_a_read_is_delayed() -> None:
    async with late(1, 1.0, without_primary="refuse") as (proxy, (client,)):
        proxy.shared.topology.primary_rate_limit = Full(30)
        client.send(query(COUNT))
        await eventually(lambda: crowded(proxy, "delayed") == 1)
        await proxy.cluster.primary.stop()
        assert (await client.last_error()).code == 2013
        await proxy.cluster.primary.start()


async def test_a_shutdown_while_a_read_is_delayed() -> None:
    async with late(1, 2.0) as (proxy, (client,)):
        proxy.shared.topology.primary_rate_limit = Full(0.1)
        client.send(query(COUNT))
        await eventually(lambda: crowded(proxy, "delayed") == 1)
        draining = asyncio.create_task(drain(proxy.shared))
        assert (await client.answer()).value == b"1"
        assert (await client.last_error()).code == 1053
        await draining


async def test_the_whole_wait_is_within_the_budget() -> None:
    """One that relied on another's WAIT, in vain, has less time left for its own."""
    budgets: list[float] = []
    options = {"wait_budget": 1.5, "on_timeout": TimeoutPolicy.ERROR}
    async with late(1, 100.0, **options) as (proxy, (first,)):
        second = await proxy.session()
        assert await count(second) == 0
        (reader, writer) = proxy.shared.sessions
        writer.state.own_scope.own = reader.state.required
        first.send(query(COUNT))
        await asyncio.sleep(0.1)
        second.send(query(COUNT))
        await eventually(lambda: second_waits(proxy))
        assert (await first.answer()).error.code == 3024
        assert (await second.answer()).error.code == 3024
        for text in statements_of(proxy.cluster.replicas[0]):
            if text.startswith("SELECT WAIT_FOR"):
                budgets.append(float(text.partition("',")[2].partition(")")[0]))
        assert len(budgets) == 2
        assert budgets[0] == 1.5
        assert budgets[1] < 1.45


def second_waits(proxy: ProxyFixture) -> bool:
    first, second = (session._current for session in proxy.shared.sessions)
    return first.is_held and second.stage == "joined"
