"""Statements to Tidegate: settings, SHOW TIDEGATE, and the form of the answers."""

import asyncio
from typing import Any

import pymysql
import pytest

from protocol.constants import Capability
from protocol.response import ErrPacket, OkPacket
from routing.consistency.decision import Level, Scope
from tests.faults.client import (
    MODERN,
    PASSWORD,
    Client,
    attributed,
    change_user,
    finish_change,
)
from tests.faults.proxy_fixture import eventually, statements_of
from tests.faults.table_fixture import (
    AUTOCOMMIT,
    CLIENTS,
    COUNT,
    IN_TRANS,
    KEYS,
    NO_BACKSLASH_ESCAPES,
    apply,
    count,
    execute,
    expect_refusal,
    packets_of,
    table_fixture,
)

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
    async with table_fixture(**KEYS) as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_consistency = 'STRONG'")
        await execute(client, "SET tidegate_application = 'shop'")
        before = (await client.query("SHOW TIDEGATE SESSION")).rows
        (session,) = proxy.shared.sessions
        rules = session.state.rules
        sent = [len(statements_of(server)) for server in proxy.cluster.servers]
        for sql in WRONG:
            answer = await client.query(sql)
            assert answer.packets[-1][0] == 0xFF, sql
            assert answer.error.code == 1231, (sql, answer.error)
            assert "Tidegate" in answer.error.message, sql
            assert session.state.rules == rules, sql
        assert (await client.query("SHOW TIDEGATE SESSION")).rows == before
        assert [len(statements_of(server)) for server in proxy.cluster.servers] == sent
        assert await count(client) == 0


async def test_wrong_attributes() -> None:
    capabilities = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=capabilities)
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
            refused_client = await proxy.connect()
            end = await refused_client.log_in(attributes={attribute: "everybody"})
            assert ErrPacket.parse(end).code == 1231
        assert not any("INSERT" in text for text in statements_of(proxy.cluster.primary)[1:])


# Answers of the proxy's own are a server's in form.


@pytest.mark.parametrize("kind", CLIENTS)
async def test_own_answers_have_the_form_that_the_client_negotiated(kind: str) -> None:
    async with table_fixture(**KEYS) as proxy:
        client = await proxy.session(capabilities=CLIENTS[kind])
        old = not CLIENTS[kind] & Capability.CLIENT_DEPRECATE_EOF
        for sql in (
            "SHOW TIDEGATE LAST",
            "SHOW TIDEGATE SESSION",
            "SHOW TIDEGATE SERVERS",
            "SHOW TIDEGATE SCOPES",
            "SELECT @@tidegate_scope, @@tidegate_token AS t",
            "SHOW VARIABLES LIKE 'tidegate%'",
        ):
            packets = await packets_of(client, sql)  # reads them as its capabilities want
            assert len([p for p in packets if p[0] == 0xFE and len(p) == 5]) == 2 * old
        await packets_of(client, "SET tidegate_scope = 'user'")
        assert (await client.ping()).ok


