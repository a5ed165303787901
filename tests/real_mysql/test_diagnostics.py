"""The proxy's own settings take nothing of what a client may still ask of its last statement."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.constants import Capability, Command
from protocol.response_stream import FETCHED, PREPARED, SIMPLE, STRING
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

PROGRAMS = [
    "CREATE PROCEDURE app.assigns() BEGIN SET @a = 1; INSERT INTO app.small VALUES (999), (1); END",
    "CREATE PROCEDURE app.tells() BEGIN SET time_zone = '+01:00';"
    " SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'told'; END",
    "CREATE PROCEDURE app.prepares() BEGIN PREPARE s FROM 'INSERT INTO small VALUES (8), (999)';"
    " EXECUTE s; END",
    "CREATE PROCEDURE app.creates() BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS mine (a TINYINT);"
    " INSERT IGNORE INTO mine VALUES (999); END",
    "CREATE PROCEDURE app.fails() BEGIN SET @a = 1; INSERT INTO app.small VALUES (3);"
    " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'failed'; END",
    "CREATE PROCEDURE app.shows() BEGIN SET @a = 1; SELECT a FROM app.state ORDER BY a;"
    " UPDATE app.state SET b = CONCAT(b, '') WHERE a < 3; END",
    "CREATE PROCEDURE app.untracks() BEGIN SET session_track_gtids = OFF;"
    " SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'untracked'; END",
]


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    with closing(cluster.primary.connect()) as direct:
        run(direct, "CREATE TABLE app.state (a INT PRIMARY KEY, b VARCHAR(20))")
        run(direct, "INSERT INTO app.state VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        run(direct, "CREATE TABLE app.small (a TINYINT)")
        run(direct, "CREATE TABLE app.counted (n INT)")
        run(direct, "SET sql_mode = ''")
        for program in PROGRAMS:
            run(direct, program)
    proxy = RunningProxy(cluster, "diagnostics", {"wait_budget": "10s"})
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


FIRST = [
    "CALL assigns()",
    "CALL tells()",
    "CALL prepares()",
    "CALL creates()",
    "CALL fails()",
    "CALL shows()",
    "CALL untracks()",
    "SET session_track_system_variables = 'nothing'",
    "SET session_track_gtids = OFF, @warned = 1 / 0",
    "SELECT @@session_track_gtids, 'x' + 1",
    "SELECT @@session_track_schema, COUNT(*) FROM app.state WHERE b = 1",
    "SHOW VARIABLES LIKE 'session_track%'",
    "SELECT @@session_track_gtids FROM app.nowhere",
]
THEN = [
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS()",
    "SELECT @@warning_count, @@error_count",
    "SET @n = ROW_COUNT(), @r = @@warning_count",
    "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT",
    "GET DIAGNOSTICS CONDITION 1 @n = MYSQL_ERRNO, @r = MESSAGE_TEXT",
    "INSERT INTO app.counted SELECT ROW_COUNT()",
]


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("first", FIRST)
def test_questions_behind_what_undoes_settings(
    cluster: Cluster, running: RunningProxy, first: str, begins: bool
) -> None:
    answers: list[list[object]] = []
    for connect in (cluster.primary.connect, running.connect):
        run(keeper := connect(), "DELETE FROM app.counted")
        keeper.close()
        answers.append([])
        with connect() as client:
            for then in THEN:
                if begins:
                    run(client, "BEGIN")
                with contextlib.suppress(pymysql.err.MySQLError):
                    run(client, first)
                answers[-1].append((then, run(client, then)))
                # What was asked tells of itself in turn.
                answers[-1].append(run(client, "SELECT ROW_COUNT(), @n, @r"))
                run(client, "COMMIT")
            answers[-1].append(run(client, "SELECT n FROM app.counted"))
    assert answers[0] == answers[1]


KEEPING: list[tuple[str, Callable[[RawClient], list[Packet]]]] = [
    ("ping", lambda client: client.command(Command.COM_PING, shape=SIMPLE)),
    ("init db", lambda client: client.command(Command.COM_INIT_DB, b"app", SIMPLE)),
    ("option", lambda client: client.command(Command.COM_SET_OPTION, b"\0\0", SIMPLE)),
    ("statistics", lambda client: client.command(Command.COM_STATISTICS, shape=STRING)[:0]),
    ("close", lambda client: client.send(b"\5\0\0\0\x19\x07\0\0\0") or []),
    ("fetch", lambda client: client.command(Command.COM_STMT_FETCH, b"\1\0\0\0\2\0\0\0", FETCHED)),
    ("all", lambda client: [packet for _, keeps in KEEPING[:5] for packet in keeps(client)]),
]


@pytest.mark.parametrize(("name", "keeps"), KEEPING, ids=[name for name, _ in KEEPING])
def test_commands_that_keep_what_is_asked(
    cluster: Cluster,
    running: RunningProxy,
    name: str,
    keeps: Callable[[RawClient], list[Packet]],
) -> None:
    capabilities = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
    answers: list[list[object]] = []
    for address in (cluster.primary.address, running.address):
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            sql = b"SELECT a FROM app.state ORDER BY a FOR UPDATE"
            client.command(Command.COM_STMT_PREPARE, sql, PREPARED)
            client.command(Command.COM_STMT_EXECUTE, b"\1\0\0\0\1\1\0\0\0")  # opens a cursor
            answers.append([])
            for then in ("SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT DATABASE()"):
                client.query("CALL app.tells()")
                answers[-1] += [keeps(client), client.query(then)]
            answers[-1].append(client.query("USE app"))
    assert answers[0] == answers[1]


def test_a_schema_between_a_read_and_what_is_asked_of_it(
    cluster: Cluster, running: RunningProxy
) -> None:
    answers: list[list[object]] = []
    for address in (cluster.primary.address, running.address):
        with RawClient(
            address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF, "app"
        ) as client:
            answers.append([])
            for schema in (b"app", b"information_schema", b"app"):
                client.query("SELECT 'x' + 1 FROM app.state")
                client.command(Command.COM_INIT_DB, schema, SIMPLE)
                answers[-1].append(client.query("SHOW WARNINGS"))
                answers[-1].append(client.query("SELECT DATABASE(), ROW_COUNT()"))
    assert answers[0] == answers[1]


@pytest.fixture
def behind(cluster: Cluster) -> Iterator[None]:
    """No replica applies anything more: what a read must see, it sees on the primary alone."""
    cluster.wait_caught_up()
    with contextlib.ExitStack() as stack:
        for replica in cluster.replicas:
            stack.enter_context(replica.applier_stopped())
        yield


def count(client: Connection[Cursor]) -> object:
    ((number,),) = run(client, "SELECT COUNT(*) FROM app.counted")
    return number


@pytest.mark.parametrize(
    "statements",
    [
        ["SET session_track_gtids = OFF", "INSERT INTO app.counted SELECT ROW_COUNT()"],
        ["SET session_track_gtids = OFF", "INSERT INTO app.counted SELECT 1"],
        ["SET session_track_gtids = OFF", "SHOW WARNINGS", "INSERT INTO app.counted VALUES (1)"],
        [
            *("SET session_track_gtids = OFF", "BEGIN", "INSERT INTO app.counted VALUES (1)"),
            *("SHOW WARNINGS", "COMMIT"),
        ],
        [
            *("BEGIN", "SELECT @@session_track_gtids", "SHOW WARNINGS"),
            *("INSERT INTO app.counted VALUES (1)", "COMMIT"),
        ],
        [
            *("SET autocommit = 0", "SELECT @@session_track_gtids, COUNT(*) FROM app.counted"),
            *("INSERT INTO app.counted VALUES (1)", "COMMIT", "SET autocommit = 1"),
        ],
        [
            *("SET autocommit = 0", "SELECT @@session_track_gtids, COUNT(*) FROM app.counted"),
            *("INSERT INTO app.counted VALUES (1)", "SET autocommit = 1"),
        ],
        [
            *("SET tidegate_consistency = 'MONOTONIC_READS'", "SET session_track_gtids = OWN_GTID"),
            "INSERT INTO app.counted SELECT ROW_COUNT() + 1",
        ],
        ["SET session_track_gtids = ALL_GTIDS", "INSERT INTO app.counted SELECT ROW_COUNT() + 1"],
    ],
)
def test_no_write_goes_untracked_meanwhile(
    running: RunningProxy, behind: None, statements: list[str]
) -> None:
    with running.connect() as client:
        run(client, "SET tidegate_wait_budget = '50ms'")
        before = count(client)
        for sql in statements:
            run(client, sql)
        assert count(client) == int(str(before)) + 1
        run(client, "INSERT INTO app.counted VALUES (1)")
        assert count(client) == int(str(before)) + 2


def test_what_profiles_and_traces_tell(cluster: Cluster, running: RunningProxy) -> None:
    answers = []
    for connect in (cluster.primary.connect, running.connect):
        with connect() as client:
            run(client, "SET profiling = 1")
            run(client, "CALL assigns()")
            answers.append([row[2] for row in run(client, "SHOW PROFILES")])
        with connect() as client:
            run(client, "SET optimizer_trace = 'enabled=on', optimizer_trace_offset = 0")
            run(client, "SET optimizer_trace_limit = 100")
            run(client, "CALL assigns()")
            trace = "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"
            answers[-1] += [row[0] for row in run(client, trace)]
    assert answers[0] == answers[1]


def test_settings_are_made_again_for_what_follows(cluster: Cluster, running: RunningProxy) -> None:
    """However late the settings come, trackers tell of what needs them."""
    with running.connect() as client:
        run(client, "SET session_track_system_variables = '', session_track_schema = OFF")
        run(client, "SHOW WARNINGS")
        client.select_db("information_schema")
        client.select_db("app")
        run(client, "SHOW WARNINGS")
        run(client, "SET @zone = '+09:00'")
        run(client, "SET time_zone = @zone")
        read = "SELECT FROM_UNIXTIME(0) = '1970-01-01 09:00:00', DATABASE() FROM state LIMIT 1"
        assert run(client, read) == [(1, "app")]
        run(client, "USE information_schema")
        assert run(client, "SELECT DATABASE()") == [("information_schema",)]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize(
    "read", ["SELECT 1/0 UNION ALL SELECT 2", "SELECT 1/0 FROM missing", "SELECT 1/0 FROM state"]
)
@pytest.mark.parametrize("question", ["SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT FOUND_ROWS()"])
def test_a_read_that_begins_no_transaction(
    running: RunningProxy, cluster: Cluster, isolation: str, read: str, question: str
) -> None:
    answers = []
    for server in (cluster.primary, running):
        with closing(server.connect()) as session:
            session.select_db("app")
            run(session, "SET autocommit = 0")
            run(session, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            with contextlib.suppress(pymysql.err.MySQLError):
                run(session, read)
            found = [(run(session, question), session.get_autocommit()) for _ in range(2)]
            run(session, "SET autocommit = 1")
            answers.append([*found, (run(session, "SELECT 1"), session.get_autocommit())])
    assert answers[0] == answers[1]
