"""Writes that no packet names, or that have no name at all, are seen by the reads behind them."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import TypeAlias

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

Session: TypeAlias = "Connection[Cursor]"

READ = "SELECT * FROM hidden"
# For tests of where a read may go: a slow machine must not send it elsewhere.
PATIENT = f"/* tidegate wait_budget=10s */ {READ}"
LISTED = "session_track_system_variables=''"
# What a program can do so that its session's GTIDs are not told any more, from the simplest to
# what leaves no trace in the answer at all.
HIDING = {
    "in_order": "SET session_track_state_change=off; SET session_track_gtids=off;",
    "backwards": "SET session_track_gtids=off; SET session_track_state_change=off;",
    "listing": f"SET {LISTED}; SET session_track_state_change=off; SET session_track_gtids=off;",
    "empty": (
        "SET session_track_state_change=off; SET session_track_gtids=off;"
        f" SET {LISTED}; SET session_track_state_change=on;"
    ),
    "traceless": (f"SET {LISTED}; SET session_track_gtids=off; SET session_track_state_change=on;"),
}
WAYS = {
    "called": "CALL hide_{}()",
    "selected": "SELECT hides_{}()",
    "assigned": "SET @x = hides_{}()",
    "triggered": "INSERT INTO trigger_{} VALUES (1)",
    "one_of_several": "SELECT 1; CALL hide_{}(); SELECT 2",
    "executed": "PREPARE s FROM 'CALL hide_{0}()'; EXECUTE s",
    "failing": "CALL fail_{}()",
}
WRITES = {
    "update": ["UPDATE hidden SET n = n + 1"],
    "transaction": ["BEGIN", "UPDATE hidden SET n = n + 1", "COMMIT"],
    "function": ["SELECT writes()"],
    "procedure": ["CALL writing()"],
    "in_transaction": ["BEGIN", "CALL writing()", "COMMIT"],
    "several": ["SELECT 1; UPDATE hidden SET n = n + 1; UPDATE hidden SET n = n + 1"],
    "definition": ["ALTER TABLE hidden ADD COLUMN {} INT"],
}


def connect(port: int, user: str = APP_USER, flags: int = 0) -> Session:
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=user,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS | flags,
    )


@contextmanager
def powerful(cluster: Cluster, *users: str) -> Iterator[None]:
    """Accounts that may do anything."""
    for user in users:
        cluster.primary.query(f"CREATE USER {user} IDENTIFIED BY '{APP_PASSWORD}'")
        cluster.primary.query(f"GRANT ALL ON *.* TO {user}")
    cluster.wait_caught_up()
    try:
        yield
    finally:
        for user in users:
            cluster.primary.query(f"DROP USER {user}")


def role(session: Session) -> str:
    """Who answers a read."""
    run(session, PATIENT)
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (last,) = cursor.fetchall()
    print(last)  # shown where a test fails
    return str(last["role"])


def shown(session: Session, name: str) -> str:
    return str(dict(run(session, "SHOW TIDEGATE SESSION"))[name])


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "CREATE TABLE hidden (n INT)",
            "INSERT INTO hidden VALUES (0)",
            "CREATE FUNCTION writes() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
            " BEGIN UPDATE hidden SET n = n + 1; RETURN 1; END",
            "CREATE PROCEDURE writing() BEGIN UPDATE hidden SET n = n + 1; DO 1; END",
            "CREATE PROCEDURE reading() SELECT n FROM hidden",
            "CREATE PROCEDURE unlogged()"
            " BEGIN SET sql_log_bin=0; UPDATE hidden SET n = n + 1; SET sql_log_bin=1; END",
            "CREATE PROCEDURE unlogged_and_fails() BEGIN SET sql_log_bin=0;"
            " UPDATE hidden SET n = n + 1; SET sql_log_bin=1; SIGNAL SQLSTATE '45000'; END",
            "CREATE PROCEDURE unlogged_in_secret() BEGIN"
            " DECLARE kept TEXT DEFAULT @@session_track_system_variables;"
            " SET session_track_system_variables='';"
            " SET sql_log_bin=0; UPDATE hidden SET n = n + 1; SET sql_log_bin=1;"
            " SET session_track_system_variables=kept; END",
        ):
            run(root, sql)
        for name, body in HIDING.items():
            for sql in (
                f"CREATE PROCEDURE hide_{name}() BEGIN {body} END",
                f"CREATE PROCEDURE fail_{name}() BEGIN {body} SIGNAL SQLSTATE '45000'; END",
                f"CREATE FUNCTION hides_{name}() RETURNS INT NO SQL BEGIN {body} RETURN 1; END",
                f"CREATE TABLE trigger_{name} (n INT)",
                f"CREATE TRIGGER fire_{name} BEFORE INSERT ON trigger_{name} FOR EACH ROW"
                f" BEGIN {body} END",
            ):
                run(root, sql)
    cluster.wait_caught_up()
    proxy = RunningProxy(cluster, "unnamed", {"wait_budget": "50ms"})
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


class Held:
    """Lets replicas have all that was written so far, and nothing that comes to `hidden`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections = [replica.admin("app") for replica in cluster.replicas]

    def anew(self) -> None:
        """Hold them where the primary is now."""
        self.close()
        self._cluster.wait_caught_up()
        for connection in self._connections:
            run(connection, "LOCK TABLES hidden READ")

    def close(self) -> None:
        """Let them go on."""
        for connection in self._connections:
            run(connection, "UNLOCK TABLES")


