"""What an error says to have done nothing has done nothing, by the server's own GTIDs."""

from __future__ import annotations  # Connection is generic for the type checker only

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
import pytest
from pymysql.constants import CLIENT, SERVER_STATUS

from routing.sql.early_errors import (
    COMMITTING_FIRST,
    EMPTY,
    LOOKING_UP,
    PARSED_FIRST,
    PARSING,
    QUERIES,
    changes_nothing,
)
from routing.sql.statement import Statement, StatementReason, classify
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import APP_PASSWORD, APP_USER

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

SYNTAX = 1149
"""ER_SYNTAX_ERROR."""
TABLE_MAP, WRITE_ROWS = 19, 30

COLUMNS = {
    1046: "n FROM numbers",  # where no schema is chosen
    1052: "n FROM app.numbers AS a JOIN app.numbers AS b",
    1054: "nosuch FROM app.numbers",
    1142: "n FROM other.secret",
    1143: "hidden FROM other.partly",
    1146: "n FROM app.nosuch",
}
QUERY = {
    StatementReason.NOTHING: "SELECT {}",
    StatementReason.USER_VARIABLE: "SELECT @a, {}",
    StatementReason.SYSTEM_VARIABLE: "SELECT @@sql_mode, {}",
    StatementReason.SESSION_FUNCTION: "SELECT VERSION(), {}",
    StatementReason.SERVER_STATE: (
        "SELECT (SELECT COUNT(*) FROM performance_schema.session_status) AS c, {}"
    ),
    StatementReason.METADATA: "SELECT (SELECT COUNT(*) FROM information_schema.columns) AS c, {}",
    StatementReason.PLAN: "EXPLAIN SELECT {}",
    StatementReason.LOCKING_READ: "SELECT {} FOR UPDATE",
}
UNPARSED = {
    StatementReason.NOTHING: [
        "SELECT * FORM numbers",
        "SELECT 1 1",
        "WITH a AS (SELECT 1) SELEC 1",
    ],
    StatementReason.USER_VARIABLE: ["SELECT @a FORM numbers"],
    StatementReason.SYSTEM_VARIABLE: ["SELECT @@sql_mode FORM numbers"],
    StatementReason.SESSION_FUNCTION: ["SELECT VERSION() FORM numbers"],
    StatementReason.SERVER_STATE: ["SHOW PROCESSLIST 1"],
    StatementReason.METADATA: ["SHOW TABLES IN app 1", "DESCRIBE numbers n n"],
    StatementReason.PLAN: ["EXPLAIN SELECT n FORM numbers"],
    StatementReason.LOCKING_READ: ["SELECT n FROM numbers FOR UPDAT"],
    StatementReason.FILE: ["SELECT n FROM numbers INTO OUTFIL 'file'"],
    StatementReason.LOCK_FUNCTION: ["SELECT GET_LOCK('a', 1) FORM numbers"],
    StatementReason.STATUS: ["SHOW STATUS LIKE nosuch"],
    StatementReason.DIAGNOSTICS: ["SHOW WARNINGS 1"],
    StatementReason.FOUND_ROWS: ["SELECT FOUND_ROWS() 1 1"],
    StatementReason.TRANSACTION: [
        "COMMIT now",
        "ROLLBACK now",
        "START TRANSACTION READ",
        "XA COMMIT",
    ],
    StatementReason.SAVEPOINT: ["SAVEPOINT"],
    StatementReason.SETTING: ["SET autocommit = ", "SET autocommit = 1, sql_mode = "],
    StatementReason.DEFAULT_SCHEMA: ["USE"],
    StatementReason.HANDLER: ["HANDLER numbers OPE"],
    StatementReason.PREPARED_STATEMENT: ["PREPARE p FROM 'SELEC 1'"],
    StatementReason.KILL: ["KILL"],
    StatementReason.DEFINITION: [
        *("CREATE TABEL another (n INT)", "CREATE TABLE another (n INT", "DROP TABLE", "TRUNCATE"),
        *("ALTER TABLE numbers ADD", "RENAME TABLE numbers", "CREATE INDEX i ON numbers USING"),
        *("CREATE PROCEDURE p() BEGIN SELEC 1; END", "CREATE VIEW v AS SELEC 1"),
    ],
    StatementReason.ACCOUNT: ["CREATE USER", "GRANT", "REVOKE"],
    StatementReason.ADMINISTRATION: [
        "FLUSH NOSUCH",
        "ANALYZE",
        "OPTIMIZE",
        "RESET",
        "LOAD INDEX INTO",
    ],
    StatementReason.TABLE_LOCK: ["LOCK TABLES numbers", "UNLOCK TABLE now"],
    StatementReason.TEMPORARY_TABLE: ["CREATE TEMPORARY TABLE another (n", "DROP TEMPORARY TABLE"],
    StatementReason.UNLOGGED: ["IMPORT TABLE"],
    # What `mysql` sends as it connects, and a quote that was forgotten.
    StatementReason.UNREADABLE: [
        "select $$",
        "SELECT 'open",
        "/* a */ SELECT * FROM numbers WHERE n = 'a",
    ],
}
REPORTED = "SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = {}, MESSAGE_TEXT = 'near'"
KEEPS = "INSERT INTO kept VALUES (1);"
PROGRAMS = (
    "CREATE TABLE kept (n INT) ENGINE = MyISAM",
    *(
        f"CREATE FUNCTION fails_{code}() RETURNS INT DETERMINISTIC BEGIN"
        f" {KEEPS} {REPORTED.format(code)}; RETURN 1; END"
        for code in (1054, 1064, 1065, 1146)
    ),
    "CREATE FUNCTION stops_1064() RETURNS INT DETERMINISTIC"
    f" BEGIN {REPORTED.format(1064)}; RETURN 1; END",
    "CREATE PROCEDURE prepares() BEGIN INSERT INTO numbers VALUES (7);"
    " PREPARE p FROM 'SELEC 1'; END",
    "CREATE TABLE triggers (n INT) ENGINE = MyISAM",
    "CREATE TRIGGER fails BEFORE INSERT ON triggers FOR EACH ROW BEGIN"
    f" {KEEPS} {REPORTED.format(1064)}; END",
)
COMMITTED = {
    "CALL prepares()": 1064,
    "CALL prepares": 1064,
    "INSERT INTO triggers VALUES (1)": 1064,
    "SELECT fails_1064()": 1064,
    "SELECT fails_1054() FROM numbers": 1054,
    "SELECT fails_1146() FROM numbers": 1146,
    "SELECT fails_1065()": 1065,
    "SET @a = fails_1064()": 1064,
    "DO fails_1064()": 1064,
    "CREATE TABLE another AS SELECT stops_1064() AS n": 1064,
    "INSERT INTO numbers VALUES (8); SELEC 1": 1064,
    "INSERT INTO numbers VALUES (8); SELECT 'open": 1064,
    "COMMIT; SELECT * FORM numbers": 1064,
    "SET autocommit = 1; SET sql_mode = ": 1064,
    "CREATE TABLE numbers (n INT)": 1050,
    "DROP TABLE nosuch": 1051,
    "ALTER TABLE numbers ADD COLUMN n INT": 1060,
    "LOCK TABLES nosuch READ": 1146,
}
"""As they fail, these have committed something, in one of three states of the session."""


