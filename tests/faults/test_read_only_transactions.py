"""READ ONLY transactions: one replica's snapshot for each, at every level and in every scope.

The mocker has no snapshots of its own; what it has is where reads went, and what was asked before.
"""

import pytest

from tests.faults.client import Client
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, statements_of
from tests.faults.table_fixture import LEVELS, apply, count, execute, table_fixture

START = "START TRANSACTION READ ONLY"
COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
SCOPES = ["connection", "user", "application", "proxy"]


async def begun(
    proxy: ProxyFixture, level: str, scope: str = "connection", *settings: str
) -> Client:
    """A client with a READ ONLY transaction open."""
    client = await proxy.session()
    key = ["SET tidegate_application = 'a'"] if scope == "application" else []
    rules = f"SET tidegate_consistency = '{level}', tidegate_scope = '{scope}'"
    for sql in (*settings, *key, rules, START):
        await execute(client, sql)
    return client


def waits(proxy: ProxyFixture) -> int:
    """WAITs that replicas were sent."""
    return sum(
        "WAIT_FOR" in sql for replica in proxy.cluster.replicas for sql in statements_of(replica)
    )


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("level", LEVELS)
async def test_later_reads_owe_nothing_newer_than_the_first(level: str, scope: str) -> None:
    async with table_fixture() as proxy:
        direct = await proxy.session()
        apply(proxy, True)
        await execute(direct, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        client = await begun(proxy, level, scope)
        assert await count(client) == 1
        assert proxy.statements("replica", "read") == 1
        before = waits(proxy)
        apply(proxy, False)
        await execute(direct, "INSERT INTO t VALUES (2)")
        for _ in range(2):
            assert await count(client) == 1  # of the snapshot
        assert proxy.statements("replica", "transaction") == 2
        assert waits(proxy) == before
        await execute(client, "COMMIT")
        stale = level == "BEST_EFFORT" or level.startswith("BOUNDED")
        stale = stale or (level == "READ_OWN_WRITES" and scope == "connection")
        if not stale and level == "STRONG":
            assert await count(client) == 2  # on the primary: the replicas are too late


@pytest.mark.parametrize("scope", ["user", "application", "proxy"])
@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES"])
async def test_the_first_read_owes_what_its_scope_has_written(level: str, scope: str) -> None:
    async with table_fixture() as proxy:
        other = await proxy.session()
        await execute(other, "SET tidegate_application = 'a'")
        client = await begun(proxy, level, scope)
        await execute(other, "INSERT INTO t VALUES (1)")
        assert await count(client) == 1  # no replica has it in time
        assert proxy.statements("primary", "wait_timeout") == 1
        apply(proxy, True)
        await proxy.caught_up()
        await execute(client, "COMMIT")


async def test_a_strong_one_asks_the_primary_once() -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        client = await begun(proxy, "STRONG")
        assert await count(client) == 0
        probes = proxy.count("tidegate_probes_total")
        for _ in range(3):
            assert await count(client) == 0
        assert proxy.count("tidegate_probes_total") == probes > 0


@pytest.mark.parametrize("level", ["STRONG", "READ_OWN_WRITES", "MONOTONIC_READS"])
async def test_at_read_committed_each_read_owes_what_there_is(level: str) -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        direct = await proxy.session()
        client = await begun(proxy, level, "user", COMMITTED)
        for number in range(1, 4):
            await execute(direct, "INSERT INTO t VALUES (1)")
            assert await count(client) == number
        assert proxy.statements("replica", "read") == 3
        assert proxy.statements("replica", "transaction") == 0
        apply(proxy, False)
        await execute(direct, "INSERT INTO t VALUES (1)")
        found = await client.query("SELECT COUNT(*) FROM t")  # late: the primary has it
        assert found.value == b"4"
        assert int.from_bytes(found.packets[-1][3:5], "little") & 0x2001 == 0x2001
        assert proxy.count("tidegate_snapshots_split_total") == 0


async def test_at_read_committed_without_autocommit_the_primary_hears_of_it_late() -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        client = await proxy.session()
        for sql in (COMMITTED, "SET SESSION TRANSACTION READ ONLY", "SET autocommit=0"):
            await execute(client, sql)
        primary = proxy.cluster.primary
        for _ in range(2):
            assert await count(client) == 0
        assert proxy.statements("replica", "read") == 2
        assert START not in statements_of(primary)
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1792
        assert statements_of(primary).count(START) == 1
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 3
        await execute(client, "COMMIT")


async def test_what_was_given_as_stale_stays_that() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_on_timeout = 'stale'")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, START)
        for number in range(1, 4):
            assert await count(client) == 0
            assert proxy.statements("replica", "wait_timeout") == number
        assert proxy.count("tidegate_stale_reads_total") == 3


async def test_another_level_is_not_the_snapshot_s() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy, "BEST_EFFORT")
        assert await count(client) == 0
        await execute(client, "SET tidegate_consistency = 'STRONG'")
        assert await count(client) == 0
        assert proxy.statements("primary", "transaction") >= 1
        assert await count(client, "/* tidegate consistency=BEST_EFFORT */") == 0
        assert proxy.statements("replica", "transaction") == 1


