"""SQL: what statements answer, besides what `differential` compares with a server."""

from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from tests.mysql_mocker.raw_client import RawClient
from tests.support.waiting import until

Connect = Callable[..., RawClient]


@pytest.fixture
def table_client(client: RawClient) -> RawClient:
    """A client that has a table of three rows."""
    client.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), n INT UNIQUE)")
    client.query("INSERT INTO t (v, n) VALUES ('a', 1), ('b', 2), ('c', 3)")
    return client


@pytest.mark.parametrize(
    "statement",
    [
        "DROP DATABASE", "OPTIMIZE a", "SHOW TABLES FROM", "SHOW COLUMNS FROM", "KILL 'x'", "KILL",
        "UPDATE t SET n", "PREPARE s", "SET n", "SET @a =", "TRUNCATE",
        "RENAME TABLE t",
        "CREATE PROCEDURE p", "DESCRIBE", "USE", "SAVEPOINT", "EXECUTE", "CALL", "INSERT INTO t",
        "SELECT INTO 'x'", "SET autocommit = INTO 'x'", "SHOW", "LOCK", "EXPLAIN SELECT", "(", "*",
    ],
)  # fmt: skip
def test_unfinished_statements_are_errors(table_client: RawClient, statement: str) -> None:
    reply = table_client.query(statement)[-1]
    assert statement == "LOCK" or reply.error.code in (1064, 1235)
    assert table_client.value("SELECT COUNT(*) FROM t") == "3"


VALUES = (
    ("7 DIV 2", "3"), ("7 % 4", "3"), ("1 = 1", "1"), ("NOT 1", "0"), ("NULL", None),
    ("1.5", "1.5"),
    ("'it''s'", "it's"), (r"'a\n\'b'", "a\n'b"), ("0x41", "A"), ("x'4142'", "AB"),
    ("CONCAT('a', 1, 'b')", "a1b"), ("CONCAT('a', NULL)", None),
    ("CONCAT_WS('-', 1, NULL, 2)", "1-2"),
    ("IF(1 > 2, 'y', 'n')", "n"), ("IFNULL(NULL, 3)", "3"), ("GREATEST(1, 3, 2)", "3"),
    ("LEFT('abc', 2)", "ab"), ("RIGHT('abc', 2)", "bc"), ("LENGTH('é')", "2"),
    ("CHAR_LENGTH('é')", "1"),
    ("UPPER('é')", "É"),
    ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("DATE_ADD('2024-02-28', INTERVAL 1 DAY)", "2024-02-29"),
    ("'2024-01-01 23:00:00' + INTERVAL 2 HOUR", "2024-01-02 01:00:00"),
    ("DATABASE()", "test"), ("USER()", "demo@localhost"), ("CURRENT_USER()", "demo@%"),
    ("@unset", None), ("CAST('12' AS UNSIGNED) + 1", "13"), ("'a' LIKE 'A%'", "1"),
    ("'abc' REGEXP '^A'", "1"), ("3 BETWEEN 1 AND 5", "1"), ("2 IN (1, 2)", "1"),
    ("1 <=> NULL", "0"),
    ("EXISTS(SELECT 1 FROM t)", "1"), ("(SELECT MAX(n) FROM t)", "3"),
)  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_expressions(table_client: RawClient, expression: str, value: str | None) -> None:
    reply = table_client.reply(f"SELECT {expression}")
    name = expression if not expression.startswith("'it") else "it's"
    if expression.startswith(r"'a\n"):
        name = "a\n'b"
    assert reply.names == [name]
    assert reply.rows == [[None if value is None else value.encode()]]


def test_queries(table_client: RawClient) -> None:
    for sql, rows in (
        ("SELECT v FROM t ORDER BY id DESC LIMIT 1, 1", [["b"]]),
        (
            "SELECT x.v, y.v FROM t x JOIN t y ON y.n = x.n + 1 ORDER BY x.n",
            [["a", "b"], ["b", "c"]],
        ),
        ("SELECT test.t.v FROM test.t WHERE t.id = 1", [["a"]]),
        ("SELECT 1 FROM DUAL", [["1"]]),
        ("(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1 DESC", [["2"], ["1"]]),
        ("WITH c AS (SELECT 5 AS n) SELECT * FROM c", [["5"]]),
        ("SELECT n > 1 AS big, COUNT(*) FROM t GROUP BY big HAVING big", [["1", "2"]]),
        ("SELECT SQL_NO_CACHE DISTINCT v FROM t WHERE v = 'A'", [["a"]]),
        ("SELECT /*+ NO_INDEX_MERGE() */ /* c */ 1 -- x", [["1"]]),
        ("SELECT GROUP_CONCAT(v) FROM t", [["a,b,c"]]),
        (
            "SELECT @sum := @sum + n FROM t, (SELECT @sum := 0) start ORDER BY n",
            [["1"], ["3"], ["6"]],
        ),
        ("SELECT @sum", [["6"]]),
    ):
        found = [
            [None if v is None else v.decode() for v in row] for row in table_client.reply(sql).rows
        ]
        assert found == rows, sql


