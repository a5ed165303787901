"""The configuration changes while sessions are open: whom that reaches, and whom not."""

import asyncio
import gc
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from proxy.address import Address
from proxy.config import Config
from proxy.config.options import OPTIONS
from proxy.config.tables import Table
from routing.consistency.adjustment import Adjustment
from routing.consistency.decision import Level
from routing.consistency.rules import Rules
from tests.faults.client import PASSWORD, Client
from tests.faults.proxy_fixture import ACCOUNTS, ProxyFixture, before, eventually, statements_of
from tests.faults.table_fixture import COUNT, count, execute, table_fixture
from tests.faults.test_failover import demote, looked, open_for_writes, promoted, watched

WATCHED: dict[str, Any] = {
    "monitor_user": "app",
    "monitor_password": PASSWORD.encode(),
    "monitor_interval": 0.03,
    "wait_budget": 1.0,
}
DEFAULTS = Config(Address("127.0.0.1", 1))


def change(proxy: ProxyFixture, **options: Any) -> None:
    """Options are fields of `Config`."""
    live = proxy.shared.live
    live.change(replace(live.config, **options), live.materials)


def address(server: Server) -> Address:
    return Address.parse(server.address, default_host="", default_port=3306)


def names(proxy: ProxyFixture) -> list[str]:
    return [server.name for server in proxy.shared.topology.replicas]


async def shown(client: Client, name: str) -> bytes | None:
    return (await client.query(f"SELECT @@tidegate_{name}")).value


@asynccontextmanager
async def growing(configured: int = 1, **options: Any) -> AsyncIterator[ProxyFixture]:
    """A proxy whose configuration names some of two replicas; `t` is empty everywhere."""
    async with (
        Cluster(2, accounts=ACCOUNTS, schemas=("test",)) as cluster,
        before(
            cluster.primary.address,
            [replica.address for replica in cluster.replicas[:configured]],
            cluster,
            **options,
        ) as proxy,
    ):
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        yield proxy


async def test_sessions_follow_other_rules_and_keep_what_they_have_set() -> None:
    async with table_fixture() as proxy:
        follows, keeps = await proxy.session(), await proxy.session()
        await execute(keeps, "SET tidegate_wait_budget = '125ms'")
        for client in (follows, keeps):
            assert await shown(client, "consistency") == b"READ_OWN_WRITES"
        change(proxy, consistency=Level.MONOTONIC_READS, wait_budget=0.5)
        for client in (follows, keeps):
            assert await shown(client, "consistency") == b"MONOTONIC_READS"
        assert await shown(follows, "wait_budget") == b"500ms"
        assert await shown(keeps, "wait_budget") == b"125ms"
        await execute(keeps, "SET tidegate_wait_budget = DEFAULT")
        assert await shown(keeps, "wait_budget") == b"500ms"


async def test_an_open_transaction_ends_by_the_rules_that_it_began_with() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, "START TRANSACTION READ ONLY")
        assert await count(client) == 0
        read = statements_of(proxy.cluster.replicas[0]).count(COUNT)
        change(proxy, consistency=Level.STRONG)
        assert await shown(client, "consistency") == b"READ_OWN_WRITES"
        for _ in range(2):
            await count(client)
        assert statements_of(proxy.cluster.replicas[0]).count(COUNT) == read + 2
        await execute(client, "COMMIT")
        assert await shown(client, "consistency") == b"STRONG"


async def test_tables_for_users_count_from_the_next_statement_on() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await count(client) == 0  # on the fast path from here on
        change(proxy, users=Table({"app": Adjustment(level=Level.STRONG)}))
        assert await count(client) == 0
        assert await shown(client, "consistency") == b"STRONG"
        change(proxy, users=Table[str]())
        assert await shown(client, "consistency") == b"READ_OWN_WRITES"


async def test_the_read_behind_a_write_is_never_stale_while_levels_change() -> None:
    async with table_fixture(apply_delay=0.005, wait_budget=5.0) as proxy:
        client = await proxy.session()
        for number in range(1, 13):
            # What was written at BEST_EFFORT, when nobody tracked it, is own at the next level.
            change(proxy, consistency=Level.BEST_EFFORT)
            await execute(client, f"INSERT INTO t VALUES ({number})")  # noqa: S608 a number
            change(proxy, consistency=Level.READ_OWN_WRITES)
            assert await count(client) == number


@pytest.mark.plain
async def test_a_login_under_way_begins_by_one_configuration() -> None:
    async with table_fixture(consistency=Level.BEST_EFFORT, apply_delay=0.005) as proxy:
        client = await proxy.connect()
        await client.greet()
        original = proxy.shared.catalogues.learn

        async def learn(*arguments: Any) -> None:
            change(proxy, consistency=Level.READ_OWN_WRITES)  # behind the login at the primary
            await original(*arguments)

        proxy.shared.catalogues.learn = learn  # type: ignore[method-assign]
        session = await proxy.session()
        await execute(session, "INSERT INTO t VALUES (1)")
        assert await count(session) == 1
        assert await shown(session, "consistency") == b"READ_OWN_WRITES"


