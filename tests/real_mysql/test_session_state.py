"""State of a session that an application cannot tell from one server's, wherever its reads go."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from protocol.constants import Capability, Command
from protocol.response_stream import SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

PLAIN = "SELECT a FROM app.state ORDER BY a"


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    with closing(cluster.primary.connect()) as direct:
        run(direct, "CREATE TABLE app.state (a INT PRIMARY KEY, b VARCHAR(20))")
        run(direct, "INSERT INTO app.state VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    proxy = RunningProxy(cluster, "state", {"wait_budget": "10s"})
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture
def session(running: RunningProxy) -> Iterator[Connection[Cursor]]:
    with pymysql.connect(
        host="127.0.0.1",
        port=running.port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    ) as connection:
        yield connection


def role(session: Connection[Cursor], sql: str = PLAIN) -> str:
    """Who answers a statement."""
    run(session, sql)
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (last,) = cursor.fetchall()
    return str(last["role"])


def pins(session: Connection[Cursor]) -> str | None:
    found = dict(run(session, "SHOW TIDEGATE SESSION"))["pins"]
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("take", "give"),
    [
        ("CREATE TEMPORARY TABLE mine (a INT)", "DROP TABLE mine"),
        ("CREATE TEMPORARY TABLE mine(a INT)", "DROP TABLE mine"),
        ("CREATE TEMPORARY TABLE app.mine AS SELECT 1", "DROP TEMPORARY TABLE IF EXISTS mine"),
        ("LOCK TABLES state READ", "UNLOCK TABLES"),
        ("LOCK TABLES state READ", "START TRANSACTION; COMMIT"),
        ("SELECT GET_LOCK('state', 1) AS l", "SELECT RELEASE_LOCK('STATE')"),
        ("SELECT GET_LOCK(CONCAT('sta', 'te'), 1)", "SELECT RELEASE_LOCK('state') r"),
        ("DO GET_LOCK('state', 1)", "DO RELEASE_LOCK('state')"),
        ("SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)", "DO RELEASE_ALL_LOCKS()"),
        ("HANDLER state OPEN AS h", "HANDLER h CLOSE"),
        ("XA START 'state'", "XA END 'state'; XA ROLLBACK 'state'"),
    ],
)
def test_what_is_held_pins_until_it_is_given_back(
    session: Connection[Cursor], running: RunningProxy, take: str, give: str
) -> None:
    assert role(session) == "replica"
    run(session, take)
    assert pins(session) is not None
    assert running.metric("tidegate_pinned_sessions") == 1
    assert role(session) == "primary"
    for part in give.split("; "):
        run(session, part)
    assert pins(session) is None
    assert running.metric("tidegate_pinned_sessions") == 0
    if "TEMPORARY" in take:
        role(session)  # asks the primary: what was written beside such tables was not watched
    assert role(session) == "replica"


def test_a_lock_that_another_session_holds_pins_nobody(
    session: Connection[Cursor], running: RunningProxy
) -> None:
    with running.connect() as other:
        assert run(other, "SELECT GET_LOCK('state', 1)") == [(1,)]
        assert run(session, "SELECT GET_LOCK('state', 0)") == [(0,)]
        assert pins(session) is None
        assert run(other, "SELECT GET_LOCK('state', 1)") == [(1,)]
        assert run(other, "SELECT RELEASE_LOCK('state')") == [(1,)]
        assert role(other) == "primary"
        assert run(other, "SELECT RELEASE_LOCK('state')") == [(1,)]
        assert role(other) == "replica"


@pytest.mark.parametrize(
    "release",
    [
        ["SELECT /*+ SET_VAR(sql_select_limit = 0) */ RELEASE_LOCK('state')"],
        ["SELECT /*+ SET_VAR(sql_select_limit = 0) */ RELEASE_ALL_LOCKS()"],
        ["SET sql_select_limit = 0", "SELECT RELEASE_LOCK('state')"],
        ["SET sql_select_limit = 0", "SELECT RELEASE_ALL_LOCKS()"],
        ["SET sql_select_limit = 0; SELECT RELEASE_LOCK('state')"],
    ],
)
def test_a_release_without_a_row_releases_nothing(
    session: Connection[Cursor], release: list[str]
) -> None:
    run(session, "SELECT GET_LOCK('state', 1)")
    for text in [*release, "SET sql_select_limit = DEFAULT"]:
        run(session, text)
    assert run(session, "SELECT IS_USED_LOCK('state') = CONNECTION_ID()") == [(1,)]
    assert pins(session) is not None
    assert role(session) == "primary"
    run(session, "SELECT RELEASE_LOCK('state')")
    assert pins(session) is None


def test_information_schema_is_known_in_any_case(running: RunningProxy) -> None:
    with running.connect(database="Information_Schema") as client:
        assert role(client, "SELECT COUNT(*) FROM PROCESSLIST") == "primary"
        client.select_db("INFORMATION_SCHEMA")
        assert role(client, "SELECT COUNT(*) FROM PROCESSLIST") == "primary"


def test_a_lock_s_name_is_another_one_in_another_character_set(
    session: Connection[Cursor],
) -> None:
    run(session, "SET NAMES latin1")
    assert run(session, "SELECT GET_LOCK('é', 1)") == [(1,)]
    run(session, "SET NAMES utf8mb4")
    assert run(session, "SELECT RELEASE_LOCK('é')") == [(None,)]
    assert pins(session) is not None
    run(session, "SET NAMES latin1")
    assert run(session, "SELECT RELEASE_LOCK('é')") == [(1,)]
    assert pins(session) is None


def test_what_was_prepared_by_text_has_the_effects_of_its_text(
    session: Connection[Cursor],
) -> None:
    run(session, "PREPARE s FROM 'SELECT b FROM app.state WHERE a = ?'")
    run(session, "SET @a = 2")
    assert run(session, "EXECUTE s USING @a") == [("two",)]
    assert pins(session) is None
    assert role(session) == "replica"
    run(session, "PREPARE s FROM 'CREATE TEMPORARY TABLE mine (a INT)'")
    run(session, "EXECUTE S")
    assert pins(session) == "temporary table `app`.`mine`"
    run(session, "PREPARE s FROM 'DROP TABLE mine'")
    run(session, "EXECUTE s")
    assert pins(session) is None


def test_names_of_prepared_statements_are_compared_as_a_server_does(
    session: Connection[Cursor],
) -> None:
    for name in ("é", "`e `", "E"):
        run(session, "PREPARE e FROM 'SELECT 1'")
        run(session, f"PREPARE {name} FROM 'CREATE TEMPORARY TABLE mine AS SELECT 2'")
        run(session, "EXECUTE e")
        assert pins(session) is not None
        assert run(session, "SELECT * FROM mine") == [(2,)]
        session.query("DROP TEMPORARY TABLE mine")


LITERALS = [
    *("5", "-5", "+5", "5.0", "-.5", "5e0", "0x41", "0b1", "18446744073709551615", "9" * 40),
    *("'a'", "''", '"a"', "'é'", "'a''b'", r"'a\\nb'", "NULL", "TRUE", "FALSE"),
    *("X'41'", "b'1'", "N'a'", "_latin1'a'", "DATE'2020-01-01'", "1 + 1", "'a' 'b'", "1 = 1"),
    *("(SELECT MAX(a) FROM app.state)", "@@sql_mode", "CURRENT_DATE"),
]


def metadata(session: Connection[Cursor], sql: str) -> object:
    """Rows and column definitions."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall()
        result = session._result
        assert result is not None
        return rows, [
            (field.name, field.charsetnr, field.length, field.type_code, field.flags, field.scale)
            for field in result.fields
        ]


