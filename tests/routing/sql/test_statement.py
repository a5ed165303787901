"""Classes of statements."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from routing.sql import native_functions
from routing.sql.classifier import Classifier
from routing.sql.diagnostics import (
    COUNTS_ROWS,
    FOUND_AS_SHOWN,
    FOUND_ROWS,
    MAY_COUNT_ROWS,
    MAY_FIND_ROWS,
    TAKES_COUNT,
)
from routing.sql.statement import (
    MAX_SKELETON,
    MAX_TEXT,
    Assignment,
    Statement,
    StatementClass,
    StatementReason,
    classify,
)
from tests.routing.sql.corpus_manual import MANUAL, TOPICS, UNKNOWN

CASES = [(text, expected) for forms in MANUAL.values() for text, expected in forms]


def short(statement: Statement) -> str:
    """The class of a statement, with `!` if it may write, and `+` if it pins."""
    return statement.kind + ("!" if statement.may_write else "") + ("+" if statement.pins else "")


def of(text: str | bytes) -> Statement:
    return classify(text if isinstance(text, bytes) else text.encode())


def test_every_statement_of_the_manual_has_a_case() -> None:
    topics = {" ".join(topic.split()) for topic in TOPICS.split(";")}
    assert set(MANUAL) == topics


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_statements_of_the_manual(text: str, expected: str) -> None:
    assert short(of(text)) == expected
    assert short(of(text.lower())) == expected
    assert short(of(f"/* a */ {text} -- b\n;")) == expected
    assert short(of(text.replace(" ", "\n\t"))) == expected


@pytest.mark.parametrize("text", UNKNOWN)
def test_the_unknown_is_a_write(text: str) -> None:
    assert of(text).kind is StatementClass.WRITE
    assert of(text).may_write


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("SELECT a FROM t", "read", StatementReason.NOTHING),
        ("SELECT f(1)", "write", StatementReason.UNKNOWN_FUNCTION),
        ("SELECT 1 FOR UPDATE", "write", StatementReason.LOCKING_READ),
        ("SELECT 1 INTO OUTFILE 'x'", "write", StatementReason.FILE),
        ("INSERT INTO t VALUES (1)", "write", StatementReason.DATA),
        ("CREATE TABLE t (a INT)", "write", StatementReason.DEFINITION),
        ("CREATE TEMPORARY TABLE t (a INT)", "pin", StatementReason.TEMPORARY_TABLE),
        ("GRANT r TO u", "write", StatementReason.ACCOUNT),
        ("CREATE USER u", "write", StatementReason.ACCOUNT),
        ("STOP REPLICA", "write", StatementReason.ADMINISTRATION),
        ("CALL p()", "write", StatementReason.PROCEDURE),
        ("FROB", "write", StatementReason.UNKNOWN_STATEMENT),
        ("SELECT 'a", "write", StatementReason.UNREADABLE),
        ("SELECT 1; INSERT INTO t VALUES (1)", "write", StatementReason.MULTIPLE),
        ("SELECT 1; SELECT 2", "write", StatementReason.SEVERAL),
        ("EXECUTE s; SELECT 2", "write", StatementReason.MULTIPLE),
        ("BEGIN", "transaction", StatementReason.TRANSACTION),
        ("SET a = 1", "session", StatementReason.SETTING),
        ("USE d", "session", StatementReason.DEFAULT_SCHEMA),
        ("SELECT @a", "read", StatementReason.USER_VARIABLE),
        ("SELECT @a := 1", "session", StatementReason.USER_VARIABLE),
        ("SELECT @@sql_mode", "session", StatementReason.SYSTEM_VARIABLE),
        ("SELECT LAST_INSERT_ID()", "session", StatementReason.SESSION_FUNCTION),
        ("SELECT GET_LOCK('a', 1)", "pin", StatementReason.LOCK_FUNCTION),
        ("SHOW STATUS", "session", StatementReason.SERVER_STATE),
        ("LOCK TABLES t READ", "pin", StatementReason.TABLE_LOCK),
        ("HANDLER t OPEN", "pin", StatementReason.HANDLER),
        ("PREPARE s FROM 'x'", "session", StatementReason.PREPARED_STATEMENT),
        ("SHOW WARNINGS", "diagnostic", StatementReason.DIAGNOSTICS),
        ("KILL 5", "session", StatementReason.KILL),
    ],
)
def test_reasons(text: str, kind: str, reason: StatementReason) -> None:
    statement = of(text)
    assert (statement.kind, statement.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("CREATE TEMPORARY TABLE t (a INT) SELECT f(1)", True),
        ("CREATE TEMPORARY TABLE t WITH c AS (SELECT f(1)) TABLE c", True),
        ("CREATE TEMPORARY TABLE t AS VALUES ROW(f(1), (SELECT 2))", True),
        ("CREATE TEMPORARY TABLE t (a INT DEFAULT (ABS(1)), INDEX i (a)) VALUES ROW(1)", False),
        ("PURGE BINARY LOGS BEFORE f(1)", True),
        ("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 3 DAY", False),
        ("PURGE BINARY LOGS TO 'b.000010'", False),
    ],
)
def test_functions_that_are_called_beside_queries(text: str, calls: bool) -> None:
    statement = of(text)
    assert statement.may_write
    assert statement.may_run_programs is calls


READS = [
    "SELECT COUNT(*), SUM(a), MAX(DISTINCT b), GROUP_CONCAT(a ORDER BY (b) SEPARATOR ',') FROM t",
    "SELECT ABS (a), IF (a, b, c), COALESCE (a, b), LEFT(a, 1), DATE (a) FROM t",
    "SELECT CAST(a AS DECIMAL(10, 2)), CONVERT(a, CHAR(10)), CONVERT(a USING utf8mb4) FROM t",
    "SELECT CAST(a AS DATETIME(6)), CAST(b AS CHAR(3) CHARACTER SET latin1) FROM t",
    "SELECT a FROM t WHERE a IN (1, 2) AND b NOT IN (SELECT b FROM u) OR EXISTS (SELECT 1)",
    "SELECT a FROM t WHERE (a, b) = (1, 2) AND c BETWEEN (1) AND (2) XOR NOT (d)",
    "SELECT a FROM t WHERE a > ALL (SELECT 1) AND b = ANY (SELECT 2) AND c < SOME (SELECT 3)",
    "SELECT a FROM t USE INDEX (i, j) IGNORE KEY FOR ORDER BY (k) JOIN u USING (a)",
    "SELECT a FROM t FORCE INDEX FOR GROUP BY (i) LEFT JOIN u ON (t.a = u.a)",
    "SELECT a FROM t PARTITION (p0, p1) AS x WHERE (1)",
    "SELECT * FROM (SELECT 1, 2) x (a, b), (SELECT 3) AS y (c), (SELECT 4) `f` (d)",
    "SELECT * FROM t, LATERAL (SELECT t.a) AS l",
    "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$', b FOR ORDINALITY,"
    " c VARCHAR(10) PATH '$', NESTED PATH '$' COLUMNS (d DATETIME(6) PATH '$'))) AS j",
    "SELECT a->'$.x', a->>'$.y', 1 MEMBER OF ('[1]'), JSON_VALUE(a, '$' RETURNING DECIMAL(4, 2))"
    " FROM t",
    "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b), SUM(a) OVER w FROM t WINDOW w AS (x),"
    " x AS (ORDER BY a)",
    "SELECT MATCH (a, b) AGAINST ('x' IN BOOLEAN MODE) FROM t",
    "SELECT TRIM(BOTH 'x' FROM a), SUBSTRING(a FROM 1 FOR 2), EXTRACT(DAY FROM b), POSITION(a IN b)"
    " FROM t",
    "SELECT NOW() + INTERVAL (1) DAY, DATE_ADD(a, INTERVAL 1 MONTH), INTERVAL(a, 1, 2) FROM t",
    "SELECT CASE (a) WHEN (1) THEN (2) ELSE (3) END FROM t",
    "SELECT a FROM t GROUP BY a, (b) WITH ROLLUP HAVING (COUNT(*) > 1) ORDER BY (a)"
    " LIMIT 1 OFFSET 2",
    "SELECT a FROM t WHERE a LIKE ('x') ESCAPE ('!') AND b REGEXP ('y') AND c RLIKE ('z')",
    "SELECT 10 DIV (3), 10 MOD (3), - (1), ~(1), !(0), BINARY ('a'), ROW(1, 2) = ROW(1, 2)",
    "SELECT /*+ MAX_EXECUTION_TIME(1000) SET_VAR(sort_buffer_size = 16M) */ a FROM t",
    "SELECT DATABASE(), SCHEMA(), UUID(), RAND(), CURRENT_TIMESTAMP(6), UTC_TIMESTAMP",
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()",
    "SELECT * FROM INFORMATION_SCHEMA.`columns`",
    "SELECT t.update, t.`lock`, `for`, `update` FROM t",
    "SELECT N'a', X'41', B'01', 0x41, _utf8mb4'a', _latin1 X'41', DATE '2020-01-01',"
    " {d '2020-01-01'}",
    "SELECT 'GET_LOCK(1)', \"f(1)\", `f(1)`, 'FOR UPDATE' FROM t",
    "SELECT a FROM t -- FOR UPDATE",
    "SELECT a /* FOR UPDATE */ FROM t # f(1)",
    "SELECT REPLACE(a, 'x', 'y'), INSERT('a', 1, 1, 'b'), VALUES(a) FROM t",
    "SELECT ST_Distance(a, POINT(1, 2)), ST_Collect(a), JSON_ARRAYAGG(a) FROM t",
    "(SELECT 1) UNION (VALUES ROW(2)) EXCEPT (TABLE t)",
    "SELECT a AS lock_, b AS `into` FROM t",
    "SELECT ?, a FROM t WHERE b IN (?, ?) LIMIT ?",
    "/*!80000 SELECT */ 1",
    "SELECT 1 /*!90000 + 2 */",
]


@pytest.mark.parametrize("text", READS)
def test_reads(text: str) -> None:
    assert short(of(text)) == "read"


AROUND_EXPRESSIONS = (
    "SELECT {}",
    "SELECT a, {} FROM t",
    "SELECT a FROM t WHERE b = 1 AND {} ORDER BY a",
    "WITH c (a) AS (SELECT {}) SELECT a FROM c",
    "SELECT 1 UNION (SELECT {})",
    "VALUES ROW({})",
    "SELECT * FROM t JOIN (SELECT {}) x (a) ON (x.a)",
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        *((f"{name}()", "session") for name in ("CONNECTION_ID", "LAST_INSERT_ID", "VERSION")),
        *((f"{name}()", "session") for name in ("USER", "CURRENT_USER", "SESSION_USER")),
        *((f"{name}()", "session") for name in ("SYSTEM_USER", "CURRENT_ROLE", "UUID_SHORT")),
        *((f"{name} ( 1 )", "session") for name in ("SLEEP", "LAST_INSERT_ID", "RELEASE_LOCK")),
        *((f"{name}('a')", "session") for name in ("IS_FREE_LOCK", "IS_USED_LOCK", "LOAD_FILE")),
        ("CURRENT_USER", "session"),
        ("BENCHMARK(1, 2)", "session"),
        ("RELEASE_ALL_LOCKS()", "session"),
        ("WAIT_FOR_EXECUTED_GTID_SET('', 1)", "session"),
        ("SOURCE_POS_WAIT('', 1)", "session"),
        ("GET_LOCK('a', 1)", "pin+"),
        ("`GET_LOCK`('a', 1)", "write!+"),
        ("SERVICE_GET_READ_LOCKS('a', 'b', 1)", "write!+"),
        ("SERVICE_GET_WRITE_LOCKS('a', 'b', 1)", "write!+"),
        ("SERVICE_RELEASE_LOCKS('a')", "write!"),
        ("SESSION_USER ()", "write!"),
        ("@a", "read"),
        ("@`a b`", "read"),
        ("@", "read"),
        ("@a := 1", "session"),
        ("@@autocommit", "session"),
        ("@@GLOBAL.gtid_executed", "session"),
        ("(SELECT a FROM t FOR SHARE)", "write"),
        ("f()", "write!"),
        ("f ()", "write!"),
        ("f/**/()", "write!"),
        ("d.f()", "write!"),
        ("d . abs(1)", "write!"),
        ("`d`.`f`()", "write!"),
        ("`sum`(a)", "write!"),
        ("SUM (a)", "write!"),
        ("COUNT (*)", "write!"),
        ("NOW ()", "write!"),
        ("1f(1)", "write!"),
        ("MD5('a')", "write!"),
        ("VECTOR_DIM(a)", "write!"),
        ("{fn f(1)}", "write!"),
        ("IF(f(1), 1, 2)", "write!"),
        ("a IN (SELECT f(b) FROM u)", "write!"),
        ("sys.format_bytes(1)", "write!"),
    ],
)
def test_expressions(call: str, expected: str) -> None:
    for around in AROUND_EXPRESSIONS:
        assert short(of(around.format(call))) == expected


@pytest.mark.parametrize("name", ["FOUND_ROWS()", "ROW_COUNT()", "@@warning_count"])
def test_questions_about_the_previous_statement(name: str) -> None:
    assert short(of(f"SELECT {name}")) == "diagnostic"
    assert short(of("SELECT ? FROM DUAL".replace("?", name))) == "diagnostic"
    assert short(of("SELECT ? FROM t".replace("?", name))) == "session"
    assert short(of("SELECT ? FROM (t)".replace("?", name))) == "session"
    assert short(of("SELECT ?, a FROM(t JOIN u)".replace("?", name))) == "session"
    assert short(of("SELECT ?, (TABLE t)".replace("?", name))) == "session"
    assert short(of("SELECT ?, EXISTS(TABLE t)".replace("?", name))) == "session"
    assert short(of(f"SELECT {name}, @a")) == "session"
    assert short(of(f"SELECT {name}, f()")) == "write!"
    assert short(of("SELECT @@SESSION.error_count")) == "diagnostic"


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("SELECT @@session_track_gtids", True),
        ("SET @a = @@SESSION.session_track_schema", True),
        ("SHOW VARIABLES", True),
        ("SHOW VARIABLES LIKE 'session_track%'", True),
        ("SHOW LOCAL VARIABLES LIKE '%track%'", True),
        ("SHOW VARIABLES LIKE 's%'", True),
        ("SHOW VARIABLES WHERE Variable_name = 'autocommit'", True),
        ("SELECT * FROM performance_schema.session_variables", True),
        ("SELECT * FROM `performance_schema`.`session_variables`", True),
        ("DO 1; SELECT @@session_track_gtids", True),
        ("SHOW VARIABLES LIKE 'sql_mode'", False),
        ("SHOW VARIABLES LIKE 'session1%'", False),
        ("SHOW GLOBAL VARIABLES", False),
        ("SELECT @@autocommit, @session_track_gtids", False),
        ("INSERT INTO t SELECT @@session_track_gtids", False),
        ("INSERT INTO t VALUES (1); SELECT @@session_track_gtids", False),
    ],
)
def test_what_shows_the_settings_of_trackers(text: str, shows: bool) -> None:
    assert of(text).shows_tracking is shows


@pytest.mark.parametrize(
    ("text", "kind", "asks"),
    [
        ("SELECT FOUND_ROWS()", "diagnostic", True),
        ("SHOW WARNINGS", "diagnostic", True),
        ("SHOW COUNT(*) ERRORS", "diagnostic", True),
        ("SHOW SESSION STATUS LIKE 'last_query_cost'", "diagnostic", True),
        ("SHOW STATUS LIKE 'Last_query_partial_plans'", "diagnostic", True),
        ("SHOW GLOBAL STATUS LIKE 'last_query_cost'", "session", False),
        ("SHOW STATUS LIKE 'Last_query_%'", "session", False),
        ("SHOW STATUS LIKE 'Uptime'", "session", False),
        ("GET DIAGNOSTICS @n = NUMBER", "session", True),
        ("SET @n = FOUND_ROWS()", "session", True),
        ("SELECT FOUND_ROWS(), LAST_INSERT_ID()", "session", True),
        ("SELECT @@session.warning_count, @@identity", "session", True),
        ("SELECT @@`warning_count`", "diagnostic", True),
        ("SELECT @@session.`Error_count`", "diagnostic", True),
        ("SELECT @@local . warning_count", "diagnostic", True),
        ("SELECT @@session . `warning_count`, @@identity", "session", True),
        ("SET @n = @@`warning_count`", "session", True),
        ("SELECT @@session.", "session", False),
        ("SELECT @@session .", "session", False),
        ("SELECT @@identity, warning_count FROM t", "session", False),
        ("INSERT INTO t SELECT ROW_COUNT()", "write", True),
        ("DO 1; SELECT FOUND_ROWS()", "write", True),
        ("SELECT LAST_INSERT_ID()", "session", False),
        ("SELECT a FROM t", "read", False),
    ],
)
def test_what_asks_about_the_statement_before(text: str, kind: str, asks: bool) -> None:
    statement = of(text)
    assert (statement.kind, bool(statement.asks)) == (kind, asks)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("performance_schema.threads", "session"),
        ("`performance_schema` . `threads`", "session"),
        ("sys.session", "session"),
        ("mysql.general_log", "session"),
        ("information_schema.PROCESSLIST", "session"),
        ("information_schema.INNODB_TRX", "session"),
        ("information_schema.`innodb_trx`", "session"),
        ("INFORMATION_SCHEMA . Optimizer_Trace", "session"),
        ("information_schema.SCHEMATA", "read"),
        ("d.processlist", "read"),
        ("performance_schema", "read"),
    ],
)
def test_tables_that_each_server_has_of_its_own(table: str, expected: str) -> None:
    for query in ("SELECT * FROM ? LIMIT 1", "SELECT a FROM t WHERE b IN (SELECT c FROM ?)"):
        assert short(of(query.replace("?", table))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "WITH c AS (SELECT 1) UPDATE (t) SET a = 1",
        "WITH c AS (SELECT 1)UPDATE(t, u) SET t.a = 1",
        "WITH c (a) AS (SELECT 1) UPDATE ((t JOIN c USING (a))) SET t.a = 1",
        "WITH RECURSIVE c AS (SELECT 1) UPDATE /* u */ (t) SET a = 1",
        "EXPLAIN ANALYZE WITH c AS (SELECT 1) UPDATE (t) SET a = 1",
    ],
)
def test_updates_of_tables_in_parentheses(text: str) -> None:
    assert short(of(text)) == "write!"
    assert of(text).reason is StatementReason.DATA


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        ("SET_VAR(sql_auto_is_null = 1)", "write!"),
        ("SET_VAR(sql_áuto_is_null = 1)", "write!"),
        ("MAX_EXECUTION_TIME(5) set_var ( `SQL_AUTO_IS_NULĹ` = 1)", "write!"),
        ("INDEX(übung) SET_VAR(sort_buffer_size = 40000)", "read"),
        ("MAX_EXECUTION_TIME(5) set_var(`SQL_Auto_Is_Null`=ON)", "write!"),
        ("SET_VAR(sql_safe_updates = 1)", "read"),
    ],
)
def test_hints_that_ask_for_the_last_inserted_id(hint: str, kind: str) -> None:
    classifier = Classifier()
    for literal in ("1", "2", "'x'", "'sql_auto_is_null'"):
        text = b"SELECT /*+ %b */ a FROM t WHERE a IS NULL OR a = %b" % (
            hint.encode(),
            literal.encode(),
        )
        assert short(of(text)) == kind
        assert short(classifier.classify(text, 0)) == kind
    assert short(of("SELECT /* sql_auto_is_null */ a FROM t WHERE a IS NULL")) == "read"


def test_stored_functions_never_pass_as_reads() -> None:
    """Which forms of a call run a stored function of the same name, asked of a server."""
    resolution = json.loads(Path(__file__).with_name("corpus_resolution.json").read_text())
    forms = ("{}(1)", "{} (1)", "{}/**/(1)", "`{}`(1)", "d.{}(1)")
    names = {name: runs for runs, group in resolution.items() for name in group}
    for name, runs in names.items():
        for form, stored in zip(forms, runs, strict=True):
            statement = of(f"SELECT {form.format(name)}")
            if stored == "S":
                assert statement.kind is StatementClass.WRITE, (name, form)
                assert statement.may_write
    listed = {name.decode() for name in native_functions.PURE}
    assert listed <= set(names)
    adjacent = {name.decode() for name in native_functions.ADJACENT_ONLY}
    assert {name for name in listed | adjacent if names[name] == "-SSSS"} == adjacent


def assigned(text: str) -> list[tuple[str, str, str | None]]:
    return [
        (assignment.scope, assignment.name, assignment.value) for assignment in of(text).assignments
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET Sql_Mode='ANSI'", [("session", "sql_mode", "'ANSI'")]),
        ("SET a := ON", [("session", "a", "ON")]),
        ("SET `a`=-1, b=+1.5, c=0x1F", [("session", "a", "-1"), ("session", "b", "+1.5"),
                                        ("session", "c", "0x1F")]),
        ("SET LOCAL a=DEFAULT", [("session", "a", "DEFAULT")]),
        # A scope keyword holds until the next one, except for @@.
        ("SET GLOBAL a=1, b=2, @@c=3, @d=4, e=5, SESSION f=6, g=7",
         [("global", "a", "1"), ("global", "b", "2"), ("session", "c", "3"), ("user", "d", "4"),
          ("global", "e", "5"), ("session", "f", "6"), ("session", "g", "7")]),
        ("SET @@GLOBAL.a=1, b=2", [("global", "a", "1"), ("session", "b", "2")]),
        ("SET @@session.`a`=1", [("session", "a", "1")]),
        ("SET @@`a`=1", [("session", "a", "1")]),
        ("SET @@local . a = 1", [("session", "a", "1")]),
        ("SET PERSIST a=1, @@PERSIST_ONLY.b=2", [("persist", "a", "1"), ("persist", "b", "2")]),
        ("SET GLOBAL hot.key_buffer_size=5", [("global", "hot.key_buffer_size", "5")]),
        ("SET validate_password.length=8", [("session", "validate_password.length", "8")]),
        ("SET @@GLOBAL.hot.key_buffer_size=5", [("global", "hot.key_buffer_size", "5")]),
        ("SET @A=1, @`b c`='x', @'d'=NULL",
         [("user", "a", "1"), ("user", "*", "'x'"), ("user", "d", "NULL")]),
        ("SET a=CONCAT(@@a, ',x'), b=(SELECT 1, 2), c=1+1, d='x' 'y', e=@x",
         [("session", name, None) for name in "abcde"]),
        ("SET timestamp=CURRENT_TIMESTAMP", [("session", "timestamp", None)]),
        ("SET a='x', b=\"y\"", [("session", "a", "'x'"), ("session", "b", '"y"')]),
        ("SET NAMES utf8mb4", [("session", "names", "utf8mb4")]),
        ("SET NAMES 'utf8mb4' COLLATE utf8mb4_bin, a=1",
         [("session", "names", "'utf8mb4' COLLATE utf8mb4_bin"), ("session", "a", "1")]),
        ("SET NAMES DEFAULT", [("session", "names", "DEFAULT")]),
        ("SET CHARACTER SET latin1", [("session", "character set", "latin1")]),
        ("SET CHARSET 'latin1'", [("session", "character set", "'latin1'")]),
        ("SET NAMES latin1, CHARSET latin1",
         [("session", "names", None), ("session", "character set", None)]),
        ("SET default_collation_for_utf8mb4=45, NAMES utf8mb4",
         [("session", "default_collation_for_utf8mb4", "45"), ("session", "names", None)]),
        ("SET names=1", [("session", "names", "1")]),
        ("SET transaction_isolation='SERIALIZABLE'",
         [("session", "transaction_isolation", "'SERIALIZABLE'")]),
        ("SET @@transaction_isolation='SERIALIZABLE'",
         [("one-shot", "transaction_isolation", "'SERIALIZABLE'")]),
        ("SET @@session.transaction_read_only=1", [("session", "transaction_read_only", "1")]),
        ("SET @@transaction_read_only=1", [("one-shot", "transaction_read_only", "1")]),
        ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
         [("one-shot", "transaction_isolation", "'READ-COMMITTED'"),
          ("one-shot", "transaction_read_only", "ON")]),
        ("SET LOCAL TRANSACTION READ WRITE", [("session", "transaction_read_only", "OFF")]),
        ("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ",
         [("global", "transaction_isolation", "'REPEATABLE-READ'")]),
        ("SET ROLE NONE", [("session", "role", "NONE")]),
        ("SET ROLE `a`@'%', b", [("session", "role", "`a` @'%' , b")]),
        ("SET RESOURCE GROUP g", [("session", "resource_group", None)]),
        ("SET TRANSACTION FROB", []),
        ("SET session=1", [("session", "session", "1")]),
        ("SET a=1,", []),
        ("SET =1", []),
        ("SET @@=1", []),
        ("SET `timestamp ` = 1", []),
        ("SET timestämp = 1", []),
        ("SELECT @a := 1, @B", [("user", "a", None), ("user", "b", None)]),
        ("SELECT 1 INTO @`A b`", [("user", "*", None)]),
        ("CALL p(@a, 1)", [("user", "a", None)]),
        ("LOAD DATA INFILE 'x' INTO TABLE t (a, @a)", [("user", "a", None)]),
        ("GET DIAGNOSTICS @n = NUMBER", [("user", "n", None)]),
        ("SET @a = (@b := 2)", [("user", "a", None), ("user", "a", None), ("user", "b", None)]),
        ("INSERT INTO t VALUES (@a := 1)", [("user", "a", None)]),
        ("SELECT @a", []),
        ("CREATE PROCEDURE p() SELECT 1 INTO @a", []),
    ],
)  # fmt: skip
def test_assignments(text: str, expected: list[tuple[str, str, str | None]]) -> None:
    assert assigned(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SET session_track_gtids=OFF",
        "SET @@SESSION.session_track_gtids = DEFAULT",
        "SET a=1, `Session_Track_Gtids`='ALL_GTIDS'",
        "SET GLOBAL session_track_gtids=OFF",
        "/*!80000 SET session_track_gtids=OFF */",
        "SELECT 1; SET session_track_gtids=OFF",
        "CREATE PROCEDURE p() BEGIN SELECT 1; END; SET session_track_gtids=OFF",
        "SET session_track_gtids",
        "SET session_track_gtids='a",
        "SELECT '" + "x" * MAX_TEXT + "'; SET session_track_gtids=OFF",
    ],
)
def test_tracking_is_watched(text: str) -> None:
    statement = of(text)
    assert statement.touches_tracking
    assert any(assignment.name == "session_track_gtids" for assignment in statement.assignments)


def test_tracking_that_is_not_touched() -> None:
    for text in (
        "SELECT @@session_track_gtids",
        "SET session_track_schema=ON",
        "CREATE PROCEDURE p() BEGIN SET session_track_gtids=OFF; END",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW"
        " IF 1 THEN SET session_track_gtids=OFF; END IF",
    ):
        assert not of(text).touches_tracking


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("KILL 5", 5),
        ("KILL CONNECTION 17 ;", 17),
        ("kill query 18446744073709551615", 18446744073709551615),
        ("KILL @a", None),
        ("KILL 5 + 1", None),
        ("KILL 0x5", None),
        ("KILL '5'", None),
        ("KILL " + "5" * 5000, None),
        ("KILL", None),
        ("SELECT 5", None),
    ],
)
def test_kill_targets(text: str, target: int | None) -> None:
    assert of(text).kill_target == target


def test_kill_of_what_a_function_says() -> None:
    assert short(of("KILL f(1)")) == "write!"


def test_several_statements() -> None:
    statement = of("SET a=1; SELECT GET_LOCK('a;b', 1); SET b=2;")
    assert statement.multi
    assert statement.kind is StatementClass.WRITE
    assert statement.pins
    assert not statement.may_write
    assert [assignment.name for assignment in statement.assignments] == ["a", "b"]
    assert of("SELECT 1; INSERT INTO t VALUES (1)").may_write
    for text in ("SELECT 1;", "SELECT ';'", "SELECT 1 -- ;\n", "SELECT `;` ; -- x"):
        assert not of(text).multi
    for text in ("SELECT 1;;", "; SELECT 1", "BEGIN; END"):
        assert of(text).multi


def test_bodies_of_stored_programs_are_no_statements() -> None:
    body = "BEGIN IF a THEN SET @x=1; ELSE SET @y=2; END IF; {} END"
    for inside in (
        "WHILE a DO SELECT 1; END WHILE;",
        "l: LOOP LEAVE l; END LOOP;",
        "REPEAT SET @a=REPEAT('x', 2); UNTIL 1 END REPEAT;",
        "CASE a WHEN 1 THEN SELECT 1; END CASE; SELECT CASE a WHEN 1 THEN 2 END, IF(a, 1, 2);",
        "DROP TABLE IF EXISTS t; BEGIN SELECT 1; END;",
    ):
        program = "CREATE PROCEDURE p() " + body.format(inside)
        assert short(of(program)) == "write!"
        assert not of(program).multi
        assert of(program + "; SET @z=3").assignments == (Assignment("user", "z", "3"),)


def test_executable_comments_take_the_less_safe_reading() -> None:
    assert short(of("SELECT 1 /*!99999 , f(1) */")) == "write!"
    assert short(of("SELECT 1 /*!99999 FOR UPDATE */")) == "write"
    assert short(of("SELECT 1 /*!99999 INTO @a */")) == "session"
    assert short(of("SELECT f(1 /*!99999 ) - ABS(1 */)")) == "write!"
    assert short(of("/*!99999 SELECT f(1); */ SELECT 1")) == "write!"
    assert short(of("/*!80000 SET NAMES utf8mb4 */")) == "session"
    assert short(of("/*!99999 SET NAMES utf8mb4 */")) == "session"
    assert short(of("/*! KILL */ 5")) == "session"
    assert of("KILL 5 /*!99999 + 1 */").kill_target is None
    assert assigned("SET a=1 /*!99999 , b=2 */") == [
        ("session", "a", "1"),
        ("session", "a", "1"),
        ("session", "b", "2"),
    ]
    assert short(of("SELECT 1 /*!99999 'a */")) == "write!"


def test_long_texts() -> None:
    long_literal = "SELECT '" + "x" * (MAX_TEXT - 9) + "'"
    assert len(long_literal) == MAX_TEXT
    assert short(of(long_literal)) == "read"
    assert of(long_literal + " ").reason is StatementReason.TOO_LONG
    many_literals = "SELECT a FROM t WHERE b IN (?)".replace("?", ", ".join(["1000"] * 9000))
    assert MAX_SKELETON < len(many_literals) < MAX_TEXT
    assert short(of(many_literals)) == "read"
    assert of("SELECT " + "a," * (MAX_SKELETON // 2) + "a").reason is StatementReason.TOO_LONG
    assert of("SELECT " + "-" * 5000 + "1").reason is StatementReason.UNREADABLE


@pytest.mark.parametrize("start", ["SELECT '", "INSERT INTO t VALUES ('a@b.c:", "UPDATE t SET a='"])
def test_what_is_not_read_to_its_end_may_do_anything(start: str) -> None:
    for end in ("x", "x" * MAX_TEXT + "'"):
        plain = of(start + end)
        assert plain.kind is StatementClass.WRITE
        assert plain.may_write
        if plain.reason is StatementReason.TOO_LONG:
            assert short(plain) == "write!"
            assert not plain.multi
        for hidden in ("get_lock('a',1)", "; create temporary table t"):
            assert of(f"{start}{end}, {hidden.upper()}").pins
        assert of(f"{start}{end}; SELECT 1").multi
    assert of("EXECUTE s USING 'a").pins
    assert of("  /* a */ Lock Tables `t").pins


def test_modes() -> None:
    for text, kind in ((b'SELECT "f"(1)', "write"), (b'SELECT "a" FROM t', "read")):
        assert classify(text, ansi_quotes=True).kind == kind
    assert classify(b'SELECT * FROM "performance_schema"."threads"', ansi_quotes=True).kind == (
        "session"
    )
    hidden = rb"SELECT '\', f(1), '\'"
    assert classify(hidden, no_backslash_escapes=True).reason is StatementReason.UNKNOWN_FUNCTION
    assert classify(hidden).reason is StatementReason.UNREADABLE
    assert classify(rb"SELECT 'a\', FOR UPDATE'").kind is StatementClass.READ


def test_digests() -> None:
    def digest(text: str) -> str:
        found = of(text).digest
        assert re.fullmatch("[0-9a-f]{16}", found)
        return found

    same = digest("SELECT a FROM t WHERE b IN (1, 2) AND c = 'x'")
    assert digest('select  A /* x */ from t\nwhere b in (7) and c = "y" ;') == same
    assert digest("SELECT a FROM t WHERE b IN ('x') AND c = 0x1F -- x") == same
    assert digest("SELECT a FROM u WHERE b IN (1, 2) AND c = 'x'") != same
    assert digest("INSERT INTO t VALUES (1, 2)") == digest("INSERT INTO t VALUES (3, 4), (5, 6)")
    assert digest("SELECT a") == "33a07c1c78b98c50"  # stable over versions: logs are compared by it


ROWS = FOUND_ROWS | FOUND_AS_SHOWN


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(SELECT 1)", ROWS),
        ("SELECT 1 LIMIT 1", FOUND_ROWS),
        ("SELECT SQL_CALC_FOUND_ROWS 1", FOUND_ROWS),
        ("/*!50000 UPDATE */ t SET a = 1", FOUND_ROWS),
        ("DELETE QUICK FROM t WHERE a = 1", 0),
        ("DELETE FROM t WHERE a = (SELECT 1)", 0),
        ("DELETE FROM t WHERE a = (SELECT MAX(a) FROM u)", FOUND_ROWS),
        ("DELETE QUICK t FROM t", FOUND_ROWS),
        ("DELETE FROM t USING t JOIN u", FOUND_ROWS),
        ("INSERT INTO t VALUES (1)", 0),
        ("INSERT INTO t VALUES ((SELECT 1))", 0),
        ("INSERT INTO t VALUES ((SELECT a FROM u))", FOUND_ROWS),
        ("INSERT INTO t WITH c AS (SELECT 1) TABLE c", FOUND_ROWS),
        ("SHOW FULL TABLES", ROWS),
        ("SHOW COUNT(*) WARNINGS", ROWS),
        ("SHOW WARNINGS", 0),
        ("EXPLAIN t", ROWS),
        ("EXPLAIN FORMAT = TREE TABLE t", 0),
        ("DO", FOUND_ROWS),
        ("CALL p()", MAY_FIND_ROWS),
        ("SELECT 1; SET @a = 1", FOUND_ROWS),
        ("SELECT 1 /*!80100 INTO @a */", MAY_FIND_ROWS),
        ("SHOW /*!80100 CREATE */ TABLE STATUS", MAY_FIND_ROWS),
    ],
)
def test_what_sets_found_rows(text: str, found: int) -> None:
    assert of(text).leaves & (ROWS | MAY_FIND_ROWS) == found


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("CREATE TABLE t SELECT 1", COUNTS_ROWS),
        ("CREATE TEMPORARY TABLE t (a INT) AS WITH c AS (SELECT 1) TABLE c", COUNTS_ROWS),
        ("CREATE TABLE t VALUES ROW(1), ROW(2)", COUNTS_ROWS),
        ("CREATE TABLE IF NOT EXISTS t TABLE u", MAY_COUNT_ROWS),
        ("CREATE TABLE t (a INT, FULLTEXT KEY (b) WITH PARSER ngram)", 0),
        ("CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1))", 0),
        ("CREATE TABLE t LIKE u", 0),
        ("CREATE VIEW v AS SELECT 1", 0),
        ("CREATE PROCEDURE p() CREATE TABLE t SELECT 1", 0),
        ("SET @a = 1", 0),
        ("SET @a = (SELECT MAX(a) FROM t)", MAY_COUNT_ROWS),
        ("INSERT INTO t VALUES (1)", TAKES_COUNT),
        ("INSERT INTO t SELECT 1", 0),
        ("DELETE FROM t", TAKES_COUNT),
        ("DELETE FROM t WHERE a IN (TABLE u)", 0),
        ("EXPLAIN SELECT a FROM t", TAKES_COUNT),
        ("EXPLAIN UPDATE t SET a = 1", TAKES_COUNT),
        ("EXPLAIN SELECT a FROM t WHERE a = (SELECT MAX(a) FROM u)", TAKES_COUNT | MAY_COUNT_ROWS),
        ("EXPLAIN DELETE FROM t WHERE a = (SELECT MAX(a) FROM u)", TAKES_COUNT | MAY_COUNT_ROWS),
        ("EXPLAIN ANALYZE SELECT a FROM t", 0),
        ("EXPLAIN t", 0),
        ("EXPLAIN FOR CONNECTION 1", 0),
        ("SHOW CREATE TABLE t", 0),
        ("CALL p()", TAKES_COUNT),
        ("EXECUTE p", MAY_COUNT_ROWS),
        ("CREATE TABLE t SELECT 1; SET @a = 1", COUNTS_ROWS),
        ("SET @a = (SELECT MAX(a) FROM t); BEGIN", MAY_COUNT_ROWS),
        ("CREATE TABLE t SELECT 1; INSERT INTO u VALUES (1)", FOUND_ROWS | TAKES_COUNT),
        ("SET @a = (SELECT MAX(a) FROM t); DELETE FROM u", MAY_FIND_ROWS | TAKES_COUNT),
        ("CREATE TABLE t SELECT 1; SELECT 1", FOUND_ROWS),
        ("INSERT INTO u VALUES (1); CREATE TABLE t SELECT 1", TAKES_COUNT | COUNTS_ROWS),
        ("INSERT INTO u VALUES (1); SET @a = (TABLE t)", TAKES_COUNT | COUNTS_ROWS),
    ],
)
def test_what_counts_rows_that_found_rows_does_not_show_yet(text: str, counted: int) -> None:
    parts = COUNTS_ROWS | MAY_COUNT_ROWS | TAKES_COUNT
    several = FOUND_ROWS | MAY_FIND_ROWS if "; " in text else 0
    assert of(text).leaves & (parts | several) == counted


class Searched(bytes):
    """A text that counts the bytes that are looked at."""

    looked_at = 0

    def lower(self) -> "Searched":
        Searched.looked_at += len(self)
        return Searched(super().lower())

    def find(self, *args: Any) -> int:
        at = super().find(*args)
        Searched.looked_at += len(self) if at < 0 else at
        return at

    def __contains__(self, key: Any) -> bool:
        found = super().__contains__(key)
        Searched.looked_at += len(self)
        return found


@pytest.mark.plain
@pytest.mark.parametrize(
    "text",
    [
        b"INSERT INTO t VALUES ('%b')" % (b"x" * (1 << 20)),
        b"INSERT INTO t VALUES %b(1)" % (b"(1,'some text',NULL)," * 50_000),
        b"SELECT a FROM t WHERE b IN (%b1)" % (b"1234567," * 100_000),
        b"SELECT %b1%b" % (b"(" * 500_000, b")" * 500_000),
        b"SELECT %b" % (b"1" * (1 << 20)),
        b"  /* a */ SELECT 1 %b" % (b"/* some comment */" * 50_000),
        b"(SELECT a+%b1)" % (b"b+c*d," * 100_000),
        b"UPDATE t SET the_view = 'user', role = 'temporary %b'" % (b"x" * (1 << 20)),
    ],
    ids=lambda text: text[:30].decode(),
)
def test_a_long_text_is_not_searched_for_many_words(text: bytes) -> None:
    """Whatever the event loop does with a text, nobody else is served meanwhile."""
    Searched.looked_at = 0
    classifier = Classifier()
    for _ in range(3):  # the fast path asks, and the session
        assert classifier.classify(Searched(text), 0).reason is StatementReason.TOO_LONG
    assert Searched.looked_at < 5 * len(text)


def test_words_in_the_text_of_a_single_statement_do_nothing() -> None:
    long = "x" * MAX_TEXT
    for start in ("INSERT INTO t VALUES ('", "select 'a", "(SELECT 'a", "WITH c AS (SELECT 'a"):
        statement = of(f"{start}{long} create temporary view, session_track_gtids, execute')")
        assert short(statement) == "write!"
        assert not statement.touches_tracking
        assert not statement.changes_views
        assert statement.text_prepared is None
    for start in ("CREATE TEMPORARY TABLE t AS SELECT '", "/*!80000 SELECT '", "SELECT 1;SELECT '"):
        assert of(f"{start}{long} temporary view, session_track_gtids, execute'").pins
        assert of(f"{start}{long} temporary view, session_track_gtids, execute'").changes_views


@pytest.mark.parametrize(
    ("text", "variables", "names_id"),
    [
        ("INSERT INTO t VALUES ('a@b.example', '@x', 'connection_id()')", False, False),
        ("INSERT INTO t VALUES (1) -- @x connection_id()", False, False),
        ("UPDATE t SET a = @@sql_mode", False, False),
        ("UPDATE t SET a = @x", True, False),
        ("UPDATE t SET a = @`x`", True, False),
        ("SELECT 1 INTO @x", True, False),
        ("SELECT /*!80000 @x, */ 1", True, False),
        ("SELECT /*!99999 connection_id(), */ 1", False, True),
        ("INSERT INTO t VALUES (`Connection_Id` ())", False, True),
        ("SELECT @@session.pseudo_thread_id", False, True),
    ],
)
def test_what_is_named_outside_of_literals(text: str, variables: bool, names_id: bool) -> None:
    statement = of(text)
    assert (statement.names_user_variables, statement.names_id) == (variables, names_id)
