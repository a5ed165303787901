"""Statements fail as they are told to, and no others do."""

from typing import Any

import mysql.connector
import pymysql
import pytest

from mysql_mocker import BlockingCluster, ControlError
from tests.mysql_mocker.control.conftest import Connect, comes_to, count, run

INSERT = "INSERT INTO t VALUES (1)"


def test_an_error_has_the_servers_own_words_and_happens_once(
    cluster: BlockingCluster, connect: Connect
) -> None:
    client = connect()
    shown = cluster.fault("primary", match="insert into t", error=1213)
    assert shown == {
        "id": 1, "on": "statement", "match": "insert into t", "error": 1213, "sqlstate": "40001",
        "message": "Deadlock found when trying to get lock; try restarting transaction",
        "times": 1, "happened": 0,
    }  # fmt: skip
    assert count(client) == 1
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(client, INSERT)
    assert error.value.args == (1213, shown["message"])
    run(client, INSERT)
    assert count(client) == 2
    assert cluster.server("primary").faults == []
    assert cluster.statements("primary").count(INSERT) == 2


def test_a_deadlock_ends_the_transaction_and_a_lock_timeout_does_not(
    cluster: BlockingCluster, connect: Connect
) -> None:
    client = connect(autocommit=False)
    for code, rows in ((1205, 2), (1213, 1)):
        cluster.fault("primary", match="UPDATE", error=code)
        run(client, INSERT)
        with pytest.raises(pymysql.err.OperationalError):
            run(client, "UPDATE t SET n = 5")
        assert count(client) == rows
        client.rollback()


def test_an_error_of_ones_own(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect()
    cluster.fault("primary", error=4711, sqlstate="XY123", message="Not today", times=2)
    for _ in range(2):
        with pytest.raises(pymysql.err.MySQLError) as error:
            run(client, INSERT)
        assert error.value.args == (4711, "Not today")
    run(client, INSERT)


def test_a_login_fails_and_no_statement(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect()
    cluster.fault("primary", on="login", error=1040, times=2)
    assert count(client) == 1
    for _ in range(2):
        with pytest.raises(pymysql.err.OperationalError) as error:
            connect()
        assert error.value.args == (1040, "Too many connections")
    cluster.fault("primary", on="login", drop="before")
    with pytest.raises(pymysql.err.OperationalError):
        connect()
    cluster.fault("primary", on="login", delay="1h")
    with pytest.raises(pymysql.err.OperationalError):
        connect(connect_timeout=0.2, read_timeout=0.2)
    assert count(connect()) == 1


def test_prepared_statements_fail_when_they_run(cluster: BlockingCluster) -> None:
    cluster.fault("primary", match="insert.*t", error=1062)
    with mysql.connector.connect(
        host="127.0.0.1", port=cluster.primary.port, user="root", database="test", use_pure=True
    ) as client:
        cursor: Any = client.cursor(prepared=True)
        with pytest.raises(mysql.connector.IntegrityError) as error:
            cursor.execute("INSERT INTO t VALUES (%s)", (7,))
        assert (error.value.errno, error.value.sqlstate) == (1062, "23000")
        cursor.execute("INSERT INTO t VALUES (%s)", (8,))


@pytest.mark.parametrize(("drop", "rows"), [("before", 1), ("after", 2)])
def test_a_broken_connection_before_and_after_the_statement(
    cluster: BlockingCluster, connect: Connect, drop: str, rows: int
) -> None:
    cluster.fault("primary", match="INSERT", drop=drop)
    client = connect()
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(client, INSERT)
    assert error.value.args[0] == 2013
    assert count(connect()) == rows


def test_a_delay_holds_the_answer_and_not_the_write(
    cluster: BlockingCluster, connect: Connect
) -> None:
    cluster.fault("primary", match="INSERT", delay="1h", times="always")
    client = connect(read_timeout=0.1)
    with pytest.raises(pymysql.err.OperationalError, match="timed out"):
        run(client, INSERT)
    comes_to(connect(), 2)
    (fault,) = cluster.server("primary").faults
    assert (fault["delay"], fault["times"], fault["happened"]) == ("1h", "always", 1)


def test_faults_are_cleared_one_by_one_and_together(
    cluster: BlockingCluster, connect: Connect
) -> None:
    first, second, third = (
        cluster.fault(server, error=1040) for server in ("primary", "replica1", "replica1")
    )
    cluster.clear("replica1", int(second["id"]))
    assert [fault["id"] for fault in cluster.server("replica1").faults] == [third["id"]]
    for gone in (int(first["id"]), int(second["id"])):
        with pytest.raises(ControlError, match=f"no fault {gone} any more at replica1"):
            cluster.clear("replica1", gone)
    cluster.clear()
    assert all(not state.faults for state in cluster.state())
    assert count(connect("replica1")) == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "wants one of error"),
        ({"match": "x"}, "wants one of error"),
        ({"error": 1213, "delay": 1}, "wants one of error"),
        ({"errno": 1213}, "no field of a fault 'errno'; on, match, error"),
        ({"error": "deadlock"}, "error: want a whole number"),
        ({"error": 2013}, "2000 to 2999 are clients' own"),
        ({"error": 1213, "sqlstate": "4000"}, "sqlstate: want five"),
        ({"error": 1213, "message": 7}, "message: want a text"),
        ({"error": 1213, "times": 0}, "times: want a whole number from 1 on, or 'always'"),
        ({"error": 1213, "times": "often"}, "times: want"),
        ({"error": 1213, "match": "("}, "match: want a regular expression"),
        ({"error": 1213, "match": "x" * 501}, "match: want a text of at most 500"),
        ({"delay": "soon"}, "delay: want a duration"),
        ({"delay": 1, "message": "x"}, "sqlstate and message belong to error"),
        ({"drop": "now"}, "drop: want 'before' or 'after'"),
        ({"drop": ["before"]}, "drop: want"),
        ({"error": 1040, "on": "connect"}, "on: want 'statement' or 'login'"),
        ({"error": 1040, "on": "login", "match": "x"}, "belong to statements"),
        ({"drop": "after", "on": "login"}, "belong to statements"),
    ],
)
def test_what_is_no_fault(
    untouched: BlockingCluster, fields: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ControlError) as error:
        untouched.fault("primary", **fields)
    assert sentence in str(error.value)
    assert untouched.server("primary").faults == []
