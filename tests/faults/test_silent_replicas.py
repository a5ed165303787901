"""A replica that says nothing any more: no read waits for it; one that lives is left its reads."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.monitor import liveness
from routing.servers import liveness_timer
from routing.servers.topology import Server
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ProxyFixture, before, eventually, proxy_fixture
from tests.faults.valve import Valve, valve

COUNT = "SELECT COUNT(*) FROM t"
LOOKS = 8


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness_timer, "QUIET_S", 0.05)
    monkeypatch.setattr(liveness, "QUIET_S", 0.05)
    monkeypatch.setattr(liveness, "_INTERVAL_S", 0.02)


@asynccontextmanager
async def frozen(**options: Any) -> AsyncIterator[tuple[ProxyFixture, Valve, Server]]:
    """A proxy before one replica, behind a valve; `t` is empty."""
    async with proxy_fixture(replicas=1) as real:
        direct = await real.direct()
        assert (await direct.query("CREATE TABLE t (id INT)")).ok
        await real.caught_up()
        cluster = real.cluster
        async with (
            valve(cluster.replicas[0]) as way,
            before(
                cluster.primary.address,
                [way.address],
                **{"connect_timeout": 0.3, "self_audit": 0.0, **options},
            ) as proxy,
        ):
            (replica,) = proxy.shared.topology.replicas
            yield proxy, way, replica
            way.open()


async def reading(proxy: ProxyFixture, sql: str = COUNT) -> Client:
    """A session that has read the replica."""
    client = await proxy.session()
    assert (await client.query(sql)).value == b"0"
    (session,) = [s for s in proxy.shared.sessions if s.state.diagnostics.found_at is not None]
    assert session._servers.replicas
    return client


async def some_looks() -> None:
    for _ in range(LOOKS):
        await asyncio.sleep(0.02)


def left(proxy: ProxyFixture) -> float:
    return proxy.count("tidegate_fallbacks_total", "replica_lost")


async def test_a_read_without_an_answer_runs_on_the_primary() -> None:
    async with frozen() as (proxy, way, replica):
        client = await reading(proxy)
        way.shut()
        assert (await client.query(COUNT)).value == b"0"
        assert left(proxy) == 1
        assert proxy.statements("primary", "replica_lost", "ok") == 1
        (session,) = proxy.shared.sessions
        assert not session._servers.replicas
        # Nobody is sent there before it has said something; then it takes part again.
        assert (await client.query(COUNT)).value == b"0"
        assert proxy.statements("primary", "no_replica", "ok") == 1
        way.open()
        await eventually(lambda: replica.down_until == 0)
        assert (await client.query(COUNT)).value == b"0"
        assert proxy.statements("replica", "read", "ok") == 2


async def test_it_is_asked_once_for_as_long_as_it_says_nothing() -> None:
    """A server counts the connections that leave without a word."""
    async with frozen() as (proxy, way, _):
        client = await reading(proxy)
        way.shut()
        assert (await client.query(COUNT)).value == b"0"
        for _ in range(10):
            await some_looks()
        assert way.accepted == 1


async def test_a_long_read_of_a_replica_that_lives_is_left_alone() -> None:
    async with frozen(connect_timeout=10.0) as (proxy, way, replica):
        client = await reading(proxy)
        gate = way.server.faults.hold_reply(COUNT.encode())
        client.send(query(COUNT))
        await eventually(lambda: gate.held == 1)
        packets = replica.packets_received
        await eventually(lambda: replica.packets_received > packets)
        await some_looks()
        assert left(proxy) == 0
        gate.open()
        assert (await client.answer()).value == b"0"


async def test_what_the_client_has_begun_to_get_ends_with_its_connection() -> None:
    async with frozen() as (proxy, way, _):
        client = await reading(proxy)
        way.shut(after=20)
        client.send(query(COUNT))
        assert len(await client.rest()) == 20
        assert left(proxy) == 0
        await eventually(lambda: not proxy.shared.sessions)
        assert proxy.statements("lost") == 1


async def test_a_wait_ends_before_its_budget() -> None:
    """And with it those of the reads that have joined it."""
    async with frozen(wait_budget=50.0) as (proxy, way, replica):
        client = await reading(proxy)
        way.shut()
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        assert (await client.query(COUNT)).value == b"1"
        assert left(proxy) == 1
        assert proxy.shared.now() < replica.down_until


async def test_a_read_that_its_client_does_not_take_is_not_given_up() -> None:
    async with frozen() as (proxy, way, _):
        client = await reading(proxy)
        (session,) = proxy.shared.sessions
        way.shut()
        client.send(query(COUNT))
        await eventually(lambda: session._servers.active_replica is not None)
        session.client_paused()
        for _ in range(10):
            await some_looks()
        assert left(proxy) == 0
        way.open()
        session.client_resumed()
        assert (await client.answer()).value == b"0"


async def test_where_nobody_takes_connections_nobody_is_waited_for() -> None:
    async with frozen(connect_timeout=60.0) as (proxy, way, _):
        client = await reading(proxy)
        way.shut()
        await way.refuse()
        assert (await client.query(COUNT)).value == b"0"
        assert left(proxy) == 1


@pytest.mark.parametrize("error", [socket.gaierror(-3, "try again"), OSError(24, "too many")])
async def test_a_question_that_cannot_be_put_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    tried = 0

    async def cannot(server: Server) -> None:
        nonlocal tried
        tried += 1
        raise error

    monkeypatch.setattr(liveness, "connect", cannot)
    async with frozen() as (proxy, way, _):
        client = await reading(proxy)
        way.shut()
        client.send(query(COUNT))
        await eventually(lambda: tried >= 2)
        assert left(proxy) == 0
        way.open()
        assert (await client.answer()).value == b"0"


async def test_a_client_that_leaves_while_its_replica_is_in_question() -> None:
    async with frozen(connect_timeout=0.1) as (proxy, way, _):
        client = await reading(proxy)
        way.shut()
        client.send(query(COUNT))
        await eventually(lambda: way.accepted == 1)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        await some_looks()
