"""A primary comes back without its last transactions: nothing of it is used before it is compared.

There is no monitor: the first session that logs in meets it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.gtid import GtidSet
from routing.consistency.decision import Scope
from tests.faults.client import Client
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import COUNT, count, execute

LOST = 3
INSERT = "INSERT INTO t VALUES ({})"
IDENTITY = b"SELECT @@server_uuid"


@asynccontextmanager
async def with_table(**options: Any) -> AsyncIterator[ProxyFixture]:
    """Sessions end with their primary, so that none of an earlier term is there."""
    options = {"scope": Scope.USER, "wait_budget": 0.1, "without_primary": "refuse", **options}
    async with proxy_fixture(2, **options) as proxy:
        direct = await proxy.direct()
        await execute(direct, "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        yield proxy


async def write_and_lose(proxy: ProxyFixture) -> None:
    """Three writes are acknowledged and replicated; the primary restarts without their names."""
    primary = proxy.cluster.primary
    client = await proxy.session()
    assert await count(client) == 0
    kept = primary.gtids.executed
    for number in range(LOST):
        await execute(client, INSERT.format(number))
    await proxy.caught_up()
    await primary.stop()
    primary.gtids.reset()
    primary.gtids.add(kept)
    await primary.start()
    await client.rest()


async def write_as_many(client: Client) -> None:
    for number in range(10, 10 + LOST):
        await execute(client, INSERT.format(number))


async def test_names_that_are_given_again_at_once_hide_nothing() -> None:
    async with with_table() as proxy:
        await write_and_lose(proxy)
        client = await proxy.session()
        await write_as_many(client)
        for replica in proxy.cluster.replicas:
            assert proxy.cluster.primary.gtids.executed <= replica.gtids.executed
        error = (await client.query(COUNT)).error
        assert error.code == 1105
        assert "acknowledged writes are gone" in error.message
        assert await count(client) == 2 * LOST  # the mocker has kept the rows
        assert proxy.count("tidegate_lost_transactions_total") == LOST
        assert all(replica.has_diverged for replica in proxy.shared.topology.replicas)
        assert proxy.statements("replica", "known") == 1, "the one before it"


async def test_what_nobody_has_read_on_a_replica_is_asked_for() -> None:
    """Nothing was read since the writes, so what replicas have is not known."""
    async with with_table(scope=Scope.CONNECTION) as proxy:
        await write_and_lose(proxy)
        client = await proxy.session()
        await write_as_many(client)
        assert await count(client) == 2 * LOST
        assert proxy.statements("primary", "no_replica") == 1


async def test_what_a_replica_is_about_to_apply_counts() -> None:
    async with with_table() as proxy:
        replica = proxy.cluster.replicas[0]
        replica.set_variable("gtid_owned", f"{proxy.cluster.primary.gtids.next_gtid().text}#7")
        await proxy.session()
        assert [replica.has_diverged for replica in proxy.shared.topology.replicas] == [True, False]


async def test_other_logins_wait_for_the_first_ones_comparison() -> None:
    async with with_table() as proxy:
        await write_and_lose(proxy)
        replicas = proxy.cluster.replicas
        gates = [replica.faults.hold_reply(IDENTITY) for replica in replicas]
        clients = [await proxy.connect() for _ in range(5)]
        logins = [asyncio.create_task(client.log_in()) for client in clients]
        await eventually(lambda: all(gate.held for gate in gates))
        await asyncio.sleep(0.1)
        assert not any(login.done() for login in logins)
        for gate in gates:
            gate.open()
        assert [end[0] for end in await asyncio.gather(*logins)] == [0] * 5
        assert all(replica.has_diverged for replica in proxy.shared.topology.replicas)
        assert all(gate.held == 1 for gate in gates), "one comparison is enough"


async def test_the_one_that_compares_may_break() -> None:
    async with with_table() as proxy:
        await write_and_lose(proxy)
        primary = proxy.cluster.primary
        gate = proxy.cluster.replicas[0].faults.hold_reply(IDENTITY)
        first, second = await proxy.connect(), await proxy.connect()
        logins = [asyncio.create_task(client.log_in()) for client in (first, second)]
        await eventually(lambda: gate.held == 1)
        primary.faults.drop_connection_after(0, IDENTITY)
        gate.open()
        ends = await asyncio.gather(*logins)
        assert sorted(end[0] for end in ends) == [0x00, 0xFF]
        assert all(replica.has_diverged for replica in proxy.shared.topology.replicas)


@pytest.mark.not_fast
async def test_a_replica_that_says_nothing_holds_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with with_table() as proxy:
        await write_and_lose(proxy)
        silent = proxy.cluster.replicas[0]
        gate = silent.faults.hold_reply(IDENTITY, times=None)
        client = await proxy.session()
        assert await count(client, "/* tidegate consistency=BEST_EFFORT */") == LOST
        messages = [
            r.getMessage() for r in caplog.records if "by what it is known to have" in r.msg
        ]
        assert [silent.address in line for line in messages] == [True]
        gate.open()


async def test_a_plain_restart_accuses_nobody() -> None:
    async with with_table() as proxy:
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        assert await count(client) == 1
        await proxy.cluster.primary.restart()
        await client.rest()
        for _ in range(3):
            client = await proxy.session()
            await execute(client, "INSERT INTO t VALUES (2)")
            assert (await client.query(COUNT)).rows
        assert not any(replica.has_diverged for replica in proxy.shared.topology.replicas)
        assert not any(replica.errant for replica in proxy.shared.topology.replicas)
        assert proxy.count("tidegate_lost_transactions_total") == 0


async def test_sessions_of_an_ended_incarnation_end() -> None:
    """Their connections are broken, though nothing has said so yet."""
    async with with_table() as proxy:
        client = await proxy.session()
        (session,) = proxy.shared.sessions
        primary = proxy.shared.topology.primary
        start = primary._started
        later = (start[1] + 100.0, start[1] + 101.0)
        primary.observe(primary.uuid, later, GtidSet.parse(""), primary.applied, later[1])
        assert session._servers.primary is not None
        other = await proxy.connect()
        await other.log_in()
        assert (await client.last_error()).code == 1053
