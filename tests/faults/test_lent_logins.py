"""Logins that a server judged a moment ago, and is not asked about again."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from protocol.constants import Capability, Command
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from proxy.monitor.primary_election import promote
from proxy.shared.client_profile import ALIKE
from tests.faults.client import MODERN, Client
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture

LENT = "tidegate_logins_lent_total"
READ = "SELECT * FROM t"


def lending_fixture(**options: Any) -> AbstractAsyncContextManager[ProxyFixture]:
    """A proxy that takes a server's word for long, however busy this machine is."""
    return proxy_fixture(**({"login_age": 3600.0} | options))


def lent(proxy: ProxyFixture, *labels: str) -> float:
    return proxy.count(LENT, *labels)


async def leave(proxy: ProxyFixture, client: Client) -> None:
    """Hang up, and wait until what the client had is clean."""
    client.send(bytes([Command.COM_QUIT]))
    assert await client.rest() == b""
    await eventually(lambda: not proxy.shared.sessions)
    await eventually(lambda: proxy.kept_are_clean)


async def alike(
    proxy: ProxyFixture, times: int = ALIKE, sql: str = "SELECT 1", **options: Any
) -> None:
    """So many clients, one after the other: the next one is expected to be another."""
    for _ in range(times):
        client = await proxy.session(**options)
        await client.query(sql)
        await leave(proxy, client)


async def is_lent(proxy: ProxyFixture, **options: Any) -> bool:
    """Whether the primary is not asked about the next login."""
    primary = proxy.shared.topology.primary.name
    before = lent(proxy, primary)
    client = await proxy.session(**options)
    assert (await client.ping()).ok
    await leave(proxy, client)
    return lent(proxy, primary) > before


async def test_a_login_like_the_one_before_is_not_asked_about() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        count_before = len(proxy.cluster.primary.statements)
        before = lent(proxy)
        client = await proxy.session()
        assert lent(proxy) == before + 1
        assert len(proxy.cluster.primary.statements) == count_before
        assert client.greeting is not None
        assert (await client.query("SELECT CONNECTION_ID()")).value == (
            b"%d" % client.greeting.thread_id
        )


async def test_what_was_lent_and_not_used_is_clean() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        await leave(proxy, await proxy.session())
        count_before = len(proxy.cluster.primary.statements)
        before = lent(proxy)
        await leave(proxy, await proxy.session())
        assert lent(proxy) == before + 1
        assert len(proxy.cluster.primary.statements) == count_before


async def test_a_replica_is_not_asked_either() -> None:
    async with lending_fixture(replicas=1) as proxy:
        await alike(proxy, times=1, sql="CREATE TABLE t (id INT)")
        await proxy.caught_up()
        (replica,) = proxy.cluster.replicas
        await alike(proxy, sql=READ)
        seen = len(replica.statements)
        client = await proxy.session()
        assert (await client.query(READ)).rows == []
        texts = [text for _, text in list(replica.statements)[seen:]]
        assert lent(proxy, proxy.shared.topology.replicas[0].name) == ALIKE
        assert not [text for text in texts if "server_uuid" in text]
        assert texts[-1] == READ


async def test_without_an_age_each_login_is_judged() -> None:
    async with lending_fixture(login_age=0.0) as proxy:
        await alike(proxy)
        assert not await is_lent(proxy)
        texts = [text for _, text in proxy.cluster.primary.statements]
        assert not [text for text in texts if text.startswith("SELECT @@character_set_client")]


async def test_a_word_that_is_too_old_does_not_count() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        proxy.shared.pool.login_cache.age = 1e-9
        assert not await is_lent(proxy)
        proxy.shared.pool.login_cache.age = 60.0
        assert await is_lent(proxy)


OTHERS: dict[str, dict[str, Any]] = {
    "user": {"user": "other", "password": "word"},
    "schema": {"database": "second"},
    "no schema": {"database": None},
    "capabilities": {"capabilities": MODERN | Capability.CLIENT_FOUND_ROWS},
    "attributes": {"attributes": {"program_name": "another"}},
    "level": {"attributes": {"tidegate.consistency": "BEST_EFFORT"}},
    "snapshots": {"attributes": {"tidegate.consistency": "MONOTONIC_READS"}},
}


@pytest.mark.parametrize("difference", OTHERS)
async def test_who_logs_in_otherwise_is_judged(difference: str) -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        assert not await is_lent(proxy, **OTHERS[difference])
        # Its host's habits are others by then.
        assert await is_lent(proxy, **OTHERS[difference]) or difference == "capabilities"


async def test_another_process_of_the_same_program_is_no_other() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy, attributes={"program_name": "one", "_pid": "1"})
        assert await is_lent(proxy, attributes={"program_name": "one", "_pid": "2"})


async def test_the_level_that_a_client_chose_is_not_the_next_ones() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        await client.query("SET tidegate_consistency = 'BEST_EFFORT'")
        await client.query("UPDATE x SET a = 1")
        await leave(proxy, client)
        client = await proxy.session()
        value = await client.query("SELECT @@session_track_gtids, @x FOR UPDATE")
        assert value.rows[0][0] == b"OWN_GTID"


async def test_a_wrong_password_is_for_the_server_to_refuse() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.connect()
        assert ErrPacket.parse(await client.log_in(password="wrong")).code == 1045
        # Somebody tried: what was judged before does not count any more.
        assert not await is_lent(proxy)
        assert await is_lent(proxy)