@pytest.fixture(scope="module")
def primary(cluster: Cluster, _empty_schema: None) -> Iterator[RealServer]:
    """Its `other` is not the application's to read."""
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "CREATE DATABASE other",
            "CREATE TABLE other.secret (n INT)",
            "CREATE TABLE other.partly (n INT, hidden INT)",
            f"GRANT SELECT (n), UPDATE ON other.partly TO {APP_USER}",
            "CREATE TABLE numbers (n INT)",
            *PROGRAMS,
        ):
            root.query(sql)
    yield cluster.primary
    with closing(cluster.primary.admin("app")) as root:
        root.query(f"REVOKE ALL, GRANT OPTION FROM {APP_USER}")
        root.query(f"GRANT ALL ON app.* TO {APP_USER}")
        root.query("DROP DATABASE other")


def fails(client: Connection[Cursor], sql: str) -> int:
    """The code that a text ends with."""
    try:
        client.query(sql)
        while client.next_result():
            pass
    except pymysql.err.MySQLError as failed:
        return int(failed.args[0])
    raise AssertionError(f"did not fail: {sql}")


def in_transaction(client: Connection[Cursor]) -> bool:
    client.query("DO 1")
    return bool(client.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def connect(server: RealServer) -> Connection[Cursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=APP_USER,
        password=APP_PASSWORD,
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )


def assert_nothing_changed(
    server: RealServer, client: Connection[Cursor], sql: str, code: int
) -> Statement:
    """Run it on the server, outside and inside a transaction, and give what it is."""
    for autocommit, pending in ((1, False), (0, False), (0, True)):
        client.query(f"SET autocommit = {autocommit}")
        if pending:
            client.query("INSERT INTO app.numbers VALUES (1)")
        before = server.gtid_executed
        assert fails(client, sql) == code
        assert server.gtid_executed == before
        assert in_transaction(client) == pending
        client.query("ROLLBACK")
    return classify(sql.encode())


@pytest.fixture
def client(primary: RealServer) -> Iterator[Connection[Cursor]]:
    """Without a default schema."""
    with closing(connect(primary)) as connection:
        yield connection


def test_what_cannot_be_parsed_does_nothing(
    primary: RealServer, client: Connection[Cursor]
) -> None:
    client.select_db("app")
    for reason, sql in [(touch, text) for touch in UNPARSED for text in UNPARSED[touch]]:
        statement = assert_nothing_changed(primary, client, sql, PARSING)
        assert statement.reason is reason, sql
        if ";" not in sql:
            assert changes_nothing(statement, sql.encode(), PARSING, in_transaction=False), sql
        committing = changes_nothing(statement, sql.encode(), PARSING, in_transaction=True)
        assert committing == (reason not in COMMITTING_FIRST), sql


def test_what_names_no_table_or_column_does_nothing(
    primary: RealServer, client: Connection[Cursor]
) -> None:
    for reason, code in product(QUERY, COLUMNS):
        sql = QUERY[reason].format(COLUMNS[code])
        statement = assert_nothing_changed(primary, client, sql, code)
        assert statement.reason is reason, sql
        assert changes_nothing(statement, sql.encode(), code, in_transaction=True)


def test_an_empty_text_does_nothing(primary: RealServer, client: Connection[Cursor]) -> None:
    for sql in ("", "  ", ";", " ; \n"):
        statement = assert_nothing_changed(primary, client, sql, EMPTY)
        assert changes_nothing(statement, sql.encode(), EMPTY, in_transaction=True), sql


def test_each_entry_was_asked() -> None:
    assert set(UNPARSED) - {StatementReason.UNREADABLE} == PARSED_FIRST | COMMITTING_FIRST
    assert set(QUERY) == QUERIES
    assert set(COLUMNS) == LOOKING_UP


def test_what_may_have_committed_is_not_passed_over(primary: RealServer) -> None:
    for sql, expected in COMMITTED.items():
        codes: set[int] = set()
        with closing(connect(primary)) as client:
            client.select_db("app")
            for begin in ("DO 1", "BEGIN", "SET autocommit = 0"):
                client.query(begin)
                if begin != "DO 1":
                    client.query("INSERT INTO numbers VALUES (1)")
                open_before = in_transaction(client)
                before = primary.gtid_executed
                code = fails(client, sql)
                if primary.gtid_executed != before:
                    codes.add(code)
                    judged = changes_nothing(
                        classify(sql.encode()), sql.encode(), code, open_before
                    )
                    assert not judged, (sql, code, begin)
                client.query("COMMIT")
        assert expected in codes, sql


def events_of_log(server: RealServer) -> list[bytes]:
    """The events in the log file that is being written."""
    ((name, *_),) = server.query("SHOW BINARY LOG STATUS")
    data = Path(server.value("SELECT @@log_bin_basename")).with_name(str(name)).read_bytes()
    events = []
    at = len(b"\xfebin")
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        events.append(data[at : at + size])
        at += size
    return events


def binlog(events: bytes) -> str:
    """The statement that applies them."""
    return f"BINLOG '{b64encode(events).decode()}'"


def test_a_syntax_error_in_events_may_stand_behind_some_that_were_committed(
    primary: RealServer,
) -> None:
    """ER_SYNTAX_ERROR (1149) is BINLOG's alone; other texts that cannot be parsed raise 1064."""
    with closing(primary.admin("app")) as root:
        root.query("FLUSH BINARY LOGS")
        root.query("INSERT INTO numbers VALUES (1)")
        description, *events = events_of_log(primary)
        rows = b"".join(event for event in events if event[4] in (TABLE_MAP, WRITE_ROWS))
        root.query(binlog(description))
        root.query("SET gtid_next = 'AUTOMATIC'")  # the description's own is ANONYMOUS
        before = primary.gtid_executed
        for sql, commits in {
            "BINLOG ''": False,
            "BINLOG 'AAAA'": False,
            binlog(rows + events[-1][:20]): True,
        }.items():
            assert fails(root, sql) == SYNTAX
            assert (primary.gtid_executed != before) == commits
            assert not changes_nothing(classify(sql.encode()), sql.encode(), SYNTAX, False)


def test_reads_behind_them_go_to_replicas(primary: RealServer, proxy: StartProxy) -> None:
    running = proxy()
    early = [sql for reason in UNPARSED for sql in UNPARSED[reason] if ";" not in sql]
    with running.connect() as client, client.cursor() as cursor:
        for sql in early:
            cursor.execute("INSERT INTO numbers VALUES (1)")
            assert fails(client, sql) == PARSING
            cursor.execute("SELECT COUNT(*) FROM numbers")
            cursor.execute("SHOW TIDEGATE LAST")
            assert cursor.description is not None
            names = [column[0] for column in cursor.description]
            last = dict(zip(names, cursor.fetchone() or (), strict=True))
            assert last["server"] != primary.address, (sql, last)
    assert running.metric("tidegate_required_unknown_total") == 0


def test_reads_behind_others_see_what_these_committed(
    primary: RealServer, cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(wait_budget="50ms")
    cluster.wait_caught_up()
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM numbers")
        before = (cursor.fetchone() or (0,))[0]
        for replica in cluster.replicas:
            replica.stop_applier()
        with suppress(pymysql.err.MySQLError):
            cursor.execute("CALL prepares()")
        cursor.execute("SELECT COUNT(*) FROM numbers")
        assert (cursor.fetchone() or (0,))[0] == before + 1
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO numbers VALUES (1)")
        assert fails(client, "CREATE TABLE numbers (n INT)") == 1050
        cursor.execute("SELECT COUNT(*) FROM numbers")
        assert (cursor.fetchone() or (0,))[0] == before + 2
