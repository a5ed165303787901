"""SELECTs of variables, which are translated once, and values as SET takes them."""

import pytest

from mysql_mocker.evaluation.variable_query import variable_query
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
    "@@version, no_column",
)  # fmt: skip


@pytest.mark.parametrize("items", ITEMS)
def test_the_answer_is_the_one_of_a_query_that_is_translated_each_time(
    client: RawClient, items: str
) -> None:
    once, each_time = f"SELECT {items}", f"SELECT {items} FROM DUAL"  # noqa: S608 - of this file
    assert variable_query(split(once)[0]) is not None
    assert variable_query(split(each_time)[0]) is None
    answers = [client.query(sql) for sql in (once, each_time)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT @@version, @a", "SELECT @@version, VERSION() AS v", "SELECT @@version, 'é'",
        "SELECT * FROM performance_schema.global_status WHERE @@autocommit",
        "SELECT @@version, n FROM t", "SELECT @@version UNION SELECT 1", "SELECT 1",
        "SELECT @@version, n FROM performance_schema.global_variables", "SELECT @@version, RAND(?)",
    ],
)  # fmt: skip
def test_what_else_a_query_names_may_change(sql: str) -> None:
    expected = sql == "SELECT @@version, VERSION() AS v"
    assert (variable_query(split(sql)[0]) is not None) == expected


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