@pytest.mark.parametrize("watched", [False, True])
async def test_a_replica_that_is_added_is_read_and_one_that_is_removed_is_not(
    watched: bool,
) -> None:
    async with growing(**(WATCHED if watched else {})) as proxy:
        first, second = proxy.cluster.replicas
        sessions = [await proxy.session() for _ in range(4)]
        for session in sessions:
            assert await count(session) == 0
        change(proxy, replicas=(address(first), address(second)))
        await eventually(lambda: names(proxy) == [first.address, second.address])
        for session in sessions:
            assert await count(session) == 0
        assert COUNT in statements_of(second)
        change(proxy, replicas=(address(second),))
        assert names(proxy) == [second.address]
        read = statements_of(first).count(COUNT)
        for session in sessions:
            assert await count(session) == 0
        assert statements_of(first).count(COUNT) == read
        await eventually(lambda: first.connections == 0)


async def test_all_replicas_can_go_and_come() -> None:
    async with growing(**WATCHED) as proxy:
        replica = proxy.cluster.replicas[0]
        session = await proxy.session()
        for number in range(5):
            change(proxy, replicas=())
            assert names(proxy) == []
            await execute(session, f"INSERT INTO t VALUES ({number})")  # noqa: S608 a number
            assert await count(session) == number + 1
            change(proxy, replicas=(address(replica),))
            assert await count(session) == number + 1
            await eventually(lambda: names(proxy) == [replica.address])
            assert await count(session) == number + 1


async def test_a_replica_that_cannot_be_reached_is_not_read() -> None:
    async with growing(**WATCHED) as proxy:
        first = proxy.cluster.replicas[0]
        session = await proxy.session()
        change(proxy, replicas=(address(first), Address("127.0.0.1", 1)))
        assert await count(session) == 0
        assert names(proxy) == [first.address]
        change(proxy, replicas=(address(first),))
        assert len(proxy.shared.topology.watched) == 2


async def test_a_transaction_ends_on_the_replica_that_was_removed() -> None:
    async with growing(**WATCHED) as proxy:
        first, second = proxy.cluster.replicas
        session = await proxy.session()
        await execute(session, "START TRANSACTION READ ONLY")
        assert await count(session) == 0
        change(proxy, replicas=(address(second),))
        for _ in range(3):
            assert await count(session) == 0
        assert statements_of(first).count(COUNT) == 4
        await execute(session, "COMMIT")
        await eventually(lambda: names(proxy) == [second.address])
        assert await count(session) == 0
        assert statements_of(first).count(COUNT) == 4
        await eventually(lambda: first.connections == 0)


async def test_the_primary_stays_until_another_server_is_it(tmp_path: Path) -> None:
    options = {**WATCHED, "failover": "read_only", "state_dir": tmp_path}
    async with growing(configured=2, **options) as proxy:
        primary = proxy.shared.topology.primary
        first, second = proxy.cluster.replicas
        session = await proxy.session()
        change(proxy, primary=address(first), replicas=(address(second),))
        assert proxy.shared.topology.primary is primary
        await execute(session, "INSERT INTO t VALUES (1)")
        assert await count(session) == 1
        change(proxy, primary=address(proxy.cluster.primary), replicas=(address(first),))
        assert names(proxy) == [first.address]


async def test_limits_count_from_now_on() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        change(proxy, max_connections=1, max_allowed_packet=1024, max_prepared_statements=0)
        refused = await proxy.connect()
        assert (await refused.read_error()).code == 1040
        answer = await client.query(f"SELECT '{'x' * 2000}'")
        assert answer.error.code == 1153
        change(proxy, max_connections=9, max_allowed_packet=1 << 20)
        other = await proxy.session()
        assert (await other.query(f"SELECT '{'x' * 2000}'")).value == b"x" * 2000


async def test_whoever_waits_for_a_slot_gets_one_of_a_higher_limit() -> None:
    async with table_fixture(max_server_connections=1, server_connection_timeout=20.0) as proxy:
        await proxy.session()
        second = await proxy.connect()
        slots = proxy.shared.slots

        async def log_in() -> bytes:
            return await second.log_in()

        waiting = asyncio.create_task(log_in())
        await eventually(lambda: slots.waiting == 1)
        change(proxy, max_server_connections=2)
        assert (await waiting)[0] == 0


async def test_kept_connections_go_with_their_limit() -> None:
    async with table_fixture(kept_connection_age=60.0) as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for client in clients:
            client.abort()
        await eventually(lambda: len(proxy.shared.pool) == 3)
        change(proxy, kept_connections=1)
        assert len(proxy.shared.pool) == 1
        change(proxy, kept_connections=0)
        assert len(proxy.shared.pool) == 0


