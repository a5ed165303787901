"""REPEATABLE READ transactions that read from a replica's snapshot until they write.

The mocker's replicas have no snapshots of their own; what it has is where statements went, what
was asked in front of them, and what the client was told.
"""

from collections.abc import Awaitable, Callable

import pytest

from proxy.server.gtid_question import PROBE_SQL
from tests.faults.client import Client
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, statements_of
from tests.faults.table_fixture import COUNT, apply, count, execute, expect_refusal, table_fixture

Begins = Callable[..., Awaitable[Client]]

SNAPSHOT = "SET tidegate_transaction_reads = 'snapshot'"
ALLOW = "SET tidegate_on_split_conflict = 'allow'"
THERE = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
HERE = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE"
INSERT = "INSERT INTO t VALUES (1)"
LOCKING = "SELECT COUNT(*) FROM t FOR UPDATE"


async def begun(proxy: ProxyFixture, *settings: str) -> Client:
    """A client with a transaction open that may read from a replica's snapshot."""
    client = await proxy.session()
    for sql in (SNAPSHOT, *settings, "BEGIN"):
        await execute(client, sql)
    return client


async def implied(proxy: ProxyFixture, *settings: str) -> Client:
    """A client whose first read begins such a transaction."""
    client = await proxy.session()
    for sql in (SNAPSHOT, *settings, "SET autocommit=0"):
        await execute(client, sql)
    return client


BEGINNINGS = pytest.mark.parametrize("begins", [begun, implied])


def started(proxy: ProxyFixture, sql: str = THERE) -> int:
    """How often replicas were told to take a snapshot."""
    return sum(statements_of(replica).count(sql) for replica in proxy.cluster.replicas)


def status(packets: list[bytes]) -> int:
    """The server status that an answer with rows ends with."""
    return int.from_bytes(packets[-1][3:5], "little")


def conflicts(proxy: ProxyFixture) -> int:
    return sum(
        proxy.count("tidegate_split_conflicts_total", policy) for policy in ("error", "allow")
    )


@BEGINNINGS
async def test_reads_share_a_replica_s_snapshot_until_the_first_write(begins: Begins) -> None:
    async with table_fixture() as proxy:
        client = await begins(proxy)
        for _ in range(3):
            found = await client.query(COUNT)
            assert found.value == b"0"
            assert status(found.packets) & 0x2001 == 0x0001
        assert started(proxy) == 1
        assert proxy.statements("replica", "read") == 1
        assert proxy.statements("replica", "transaction") == 2
        await execute(client, INSERT)
        primary = statements_of(proxy.cluster.primary)
        assert primary.count(HERE) == 1
        assert primary[-4:] == [PROBE_SQL.decode(), HERE, PROBE_SQL.decode(), INSERT]
        assert await count(client) == 1  # nothing else was written: it is the same snapshot
        assert started(proxy) == 1
        await execute(client, "COMMIT")
        assert conflicts(proxy) == 0
        assert await count(client) == 1


@BEGINNINGS
async def test_a_transaction_that_only_reads_needs_no_snapshot_of_the_primary(
    begins: Begins,
) -> None:
    async with table_fixture() as proxy:
        client = await begins(proxy)
        await count(client)
        await execute(client, "COMMIT")
        await count(client)
        assert HERE not in statements_of(proxy.cluster.primary)
        assert started(proxy) == (1 if begins is begun else 2)


@BEGINNINGS
async def test_a_read_behind_the_first_write_is_refused_if_others_wrote(begins: Begins) -> None:
    async with table_fixture() as proxy:
        other = await proxy.session()
        patient = "SET tidegate_wait_budget = '10s', tidegate_on_timeout = 'error'"
        client = await begins(proxy, patient)
        assert await count(client) == 0
        await execute(other, INSERT)
        await execute(client, INSERT)  # reads the newest state in any case
        await expect_refusal(client, COUNT, "Try restarting", 1213)
        assert proxy.count("tidegate_split_conflicts_total", "error") == 1
        rollback = [text for _, text in proxy.cluster.primary.statements][-1]
        assert rollback == "ROLLBACK AND NO CHAIN NO RELEASE"
        ended = await client.query("SELECT 1")
        assert status(ended.packets) & 0x2001 == 0
        assert await count(other) == 1  # what the client wrote is gone
        # As frameworks do: it is tried again, and runs on the primary.
        if begins is begun:
            await execute(client, "BEGIN")
        assert await count(client) == 1
        await execute(client, INSERT)
        assert await count(client) == 2
        await execute(client, "COMMIT")
        assert started(proxy) == 1
        if begins is begun:
            await execute(client, "BEGIN")
        apply(proxy, True)
        await proxy.caught_up()
        assert await count(client) == 2
        assert started(proxy) == 2