async def test_own_answers_tell_of_the_session() -> None:
    """Clients escape by the status flags that they saw last."""
    async with table_fixture() as proxy:
        client = await proxy.session()

        async def status(sql: str) -> int:
            answer = await client.query(sql)
            return answer.ok.status & (IN_TRANS | AUTOCOMMIT | NO_BACKSLASH_ESCAPES)

        for own in ("SET tidegate_scope = 'user'", "SHOW TIDEGATE LAST"):
            assert await status(own) == AUTOCOMMIT
            await execute(client, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
            assert await status(own) == AUTOCOMMIT | NO_BACKSLASH_ESCAPES
            await execute(client, "BEGIN")
            assert await status(own) == AUTOCOMMIT | NO_BACKSLASH_ESCAPES | IN_TRANS
            await execute(client, "COMMIT")
            await execute(client, "SET autocommit = 0")
            assert await status(own) == NO_BACKSLASH_ESCAPES
            await execute(client, "SET sql_mode = DEFAULT")
            assert await status(own) == 0
            await execute(client, "SET autocommit = 1")


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
    async with table_fixture(**SUSPICIOUS[case], **KEYS) as proxy:
        direct = await proxy.direct()
        await execute(direct, "INSERT INTO t VALUES (1)")
        await execute(
            direct, "CREATE PROCEDURE p() BEGIN CREATE TEMPORARY TABLE t (id INT); SELECT no; END"
        )
        apply(proxy, True)
        await proxy.caught_up()
        client = await proxy.session()
        assert await count(client) == 1
        assert (await client.query("CALL p()")).error.code == 1054
        if token:
            await execute(client, "SELECT @@tidegate_token")
        for _ in range(3):
            assert await count(client) == 0


async def test_a_login_tells_how_to_escape() -> None:
    async with table_fixture() as proxy:
        for mode, flag in (("NO_BACKSLASH_ESCAPES", NO_BACKSLASH_ESCAPES), ("", 0)):
            proxy.cluster.primary.set_variable("sql_mode", mode)
            client = await proxy.connect()
            login = OkPacket.parse(await client.log_in(), MODERN)
            assert login.status & NO_BACKSLASH_ESCAPES == flag
            client.send(change_user("app"))
            login = OkPacket.parse(await finish_change(client, PASSWORD), MODERN)
            assert login.status & NO_BACKSLASH_ESCAPES == flag


# SHOW TIDEGATE.


async def last(client: Client) -> dict[str, str | None]:
    """SHOW TIDEGATE LAST as names and values."""
    answer = await client.query("SHOW TIDEGATE LAST")
    names = [
        *("level", "scope", "server", "role", "reason", "proof", "wait_ms", "fallbacks"),
        *("required", "own", "conflict", "tables", "left_out"),
    ]
    (row,) = answer.rows
    return {n: None if v is None else v.decode() for n, v in zip(names, row, strict=True)}


async def test_show_last() -> None:
    async with table_fixture(**KEYS) as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        client = await proxy.session()
        assert (await client.query("SHOW TIDEGATE LAST")).rows == []
        assert await count(client) == 0
        for _ in range(2):  # neither this nor other statements to the proxy are the last
            found = await last(client)
            await execute(client, "SET tidegate_application = 'x'")
            await execute(client, "SELECT @@tidegate_scope")
        assert found["level"] == "READ_OWN_WRITES"
        assert found["scope"] == "connection"
        assert (found["server"], found["role"]) == (replica.address, "replica")
        assert (found["reason"], found["proof"]) == ("read", "known")
        assert (found["required"], found["own"], found["fallbacks"]) == ("", "", "")
        await execute(client, "INSERT INTO t VALUES (1)")
        found = await last(client)
        assert found["level"] is None
        assert found["role"] == "primary"
        assert found["reason"] == "write"
        own = f"{primary.gtids.server_uuid}:2"
        assert found["own"] == own
        assert await count(client) == 1
        found = await last(client)
        assert (found["role"], found["reason"]) == ("primary", "wait_timeout")
        assert found["required"] == own
        assert found["fallbacks"] == f"{replica.address}:wait_timeout"
        assert float(found["wait_ms"] or 0) > 0
        apply(proxy, True)
        await proxy.caught_up()
        for server in proxy.shared.topology.replicas:
            server.caught_up()
        assert await count(client, "/* tidegate wait_budget=5s scope=user */") == 1
        found = await last(client)
        assert (found["scope"], found["proof"]) == ("user", "waited")
        assert (await client.query("SELECT no")).error.code == 1054
        assert (await last(client))["server"] == replica.address
        await expect_refusal(client, "/* tidegate scope=no */ SELECT 1")
        assert (await last(client))["server"] == replica.address, "the server's last"
        assert (await client.ping()).ok
        assert (await last(client))["reason"] == "command"


async def test_show_session() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(attributes={"tidegate.application": "shop"})

        async def shown() -> dict[str, str | None]:
            rows = (await client.query("SHOW TIDEGATE SESSION")).rows
            texts = [[None if v is None else v.decode() for v in row] for row in rows]
            return {name or "": value for name, value in texts}

        found = await shown()
        assert found["user"] == "app"
        assert found["schema"] == "test"
        assert found["application"] == "shop"
        assert found["session_track_gtids"] == "OWN_GTID"
        assert (found["in_transaction"], found["autocommit"], found["pins"]) == ("no", "yes", None)
        assert found["primary"] == proxy.cluster.primary.address
        assert client.greeting
        assert found["connection_id"] == str(client.greeting.thread_id)
        assert (await client.query("INSERT INTO nowhere VALUES (1)")).error.code == 1146
        assert (await shown())["in_transaction"] == "unknown"  # an ERR packet does not tell
        assert (await client.query("SELECT id FROM nowhere")).error.code == 1146
        assert (await shown())["in_transaction"] == "unknown"
        await execute(client, "DO 1")
        assert (await shown())["in_transaction"] == "no"
        await execute(client, "SET autocommit = 0")
        await execute(client, "CREATE TEMPORARY TABLE u (id INT)")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "SET tidegate_consistency = 'READ_ALL_WRITES'")
        found = await shown()
        assert (found["in_transaction"], found["autocommit"]) == ("yes", "no")
        assert found["pins"] is not None
        assert found["session_track_gtids"] == "ALL_GTIDS"
        await execute(client, "ROLLBACK")
        await execute(client, "SAVEPOINT s")
        assert (await shown())["in_transaction"] == "savepoint"
        await execute(client, "ROLLBACK")
        assert (await shown())["in_transaction"] == "no"