@pytest.mark.parametrize(
    "begin",
    [
        [START],
        ["SET SESSION TRANSACTION READ ONLY", "SET autocommit=0"],
    ],
)
@pytest.mark.parametrize("settings", [[], [COMMITTED]])
@pytest.mark.parametrize("left", ["replica_refused", "replica_lost"])
async def test_a_replica_that_refuses_or_is_lost_before_it_showed_anything(
    begin: list[str], settings: list[str], left: str
) -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        for sql in (*settings, *begin):
            await execute(client, sql)
        for replica in proxy.cluster.replicas:
            if left == "replica_refused":
                replica.faults.raw_reply(err(1792, "Cannot execute"), matching=b"COUNT")
            else:
                replica.faults.drop_connection_after(0, matching=b"COUNT")
        for _ in range(3):
            found = await client.query("SELECT COUNT(*) FROM t")
            assert found.value == b"0"
            assert int.from_bytes(found.packets[-1][3:5], "little") & 0x2001 == 0x2001
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1792
        await execute(client, "COMMIT")
        assert proxy.statements("primary", left) >= 1


async def test_at_read_committed_a_lost_replica_takes_nothing_with_it() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy, "READ_OWN_WRITES", "connection", COMMITTED)
        assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.faults.drop_connection_after(0, matching=b"COUNT")
        for _ in range(2):
            assert await count(client) == 0
        assert proxy.statements("primary", "replica_lost") >= 1
        await execute(client, "COMMIT")


@pytest.mark.parametrize("settings", [[], [COMMITTED]])
async def test_beside_a_replica_s_snapshot_the_primary_shows_what_was_seen(
    settings: list[str],
) -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        client = await begun(proxy, "MONOTONIC_READS", "connection", *settings)
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 1
        before = len(statements_of(proxy.cluster.primary))
        assert (await client.query("SELECT COUNT(*) FROM t FOR SHARE")).value == b"0"
        assert any("gtid_owned" in sql for sql in statements_of(proxy.cluster.primary)[before:])


@pytest.mark.parametrize(
    ("first", "then", "on_replica"),
    [
        ("REPEATABLE READ", "READ COMMITTED", False),  # the next one is not READ COMMITTED
        ("READ COMMITTED", "REPEATABLE READ", False),
        ("READ COMMITTED", "READ COMMITTED", True),
        ("REPEATABLE READ", "REPEATABLE READ", True),
    ],
)
async def test_what_follows_by_a_chain_has_the_isolation_level_of_the_one_before(
    first: str, then: str, *, on_replica: bool
) -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        isolation = "SET SESSION TRANSACTION ISOLATION LEVEL"
        client = await begun(proxy, "STRONG", "connection", f"{isolation} {first}")
        await execute(client, f"{isolation} {then}")
        await execute(client, "COMMIT AND CHAIN")
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == on_replica


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize(
    "begin", [[START], ["SET SESSION TRANSACTION READ ONLY", "SET autocommit=0"]]
)
async def test_at_read_committed_a_late_replica_sends_one_read_to_the_primary(
    begin: list[str], late: int
) -> None:
    async with table_fixture() as proxy:
        direct = await proxy.session()
        client = await proxy.session()
        for sql in (COMMITTED, "SET tidegate_consistency = 'STRONG'", *begin):
            await execute(client, sql)
        for number in range(1, 4):
            apply(proxy, number - 1 != late)
            await execute(direct, "INSERT INTO t VALUES (1)")
            if number - 1 != late:
                await proxy.caught_up()
            # Who would get an error waits in any case.
            policy = "primary" if number - 1 == late else "error"
            await execute(client, f"SET tidegate_on_timeout = '{policy}'")
            assert await count(client) == number
        assert proxy.statements("replica", "read") == 2
        assert proxy.statements("primary", "wait_timeout") == 1


async def test_at_read_committed_views_are_asked_for_inside() -> None:
    async with table_fixture() as proxy:
        apply(proxy, True)
        client = await begun(proxy, "READ_OWN_WRITES", "connection", COMMITTED)
        proxy.shared.catalogues.forget()
        before = proxy.count("tidegate_view_questions_total")
        assert await count(client) == 0  # it may be anything: the rest stays with the primary
        assert proxy.count("tidegate_view_questions_total") == before + 1
        await execute(client, "COMMIT AND CHAIN")
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 1


@pytest.mark.parametrize(
    "start", [START, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "BEGIN"]
)
async def test_a_question_about_the_statement_before_takes_no_snapshot(start: str) -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_transaction_reads = 'snapshot'")
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 1
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, start)
        found = await client.query("SELECT FOUND_ROWS()")
        assert found.value == b"1"
        assert int.from_bytes(found.packets[-1][3:5], "little") & 1  # in a transaction
        assert await count(client) == 1  # no replica has it in time
        await execute(client, "COMMIT")