@BEGINNINGS
async def test_what_shows_another_state_can_be_allowed(begins: Begins) -> None:
    async with table_fixture() as proxy:
        other = await proxy.session()
        client = await begins(proxy, ALLOW)
        assert await count(client) == 0
        await execute(other, INSERT)
        await execute(client, INSERT)
        for number in range(1, 3):
            assert await count(client) == 2
            assert proxy.count("tidegate_split_conflicts_total", "allow") == number
        last = await client.query("SHOW TIDEGATE LAST")
        assert last.rows[0][-3] == b"snapshot"
        await execute(client, "COMMIT")
        await count(client)
        assert (await client.query("SHOW TIDEGATE LAST")).rows[0][-3] is None


async def test_a_replica_that_commits_is_not_known_to_show_the_same() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, SNAPSHOT)
        await count(client)  # so that the connection is there
        await execute(client, "BEGIN")
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(err(1105, "broken"), matching=b"gtid_owned")
        assert await count(client) == 0
        await execute(client, INSERT)
        await expect_refusal(client, COUNT, "", 1213)


async def test_a_snapshot_that_the_primary_does_not_take_is_not_the_same() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        assert await count(client) == 0
        proxy.cluster.primary.faults.raw_reply(err(1568, "no"), matching=HERE.encode())
        await execute(client, INSERT)
        await expect_refusal(client, COUNT, "", 1213)


@pytest.mark.parametrize(
    "sql", [COUNT, "SELECT @@port, COUNT(*) FROM t", "SELECT f()", "SELECT COUNT(*) FROM t INTO @a"]
)
async def test_what_reads_on_the_primary_waits_for_its_snapshot(sql: str) -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(err(1792, "no"), matching=COUNT.encode())
        await client.query(sql)
        primary = statements_of(proxy.cluster.primary)
        assert primary[-4:-1] == [PROBE_SQL.decode(), HERE, PROBE_SQL.decode()]
        assert await count(client) == 0
        assert conflicts(proxy) == 0


@pytest.mark.parametrize("sql", [INSERT, LOCKING, "SAVEPOINT a", "DELETE FROM t", "SET @a = 1"])
async def test_what_needs_no_snapshot_runs_though_others_wrote(sql: str) -> None:
    async with table_fixture() as proxy:
        other = await proxy.session()
        client = await begun(proxy)
        await count(client)
        await execute(other, INSERT)
        await execute(client, sql)
        assert conflicts(proxy) == 0
        await expect_refusal(client, COUNT, "", 1213)


async def test_a_table_that_is_newer_than_the_snapshot_is_read_on_the_primary() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(err(1412, "changed"), matching=COUNT.encode())
        assert await count(client) == 0
        assert HERE not in statements_of(proxy.cluster.primary)  # no replica has shown anything
        await execute(client, INSERT)
        assert await count(client) == 1
        await execute(client, "COMMIT")


async def test_a_lost_replica_ends_no_transaction() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.faults.drop_connection_after(0, matching=COUNT.encode())
        assert await count(client) == 0  # from the primary's, which is the same
        assert statements_of(proxy.cluster.primary).count(HERE) == 1
        await execute(client, INSERT)
        await execute(client, "COMMIT")


async def test_a_lost_replica_is_a_conflict_if_others_wrote() -> None:
    async with table_fixture() as proxy:
        other = await proxy.session()
        client = await begun(proxy)
        assert await count(client) == 0
        await execute(other, INSERT)
        for replica in proxy.cluster.replicas:
            replica.faults.drop_connection_after(0, matching=COUNT.encode())
        await expect_refusal(client, COUNT, "", 1213)


async def test_what_comes_to_no_table_takes_no_snapshot() -> None:
    async with table_fixture() as proxy:
        client = await implied(proxy)
        found = await client.query("SELECT 1")
        assert status(found.packets) & 0x0001 == 0
        assert started(proxy) == 0
        await count(client)
        assert started(proxy) == 1


@pytest.mark.parametrize(
    "settings",
    [
        ["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
        ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"],
        ["SET session_track_transaction_info = 'STATE'"],
        ["SET tidegate_transaction_reads = 'split'"],
        ["SET tidegate_transaction_reads = DEFAULT"],
    ],
)
async def test_others_read_on_the_primary(settings: list[str]) -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy, *settings)
        await count(client)
        assert started(proxy) == 0
        assert proxy.statements("primary", "transaction") > 0


async def test_read_committed_ones_read_apart() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await count(client)
        assert started(proxy) == 0
        assert proxy.statements("replica", "read") == 1


async def test_the_first_read_waits_for_what_its_scope_wrote() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        await execute(client, INSERT)
        await execute(client, SNAPSHOT)
        await execute(client, "BEGIN")
        assert await count(client) == 1  # no replica has it in time
        assert proxy.statements("primary", "wait_timeout") == 1
        assert await count(client) == 1
        await execute(client, INSERT)
        assert await count(client) == 2
        await execute(client, "COMMIT")
        assert HERE not in statements_of(proxy.cluster.primary)
        assert conflicts(proxy) == 0


async def test_a_failed_commit_begins_nothing() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        await count(client)
        proxy.cluster.primary.faults.raw_reply(err(1290, "read only"), matching=b"COMMIT")
        assert (await client.query("COMMIT")).error.code == 1290
        await count(client)
        await execute(client, INSERT)
        assert HERE not in statements_of(proxy.cluster.primary)