@pytest.fixture
def held(cluster: Cluster, running: RunningProxy) -> Iterator[Held]:
    held = Held(cluster)
    yield held
    held.close()


@pytest.fixture
def session(running: RunningProxy) -> Iterator[Session]:
    with closing(connect(running.port)) as connection:
        yield connection


@pytest.fixture
def direct(cluster: Cluster) -> Iterator[Session]:
    with closing(connect(cluster.primary.port)) as connection:
        yield connection


@pytest.mark.parametrize("way", WAYS)
def test_a_program_hides_nothing(
    running: RunningProxy, direct: Session, held: Held, way: str
) -> None:
    for name in HIDING:
        with closing(connect(running.port)) as session:
            assert role(session) == "replica"
            steps = [WAYS[way]] if way == "one_of_several" else WAYS[way].split("; ")
            with suppress(pymysql.err.OperationalError):
                for step in steps:
                    run(session, step.format(name))
            for _ in range(2):  # the first may be what shows that something was hidden
                held.anew()
                run(session, "UPDATE hidden SET n = n + 1")
                assert run(session, READ) == run(direct, READ), name


@pytest.mark.parametrize("write", WRITES)
def test_no_write_is_hidden(running: RunningProxy, direct: Session, held: Held, write: str) -> None:
    for name in HIDING:
        with closing(connect(running.port)) as session:
            run(session, "DO 1")
            run(session, f"CALL hide_{name}()")
            for current in range(2):
                held.anew()
                for sql in WRITES[write]:
                    run(session, sql.format(f"{name}{current}"))
                assert run(session, READ) == run(direct, READ), name


def test_other_sessions_of_the_scope_see_it(
    running: RunningProxy, direct: Session, held: Held
) -> None:
    for name in HIDING:
        with closing(connect(running.port)) as first, closing(connect(running.port)) as second:
            for session in (first, second):
                run(session, "SET tidegate_scope = 'user'")
                run(session, READ)
            run(first, f"CALL hide_{name}()")
            held.anew()
            run(first, "UPDATE hidden SET n = n + 1")
            assert run(second, READ) == run(direct, READ), name