async def test_show_scopes_has_no_keys_of_others() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(attributes={"tidegate.application": "shop"})
        stranger = await proxy.session(
            user="other", password="word", attributes={"tidegate.application": "blog"}
        )
        for session in (client, stranger):
            for scope in ("user", "application", "proxy"):
                assert await count(session, f"/* tidegate scope={scope} */") == 0
        await execute(stranger, "INSERT INTO t VALUES (1)")

        async def keys(session: Client) -> list[list[bytes | None]]:
            return [row[:2] for row in (await session.query("SHOW TIDEGATE SCOPES")).rows]

        (session_id,) = [s.session_id for s in proxy.shared.sessions if s.state.user == "app"]
        assert await keys(client) == [
            [b"connection", str(session_id).encode()],
            [b"proxy", None],
            [b"user", b"app"],
            [b"application", b"shop"],
        ]
        assert [b"user", b"other"] in await keys(stranger)
        rows = (await client.query("SHOW TIDEGATE SCOPES")).rows
        written = proxy.cluster.primary.gtids.executed.text.encode()
        assert rows[1][3] == written, "the proxy's scope has what the other wrote"
        assert rows[2][3] != written
        assert rows[0][6] is None
        assert float(rows[1][6] or b"") >= 0


async def test_show_servers() -> None:
    async with table_fixture(replicas=2) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        proxy.shared.topology.replicas[1].set_unreachable(proxy.shared.now())
        rows = (await client.query("SHOW TIDEGATE SERVERS")).rows
        addresses = [server.address.encode() for server in proxy.cluster.servers]
        assert [row[0] for row in rows] == addresses
        assert [row[1] for row in rows] == [b"primary", b"replica", b"replica"]
        assert [row[2] for row in rows] == [b"yes", b"yes", b"no"]
        assert rows[0][3] == proxy.cluster.primary.gtids.server_uuid.encode()
        assert rows[0][7] == b"source"
        assert rows[0][12] == proxy.cluster.primary.gtids.executed.text.encode()


async def test_a_driver_reads_what_the_proxy_answers() -> None:
    """PyMySQL, in a thread: result sets, warnings, escapes, errors, and back to a server."""
    async with table_fixture(**KEYS) as proxy:
        await asyncio.to_thread(_drive, proxy.port)
        await eventually(lambda: not proxy.shared.sessions)


def rows(cursor: pymysql.cursors.DictCursor) -> list[object]:
    return list(cursor.fetchall())


def _drive(port: int) -> None:
    with (
        pymysql.connect(
            host="127.0.0.1", port=port, user="app", password=PASSWORD, database="test"
        ) as connection,
        connection.cursor(pymysql.cursors.DictCursor) as cursor,
    ):
        connection.begin()
        cursor.execute("INSERT INTO t VALUES (%s)", (1,))
        for topic in ("LAST", "SESSION", "SERVERS", "SCOPES"):
            assert cursor.execute(f"SHOW TIDEGATE {topic}") == len(list(cursor.fetchall()))
            assert cursor.description
        cursor.execute("SHOW TIDEGATE LAST")
        (row,) = cursor.fetchall()
        assert row["reason"] == "write"
        cursor.execute("SELECT @@tidegate_consistency AS c, @@SESSION.tidegate_token t LIMIT 1")
        (row,) = cursor.fetchall()
        assert row["c"] == "READ_OWN_WRITES"
        assert cursor.execute("SET tidegate_token = %s", (row["t"],)) == 0
        connection.commit()
        cursor.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
        cursor.execute("SET tidegate_application = %s", ("it's \\' here",))
        cursor.execute("SELECT @@tidegate_application AS a")
        assert rows(cursor) == [{"a": "it's \\' here"}]
        cursor.execute("SELECT %s AS a", ("x\\' OR 1 -- ",))
        assert rows(cursor) == [{"a": "x\\' OR 1 -- "}]
        with pytest.raises(pymysql.err.OperationalError, match="Tidegate"):
            cursor.execute("SET tidegate_scope = %s", ("no",))
        cursor.execute(COUNT)
        assert rows(cursor) == [{"COUNT(*)": 1}]