@pytest.mark.parametrize(("before", "after"), [("5", "NULL"), ("'a'", "NULL"), ("5", "5.0")])
def test_a_type_is_that_of_the_last_value(
    session: Connection[Cursor], cluster: Cluster, before: str, after: str
) -> None:
    with closing(cluster.primary.connect()) as direct:
        answers = []
        for connection in (direct, session):
            run(connection, f"SET @a = {before}")
            run(connection, f"SET @a = {after}")
            answers.append(metadata(connection, "SELECT @a, @a + 1"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("names", ["utf8mb4", "latin1 COLLATE latin1_german1_ci"])
def test_user_variables_have_their_values_and_types_everywhere(
    session: Connection[Cursor], cluster: Cluster, literal: str, names: str
) -> None:
    read = "SELECT @a, @b, @c, CONCAT(@a, 'x'), COLLATION(@a), @a * 2e0"
    with closing(cluster.primary.connect()) as direct:
        answers = []
        for connection in (direct, session):
            run(connection, f"SET NAMES {names}")
            run(connection, f"SET @a = {literal}, @b = 2")
            answers.append(metadata(connection, read))
            run(connection, "SET NAMES utf8mb4")
            answers.append(metadata(connection, read))
    assert answers[0] == answers[2]
    assert answers[1] == answers[3]


def test_where_reads_of_user_variables_go(session: Connection[Cursor]) -> None:
    read = "SELECT b FROM app.state WHERE a = @a"
    assert role(session, read) == "replica"
    assert run(session, read) == []
    for value, found in (("1", "one"), ("2", "two"), ("TRUE", "one")):
        run(session, f"SET @A = {value}")
        assert role(session, read) == "replica"
        assert run(session, read) == [(found,)]
    run(session, "SET @a = @a + 1")
    assert role(session, read) == "primary"
    assert run(session, read) == [("two",)]
    run(session, "SET @a = 3")
    assert role(session, read) == "replica"
    run(session, "SELECT a FROM app.state WHERE a = 1 INTO @a")
    assert run(session, read) == [("one",)]
    assert role(session, read) == "primary"


def test_a_trigger_may_assign_user_variables(session: Connection[Cursor], cluster: Cluster) -> None:
    run(session, "CREATE TABLE app.fired (a INT)")
    cluster.primary.query(
        "CREATE TRIGGER app.fires BEFORE INSERT ON app.fired FOR EACH ROW SELECT 6 INTO @fired"
    )
    run(session, "SET @fired = 1")
    assert run(session, "SELECT @fired") == [(1,)]
    run(session, "INSERT INTO app.fired VALUES (1)")
    assert run(session, "SELECT @fired") == [(6,)]


@pytest.mark.parametrize("name", ["`timestamp `", "timestämp", "@@session.`Timestamp `"])
def test_names_of_variables_are_compared_as_a_server_does(
    session: Connection[Cursor], name: str
) -> None:
    read = "SELECT UNIX_TIMESTAMP(NOW()), b FROM app.state WHERE a = 1"
    for sql, expected in ((f"SET {name} = 8", 8), ("SET timestamp = 6", 6), (f"SET {name} = 9", 9)):
        run(session, sql)
        assert run(session, read) == [(expected, "one")]
    run(session, "SET timestamp = 6")
    assert run(session, read) == [(6, "one")]


def test_a_hint_may_ask_for_the_last_inserted_id(session: Connection[Cursor]) -> None:
    run(session, "CREATE TABLE IF NOT EXISTS app.counted (a INT AUTO_INCREMENT PRIMARY KEY)")
    run(session, "INSERT INTO counted VALUES (7)")
    run(session, "INSERT INTO counted VALUES (NULL)")
    question = "SELECT /*+ SET_VAR(sql_auto_is_null = ON) */ a FROM counted WHERE a IS NULL"
    assert run(session, question) == [(8,)]
    run(session, "DROP TABLE counted")


def test_a_text_in_a_user_variable_is_known_where_it_is_prepared(
    session: Connection[Cursor],
) -> None:
    run(session, "SET @sql = 'SELECT b FROM app.state WHERE a = 1'")
    run(session, "PREPARE s FROM @sql")
    assert run(session, "EXECUTE s") == [("one",)]
    assert pins(session) is None
    run(session, "SET @sql = CONCAT('SELECT ', '1')")
    run(session, "PREPARE s FROM @sql")
    run(session, "EXECUTE s")
    assert pins(session) == "unknown"


SHOWN = (
    "time_zone, sql_mode, group_concat_max_len, lc_time_names, character_set_client,"
    " character_set_results, collation_connection, sql_select_limit, div_precision_increment,"
    " optimizer_switch, transaction_isolation"
)
ANSWERS = [
    "SELECT 5 / 7, FROM_UNIXTIME(0), DAYNAME('2026-01-01'), 'a' = 'A', COLLATION('a')",
    "SELECT GROUP_CONCAT(REPEAT(b, 300) ORDER BY a) FROM app.state",
    "SELECT a FROM app.state ORDER BY a",
    "SELECT '1' || '2', -1",
]


@pytest.mark.parametrize(
    "sets",
    [
        ["SET @old = @@time_zone, time_zone = '+05:00'", "SET time_zone = @old"],
        ["SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')"],
        ["SET @@SESSION.group_concat_max_len = 10 * 2", "SET div_precision_increment = 1 + 1"],
        ["SET time_zone = '+03:00'", "SET @@time_zone = DEFAULT"],
        ["SET lc_time_names = 5, sql_select_limit = @@sql_select_limit - @@sql_select_limit + 2"],
        [
            "SET time_zone = '-02:00'; SET sql_mode = 'ANSI'",
            "SELECT 1; SET lc_time_names = 'de_DE'",
        ],
        ["SET NAMES utf8mb4 COLLATE utf8mb4_bin"],
        ["SET NAMES latin1", "SET collation_connection = @@collation_server"],
        ["SET character_set_results = NULL", "SET NAMES DEFAULT"],
        ["SET NAMES utf8mb4, collation_connection = utf8mb4_bin"],
        ["SET NAMES utf8mb4; SET collation_connection = utf8mb4_bin"],
        ["SET collation_connection = utf8mb4_bin, NAMES utf8mb4"],
        ["SET NAMES utf8mb4, collation_connection = CONCAT('utf8mb4_', 'bin')"],
        ["SET NAMES utf8mb4, character_set_results = NULL"],
        ["SET NAMES utf8mb4, default_collation_for_utf8mb4 = utf8mb4_general_ci"],
        ["SET NAMES utf8mb4, character_set_results = CONCAT('lat', 'in1')"],
        ["SET NAMES latin1, character_set_connection = greek, collation_connection = greek_bin"],
        ["SET CHARACTER SET latin1, collation_connection = utf8mb4_bin"],
        ["SET NAMES latin1, character_set_client = utf8mb4, collation_connection = DEFAULT"],
        ["SET CHARACTER SET utf8mb4"],
        ["SET CHARSET latin1", "SET CHARACTER SET DEFAULT"],
        ["SET CHARACTER SET latin1", "SET NAMES latin2"],
        ["USE greek", "SET CHARACTER SET 'utf8mb4'"],
        ["USE greek", "SET CHARACTER SET latin1", "USE app"],
        ["USE greek", "SET CHARACTER SET DEFAULT", "USE app"],
        ["USE greek", "SET CHARACTER SET DEFAULT, collation_connection = latin1_bin"],
        ["SET CHARACTER SET latin1", "USE greek"],
        ["SET optimizer_switch = 'mrr=off', transaction_isolation = 'READ-COMMITTED'"],
        ["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY"],
    ],
)
def test_system_variables_however_they_are_set(
    session: Connection[Cursor], cluster: Cluster, sets: list[str]
) -> None:
    cluster.primary.query("CREATE DATABASE IF NOT EXISTS greek COLLATE greek_bin")
    cluster.primary.query("GRANT SELECT ON greek.* TO %s", APP_USER)
    cluster.wait_caught_up()
    with pymysql.connect(
        host="127.0.0.1",
        port=cluster.primary.port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    ) as direct:
        for sql in sets:
            run(direct, sql)
            run(session, sql)
        assert pins(session) is None
        for sql in ANSWERS:
            assert metadata(session, sql) == metadata(direct, sql)
            assert role(session, sql) == "replica"
        names = ", ".join(f"@@{name.strip()}" for name in SHOWN.split(","))
        assert run(session, f"SELECT {names}") == run(direct, f"SELECT {names}")


@pytest.mark.parametrize(
    "sets",
    [
        "SET default_collation_for_utf8mb4 = utf8mb4_general_ci, NAMES utf8mb4",
        "SET NAMES latin1, CHARACTER SET DEFAULT",
        "SET CHARACTER SET latin1, NAMES DEFAULT",
        "SET collation_database = latin1_bin, CHARACTER SET latin1",
        "SET collation_database = latin1_bin",
    ],
)
def test_character_sets_that_replicas_are_not_told(session: Connection[Cursor], sets: str) -> None:
    run(session, sets)
    for sql in ANSWERS:
        run(session, sql)
        assert role(session, sql) == "primary"


def test_a_role_is_active_on_replicas(session: Connection[Cursor], cluster: Cluster) -> None:
    for sql in (
        "CREATE DATABASE IF NOT EXISTS secret",
        "CREATE TABLE IF NOT EXISTS secret.words (a INT)",
        "CREATE ROLE IF NOT EXISTS reader",
        "GRANT SELECT ON secret.* TO reader",
        f"GRANT reader TO {APP_USER}",
    ):
        cluster.primary.query(sql)
    run(session, "DO 1")
    read = "SELECT COUNT(*) FROM secret.words"
    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        run(session, read)
    run(session, "SET ROLE reader")
    cluster.wait_caught_up()
    assert run(session, read) == [(0,)]
    assert role(session, read) == "replica"
    run(session, "SET ROLE NONE")
    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        run(session, read)


def test_a_program_that_sets_variables(session: Connection[Cursor], cluster: Cluster) -> None:
    cluster.primary.query("CREATE PROCEDURE app.sets() SET time_zone = '+07:00'")
    run(session, "CALL sets()")
    assert run(session, "SELECT FROM_UNIXTIME(0) = '1970-01-01 07:00:00'") == [(1,)]


TRACKED = [
    "SET time_zone = '+01:00'",
    "SET sql_mode = 'ANSI'",
    "SET NAMES latin1",
    "SET group_concat_max_len = 5, autocommit = 1",
    "USE app",
    "SET @a = 1",
    "SELECT 1",
    "BEGIN",
    "ROLLBACK",
]


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "SET session_track_system_variables = 'sql_mode,Group_Concat_Max_Len'",
        "SET session_track_system_variables = ''",
        "SET session_track_system_variables = DEFAULT",
        "SET session_track_system_variables = NULL",
        "SET session_track_system_variables = 'sql_mode';"
        " SET session_track_system_variables = NULL",
        "SET session_track_system_variables = 'max_sp_recursion_depth', session_track_schema = OFF",
        "SET session_track_state_change = 1, session_track_transaction_info = 'STATE'",
    ],
)
def test_a_client_sees_the_trackers_that_it_asks_for(
    running: RunningProxy, cluster: Cluster, shown: str | None
) -> None:
    capabilities = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
    answers = []
    for address in (cluster.primary.address, running.address):
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            for sql in (shown or "DO 1").split("; "):
                client.query(sql)
            texts = [*TRACKED, "SET max_sp_recursion_depth = 1"]
            answers.append([client.query(sql) for sql in texts])
            assert client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
            answers[-1] += [client.query(sql) for sql in TRACKED]
    assert answers[0] == answers[1]