async def test_what_a_replica_refuses_is_judged_by_the_primary() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        proxy.shared.pool.login_cache.on_refused("other", 1045)
        proxy.shared.pool.login_cache.on_refused("app", 1040)  # says nothing of the account
        assert await is_lent(proxy)
        proxy.shared.pool.login_cache.on_refused("app", 3118)
        assert not await is_lent(proxy)


CHANGES = (
    "FLUSH PRIVILEGES",
    "GRANT SELECT ON *.* TO other",
    "REVOKE SELECT ON *.* FROM other",
    "ALTER USER other ACCOUNT LOCK",
    "DROP USER nobody",
    "SET DEFAULT ROLE ALL TO other",
    "SET PASSWORD FOR other = 'x'",
    "SET GLOBAL max_execution_time = 5",
    "SET PERSIST max_execution_time = 5",
)


@pytest.mark.parametrize("sql", CHANGES)
async def test_what_changes_logins_ends_it_at_once(sql: str) -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        await client.query(sql)
        await leave(proxy, client)
        assert not await is_lent(proxy)
        assert await is_lent(proxy)


async def test_other_default_values_are_seen() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        proxy.cluster.primary.set_variable("sql_mode", "ANSI_QUOTES")
        await client.query("UPDATE x SET a = 1")
        await leave(proxy, client)
        again = await proxy.session()
        assert (await again.query("SELECT @@sql_mode FOR UPDATE")).value == b"ANSI_QUOTES"


async def test_what_the_client_before_had_is_gone() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        first = await proxy.session()
        assert first.greeting is not None
        for sql in (
            "SET @x = 5",
            "CREATE TEMPORARY TABLE mine (id INT)",
            "SET sql_mode = 'ANSI'",
            "SET NAMES latin1",
            "SET autocommit = 0",
            "USE second",
            "SELECT GET_LOCK('l', 0)",
        ):
            assert (await first.query(sql)).packets[-1][0] != 0xFF, sql
        await leave(proxy, first)
        before = lent(proxy)
        second = await proxy.session()
        assert lent(proxy) == before + 1
        assert second.greeting is not None
        assert second.greeting.thread_id == first.greeting.thread_id
        columns = "@x, DATABASE(), @@autocommit, @@character_set_results, IS_FREE_LOCK('l')"
        found = await second.query(f"SELECT {columns}")
        assert found.rows[0] == [None, b"test", b"1", b"utf8mb4", b"1"]
        assert (await second.query("SELECT * FROM test.mine")).error.code == 1146


async def test_a_schema_that_was_chosen_is_not_left_to_who_names_none() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy, database=None)
        first = await proxy.session(database=None)
        await first.query("USE second")
        await leave(proxy, first)
        second = await proxy.session(database=None)
        assert (await second.query("SELECT DATABASE()")).value is None


async def test_a_replicas_schema_is_not_left_to_who_names_none() -> None:
    async with lending_fixture(replicas=1) as proxy:
        await alike(proxy, database=None, sql="SELECT 1")
        first = await proxy.session(database=None)
        await first.query("USE second")
        await first.query("SELECT 1")
        await leave(proxy, first)
        replica = proxy.shared.topology.replicas[0].name
        before = lent(proxy, replica)
        second = await proxy.session(database=None)
        assert (await second.query("SELECT 1")).value == b"1"
        assert lent(proxy, replica) == before
        assert proxy.statements("replica") == ALIKE + 2


async def test_a_server_that_does_not_tell_what_sessions_begin_with_judges_each() -> None:
    async with lending_fixture() as proxy:
        proxy.cluster.primary.faults.raw_reply(
            err(1193, "Unknown system variable"), b"SELECT @@character_set_client", times=None
        )
        await alike(proxy)
        assert not await is_lent(proxy)


async def test_a_session_says_whose_it_is_with_its_first_statement() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        (session,) = proxy.shared.sessions
        found = (await client.query("SELECT @tidegate_session, @tidegate_client FOR UPDATE")).rows[
            0
        ]
        assert found == [
            f"{proxy.shared.config.proxy_name}/{session.session_id}".encode(),
            session.peer.encode(),
        ]


First = Callable[[Client], Awaitable[bool]]


async def _prepares(client: Client) -> bool:
    return (await client.command(b"\x16SELECT 1 FOR UPDATE", 2)).packets[0][0] == 0


async def _chooses(client: Client) -> bool:
    return (await client.command(b"\x02second", SIMPLE)).ok is not None


async def _resets(client: Client) -> bool:
    return (await client.command(b"\x1f", SIMPLE)).ok is not None


async def _asks_of_nothing(client: Client) -> bool:
    found = (await client.query("SELECT ROW_COUNT(), FOUND_ROWS(), @@warning_count")).rows[0]
    return found[1:] == [b"0", b"0"]


FIRST: dict[str, First] = {
    "prepares": _prepares,
    "chooses a schema": _chooses,
    "resets": _resets,
    "asks about the statement before": _asks_of_nothing,
}


@pytest.mark.parametrize("case", FIRST)
async def test_whatever_comes_first(case: str) -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        assert await FIRST[case](client)
        assert (await client.query("SELECT 5 FOR UPDATE")).value == b"5"


async def test_a_promotion_lends_none() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        before = lent(proxy)
        client = await proxy.connect()
        await client.log_in()
        assert lent(proxy) == before


async def test_a_connection_that_the_server_closes_is_not_lent() -> None:
    async with lending_fixture() as proxy:
        await alike(proxy)
        await proxy.cluster.primary.restart()
        before = lent(proxy)
        await eventually(lambda: proxy.count("tidegate_kept_connections") == 0)
        client = await proxy.session()
        assert (await client.ping()).ok
        assert lent(proxy) == before
