"""Levels, scopes, settings, tokens and SHOW TIDEGATE, as clients of every kind meet them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.constants import Capability
from protocol.response import ErrPacket, OkPacket
from protocol.session_track import entries
from proxy.address import Address
from proxy.server.probe import PROBE_SQL
from proxy.tables import Table
from routing.consistency import Adjustment
from routing.decision import Level, Scope
from tests.faults.client import (
    BASE,
    MODERN,
    PASSWORD,
    Answer,
    Client,
    attributed,
    change_user,
    finish_change,
    query,
)
from tests.faults.stage import Stage, asked, eventually, stage

COUNT = "SELECT COUNT(*) FROM t"
KEY = b"0123456789abcdef"
OLD = b"an older key, still good"
KEYS: dict[str, Any] = {"token_keys": (KEY, OLD)}
IN_TRANS, AUTOCOMMIT, NO_BACKSLASH_ESCAPES = 0x0001, 0x0002, 0x0200
FOREIGN = "99999999-9999-9999-9999-999999999999"
FOREVER = 1 << 40

CLIENTS = {
    "neither": BASE,
    "DEPRECATE_EOF": BASE | Capability.CLIENT_DEPRECATE_EOF,
    "SESSION_TRACK": BASE | Capability.CLIENT_SESSION_TRACK,
    "both": MODERN,
    "attributes": MODERN | Capability.CLIENT_QUERY_ATTRIBUTES,
}
LEVELS = [
    "BEST_EFFORT",
    "READ_OWN_WRITES",
    "MONOTONIC_READS",
    "READ_ALL_WRITES",
    "STRONG",
    "BOUNDED_STALENESS(10s)",
]


@asynccontextmanager
async def table(**options: Any) -> AsyncIterator[Stage]:
    """A table `t` that all servers have, empty; nothing is applied any more."""
    async with stage(**{"wait_budget": 0.03, **options}) as on:
        door = await on.door()
        assert (await door.query("CREATE TABLE t (id INT)")).ok
        await on.caught_up()
        apply(on, False)
        yield on


def apply(on: Stage, applying: bool) -> None:
    for replica in on.cluster.replicas:
        replica.applying = applying


async def count(client: Client, comment: str = "") -> int:
    value = (await client.query(comment + COUNT)).value
    assert value is not None
    return int(value)


async def does(client: Client, sql: str) -> None:
    answer = await client.query(sql)
    assert answer.packets[-1][0] != 0xFF, answer.error


async def value(client: Client, variable: str) -> bytes | None:
    return (await client.query(f"SELECT @@tidegate_{variable}")).value


async def refused(client: Client, sql: str, message: str = "", code: int = 1231) -> None:
    error = (await client.query(sql)).error
    assert error.code == code, error
    assert message in error.message


def trackers(answer: Answer) -> list[list[int]]:
    """The types of trackers in each OK packet of an answer."""
    found = []
    for packet in answer.packets:
        if packet[0] in (0x00, 0xFE) and len(packet) > 6:
            state = OkPacket.parse(packet, MODERN).session_state
            found.append([] if state is None else [int(kind) for kind, _ in entries(state)])
    return found


def probes(on: Stage) -> int:
    return asked(on.cluster.primary).count(PROBE_SQL.decode())


# What the proxy tracks is its own affair.

SCRIPT = [
    "SELECT id FROM t ORDER BY id",
    "INSERT INTO t VALUES (1), (2)",
    "SELECT id FROM t ORDER BY id",
    "SELECT 1 UNION SELECT 2",
    "UPDATE t SET id = id",
    "SELECT ROW_COUNT()",
    "SELECT nothing",
    "SHOW WARNINGS",
    "INSERT INTO no VALUES (1)",
    "SHOW WARNINGS",
    "SELECT @@warning_count",
    "DELETE FROM t WHERE id > 7",
    "SELECT ROW_COUNT()",
    "SELECT id FROM t ORDER BY id",
    "BEGIN",
    "SELECT id FROM t ORDER BY id",
    "DELETE FROM t WHERE id = 2",
    "COMMIT",
    "SELECT id FROM t ORDER BY id",
    "SET @x = 1",
    "SET time_zone = '+00:00'",
    "SELECT id FROM t ORDER BY id",
    "INSERT INTO t VALUES (3); SELECT 2",
    "SHOW WARNINGS",
    "USE second",
    "SELECT 5",
    "USE test",
    "BEGIN",
    "INSERT INTO t VALUES (4)",
    "ROLLBACK",
    "SELECT id FROM t ORDER BY id",
]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_client_sees_what_it_would_without_the_proxy(kind: str) -> None:
    """At every level, on primary and replicas: no tracker of the proxy's, and every EOF."""
    async with stage() as on:
        door = await on.door(capabilities=CLIENTS[kind])
        for level in LEVELS:
            await does(door, "CREATE TABLE t (id INT)")
            expected = [await said(door, sql) for sql in SCRIPT]
            await does(door, "DROP TABLE t")
            await does(door, "CREATE TABLE t (id INT)")
            await on.caught_up()
            client = await on.session(capabilities=CLIENTS[kind])
            await does(client, f"SET tidegate_consistency = '{level}'")
            before = on.statements("replica")
            for sql, answer in zip(SCRIPT, expected, strict=True):
                assert await said(client, sql) == answer, (level, sql)
                await on.caught_up()
            assert on.statements("replica") >= before + 9, level
            await does(door, "DROP TABLE t")