COUNTED = "INSERT INTO app.numbered (b) VALUES (1), (2)"
FIRST = [
    "SELECT a FROM app.state",
    "SELECT a FROM app.state WHERE a > 100",
    "SELECT a FROM app.state LIMIT 1, 1",
    "SELECT SQL_CALC_FOUND_ROWS a FROM app.state LIMIT 1",
    "SELECT 'x' + 1, CAST('y' AS SIGNED)",  # warnings
    "SELECT a FROM app.nowhere",  # an error
    "SHOW DATABASES LIKE 'app'",
    "SELECT 1 FROM app.state x, app.state y, app.state z, app.state v, app.state w, app.state u"
    ", app.state t",
    "DO 1",
    COUNTED,
]
THEN = [
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT()",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count, @@error_count",
    "SELECT LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT()",
    "SELECT FOUND_ROWS(), a FROM app.state",
    "SELECT @@identity, @@warning_count",
    "SET @n = FOUND_ROWS(), @r = ROW_COUNT()",
    "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT",
    "GET DIAGNOSTICS CONDITION 1 @n = MYSQL_ERRNO, @r = MESSAGE_TEXT",
    "INSERT INTO app.numbered (b) SELECT FOUND_ROWS()",
]


@pytest.mark.parametrize("first", FIRST)
def test_questions_about_the_statement_before(
    cluster: Cluster, running: RunningProxy, first: str
) -> None:
    with closing(cluster.primary.connect()) as direct, running.connect() as through:
        run(direct, "CREATE TABLE IF NOT EXISTS app.numbered (a INT AUTO_INCREMENT KEY, b INT)")
        for then in THEN:
            if first == COUNTED and "FOUND_ROWS()" in then and "ROW_COUNT()" in then:
                continue  # a replica has the one, the primary the other (docs/compatibility.md)
            answers = []
            for connection in (direct, through):
                run(direct, "TRUNCATE app.numbered")
                cluster.wait_caught_up()
                run(connection, "SELECT 1")
                run(connection, "INSERT INTO app.numbered (b) VALUES (7)")
                with contextlib.suppress(pymysql.err.ProgrammingError):
                    run(connection, first)
                answers += [run(connection, then), run(connection, "SELECT @n, @r")]
                answers.append(run(connection, "SELECT b FROM app.numbered"))
            assert answers[:3] == answers[3:], then