async def test_the_monitor_comes_and_goes() -> None:
    async with growing() as proxy:
        primary = proxy.shared.topology.primary
        change(proxy, **WATCHED)
        await eventually(lambda: primary.probe_result.name == "ANSWERED")
        change(proxy, monitor_password=b"wrong")
        await eventually(lambda: primary.probe_result.name == "REFUSED")
        change(proxy, monitor_user="other", monitor_password=ACCOUNTS["other"].encode())
        await eventually(lambda: primary.probe_result.name == "ANSWERED")
        change(proxy, monitor_user=None, monitor_password=b"")
        assert primary.probe_result.name == "UNKNOWN"
        assert await count(await proxy.session()) == 0


async def test_a_replica_that_lags_is_read_without_max_lag() -> None:
    async with growing(**WATCHED, max_lag=0.01, proof_max_age=3600.0) as proxy:
        replica = proxy.shared.topology.replicas[0]
        replica.set_lagging(True)
        change(proxy, max_lag="off")
        assert not replica.lagging


REMEMBERED = {
    "self-audit",  # a share
    "primary-fallback-rate",  # a second's worth of it is left, as there was before
    "monitor-interval",  # until the pause between two looks ends
    "view-age",  # until what was learnt has that age
}


@pytest.mark.plain
async def test_nothing_remembers_a_time_or_a_number_of_before() -> None:
    """Each has a value of its own, which nothing that is alive may have any more.

    Nothing has that by chance: whole numbers are many.
    """
    numbers = {
        option.attribute: 11.0 + (position + 1 / math.pi) / 7
        for position, option in enumerate(OPTIONS)
        if not option.at_start
        and isinstance(getattr(DEFAULTS, option.attribute), float)
        and option.name not in REMEMBERED
    }
    async with growing(**{**WATCHED, **numbers}) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        old = proxy.shared.config
        change(proxy, **{name: value + 0.001 for name, value in numbers.items()})
        assert await count(client) == 0
        remembered = floats_of(proxy.shared, {id(old)}) | floats_of(proxy.monitor, {id(old)})
        assert {name for name, value in numbers.items() if value in remembered} == set()


def floats_of(root: object, without: set[int]) -> set[float]:
    """All that can be reached from an object."""
    seen: set[int] = set(without)
    found: set[float] = set()
    waiting: list[object] = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, float):
            found.add(each)
        elif not isinstance(each, Rules):  # commands that have ended had those of their time
            waiting += gc.get_referents(each)
    return found


async def test_a_candidate_that_is_removed_is_not_followed(tmp_path: Path) -> None:
    async with watched(state_dir=tmp_path) as proxy:
        candidate, other = proxy.cluster.replicas
        old = proxy.shared.topology.primary
        await demote(proxy, "read only")
        change(proxy, replicas=(address(other),))
        await open_for_writes(candidate)
        await looked(proxy)
        assert proxy.shared.topology.primary is old
        assert names(proxy) == [other.address]
        await open_for_writes(other)
        await promoted(proxy, other)


async def test_a_configuration_can_follow_a_promotion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(state_dir=tmp_path) as proxy:
        new, other = proxy.cluster.replicas
        old = proxy.cluster.primary
        await demote(proxy, "read only")
        await open_for_writes(new)
        await promoted(proxy, new)
        assert other.applier is not None
        await other.applier.follow(new.binlog)
        # Who is the primary stays, whatever the configuration calls it.
        change(proxy, primary=address(old), replicas=(address(other),))
        assert proxy.shared.topology.primary.name == new.address
        assert f"server {new.address} stays until another one is the primary" in caplog.text
        session = await proxy.session()
        await execute(session, "INSERT INTO t VALUES (1)")
        assert await count(session) == 1
        change(proxy, primary=address(new), replicas=(address(other),))
        assert names(proxy) == [other.address]
        await execute(session, "INSERT INTO t VALUES (2)")
        assert await count(session) == 2
        assert proxy.monitor.membership.unwanted == frozenset()


async def test_a_primary_that_nothing_names_goes_once_it_is_a_replica(tmp_path: Path) -> None:
    async with watched(state_dir=tmp_path) as proxy:
        new, other = proxy.cluster.replicas
        change(proxy, primary=address(new), replicas=(address(other),))
        assert len(proxy.monitor.membership.unwanted) == 1
        await demote(proxy, "read only")
        await open_for_writes(new)
        await promoted(proxy, new)
        await eventually(lambda: names(proxy) == [other.address])
        assert proxy.monitor.membership.unwanted == frozenset()


async def test_a_wrong_account_of_the_monitor_does_not_take_replicas_out() -> None:
    """A password that is about to be rotated, or is wrong for a moment, costs no reads."""
    async with growing(**WATCHED) as proxy:
        replica = proxy.shared.topology.replicas[0]
        session = await proxy.session()
        await eventually(lambda: replica.probe_result.name == "ANSWERED")
        change(proxy, monitor_password=b"wrong")
        await eventually(lambda: replica.probe_result.name == "REFUSED")
        read = statements_of(proxy.cluster.replicas[0]).count(COUNT)
        assert await count(session) == 0
        assert statements_of(proxy.cluster.replicas[0]).count(COUNT) == read + 1