async def said(client: Client, sql: str) -> list[bytes]:
    if client.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES:
        return (await client.command(attributed(sql, tidegatex="y"))).packets
    return (await client.query(sql)).packets


@pytest.mark.parametrize("setting", ["OWN_GTID", "ALL_GTIDS"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_client_that_tracks_gtids_itself(level: str, setting: str) -> None:
    """It sees what a server would show it, on whatever connection, also on one that was open."""
    async with stage() as on:
        door = await on.door()
        await does(door, "CREATE TABLE t (id INT)")
        await on.caught_up()
        client = await on.session()
        await does(client, f"SET tidegate_consistency = '{level}'")
        steps = [
            "SELECT 1",
            f"SET session_track_gtids = '{setting}'",
            "INSERT INTO t VALUES (1)",
            "SELECT id FROM t",
            "BEGIN",
            "SELECT id FROM t",
            "ROLLBACK",
            "SELECT id FROM t",
            "SET session_track_gtids = OFF",
            "INSERT INTO t VALUES (1)",
            "SELECT id FROM t",
            f"SET session_track_gtids = '{setting}'",
            "SELECT id FROM t",
            "reset",
            "SELECT id FROM t",
            "INSERT INTO t VALUES (1)",
        ]
        for sql in steps:
            payload = b"\x1f" if sql == "reset" else query(sql)
            theirs = trackers(await door.command(payload))
            if sql == "reset" or sql.startswith("SET"):
                ours = theirs
                await client.command(payload)  # fact 2.4: accept either
                if sql == "reset":
                    await does(client, f"SET tidegate_consistency = '{level}'")
            else:
                ours = trackers(await client.command(payload))
            assert ours == theirs, sql
            await on.caught_up()
        assert on.statements("replica") >= 3


async def test_a_tracked_set_on_a_replica_is_the_replicas() -> None:
    async with table() as on:
        door = await on.door()
        client = await on.session()
        await does(client, "SELECT 1")
        await does(client, "SET session_track_gtids = ALL_GTIDS")
        await does(door, "INSERT INTO t VALUES (1)")
        answer = await client.query("SELECT 2")
        (replica,) = on.cluster.replicas
        state = answer.ok.session_state or b""
        assert str(replica.gtids.executed).encode() in state
        assert on.statements("replica", "read") == 2


# Levels.


async def test_a_level_changes_inside_a_transaction() -> None:
    async with table() as on:
        client = await on.session()
        assert await count(client) == 0
        for level in (*LEVELS, *reversed(LEVELS)):
            await does(client, "BEGIN")
            await does(client, "INSERT INTO t VALUES (1)")
            seen = await count(client)
            answer = await client.query(f"SET tidegate_consistency = '{level}'")
            assert answer.ok.status & IN_TRANS
            assert await count(client) == seen
            await does(client, "COMMIT")
            await does(client, "SET tidegate_consistency = 'READ_OWN_WRITES'")
            assert await count(client) == seen, level


@pytest.mark.parametrize("level", LEVELS[1:5])
async def test_what_was_written_before_the_level_was_raised(level: str) -> None:
    for comment in ("", f"/* tidegate consistency={level} */"):
        async with table(consistency=Level.BEST_EFFORT) as on:
            client = await on.session()
            assert await count(client) == 0
            await does(client, "INSERT INTO t VALUES (1)")
            assert await count(client) == 0, "the replica has it, and nothing is tested"
            if not comment:
                await does(client, f"SET tidegate_consistency = '{level}'")
            assert await count(client, comment) == 1
            await does(client, "INSERT INTO t VALUES (1)")
            assert await count(client, comment) == 2


async def test_a_level_changes_while_replicas_are_open() -> None:
    async with table() as on:
        client = await on.session()
        assert await count(client) == 0
        await does(client, "SET tidegate_consistency = 'MONOTONIC_READS'")
        assert await count(client) == 0
        (session,) = on.proxy.sessions.values()
        (replica,) = on.cluster.replicas
        assert on.statements("replica", "read") == 2
        assert replica.gtids.executed <= session.state.own_scope.observed
        await does(client, "SET tidegate_consistency = DEFAULT")
        assert await count(client) == 0
        assert on.statements("replica", "read") == 3
        await eventually(lambda: replica.connections == 1)


HOW = {
    "configured": ("", ""),
    "set": ("SET tidegate_consistency = 'MONOTONIC_READS'", ""),
    "commented": ("", "/* tidegate consistency=MONOTONIC_READS */"),
    "tracking less": ("SET session_track_gtids = OWN_GTID", ""),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", CLIENTS)
async def test_no_older_state_than_was_seen(how: str, kind: str) -> None:
    """Seen on one replica, which goes away; the other is older."""
    setting, comment = HOW[how]
    level = Level.MONOTONIC_READS if how in ("configured", "tracking less") else None
    options = {} if level is None else {"consistency": level}
    async with table(replicas=2, wait_budget=0.1, **options) as on:
        door = await on.door()
        client = await on.session(capabilities=CLIENTS[kind])
        if setting:
            await said(client, setting)
        sql = comment + COUNT
        await said(client, sql)
        (session,) = on.proxy.sessions.values()
        preferred = on.proxy.topology.replicas[session.state.preferred]
        (newer,) = [r for r in on.cluster.replicas if r.address == preferred.name]
        await does(door, "INSERT INTO t VALUES (1)")
        newer.applying = True
        executed = on.cluster.primary.gtids.executed
        await eventually(lambda: executed <= newer.gtids.executed)
        assert b"\x011" in await said(client, sql)
        preferred.down_until = on.proxy.now() + 60
        assert b"\x011" in await said(client, sql)
        assert b"\x011" in await said(client, sql)


async def test_what_another_statement_showed_counts_for_a_comments_level() -> None:
    """READ_OWN_WRITES promises nothing here, but MONOTONIC_READS does, of all that was seen."""
    comment = "/* tidegate consistency=MONOTONIC_READS */"
    async with table(replicas=2) as on:
        door = await on.door()
        client = await on.session()
        assert await count(client, comment) == 0
        (session,) = on.proxy.sessions.values()
        preferred = on.proxy.topology.replicas[session.state.preferred]
        (newer,) = [r for r in on.cluster.replicas if r.address == preferred.name]
        await does(door, "INSERT INTO t VALUES (1)")
        newer.applying = True
        executed = on.cluster.primary.gtids.executed
        await eventually(lambda: executed <= newer.gtids.executed)
        assert await count(client) == 1
        preferred.down_until = on.proxy.now() + 60
        assert await count(client) == 0, "the other replica has it, and nothing is tested"
        assert await count(client, comment) == 1


async def test_read_all_writes_avoids_a_replica_that_commits_in_any_order() -> None:
    async with stage(replicas=2, consistency=Level.READ_ALL_WRITES) as on:
        for replica in on.cluster.replicas:
            replica.set_variable("replica_preserve_commit_order", False)
        on.cluster.replicas[1].set_variable("replica_parallel_workers", 1)  # keeps it all the same
        ordered = on.cluster.replicas[1]
        clients = [await on.session() for _ in range(2)]
        for client in clients:
            await does(client, "SELECT 7")
            await does(client, "SELECT 7")
            await does(client, "/* tidegate consistency=MONOTONIC_READS */ SELECT 8")
        assert "SELECT 7" not in asked(on.cluster.replicas[0])[2:]
        assert asked(ordered).count("SELECT 7") >= 2
        ordered.set_variable("replica_parallel_workers", 4)
        third = await on.session()
        on.proxy.topology.replicas[1].ordered = False  # as the next look at it finds
        await does(third, "SELECT 9")
        assert "SELECT 9" in asked(on.cluster.primary)
        assert on.statements("primary", "commit_order") == 1


async def test_read_all_writes_of_a_proxy_sees_every_write_through_it() -> None:
    """Also those of sessions that track nothing for themselves."""
    async with table() as on:
        reader = await on.session()
        for setting in ("consistency = 'READ_ALL_WRITES'", "scope = 'proxy'"):
            await does(reader, f"SET tidegate_{setting}")
        for number, level in enumerate(LEVELS):
            assert await count(reader) == number
            writer = await on.session(user="other", password="word")
            await does(writer, f"SET tidegate_consistency = '{level}'")
            await does(writer, "INSERT INTO t VALUES (1)")
            assert await count(reader) == number + 1, level


async def test_bounded_staleness() -> None:
    async with table(consistency=Level.BOUNDED_STALENESS, staleness=60.0) as on:
        door = await on.door()
        client = await on.session()
        assert await count(client) == 0
        assert probes(on) == 1
        await does(door, "INSERT INTO t VALUES (1)")
        assert await count(client) == 0, "the bound is a minute"
        assert probes(on) == 1
        tight = "/* tidegate consistency='BOUNDED_STALENESS(1us)' */"
        assert await count(client, tight) == 1
        assert await count(client, "/* tidegate consistency='BOUNDED_STALENESS(60m)' */") == 0
        await does(client, "SET tidegate_consistency = 'BOUNDED_STALENESS(0.001)'")
        assert await count(client) == 1


# Scopes.


@pytest.mark.parametrize("how", ["reset", "change user", "change user to another"])
@pytest.mark.parametrize("scope", list(Scope))
async def test_what_a_pooled_connection_wrote_survives_its_reset(scope: Scope, how: str) -> None:
    attributes = {"tidegate.application": "shop"}
    async with table(scope=scope) as on:
        other = await on.session(attributes=attributes)
        client = await on.session(attributes=attributes)
        for reader in (other, client):
            await does(reader, "SET tidegate_consistency = 'MONOTONIC_READS'")
            assert await count(reader) == 0
            await does(reader, "SET tidegate_consistency = DEFAULT")
        await does(client, "SET tidegate_consistency = 'BOUNDED_STALENESS(60m)'")
        await does(client, "SET tidegate_wait_budget = 7, tidegate_on_timeout = 'error'")
        await does(client, "INSERT INTO t VALUES (1)")
        if how == "reset":
            assert (await client.command(b"\x1f")).ok
        else:
            user, password = ("other", "word") if how.endswith("another") else ("app", PASSWORD)
            client.send(change_user(user, attributes=attributes))
            assert (await finish_change(client, password))[0] == 0x00
        assert await value(client, "consistency") == b"READ_OWN_WRITES"
        assert await value(client, "wait_budget") == b"30ms"
        assert await value(client, "on_timeout") == b"primary"
        assert await value(client, "application") == b"shop"
        assert await count(client) == 1
        if scope is not Scope.CONNECTION:
            assert await count(other) == 1


async def test_a_failed_change_of_user_loses_nothing_of_a_scope() -> None:
    async with table(scope=Scope.USER) as on:
        client = await on.session()
        assert await count(client) == 0
        await does(client, "INSERT INTO t VALUES (1)")
        client.send(change_user("other"))
        assert ErrPacket.parse(await finish_change(client, "wrong")).code == 1045
        again = await on.session()
        assert await count(again) == 1


async def test_a_scope_of_a_user_is_no_other_users() -> None:
    async with table(scope=Scope.USER) as on:
        first, second = await on.session(), await on.session()
        stranger = await on.session(user="other", password="word")
        for client in (first, second, stranger):
            assert await count(client) == 0
        await does(first, "INSERT INTO t VALUES (1)")
        assert await count(second) == 1
        assert await count(stranger) == 0


WAYS = ["SET", "comment", "connection attribute", "query attribute"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_application_is_named(way: str) -> None:
    """Whoever names it reads with all who do, whatever way they name it."""
    capabilities = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
    async with table() as on:
        writer, reader, stranger = [
            await on.session(
                user=user,
                password=word,
                capabilities=capabilities,
                attributes={
                    "tidegate.application": name,
                    "tidegate.scope": "application",
                }
                if way == "connection attribute"
                else None,
            )
            for user, word, name in (
                ("app", PASSWORD, "shop"),
                ("other", "word", "shop"),
                ("app", PASSWORD, "blog"),
            )
        ]

        async def run(client: Client, sql: str) -> bytes | None:
            name = "blog" if client is stranger else "shop"
            if way == "comment":
                sql = f"/* tidegate scope=application application={name} */ {sql}"
            if way == "SET":
                setting = f"tidegate_application = '{name}', tidegate_scope = 'application'"
                assert (await client.command(attributed(f"SET {setting}"))).ok
            attributes = {"tidegate_scope": "application", "tidegate_application": name}
            if way != "query attribute":
                attributes = {}
            answer = await client.command(attributed(sql, **attributes))
            return answer.rows[0][0] if answer.rows else None

        for client in (writer, reader, stranger):
            assert await run(client, COUNT) == b"0"
        await run(writer, "INSERT INTO t VALUES (1)")
        assert await run(reader, COUNT) == b"1"
        assert await run(stranger, COUNT) == b"0"
        keys = sorted(scope.key for scope in on.proxy.scopes.states())
        assert keys == ["blog", "shop"]


@pytest.mark.parametrize("end", ["error", "lost"])
async def test_what_failed_counts_for_the_application_that_the_statement_named(end: str) -> None:
    """It committed before it failed, and no packet says so (fact 2.3)."""
    comment = "/* tidegate scope=application application=shop */"
    async with table() as on:
        door = await on.door()
        await does(door, "CREATE PROCEDURE p() BEGIN INSERT INTO t VALUES (1); SELECT no; END")
        apply(on, True)
        await on.caught_up()
        apply(on, False)
        writer, reader = await on.session(), await on.session()
        for client in (writer, reader):
            assert await count(client, comment) == 0
        if end == "lost":
            on.cluster.primary.faults.drop_connection_after(0, matching=b"CALL p")
            writer.send(query(f"{comment} CALL p()"))
            assert (await writer.last_error()).code == 2013
        else:
            assert (await writer.query(f"{comment} CALL p()")).error.code == 1054
        assert await count(reader, comment) == 1


async def test_an_application_has_to_be_named() -> None:
    async with table(scope=Scope.APPLICATION) as on:
        client = await on.session()
        await refused(client, COUNT, "no application is named")
        await does(client, "INSERT INTO t VALUES (1)")
        await refused(client, COUNT, "tidegate_application")
        assert await count(client, "/* tidegate application=shop */") == 1
        await does(client, "SET tidegate_application = 'shop'")
        assert await count(client) == 1
        await does(client, "SET tidegate_application = DEFAULT")
        await refused(client, COUNT)
        await does(client, "BEGIN")
        assert (await client.query(COUNT)).error.code == 1231
        await does(client, "ROLLBACK")


async def test_rules_by_user_schema_and_listener() -> None:
    """The later counts: listener, schema, user, connection attribute, SET, comment."""
    listeners = Table({Address("127.0.0.1", 0): Adjustment(wait_budget=0.5, scope=Scope.PROXY)})
    schemas = Table({"second": Adjustment(level=Level.STRONG, scope=Scope.USER)})
    users = Table({"other": Adjustment(scope=Scope.CONNECTION)})
    async with stage(listeners=listeners, schemas=schemas, users=users) as on:
        plain = await on.session()
        assert await value(plain, "scope") == b"proxy"
        assert await value(plain, "wait_budget") == b"500ms"
        assert await value(plain, "consistency") == b"READ_OWN_WRITES"
        await does(plain, "USE second")
        assert await value(plain, "scope") == b"user"
        assert await value(plain, "consistency") == b"STRONG"
        await does(plain, "SET tidegate_scope = 'connection'")
        assert (await plain.command(b"\x02test")).ok
        assert await value(plain, "scope") == b"connection"
        assert await value(plain, "consistency") == b"READ_OWN_WRITES"
        await does(plain, "SET tidegate_scope = DEFAULT")
        assert await value(plain, "scope") == b"proxy"
        other = await on.session(
            user="other",
            password="word",
            database="second",
            attributes={"tidegate.wait_budget": "1s", "tidegate": "x", "tidegatescope": "x"},
        )
        assert await value(other, "scope") == b"connection"
        assert await value(other, "consistency") == b"STRONG"
        assert await value(other, "wait_budget") == b"1000ms"
        await does(other, "/* tidegate wait_budget=2s consistency=BEST_EFFORT */ SELECT 1")
        ((level, scope, *_),) = (await other.query("SHOW TIDEGATE LAST")).rows
        assert (level, scope) == (b"BEST_EFFORT", b"connection")


async def test_rules_by_schema_within_a_transaction() -> None:
    schemas = Table({"second": Adjustment(level=Level.MONOTONIC_READS)})
    async with table(schemas=schemas) as on:
        client = await on.session()
        assert await count(client) == 0
        await does(client, "BEGIN")
        await does(client, "INSERT INTO t VALUES (1)")
        await does(client, "USE second")
        await does(client, "COMMIT")
        assert await value(client, "consistency") == b"MONOTONIC_READS"
        assert (await client.query("SELECT COUNT(*) FROM test.t")).value == b"1"
        await does(client, "USE test; USE second; USE test")
        assert await value(client, "consistency") == b"READ_OWN_WRITES"
        assert await count(client) == 1


async def test_scopes_are_dropped_for_want_of_room() -> None:
    async with table(scope_limit=2) as on:
        clients = [await on.session() for _ in range(3)]
        for name, client in zip("abc", clients, strict=True):
            await does(
                client, f"SET tidegate_application = '{name}', tidegate_scope = 'application'"
            )
            assert await count(client) == 0
        assert probes(on) == 3
        assert [scope.key for scope in on.proxy.scopes.states()] == ["b", "c"]
        await does(clients[0], "INSERT INTO t VALUES (1)")
        assert await count(clients[1]) == 0
        assert probes(on) == 3
        # Dropped, so it is not known what was written in it: the primary is asked.
        assert await count(clients[0]) == 1
        assert probes(on) == 4
        assert len(on.proxy.scopes) == 2
        assert on.proxy.scopes.evicted == 2


async def test_scopes_are_dropped_for_their_age() -> None:
    async with table(scope=Scope.USER, scope_age=60) as on:
        client, other = await on.session(), await on.session()
        assert await count(client) == 0
        await does(client, "INSERT INTO t VALUES (1)")
        (scope,) = on.proxy.scopes.states()
        scope.used_at -= 61
        assert await count(other) == 1
        assert probes(on) == 2
        assert on.proxy.scopes.evicted == 1


# Settings.

WRONG = [
    "SET tidegate_consistency = 'MONOTONIC_READS', tidegate_scope = 'everybody'",
    "SET tidegate_consistency = 'STRONGER'",
    "SET tidegate_consistency = 'BOUNDED_STALENESS'",
    "SET tidegate_consistency = 'BOUNDED_STALENESS(0)'",
    "SET tidegate_consistency = 'STRONG(1s)'",
    "SET tidegate_consistency = NULL",
    "SET tidegate_consistency = (SELECT 'STRONG')",
    "SET tidegate_consistency = CONCAT('STR', 'ONG')",
    "SET tidegate_wait_budget = '1h'",
    "SET tidegate_wait_budget = -1",
    "SET tidegate_wait_budget = 0",
    "SET tidegate_wait_budget = '1e3'",
    "SET tidegate_on_timeout = 'maybe'",
    "SET tidegate_application = 'a\\nb'",
    f"SET tidegate_application = '{'x' * 256}'",
    "SET tidegate_scope = 'user', sql_mode = ''",
    "SET sql_mode = '', tidegate_scope = 'user'",
    "SET GLOBAL tidegate_scope = 'user'",
    "SET PERSIST tidegate_scope = 'user'",
    "SET tidegate_scope = 'user', tidegate_nothing = 1",
    "SET @@tidegate.scope = 'user'",
    "SET tidegate_scope = 'user', tidegate_token = 'AQ'",
    "SET tidegate_scope = 'user'; SELECT 1",
    "SELECT 1; SET tidegate_scope = 'user'",
    "SHOW TIDEGATE NOTHING",
    "SHOW TIDEGATE LAST LIMIT 1",
    "SELECT @@tidegate_scope, 1",
    "SELECT @@tidegate_nothing",
    "/* tidegate consistency=STRONGER */ SELECT 1",
    "/* tidegate consistency */ SELECT 1",
    "/* tidegate token='x' */ SELECT 1",
    "/* tidegate wait_budget=61s */ INSERT INTO t VALUES (1)",
]


async def test_wrong_settings_change_nothing() -> None:
    async with table(**KEYS) as on:
        client = await on.session()
        await does(client, "SET tidegate_consistency = 'STRONG'")
        await does(client, "SET tidegate_application = 'shop'")
        before = (await client.query("SHOW TIDEGATE SESSION")).rows
        (session,) = on.proxy.sessions.values()
        rules = session.state.rules
        sent = [len(asked(server)) for server in on.cluster.servers]
        for sql in WRONG:
            answer = await client.query(sql)
            assert answer.packets[-1][0] == 0xFF, sql
            assert answer.error.code == 1231, (sql, answer.error)
            assert "Tidegate" in answer.error.message, sql
            assert session.state.rules == rules, sql
        assert (await client.query("SHOW TIDEGATE SESSION")).rows == before
        assert [len(asked(server)) for server in on.cluster.servers] == sent
        assert await count(client) == 0


async def test_wrong_attributes() -> None:
    capabilities = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
    async with table() as on:
        client = await on.session(capabilities=capabilities)
        for name, text in (
            ("consistency", "STRONGER"),
            ("scop", "user"),
            ("application", "x" * 256),
            ("token", "x"),
            ("", "x"),
        ):
            attributes = {f"tidegate_{name}": text}
            answer = await client.command(attributed("INSERT INTO t VALUES (1)", **attributes))
            assert answer.error.code == 1231, name
        assert (await client.command(attributed(COUNT, tidegate_scope="proxy"))).value == b"0"
        assert (await client.command(attributed(COUNT, tidegatescope="x"))).value == b"0"
        for attribute in ("tidegate.scope", "tidegate.nothing"):
            refused_client = await on.connect()
            end = await refused_client.log_in(attributes={attribute: "everybody"})
            assert ErrPacket.parse(end).code == 1231
        assert not any("INSERT" in text for text in asked(on.cluster.primary)[1:])


async def test_a_wide_scope_needs_one_worker() -> None:
    async with table(workers=2) as on:
        client = await on.session(capabilities=MODERN | Capability.CLIENT_QUERY_ATTRIBUTES)
        set_scope = attributed("SET tidegate_scope = 'user'")
        assert "workers" in (await client.command(set_scope)).error.message
        assert (await client.command(attributed(COUNT, tidegate_scope="user"))).error.code == 1231
        comment = attributed(f"/* tidegate scope=proxy */ {COUNT}")
        assert (await client.command(comment)).error.code == 1231
        assert (await client.command(attributed(COUNT))).value == b"0"


# Answers of the proxy's own are a server's in form.


@pytest.mark.parametrize("kind", CLIENTS)
async def test_own_answers_have_the_form_that_the_client_negotiated(kind: str) -> None:
    async with table(**KEYS) as on:
        client = await on.session(capabilities=CLIENTS[kind])
        old = not CLIENTS[kind] & Capability.CLIENT_DEPRECATE_EOF
        for sql in (
            "SHOW TIDEGATE LAST",
            "SHOW TIDEGATE SESSION",
            "SHOW TIDEGATE SERVERS",
            "SHOW TIDEGATE SCOPES",
            "SELECT @@tidegate_scope, @@tidegate_token AS t",
            "SHOW VARIABLES LIKE 'tidegate%'",
        ):
            packets = await said(client, sql)  # reads them as its capabilities want
            assert len([p for p in packets if p[0] == 0xFE and len(p) == 5]) == 2 * old
        await said(client, "SET tidegate_scope = 'user'")
        assert (await client.ping()).ok


async def test_own_answers_tell_of_the_session() -> None:
    """Clients escape by the status flags that they saw last."""
    async with table() as on:
        client = await on.session()

        async def status(sql: str) -> int:
            answer = await client.query(sql)
            return answer.ok.status & (IN_TRANS | AUTOCOMMIT | NO_BACKSLASH_ESCAPES)

        for own in ("SET tidegate_scope = 'user'", "SHOW TIDEGATE LAST"):
            assert await status(own) == AUTOCOMMIT
            await does(client, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
            assert await status(own) == AUTOCOMMIT | NO_BACKSLASH_ESCAPES
            await does(client, "BEGIN")
            assert await status(own) == AUTOCOMMIT | NO_BACKSLASH_ESCAPES | IN_TRANS
            await does(client, "COMMIT")
            await does(client, "SET autocommit = 0")
            assert await status(own) == NO_BACKSLASH_ESCAPES
            await does(client, "SET sql_mode = DEFAULT")
            assert await status(own) == 0
            await does(client, "SET autocommit = 1")


SUSPICIOUS: dict[str, dict[str, Any]] = {
    "best effort": {"consistency": Level.BEST_EFFORT},
    "own writes": {},
    "a wide scope": {"scope": Scope.USER},
    "a bound": {"consistency": Level.BOUNDED_STALENESS, "staleness": 60.0},
    "strong": {"consistency": Level.STRONG},
    "strong, a wide scope": {"consistency": Level.STRONG, "scope": Scope.PROXY},
}


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("case", SUSPICIOUS)
async def test_a_temporary_table_of_a_call_that_failed(case: str, token: bool) -> None:
    """The next OK packet tells of it, whatever the statement was that it answers."""
    async with table(**SUSPICIOUS[case], **KEYS) as on:
        door = await on.door()
        await does(door, "INSERT INTO t VALUES (1)")
        await does(
            door, "CREATE PROCEDURE p() BEGIN CREATE TEMPORARY TABLE t (id INT); SELECT no; END"
        )
        apply(on, True)
        await on.caught_up()
        client = await on.session()
        assert await count(client) == 1
        assert (await client.query("CALL p()")).error.code == 1054
        if token:
            await does(client, "SELECT @@tidegate_token")
        for _ in range(3):
            assert await count(client) == 0