@pytest.mark.parametrize(
    "question", ["SELECT ROW_COUNT(), FOUND_ROWS()", "SELECT LAST_INSERT_ID(), FOUND_ROWS()"]
)
def test_nothing_was_run_before_the_first_statement(
    cluster: Cluster, running: RunningProxy, question: str
) -> None:
    answers = []
    for address in (cluster.primary.address, running.address):
        with RawClient(
            address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF, "app"
        ) as client:
            answers.append(client.query(question))
            client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
            answers[-1] += client.query(question)
    assert answers[0] == answers[1]


def test_the_cost_of_the_query_before(session: Connection[Cursor]) -> None:
    cost = "SHOW STATUS LIKE 'Last_query_cost'"
    run(session, "SELECT COUNT(*) FROM app.state x, app.state y WHERE x.b = y.b")
    ((_, many),) = run(session, cost)
    assert role(session) == "replica"
    run(session, PLAIN)
    ((_, few),) = run(session, cost)
    assert 0 < float(str(few)) < float(str(many))
    assert role(session, cost) == "replica"


SHOWS = [
    "SELECT @@session_track_gtids, @@session.session_track_schema, @@session_track_state_change,"
    " @@session_track_system_variables",
    "SHOW VARIABLES LIKE 'session_track%'",
    "SHOW SESSION VARIABLES WHERE Variable_name LIKE 'session\\_track%'",
    "SELECT * FROM performance_schema.session_variables WHERE VARIABLE_NAME LIKE 'session_tr%'",
    "SET @shown = @@session_track_system_variables",
    "SELECT @shown",
    "SELECT @@session_track_nothing",
]