def test_a_name_that_sqlite_reserves(client: RawClient) -> None:
    client.query("CREATE TABLE nothing (nothing INT, `glob` INT)")
    assert client.reply("INSERT INTO nothing VALUES (1, 2)").ok
    assert client.reply("SELECT nothing, `glob` FROM nothing").rows == [[b"1", b"2"]]


def test_found_rows_flag_counts_matched_rows(connect: Connect, table_client: RawClient) -> None:
    client = connect(flags=2)
    assert client.reply("UPDATE t SET v = v").ok.affected_rows == 3


# Transactions.


def test_transactions(table_client: RawClient, connect: Connect) -> None:
    other = connect()
    table_client.query("BEGIN")
    table_client.query("DELETE FROM t")
    assert other.value("SELECT COUNT(*) FROM t") == "3"
    assert table_client.value("SELECT COUNT(*) FROM t") == "0"
    table_client.query("ROLLBACK")
    assert table_client.value("SELECT COUNT(*) FROM t") == "3"
    table_client.query("START TRANSACTION")
    table_client.query("DELETE FROM t WHERE n = 1")
    table_client.query("SAVEPOINT s")
    table_client.query("DELETE FROM t")
    table_client.query("ROLLBACK TO s")
    table_client.query("COMMIT")
    assert other.value("SELECT COUNT(*) FROM t") == "2"


def test_a_second_writer_waits_for_the_first(table_client: RawClient, connect: Connect) -> None:
    other = connect()
    table_client.query("BEGIN")
    table_client.query("INSERT INTO t (v) VALUES ('first')")
    other.send(b"\x03INSERT INTO t (v) VALUES ('second')")
    table_client.query("COMMIT")
    assert other.replies()[0].ok.last_insert_id == 5


def test_a_writer_that_waits_too_long(table_client: RawClient, connect: Connect) -> None:
    other = connect()
    table_client.query("BEGIN")
    table_client.query("INSERT INTO t (v) VALUES ('first')")
    other.query("SET innodb_lock_wait_timeout = 0")
    assert other.reply("INSERT INTO t (v) VALUES ('second')").error.code == 1205
    table_client.query("ROLLBACK")
    assert other.reply("INSERT INTO t (v) VALUES ('second')").ok


def test_temporary_tables_are_the_session_s_own(table_client: RawClient, connect: Connect) -> None:
    table_client.query("CREATE TEMPORARY TABLE t (n INT)")
    assert table_client.value("SELECT COUNT(*) FROM t") == "0"
    assert connect().value("SELECT COUNT(*) FROM t") == "3"
    table_client.query("DROP TEMPORARY TABLE t")
    assert table_client.value("SELECT COUNT(*) FROM t") == "3"


# Definitions.


