"""READ COMMITTED transactions that read from replicas, where a replica is late, lost or refuses."""

import pytest

from tests.faults.client import Client
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.table_fixture import apply, count, execute, table_fixture, value

COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
START = "START TRANSACTION READ ONLY"
END = "COMMIT AND NO CHAIN NO RELEASE"


async def begun(proxy: ProxyFixture, *settings: str) -> Client:
    """A client with a READ COMMITTED transaction open."""
    client = await proxy.session()
    for sql in (COMMITTED, *settings, "BEGIN"):
        await execute(client, sql)
    return client


def started(proxy: ProxyFixture) -> int:
    """Transactions that were begun on replicas."""
    return sum(statements_of(replica).count(START) for replica in proxy.cluster.replicas)


def status(packets: list[bytes]) -> int:
    """The server status that an answer with rows ends with."""
    return int.from_bytes(packets[-1][3:5], "little")


async def test_a_late_replica_sends_one_read_to_the_primary() -> None:
    async with table_fixture() as proxy:
        direct = await proxy.direct()
        client = await begun(proxy)
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 1
        await execute(client, "COMMIT")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "BEGIN")
        assert await count(client) == 1
        assert proxy.statements("primary", "wait_timeout") == 1
        # The replica's part has ended, so that it keeps no table's definition.
        await eventually(
            lambda: (
                sum(statements_of(replica).count(END) for replica in proxy.cluster.replicas) == 2
            )
        )
        apply(proxy, True)
        await execute(direct, "INSERT INTO t VALUES (2)")
        await proxy.caught_up()
        await execute(client, "SET tidegate_on_timeout = 'error'")  # such a read waits in any case
        found = await client.query("SELECT COUNT(*) FROM t")
        assert found.value == b"2"
        assert status(found.packets) & 0x2003 == 0x0003
        assert proxy.statements("replica", "read") == 2


async def test_a_replica_that_refuses_or_is_lost_leaves_the_transaction_as_it_is() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(err(1792, "Cannot execute statement"), matching=b"COUNT")
        assert await count(client) == 0
        assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.faults.drop_connection_after(0, matching=b"COUNT")
        found = await client.query("SELECT COUNT(*) FROM t")
        assert found.value == b"0"
        assert status(found.packets) & 0x2003 == 0x0003
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "ROLLBACK")


@pytest.mark.parametrize(
    ("settings", "comment", "begins"),
    [
        ([], "", 1),
        (["SET tidegate_transaction_reads = 'primary'"], "", 0),
        ([], "/* tidegate transaction_reads=primary */", 0),
        (
            ["SET tidegate_transaction_reads = 'primary'"],
            "/* tidegate transaction_reads=split */",
            1,
        ),
        (
            [
                "SET tidegate_transaction_reads = PRIMARY",
                "SET tidegate_transaction_reads = DEFAULT",
            ],
            "",
            1,
        ),
    ],
)
async def test_where_it_can_be_said(settings: list[str], comment: str, begins: int) -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy, *settings)
        assert await count(client, comment) == 0
        assert started(proxy) == begins


async def test_what_is_in_force_is_shown() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await value(client, "transaction_reads") == b"split"
        await execute(client, "SET tidegate_transaction_reads = primary")
        assert await value(client, "transaction_reads") == b"primary"


@pytest.mark.parametrize("level", ["STRONG", "MONOTONIC_READS", "READ_ALL_WRITES"])
async def test_each_read_is_owed_what_its_level_says(level: str) -> None:
    async with table_fixture() as proxy:
        direct = await proxy.direct()
        client = await begun(proxy, f"SET tidegate_consistency = '{level}'")
        apply(proxy, True)
        for number in range(1, 4):
            await execute(direct, "INSERT INTO t VALUES (1)")
            if level != "STRONG":
                await proxy.caught_up()
            assert await count(client) == number
        assert proxy.statements("replica", "read") >= 1


async def test_behind_its_first_write_all_is_on_the_primary() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        assert await count(client) == 1
        assert (await client.query("INSERT INTO missing VALUES (1)")).error.code == 1146
        assert await count(client) == 1
        assert proxy.statements("replica", "read") == 1
        assert proxy.statements("primary", "transaction") == 2 + 1  # and the BEGIN


async def test_views_are_asked_for_inside() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        proxy.shared.catalogues.forget()
        await count(client)  # may be anything, so what follows stays
        await count(client)
        assert proxy.statements("replica", "read") == 0
        await execute(client, "COMMIT")
        await execute(client, "BEGIN")
        await count(client)
        assert proxy.statements("replica", "read") == 1


async def test_nothing_of_it_is_left_to_the_next_client() -> None:
    async with table_fixture() as proxy:
        client = await begun(proxy)
        await count(client)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        other = await proxy.session()
        found = await other.query("SELECT COUNT(*) FROM t")
        assert status(found.packets) & 0x2003 == 0x0002