ORDINARY = [
    "INSERT INTO ordinary VALUES (1, 1), (2, 2)",
    "UPDATE ordinary SET b = b + 1",
    "UPDATE ordinary SET b = b",
    "UPDATE ordinary SET b = 5 WHERE a = 77",
    "DELETE FROM ordinary WHERE a = 77",
    "INSERT IGNORE INTO ordinary VALUES (1, 1)",
    "REPLACE INTO ordinary VALUES (1, 1)",
    *("BEGIN", "UPDATE ordinary SET b = b + 1", "ROLLBACK"),
    *("BEGIN", "UPDATE ordinary SET b = b + 1", "COMMIT AND CHAIN", "SELECT 1", "COMMIT"),
    *("BEGIN", "UPDATE ordinary SET b = b + 1", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT"),
    *("BEGIN", "UPDATE ordinary SET b = b + 1", "START TRANSACTION", "COMMIT"),
    *("SET autocommit = 0", "UPDATE ordinary SET b = b + 1", "SET autocommit = 1"),
    "CREATE TABLE defined (a INT)",
    "ALTER TABLE defined ADD COLUMN b INT",
    "CREATE TABLE IF NOT EXISTS defined (a INT)",
    "DROP TABLE defined",
    "CREATE TABLE defined AS SELECT 1 AS a",
    "DROP TABLE IF EXISTS defined, absent",
    "CALL writing()",
    "CALL writing()",
    "SELECT writes()",
    "ANALYZE TABLE ordinary",
    "ANALYZE LOCAL TABLE ordinary",
    "FLUSH LOCAL TABLES",
    "SELECT a FROM ordinary INTO OUTFILE '{folder}/outfile-{number}'",
    "LOAD DATA INFILE '{folder}/outfile-{number}' IGNORE INTO TABLE ordinary",
    "LOCK TABLES ordinary WRITE",
    "UPDATE ordinary SET b = b + 1",
    "UNLOCK TABLES",
    *("XA START 'x'", "UPDATE ordinary SET b = b + 1", "XA END 'x'", "XA COMMIT 'x' ONE PHASE"),
    "SELECT 1; UPDATE ordinary SET b = b + 1; SELECT 2",
    "BEGIN; UPDATE ordinary SET b = b + 1; COMMIT",
    "SET SESSION session_track_gtids = OFF",
    "UPDATE ordinary SET b = b + 1",
]


@pytest.mark.parametrize("flags", [0, CLIENT.FOUND_ROWS], ids=["affected", "found"])
def test_what_is_named_raises_no_doubt(running: RunningProxy, cluster: Cluster, flags: int) -> None:
    def doubts() -> float:
        return running.metric("tidegate_required_unknown_total", cause="unnamed")

    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.ordinary (a INT PRIMARY KEY, b INT)")
    cluster.primary.query("DELETE FROM app.ordinary")
    with (
        powerful(cluster, "ordinary"),
        closing(connect(running.port, "ordinary", flags)) as session,
    ):
        for sql in ORDINARY:
            before = doubts()
            run(session, sql.format(folder=cluster.scratch.path, number=flags))
            assert doubts() == before, sql
        cluster.wait_caught_up()
        # PyMySQL has no CLIENT_DEPRECATE_EOF: what results wrote has no names, and is asked for.
        run(session, READ)
        assert role(session) == "replica"
        assert shown(session, "unlogged_writes") == "no"
        # A program that names nothing may have hidden it, if one before it has hidden that.
        run(session, "SET SESSION session_track_gtids = OFF")
        run(session, "CALL reading()")
        assert doubts() == before
        assert role(session) == "replica"
        run(session, "CALL reading()")
        assert doubts() == before + 1
        assert [role(session), role(session)] == ["primary", "replica"]
        for _ in range(4):  # from now on tracking is turned on before each
            run(session, "CALL reading()")
            assert role(session) == "replica"
        assert doubts() == before + 1


def test_temporary_tables_raise_one_doubt_when_they_are_gone(
    running: RunningProxy, cluster: Cluster
) -> None:
    def doubts() -> float:
        return running.metric("tidegate_required_unknown_total", cause="unnamed")

    with closing(connect(running.port)) as session:
        before = doubts()
        run(session, "CREATE TEMPORARY TABLE mine AS SELECT 1 AS a")
        run(session, "INSERT INTO mine VALUES (2)")
        run(session, "UPDATE mine SET a = a + 1")
        assert doubts() == before
        run(session, "DROP TABLE mine")
        assert doubts() == before + 1
        assert [role(session), role(session)] == ["primary", "replica"]
        assert shown(session, "unlogged_writes") == "no"


def test_an_import_that_is_refused_has_written_nothing(running: RunningProxy) -> None:
    with closing(connect(running.port)) as session:
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            run(session, "IMPORT TABLE FROM '/x.sdi'")
        assert [role(session), role(session)] == ["primary", "replica"]
        assert shown(session, "unlogged_writes") == "no"


UNLOGGED = {
    "apart": ["SET sql_log_bin = 0", "UPDATE hidden SET n = n + 1", "SET sql_log_bin = 1"],
    "together": ["SET sql_log_bin = 0; UPDATE hidden SET n = n + 1; SET sql_log_bin = 1"],
    "in_transaction": [
        *("SET sql_log_bin = 0", "BEGIN", "UPDATE hidden SET n = n + 1", "COMMIT"),
        "SET sql_log_bin = 1",
    ],
    "procedure": ["CALL unlogged()"],
    "failing": ["CALL unlogged_and_fails()"],
    "secret": ["CALL unlogged_in_secret()"],
    "executed": ["PREPARE s FROM 'CALL unlogged()'", "EXECUTE s"],
}


@pytest.mark.parametrize("wide", [False, True])
def test_what_was_not_logged_is_seen(
    running: RunningProxy, cluster: Cluster, direct: Session, wide: bool
) -> None:
    names = [f"logger{number}_{wide}".lower() for number in range(len(UNLOGGED))]

    def begun(name: str) -> Session:
        session = connect(running.port, name)
        run(session, f"SET tidegate_scope = '{'user' if wide else 'connection'}'")
        return session

    with powerful(cluster, *names):
        for name, (how, statements) in zip(names, UNLOGGED.items(), strict=True):
            counted = running.metric("tidegate_unlogged_writes_total")
            with closing(begun(name)) as first, closing(begun(name)) as second:
                for session in (first, second):
                    run(session, READ)
                    assert role(session) == "replica", how
                for sql in statements:
                    with suppress(pymysql.err.OperationalError):
                        run(first, sql)
                for _ in range(2):
                    for session in (first, second) if wide else (first,):
                        assert run(session, READ) == run(direct, READ), how
                assert shown(first, "unlogged_writes") == "yes", how
                assert running.metric("tidegate_unlogged_writes_total") > counted, how
                if not wide:
                    assert role(second) == "replica", how
                    assert shown(second, "unlogged_writes") == "no", how
            with closing(begun(name)) as later:
                assert role(later) == ("primary" if wide else "replica"), how


def test_a_scope_that_nobody_read_in_remembers_it_too(
    running: RunningProxy, direct: Session
) -> None:
    with closing(connect(running.port)) as writer:
        run(writer, "SET tidegate_application = 'unlogged'")
        run(writer, "CALL unlogged()")
    with closing(connect(running.port)) as later:
        run(later, "SET tidegate_scope = 'application', tidegate_application = 'unlogged'")
        assert run(later, READ) == run(direct, READ)
        assert role(later) == "primary"
        run(later, "SET tidegate_application = 'another'")
        run(later, READ)
        assert role(later) == "replica"


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "ANALYZE TABLE hidden", "BEGIN", "COMMIT", "SET @x = 1"]
)
def test_not_all_is_a_write_where_nothing_is_logged(
    running: RunningProxy, cluster: Cluster, sql: str
) -> None:
    with powerful(cluster, "logger"), closing(connect(running.port, "logger")) as session:
        for step in ("SET sql_log_bin = 0", sql, "ROLLBACK", "SET sql_log_bin = 1"):
            run(session, step)
        assert shown(session, "unlogged_writes") == "no"
        assert role(session) == "replica"


