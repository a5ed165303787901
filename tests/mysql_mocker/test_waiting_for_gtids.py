"""WAIT_FOR_EXECUTED_GTID_SET and its kin (facts 4.1, 4.2)."""

import threading
from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from tests.mysql_mocker.raw_client import RawClient, Reply
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

FOREIGN = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
Connect = Callable[..., RawClient]


def wait_sql(gtids: object, *more: object) -> str:
    return f"SELECT WAIT_FOR_EXECUTED_GTID_SET({', '.join([repr(str(gtids)), *map(str, more)])})"


def test_executed_set_needs_no_wait(client: RawClient) -> None:
    client.query("CREATE TABLE t (n INT)")
    assert client.value(wait_sql(client.executed())) == "0"
    assert client.value(wait_sql("", 0.0001)) == "0"


def test_times_out(client: RawClient) -> None:
    assert client.value(wait_sql(f"{FOREIGN}:1", 0.01)) == "1"
    assert client.value(wait_sql(f"{FOREIGN}:1", 0.0001)) == "1"


@pytest.mark.parametrize("timeout", [(), (0,), (20,)])
def test_waits_until_the_replica_has_applied(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, replica: Server,
    timeout: tuple[int, ...],
) -> None:  # fmt: skip
    mocker.call(lambda: setattr(replica, "applying", False))
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (7)")
    reader = connect(replica)
    assert reader.reply("SELECT n FROM t").error.code == 1146
    answers: list[Reply] = []
    sql = wait_sql(client.executed(), *timeout)
    waiter = threading.Thread(target=lambda: answers.append(reader.reply(sql)))
    waiter.start()
    until(lambda: any("WAIT" in text for _, text in replica.statements), "the wait has begun")
    assert not answers
    mocker.call(lambda: setattr(replica, "applying", True))
    waiter.join()
    assert answers[0].rows == [[b"0"]]
    assert reader.value("SELECT n FROM t") == "7"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("WAIT_FOR_EXECUTED_GTID_SET('garbage')", 1772),
        ("WAIT_FOR_EXECUTED_GTID_SET(NULL)", 1772),
        (f"WAIT_FOR_EXECUTED_GTID_SET('{FOREIGN}:1', -1)", 1210),
        (f"WAIT_FOR_EXECUTED_GTID_SET('{FOREIGN}:1', NULL)", 1210),
        (f"GTID_SUBSET('{FOREIGN}:0', '')", 1772),
        (f"GTID_SUBTRACT('', '{FOREIGN}:x-2')", 1772),
    ],
)
def test_errors_come_after_the_column_definitions(client: RawClient, call: str, code: int) -> None:
    reply = client.reply(f"SELECT {call}")
    assert reply.names == [call]
    assert reply.error.code == code
    assert client.reply(f"DO {call}").names is None
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("text", [FOREIGN, f"{FOREIGN}:5-3", f"{FOREIGN}:tag"])
def test_sets_that_the_server_takes_for_empty_are_errors_here(client: RawClient, text: str) -> None:
    assert client.reply(wait_sql(text)).error.code == 1772


def test_do_hides_the_answer(client: RawClient) -> None:
    reply = client.reply(f"DO WAIT_FOR_EXECUTED_GTID_SET('{FOREIGN}:1', 0.001)")
    assert reply.ok.affected_rows == 0


def test_set_functions(client: RawClient) -> None:
    both = f"'{FOREIGN}:1-3', '{FOREIGN}:2'"
    assert client.value(f"SELECT GTID_SUBTRACT({both})") == f"{FOREIGN}:1:3"
    assert client.value(f"SELECT GTID_SUBSET({both})") == "0"
    assert client.value(f"SELECT GTID_SUBSET('{FOREIGN}:2', '{FOREIGN}:1-3')") == "1"
    assert client.value("SELECT GTID_SUBSET(NULL, '')") is None


def test_client_that_leaves_does_not_end_its_wait(
    mocker: BackgroundCluster, connect: Connect, primary: Server
) -> None:
    leaver = connect()
    leaver.send(b"\x03" + wait_sql(f"{FOREIGN}:1").encode())
    until(lambda: any("WAIT" in text for _, text in primary.statements), "the wait has begun")
    leaver.close()
    onlooker = connect()
    assert onlooker.value("SELECT COUNT(*) FROM information_schema.processlist") == "2"
    onlooker.query(f"SET gtid_next = '{FOREIGN}:1'")
    onlooker.query("BEGIN")
    onlooker.query("COMMIT")
    until(lambda: mocker.call(lambda: primary.connections) == 1, "the wait has ended")


def test_kill_query_ends_a_wait(connect: Connect, primary: Server) -> None:
    waiting, killer = connect(), connect()
    waiting.send(b"\x03" + wait_sql(f"{FOREIGN}:1").encode())
    until(lambda: any("WAIT" in text for _, text in primary.statements), "the wait has begun")
    assert killer.reply(f"KILL QUERY {waiting.id}").ok
    (reply,) = waiting.replies()
    assert (reply.error.code, reply.error.sqlstate) == (1317, "70100")
    assert waiting.value("SELECT 1") == "1"


def test_max_execution_time_ends_a_wait(client: RawClient) -> None:
    client.query("SET max_execution_time = 20")
    assert client.reply(wait_sql(f"{FOREIGN}:1")).error.code == 3024


def test_wait_does_not_renew_a_snapshot(client: RawClient, connect: Connect) -> None:
    client.query("CREATE TABLE t (n INT)")
    reader = connect()
    reader.query("BEGIN")
    assert reader.value("SELECT COUNT(*) FROM t") == "0"
    client.query("INSERT INTO t VALUES (1)")
    assert reader.value(wait_sql(client.executed(), 5)) == "0"
    assert reader.value("SELECT COUNT(*) FROM t") == "0"
    reader.query("COMMIT")
    assert reader.value("SELECT COUNT(*) FROM t") == "1"


def test_wait_before_the_first_read_of_a_transaction_takes_no_snapshot(
    client: RawClient, connect: Connect
) -> None:
    client.query("CREATE TABLE t (n INT)")
    reader = connect()
    reader.query("BEGIN")
    assert reader.value(wait_sql("", 5)) == "0"
    client.query("INSERT INTO t VALUES (1)")
    assert reader.value("SELECT COUNT(*) FROM t") == "1"