def test_definitions(client: RawClient) -> None:
    for statement in (
        "CREATE TABLE p (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, e ENUM('a','b') NOT NULL "
        "DEFAULT 'a', k VARCHAR(10) CHARACTER SET utf8mb4 COMMENT 'c', PRIMARY KEY (id), "
        "UNIQUE KEY uk (k), KEY ik (e, k(4))) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        "CREATE TABLE c (a INT, b INT, PRIMARY KEY (a, b), CHECK (a < 10), "
        "CONSTRAINT f FOREIGN KEY (b) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE TABLE l LIKE p",
        "ALTER TABLE c ADD COLUMN d DATETIME, ADD INDEX i (d), ADD COLUMN s VARCHAR(5) NOT NULL",
        "ALTER TABLE c RENAME COLUMN d TO e, DROP COLUMN s",
        "CREATE OR REPLACE VIEW w AS SELECT k FROM p",
        "RENAME TABLE l TO m",
        "INSERT INTO p (k) VALUES ('one')",
        "INSERT INTO c (a, b) VALUES (1, 1)",
    ):
        assert client.reply(statement).ok, statement
    assert client.reply("INSERT INTO p (k) VALUES ('ONE')").error.code == 1062
    assert client.reply("INSERT INTO c (a, b) VALUES (1, 99)").error.code == 1452
    assert client.reply("INSERT INTO c (a, b) VALUES (11, 1)").error.code == 3819
    assert client.reply("SELECT * FROM w").rows == [[b"one"]]
    assert [row[0] for row in client.reply("SHOW TABLES").rows] == [b"c", b"m", b"p", b"w"]
    assert client.reply("DELETE FROM p").ok
    assert client.value("SELECT COUNT(*) FROM c") == "0"
    columns = [(row[0], row[1], row[3]) for row in client.reply("DESCRIBE p").rows]
    assert columns[0] == (b"id", b"bigint unsigned", b"PRI")
    created = client.reply("SHOW CREATE TABLE p").rows[0][1]
    assert created is not None
    assert b"UNIQUE KEY `uk` (`k`)" in created


# Variables and what monitors ask.


def test_variables(client: RawClient) -> None:
    client.query(
        "SET @a = 1 + 1, @b := 'x', SESSION wait_timeout = 100, @@session.time_zone = '+00:00'"
    )
    assert client.reply("SELECT @a, @B, @@wait_timeout, @@global.wait_timeout").rows == [
        [b"2", b"x", b"100", b"28800"]
    ]
    client.query("SET wait_timeout = DEFAULT, autocommit = OFF, sql_mode = ''")
    assert client.reply("SELECT @@wait_timeout, @@autocommit, @@sql_mode").rows == [
        [b"28800", b"0", b""]
    ]
    client.query("SET GLOBAL wait_timeout = 5")
    assert client.reply("SHOW GLOBAL VARIABLES LIKE 'wait_time%'").rows == [[b"wait_timeout", b"5"]]
    assert client.reply("SHOW VARIABLES WHERE Variable_name IN ('wait_timeout')").rows == [
        [b"wait_timeout", b"28800"]
    ]


def test_server_facts(client: RawClient) -> None:
    row = client.reply(
        "SELECT @@server_id, LENGTH(@@server_uuid), @@port, @@read_only, @@super_read_only, "
        "@@gtid_mode, @@hostname, CONNECTION_ID()"
    ).rows[0]
    port, own_id = str(client.address[0]).encode(), str(client.id).encode()
    assert row == [b"1", b"36", port, b"0", b"0", b"ON", b"localhost", own_id]
    uptime = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = "
    assert int(client.value(uptime + "'Uptime'") or "") < 1_000
    assert client.reply("SHOW STATUS LIKE 'Uptime'").rows[0][0] == b"Uptime"
    listed = client.reply("SELECT ID, USER FROM information_schema.PROCESSLIST").rows
    assert listed == [[own_id, b"demo"]]


def test_sql_mode_ansi_quotes(table_client: RawClient) -> None:
    assert table_client.value('SELECT "v" FROM t LIMIT 1') == "v"
    table_client.query("SET sql_mode = 'ANSI_QUOTES'")
    assert table_client.value('SELECT "v" FROM t LIMIT 1') == "a"


def test_sql_mode_no_backslash_escapes(client: RawClient) -> None:
    client.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
    assert client.value(r"SELECT 'a\n'") == r"a\n"


def test_versioned_comments_are_run(client: RawClient) -> None:
    assert client.reply("/*!40101 SET @a = 'yes' */").ok
    assert client.value("SELECT @a") == "yes"


def test_prepared_text_statements(table_client: RawClient) -> None:
    assert (
        table_client.reply("PREPARE s FROM 'SELECT v FROM t WHERE n = ?'").ok.info
        == b"Statement prepared"
    )
    table_client.query("SET @n = 2")
    assert table_client.reply("EXECUTE s USING @n").rows == [[b"b"]]
    assert table_client.reply("EXECUTE s").error.code == 1210
    assert table_client.reply("DEALLOCATE PREPARE s").ok
    assert table_client.reply("EXECUTE s USING @n").error.code == 1243


def test_named_locks(client: RawClient, connect: Connect) -> None:
    other = connect()
    assert client.value("SELECT GET_LOCK('l', 1)") == "1"
    assert other.value("SELECT GET_LOCK('l', 0)") == "0"
    assert other.value("SELECT IS_USED_LOCK('l')") == str(client.id)
    other.send(b"\x03SELECT GET_LOCK('l', -1)")
    assert client.value("SELECT RELEASE_LOCK('l')") == "1"
    assert other.replies()[0].rows == [[b"1"]]
    assert client.value("SELECT RELEASE_LOCK('l')") == "0"
    other.command(b"\x1f")
    assert client.value("SELECT IS_FREE_LOCK('l')") == "1"


def test_sleep_is_interrupted_by_kill_query(connect: Connect, primary: Server) -> None:
    sleeper, killer = connect(), connect()
    sleeper.send(b"\x03SELECT SLEEP(1000)")
    until(lambda: (sleeper.id, "SELECT SLEEP(1000)") in primary.statements, "it sleeps")
    killer.query(f"KILL QUERY {sleeper.id}")
    assert sleeper.replies()[0].rows == [[b"1"]]
    assert sleeper.value("SELECT SLEEP(0)") == "0"


def test_long_values_and_odd_bytes(client: RawClient) -> None:
    client.query("CREATE TABLE l (b LONGTEXT)")
    text = "ä\\'\n" * 50_000
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    client.query(f"INSERT INTO l VALUES ('{literal}')")  # noqa: S608 - escaped above
    assert client.value("SELECT b FROM l") == text
    client.command(b"\x03UPDATE l SET b = '\xff\xfe\\0'")
    assert client.reply("SELECT b FROM l").rows == [[b"\xff\xfe\0"]]
