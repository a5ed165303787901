"""Reads at ``wait-budget = auto``: on the fast path and without, before replicas that lag."""

from typing import Any

import pytest

from protocol.constants import Capability
from routing.consistency.decision import Level, Scope
from routing.consistency.rules import AUTO
from routing.servers.rate_limit import RateLimit
from tests.faults.client import BASE, MODERN, Client
from tests.faults.path_fixture import (
    READ,
    WRITE,
    PathFixture,
    answers_to_clients,
    on_both_paths,
)
from tests.faults.proxy_fixture import statements_of
from tests.faults.table_fixture import COUNT, apply, count, execute, table_fixture
from tests.faults.test_fast_path import ANSWERS, CUT_OFF, OF_OLD


async def reader(path: PathFixture, capabilities: Capability = MODERN) -> Client:
    """A client with a connection to the replica, of which no later write is known."""
    client = await path.client(capabilities)
    await path.execute(client, READ)
    return client


async def read(path: PathFixture, client: Client, *, on_primary: bool) -> None:
    """Write, and read where it is said; the primary gets no read that need not wait."""
    apply(path.proxy, applying=not on_primary)
    await path.execute(client, WRITE)
    force(path, on_primary=on_primary)
    await path.execute(client, READ)
    apply(path.proxy, applying=True)
    await path.proxy.caught_up()


def force(path: PathFixture, *, on_primary: bool) -> None:
    """Let the next read that could wait go there, since too few of late did."""
    path.proxy.shared.topology.primary_share.share = 0.0 if on_primary else 1.0


def reads_of(path: PathFixture, server: Any) -> int:
    return statements_of(server).count(READ)


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=["modern", "old"])
@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
async def test_reads_go_where_they_are_worth_it_on_either_path(
    capabilities: Capability, scope: Scope
) -> None:
    went: list[tuple[int, int]] = []

    async def scenario(path: PathFixture) -> None:
        client = await reader(path, capabilities)
        primary, replica = path.proxy.cluster.servers
        await read(path, client, on_primary=False)
        before = reads_of(path, primary), reads_of(path, replica)
        for on_primary in (True, False, True, True):
            await read(path, client, on_primary=on_primary)
        went.append((reads_of(path, primary) - before[0], reads_of(path, replica) - before[1]))
        for sql in ("SHOW TIDEGATE LAST", "SELECT FOUND_ROWS()", READ):
            force(path, on_primary=True)
            await path.execute(client, sql)

    played = await on_both_paths(scenario, scope=scope, wait_budget=AUTO, apply_delay=0.01)
    assert went == [(3, 1), (3, 1)]
    assert played.waited_fast > 0


@pytest.mark.parametrize("level", [Level.MONOTONIC_READS, Level.READ_ALL_WRITES, Level.STRONG])
async def test_other_levels_weigh_a_wait_too(level: Level) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await reader(path)
        for on_primary in (False, True, False, True):
            await read(path, client, on_primary=on_primary)

    await on_both_paths(scenario, consistency=level, wait_budget=AUTO)


@answers_to_clients([*ANSWERS, *CUT_OFF], of_old=OF_OLD)
async def test_any_answer_of_the_primary(answer: str | int, capabilities: Capability) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await reader(path, capabilities)
        for on_primary in (False, True, True):
            await read(path, client, on_primary=on_primary)
        faults = path.proxy.cluster.primary.faults
        apply(path.proxy, applying=False)
        await path.execute(client, WRITE)
        if isinstance(answer, int):
            faults.drop_connection_after(answer, matching=b"SELECT n")
        else:
            faults.raw_reply(ANSWERS[answer], matching=b"SELECT n")
        try:
            for sql in (READ, READ, "SHOW TIDEGATE LAST", "SELECT FOUND_ROWS()"):
                force(path, on_primary=True)
                await path.execute(client, sql)
                apply(path.proxy, applying=True)
                await path.proxy.caught_up()
        except (ConnectionError, EOFError):
            path.seen.append("the end")

    # A kept connection would be made as new for the next session, sooner or later.
    await on_both_paths(scenario, wait_budget=AUTO, apply_delay=0.01, kept_connections=0)


async def test_reads_leave_a_replica_that_lags_and_come_back() -> None:
    """Where nothing is applied one read at most waits in vain; then the primary answers all."""
    async with table_fixture(wait_budget=AUTO) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        replica = proxy.shared.topology.replicas[0]
        for number in range(1, 20):
            await execute(client, "INSERT INTO t VALUES (1)")
            assert await count(client) == number
        waits = [text for text in statements_of(proxy.cluster.replicas[0]) if "WAIT_FOR" in text]
        assert len(waits) < 19
        assert statements_of(proxy.cluster.primary).count(COUNT) >= 18
        apply(proxy, True)
        await proxy.caught_up()
        replica.caught_up()
        replica.answer_times.caught_up(0.0001, 0.0001, proxy.shared.now())
        proxy.shared.topology.primary_share.share = 1.0
        assert await count(client) == 19
        assert statements_of(proxy.cluster.replicas[0]).count(COUNT) >= 2


async def test_a_lag_spike_does_not_flood_the_primary() -> None:
    """At a rate of one in two seconds the reads wait, however dear that is."""
    async with table_fixture(wait_budget=AUTO, primary_fallback_rate=0.5) as proxy:
        client = await proxy.session()
        apply(proxy, True)
        for _ in range(6):
            await execute(client, "INSERT INTO t VALUES (1)")
            proxy.shared.topology.primary_share.share = 0.0  # to the primary, whatever it costs
            await count(client)
            await proxy.caught_up()
        assert statements_of(proxy.cluster.primary).count(COUNT) <= 1
        assert proxy.count("tidegate_fallbacks_crowded_total", "waits") >= 5


async def test_a_limit_without_a_token_is_asked_by_the_fast_path() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await reader(path)
        await read(path, client, on_primary=False)
        path.proxy.shared.topology.primary_rate_limit = RateLimit(1e-9)
        for _ in range(4):
            await read(path, client, on_primary=True)
        assert reads_of(path, path.proxy.cluster.primary) == 1

    await on_both_paths(scenario, wait_budget=AUTO)


async def test_a_client_chooses_it() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_wait_budget = AUTO")
        shown = (await client.query("SELECT @@tidegate_wait_budget")).value
        assert shown == b"auto"
        (session,) = proxy.shared.sessions
        assert session.state.rules.is_auto
        await execute(client, "SET tidegate_wait_budget = '70ms'")
        assert not session.state.rules.is_auto
        assert await count(client, "/* tidegate wait_budget=auto */") == 0
