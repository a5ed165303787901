"""Queries that are translated once, and values as SET takes them."""

import pytest

from mysql_mocker.evaluation.kept_query import kept_query
from mysql_mocker.sql.script import split
from tests.mysql_mocker.raw_client import RawClient

ITEMS = (
    "@@server_uuid, @@GLOBAL.gtid_mode, @@SESSION.sql_mode, @@LOCAL.autocommit",
    "@@max_join_size, -@@wait_timeout, @@long_query_time + 1, @@init_connect, NULL",
    "CONCAT_WS(0x1F, @@time_zone, IFNULL(@@character_set_results, ''), 'a', 1, NULL) AS joined",
    "(@@GLOBAL.replica_parallel_workers < 2 OR @@log_bin AND NOT @@read_only)",
    "CURRENT_USER(), DATABASE(), CAST(CURRENT_ROLE() AS BINARY), @@version",
    "(SELECT VARIABLE_VALUE FROM performance_schema.global_status"
    " WHERE VARIABLE_NAME = 'Threads_running'), @@version",
    "(SELECT COUNT(s.variable_name) FROM performance_schema.global_status AS s), @@port",
    "@@no_such_variable", "@@GLOBAL.last_insert_id", "@@SESSION.server_uuid",
    "@@version, no_column", "1, 'a' AS x, 2 + 3", "n, id AS i FROM t ORDER BY n DESC",
    "COUNT(*) FROM t AS a JOIN second.t AS b ON a.id = b.id WHERE a.n > 1", "* FROM missing",
    "* FROM t WHERE n = 2", "(SELECT MAX(n) FROM t) FROM DUAL",
    "n FROM v", "no_column FROM t", "* FROM no_schema.t",
)  # fmt: skip


SETUP = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 1), (2, 2)",
    "CREATE VIEW v AS SELECT n FROM t WHERE n > 1", "CREATE DATABASE second",
    "CREATE TABLE second.t (id INT)", "INSERT INTO second.t VALUES (2)",
)  # fmt: skip


@pytest.mark.parametrize("items", ITEMS)
def test_the_answer_is_the_one_of_a_query_that_is_translated_each_time(
    client: RawClient, items: str
) -> None:
    once, each_time = f"SELECT {items} LIMIT 5", f"SELECT {items} LIMIT 5 OFFSET 0"
    assert kept_query(split(once)[0], "test") is not None
    assert kept_query(split(each_time)[0], "test") is None
    for setup in SETUP:
        client.query(setup)
    answers = [client.query(sql) for sql in (once, each_time)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT @@version, @a", "SELECT @@version, 'é'", "SELECT n FROM t WHERE n = RAND(?)",
        "SELECT *, @@version FROM t", "SELECT n FROM t UNION SELECT 1", "SELECT f(n) FROM t",
        "SELECT * FROM performance_schema.global_variables", "SELECT n FROM t FOR UPDATE",
        "SELECT SQL_CALC_FOUND_ROWS n FROM t", "SELECT SLEEP(0)", "SELECT LAST_INSERT_ID(5)",
        "SELECT n FROM t LIMIT 5, 1", "WITH c AS (SELECT 1) SELECT * FROM c",
    ],
)  # fmt: skip
def test_others_are_translated_each_time(sql: str) -> None:
    assert kept_query(split(sql)[0], "test") is None


def test_in_another_schema_it_names_other_tables(client: RawClient) -> None:
    client.query("CREATE DATABASE other")
    for schema in ("test", "other"):
        client.query(f"USE {schema}")
        client.query("CREATE TABLE u (schema_name TEXT)")
        client.query("INSERT INTO u VALUES (DATABASE())")
        assert client.value("SELECT schema_name FROM u") == schema
    client.query("USE test")
    assert client.value("SELECT schema_name FROM u") == "test"
    client.query("DROP TABLE u")
    assert client.query("SELECT schema_name FROM u")[-1].error.code == 1146


def test_values_are_those_of_now(client: RawClient) -> None:
    sql = "SELECT @@sql_mode, @@wait_timeout"
    for mode, seconds in (("ANSI_QUOTES", 5), ("", 7)):
        client.query(f"SET sql_mode = '{mode}', wait_timeout = {seconds}")
        assert client.reply(sql).rows == [[mode.encode(), b"%d" % seconds]]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5", "5"), ("-5", "-5"), ("007", "7"), ("1.50", "1.5"), ("'x'", "x"), ("''", ""),
        ("_latin1'x'", "x"), ("_utf8mb4'x'", "x"), ("'é'", "é"), (r"'a\'b\0'", "a'b\0"),
        ("'1' '2'", "12"), ("'1' + 1", "2"), ("1e2", "100"), ("0x41", "A"), ("NULL", None),
        ("9223372036854775807", "9223372036854775807"), ("_binary'x'", "x"),
    ],
)  # fmt: skip
def test_set_takes_values_however_they_are_written(
    client: RawClient, written: str, value: str | None
) -> None:
    client.query(f"SET @a = {written}")
    assert client.value("SELECT @a") == value


def test_set_takes_long_texts(client: RawClient) -> None:
    client.query(f"SET @a = '{'x' * 3_000}'")
    assert client.value("SELECT CHAR_LENGTH(@a)") == "3000"