@pytest.mark.parametrize(
    "own",
    [
        None,
        "SET session_track_gtids = OWN_GTID, session_track_schema = OFF",
        "SET session_track_gtids = 'ALL_GTIDS', session_track_system_variables = 'sql_mode'",
        "SET session_track_state_change = ON, session_track_system_variables = '*'",
        "SET session_track_system_variables = NULL",
        "BEGIN",
    ],
)
def test_a_client_is_shown_its_own_settings_of_trackers(
    running: RunningProxy, cluster: Cluster, own: str | None
) -> None:
    cluster.primary.query("GRANT SELECT ON performance_schema.* TO app")
    run_direct, run_through = [], []
    with closing(cluster.primary.connect()) as direct, running.connect() as through:
        for connection, answers in ((direct, run_direct), (through, run_through)):
            run(connection, "CREATE TABLE IF NOT EXISTS app.tracked (a INT)")
            run(connection, "TRUNCATE app.tracked")
            if own is not None:
                run(connection, own)
            for sql in SHOWS:
                if own == "BEGIN":
                    sql = sql.replace("@@session_track_gtids", "1").replace("track%", "track\\_s%")
                    sql = sql.replace("session_tr%", "session_track_s%")
                try:
                    answers.append(run(connection, sql))
                except pymysql.err.OperationalError as error:
                    answers.append([error.args])
            for number in range(20):
                run(connection, "INSERT INTO app.tracked VALUES (1)")
                run(connection, SHOWS[0])
                run(connection, "COMMIT")
                answers.append(run(connection, "SELECT COUNT(*) FROM app.tracked"))
                assert answers[-1] == [(number + 1,)]
    assert run_direct == run_through
