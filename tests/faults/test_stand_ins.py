"""Commands that a replica runs in the primary's place: the primary that is back knows of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.server.cluster import Cluster
from protocol.constants import Command
from protocol.response_stream import SIMPLE
from proxy.client.session import ClientSession
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ACCOUNTS, ProxyFixture, before, eventually, statements_of
from tests.faults.test_borrowing import rest
from tests.faults.valve import Valve, valve

WITHOUT = "tidegate_clients_without_primary"
NAME = "sch\u00f6n"
SCHEMAS = ("test", "second", NAME, "Upper", "with space", 'a"b', "x" * 64)


@asynccontextmanager
async def behind_valve(**options: Any) -> AsyncIterator[tuple[ProxyFixture, Valve, Client]]:
    """A proxy whose primary can be cut off, and a client that has used it."""
    async with (
        Cluster(1, accounts=ACCOUNTS, schemas=SCHEMAS) as cluster,
        valve(cluster.primary) as way,
        before(way.address, [r.address for r in cluster.replicas], cluster, **options) as proxy,
    ):
        client = await proxy.session(database="test")
        for schema in SCHEMAS:
            assert (await client.query(f"CREATE TABLE `{schema}`.t (id INT)")).ok
        await proxy.caught_up()
        yield proxy, way, client


def session_of(proxy: ProxyFixture) -> ClientSession:
    (session,) = proxy.shared.sessions
    assert isinstance(session, ClientSession)
    return session


async def lose_primary(proxy: ProxyFixture, way: Valve) -> None:
    """The primary is gone, and all sessions know it."""
    await way.refuse()
    for session in list(proxy.shared.sessions):
        assert isinstance(session, ClientSession)
        primary = session._servers.primary
        assert primary is not None
        assert primary._transport is not None
        primary._transport.abort()
    await eventually(lambda: all(lives_on(session) for session in proxy.shared.sessions))
    assert proxy.count(WITHOUT) == len(proxy.shared.sessions)


def lives_on(session: object) -> bool:
    """Whether a session is without the primary, and has begun to read on."""
    assert isinstance(session, ClientSession)
    return session._lease is not None and session.is_away and not session._lease.in_doubt


async def come_back(proxy: ProxyFixture, way: Valve) -> None:
    host, port = way.address.split(":")
    way._listening = await asyncio.start_server(way._serve, host, int(port))
    primary = proxy.shared.topology.primary
    await eventually(lambda: primary.may_be_tried(proxy.shared.now()))


async def begin_to_borrow(proxy: ProxyFixture, way: Valve, client: Client) -> None:
    """A connection to the primary is being opened, and no command waits for it any more."""
    way.shut()
    await come_back(proxy, way)
    error = (await client.query("INSERT INTO test.t VALUES (0)")).error
    assert error is not None
    assert error.code == 1290
    lease = session_of(proxy)._lease
    assert lease is not None
    assert lease.is_under_way


@pytest.mark.parametrize("statement", [b"USE second", bytes((Command.COM_INIT_DB,)) + b"second"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.not_fast
async def test_a_schema_that_is_chosen_while_a_connection_is_borrowed(
    statement: bytes, late: bool
) -> None:
    async with behind_valve(connect_timeout=5.0, wait_budget=0.5) as (proxy, way, client):
        await lose_primary(proxy, way)
        await begin_to_borrow(proxy, way, client)
        gate = proxy.cluster.replicas[0].faults.hold_reply(matching=b"second")
        client.send(query(statement) if statement[0] != Command.COM_INIT_DB else statement)
        await eventually(lambda: gate.held > 0)
        if not late:
            gate.open()
            assert (await client.answer(SIMPLE)).ok
        primary, logins = proxy.cluster.primary, proxy.cluster.primary.connections
        way.open()
        await eventually(lambda: primary.connections > logins)
        if late:
            await asyncio.sleep(0.3)
            assert session_of(proxy).is_away
            gate.open()
            assert (await client.answer(SIMPLE)).ok
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        direct = await proxy.direct()
        assert (await direct.query("SELECT COUNT(*) FROM test.t")).value == b"0"
        assert (await direct.query("SELECT COUNT(*) FROM second.t")).value == b"1"


@pytest.mark.parametrize(
    ("statement", "column", "value"),
    [
        ("SET NAMES latin1", "@@SESSION.character_set_client", b"latin1"),
        ("SET foreign_key_checks = 0", "@@SESSION.foreign_key_checks", b"0"),
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "@@SESSION.transaction_isolation",
            b"READ-COMMITTED",
        ),
    ],
)
@pytest.mark.not_fast
async def test_a_setting_that_is_made_while_a_connection_is_restored(
    statement: str, column: str, value: bytes
) -> None:
    async with behind_valve(connect_timeout=5.0, wait_budget=0.5) as (proxy, way, client):
        await lose_primary(proxy, way)
        await begin_to_borrow(proxy, way, client)
        gate = proxy.cluster.replicas[0].faults.hold_reply(matching=statement.encode())
        client.send(query(statement))
        await eventually(lambda: gate.held > 0)
        primary = proxy.cluster.primary
        logins = primary.connections
        way.open()
        await eventually(lambda: primary.connections > logins)
        await asyncio.sleep(0.2)
        gate.open()
        assert (await client.answer(SIMPLE)).ok
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        shown = await client.query(f"SELECT {column} FROM test.t FOR UPDATE")  # noqa: S608 of the test
        assert shown.rows == [[value]]


async def test_a_setting_that_a_resting_session_makes_without_the_primary() -> None:
    """What it took along when it gave its connection back tells no more what it is."""
    async with behind_valve(connection_sharing="on") as (proxy, way, client):
        rest(proxy)
        await eventually(lambda: session_of(proxy).is_away)
        await way.refuse()
        error = (await client.query("INSERT INTO t VALUES (1)")).error
        assert error.code == 1290
        assert (await client.query("SET NAMES latin1")).ok
        await come_back(proxy, way)
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        shown = await client.query("SELECT @@SESSION.character_set_client FROM t FOR UPDATE")
        assert shown.rows == [[b"latin1"]]


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "test"])
async def test_the_primary_is_told_of_a_schema_by_any_name(name: str) -> None:
    async with behind_valve() as (proxy, way, client):
        await lose_primary(proxy, way)
        assert (await client.command(bytes((Command.COM_INIT_DB,)) + name.encode(), SIMPLE)).ok
        assert session_of(proxy).state.schema == name
        await come_back(proxy, way)
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        direct = await proxy.direct()
        assert (await direct.query(f"SELECT COUNT(*) FROM `{name}`.t")).value == b"1"  # noqa: S608 of the test


async def test_sessions_that_only_read_learn_that_the_primary_is_back() -> None:
    async with behind_valve(metadata_reads="primary") as (proxy, way, client):
        reader = await proxy.session(database="test")
        await lose_primary(proxy, way)
        assert (await reader.query("SHOW TABLES")).rows
        assert proxy.count(WITHOUT) == 2
        await come_back(proxy, way)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        assert proxy.count(WITHOUT) == 0
        away = [session for session in proxy.shared.sessions if session.is_away]
        assert [session.state.without_primary for session in away] == [False]
        primary = proxy.cluster.primary
        primary.statements.clear()
        assert (await reader.query("SHOW TABLES")).rows
        assert "SHOW TABLES" in statements_of(primary)
        assert not any(session.is_away for session in proxy.shared.sessions)


async def test_the_primary_goes_again_before_a_session_has_wanted_it() -> None:
    async with behind_valve(metadata_reads="primary", kept_connections=0) as (proxy, way, client):
        reader = await proxy.session(database="test")
        await lose_primary(proxy, way)
        await come_back(proxy, way)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        client.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        assert proxy.count(WITHOUT) == 0
        await way.refuse()
        assert (await reader.query("SHOW TABLES")).rows
        assert proxy.count(WITHOUT) == 1
        reader.abort()
        await eventually(lambda: proxy.count(WITHOUT) == 0)
        assert proxy.shared.sessions.without_primary == 0


async def test_a_transaction_that_reads_on_a_replica_goes_on_there() -> None:
    async with behind_valve() as (proxy, way, client):
        reader = await proxy.session(database="test")
        await reader.query("SET autocommit = 0")
        await lose_primary(proxy, way)
        assert (await reader.query("SELECT COUNT(*) FROM t")).value == b"0"
        await come_back(proxy, way)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        await proxy.caught_up()
        assert (await reader.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert (await reader.query("COMMIT")).ok
        assert (await reader.query("SELECT COUNT(*) FROM t")).value == b"1"