@pytest.mark.parametrize("wide", [False, True])
def test_what_fails_where_nothing_is_logged_is_seen(
    running: RunningProxy, cluster: Cluster, direct: Session, wide: bool
) -> None:
    """The statements before the one that fails have committed."""
    with closing(cluster.primary.admin("app")) as root:
        run(root, "DROP PROCEDURE IF EXISTS writes_and_fails")
        run(
            root,
            "CREATE PROCEDURE writes_and_fails()"
            " BEGIN UPDATE hidden SET n = n + 1; SIGNAL SQLSTATE '45000'; END",
        )
    failing = {
        "called": "CALL writes_and_fails()",
        "several": "UPDATE hidden SET n = n + 1; SELECT * FROM absent",
        "shown_first": "SELECT 1; UPDATE hidden SET n = n + 1; SIGNAL SQLSTATE '45000'",
    }
    names = [f"failer_{number}_{wide}".lower() for number in range(len(failing))]
    scope = f"SET tidegate_scope = '{'user' if wide else 'connection'}'"
    with powerful(cluster, *names):
        for name, (how, sql) in zip(names, failing.items(), strict=True):
            with (
                closing(connect(running.port, name)) as first,
                closing(connect(running.port, name)) as other,
            ):
                for session in (first, other):
                    run(session, scope)
                    assert role(session) == "replica", how
                run(first, "SET sql_log_bin = 0")
                with pytest.raises(pymysql.err.MySQLError):
                    run(first, sql)
                run(first, "SET sql_log_bin = 1")
                for session in (first, first, other, other) if wide else (first, first):
                    assert run(session, READ) == run(direct, READ), how
                    assert role(session) == "primary", how
            with closing(connect(running.port, name)) as later:
                run(later, scope)
                assert role(later) == ("primary" if wide else "replica"), how


def test_what_was_not_logged_before_the_connection_broke_is_seen(
    running: RunningProxy, cluster: Cluster, direct: Session
) -> None:
    with (
        powerful(cluster, "broken"),
        closing(connect(running.port, "broken")) as first,
        closing(connect(running.port, "broken")) as other,
    ):
        for session in (first, other):
            run(session, "SET tidegate_scope = 'user'")
            assert role(session) == "replica"
        run(first, "SET sql_log_bin = 0")
        written = run(direct, READ)

        def break_it() -> None:
            for _ in range(1000):
                if run(direct, READ) != written:
                    break
                time.sleep(0.01)
            run(direct_as_root, f"KILL {first.thread_id()}")

        with closing(cluster.primary.admin()) as direct_as_root:
            thread = Thread(target=break_it)
            thread.start()
            with pytest.raises(pymysql.err.MySQLError):
                run(first, "UPDATE hidden SET n = n + 1; DO SLEEP(30)")
            thread.join(30)
        assert run(direct, READ) != written
        for _ in range(2):
            assert run(other, READ) == run(direct, READ)
            assert role(other) == "primary"
