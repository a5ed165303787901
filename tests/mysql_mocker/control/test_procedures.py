"""All of it can be done by SQL, on any server, and nothing else of a server tells of it."""

from collections.abc import Callable

import mysql.connector
import pymysql
import pytest

from mysql_mocker import BlockingCluster
from mysql_mocker.server.cluster import Cluster
from tests.mysql_mocker.control.conftest import Connect, comes_to, count, run
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until


def column(connection: "pymysql.Connection[pymysql.cursors.Cursor]", name: str) -> list[object]:
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("CALL mock.state()")
        return [row[name] for row in cursor.fetchall()]


def test_settings_of_any_server_are_changed_on_any(connect: Connect) -> None:
    client, other = connect(), connect("replica2")
    run(other, "CALL mock.set('replica1', 'lag', '1h', 'login_delay', '1ms')")
    assert column(client, "lag") == [None, "3600s", "0s"]
    assert column(client, "login_delay") == ["0s", "1ms", "0s"]
    run(client, "INSERT INTO t VALUES (1)")
    assert column(client, "pending")[1] == 1
    run(client, "CALL mock.set('replica1', 'applying', FALSE)")
    run(client, "CALL mock.reset()")
    comes_to(connect("replica1"), 2)


def test_values_come_as_users_write_them(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect()
    run(client, "SET @lag = '5s'")
    run(client, "call MOCK.Set(\"replica1\", 'lag', @lag, 'applying', 1 = 2)")
    assert cluster.server("replica1").settings["lag"] == "5s"
    run(client, "CALL `mock`.`set`(CONCAT('replica', 1), 'lag', 0.25);")
    assert cluster.server("replica1").settings["lag"] == "250ms"
    with mysql.connector.connect(
        host="127.0.0.1", port=cluster.primary.port, user="root", use_pure=True
    ) as prepared:
        cursor = prepared.cursor(prepared=True)
        cursor.execute("CALL mock.set(%s, %s, %s)", ("replica1", "lag", "7s"))
    assert cluster.server("replica1").settings["lag"] == "7s"


def test_faults_are_armed_shown_and_cleared(connect: Connect) -> None:
    client = connect()
    ((number, *_),) = run(
        client, "CALL mock.fault('primary', 'match', 'DELETE', 'error', 1205, 'times', 'always')"
    )
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(client, "DELETE FROM t")
    assert error.value.args[0] == 1205
    ((server, shown, *rest),) = run(client, "CALL mock.faults()")
    assert (server, shown, *rest[:2], rest[-1]) == (
        "primary", number, "statement", "DELETE", 1,
    )  # fmt: skip
    run(client, f"CALL mock.clear('primary', {number})")
    assert run(client, "CALL mock.faults()") == []
    run(client, "CALL mock.fault('replica1', 'drop', 'after')")
    run(client, "CALL mock.clear()")
    run(client, "DELETE FROM t")


def test_calls_meet_no_fault(connect: Connect) -> None:
    client = connect()
    run(client, "CALL mock.fault('primary', 'error', 1053, 'times', 'always')")
    with pytest.raises(pymysql.err.OperationalError):
        run(client, "SELECT 1")
    run(client, " call `mock`.clear()")
    assert run(client, "SELECT 1") == [(1,)]


def test_a_promotion_that_loses(connect: Connect) -> None:
    client, other = connect(), connect("replica1")
    run(client, "CALL mock.set('replicas', 'applying', 0)")
    run(client, "INSERT INTO t VALUES (1)")
    assert run(other, "CALL mock.promote('replica1', 1)") == [("replica1", "primary")]
    assert column(other, "role") == ["detached", "primary", "replica"]
    assert column(other, "running") == [0, 1, 1]
    run(other, "INSERT INTO t VALUES (2)")
    assert run(other, "SELECT n FROM t") == [(0,), (2,)]


def test_who_asks_may_be_among_those_that_break(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect("replica1")
    with pytest.raises(pymysql.err.OperationalError):
        run(client, "CALL mock.set('replicas', 'running', 0)")
    until(lambda: not cluster.server("replica2").settings["running"], "both are stopped")
    assert not cluster.server("replica1").settings["running"]
    client = connect()
    with pytest.raises(pymysql.err.OperationalError):
        run(client, "CALL mock.disconnect('primary')")
    client = connect(read_timeout=0.1)
    with pytest.raises(pymysql.err.OperationalError, match="timed out"):
        run(client, "CALL mock.set('primary', 'frozen', 1)")
    cluster.reset()
    assert count(connect()) == 1


@pytest.mark.parametrize(
    ("call", "code", "sentence"),
    [
        ("sleep()", 1305, "PROCEDURE mock.sleep does not exist; CALL mock.help() shows"),
        ("set('replica1', 'lag')", 1318, "it is mock.set(server, setting, value"),
        ("set('replica9', 'lag', 1)", 1210, "no server 'replica9'; the servers are primary"),
        ("set('replica1', 'delay', 1)", 1193, "no setting 'delay'; lag"),
        ("set('replica1', 'lag', NULL)", 1231, "lag: want a duration"),
        ("set('replica1', 'lag', 1, 'frozen')", 1231, "each name needs a value"),
        ("set('replica1', 'lag', 1, 'lag', 2)", 1231, "may be given once"),
        ("set(1, 'lag', 1)", 1231, "server: want a text"),
        ("set('primary', 'lag', 1)", 1105, "only replicas have lag"),
        ("fault('primary', 'error', 2013)", 1231, "clients' own"),
        ("clear('primary', 5)", 1210, "no fault 5"),
        ("promote('primary')", 1105, "primary is not a running replica"),
        ("promote('replica1', -1)", 1231, "lose: want a whole number"),
        ("set('replica1', 'lag', nothing)", 1054, "Unknown column"),
        ("set('replica1', 'lag', 1", 1064, "syntax"),
    ],
)
def test_errors_are_the_servers_with_a_sentence(
    connect: Connect, call: str, code: int, sentence: str
) -> None:
    client = connect()
    with pytest.raises(pymysql.err.MySQLError) as error:
        run(client, f"CALL mock.{call}")
    assert error.value.args[0] == code
    assert sentence in error.value.args[1]
    run(client, "INSERT INTO t VALUES (1)")


def test_help_names_them_all(connect: Connect) -> None:
    calls = [str(call) for call, _ in run(connect(), "CALL mock.help()")]
    assert "CALL mock.promote(server[, lose])" in calls
    assert len(calls) == 10


def test_a_call_is_no_transaction_and_needs_no_writable_server(connect: Connect) -> None:
    client = connect("replica1", autocommit=False)
    before = run(client, "SELECT @@GLOBAL.gtid_executed")
    run(client, "CALL mock.set('replica1', 'login_delay', 0)")
    assert run(client, "SELECT @@GLOBAL.gtid_executed") == before
    writer = connect(autocommit=False)
    run(writer, "INSERT INTO t VALUES (1)")
    run(writer, "CALL mock.state()")
    writer.rollback()
    assert count(writer) == 1


def test_nothing_else_tells_of_them(connect: Connect) -> None:
    client = connect()
    assert [name for (name,) in run(client, "SHOW DATABASES") if "mock" in name] == []
    assert run(client, "SHOW VARIABLES LIKE '%%mock%%'") == []
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(client, "USE mock")
    assert error.value.args[0] == 1049


def test_a_plain_cluster_has_none() -> None:
    make: Callable[[], Cluster] = lambda: Cluster(replicas=0, accounts={"demo": "demo"})  # noqa: E731
    with BackgroundCluster(make) as mocker, RawClient(mocker.cluster.primary.port) as client:
        assert client.reply("CALL mock.state()").error.code == 1305
