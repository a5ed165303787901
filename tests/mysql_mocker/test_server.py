"""A server's life, its connections, its faults on demand."""

import re
import socket
from collections.abc import Callable

import pytest

from mysql_mocker.error import MySQLError
from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from mysql_mocker.state.faults import Fault
from protocol.constants import ServerStatus
from protocol.packet import frame
from protocol.response import OkPacket
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

Connect = Callable[..., RawClient]


def test_restart_keeps_uuid_port_and_data_and_breaks_connections(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (1)")
    uuid, executed, port = client.value("SELECT @@server_uuid"), client.executed(), primary.port
    mocker.run(primary.restart())
    with pytest.raises(ConnectionError):
        client.query("SELECT 1")
    assert primary.port == port
    again = connect()
    assert again.value("SELECT @@server_uuid") == uuid
    assert again.executed() == executed
    assert again.value("SELECT n FROM t") == "1"


def test_a_restart_rolls_open_transactions_back(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("BEGIN")
    client.query("INSERT INTO t VALUES (1)")
    mocker.run(primary.restart())
    again = connect()
    assert again.value("SELECT COUNT(*) FROM t") == "0"
    assert again.reply("INSERT INTO t VALUES (2)").ok


def test_a_stopped_server_refuses_connections(mocker: BackgroundCluster, primary: Server) -> None:
    mocker.run(primary.stop())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", primary.port))
    mocker.run(primary.start())
    RawClient(primary.port).close()


def test_every_server_has_a_uuid_of_its_own(mocker: BackgroundCluster) -> None:
    uuids = mocker.call(lambda: {s.gtids.server_uuid for s in mocker.cluster.servers})
    assert len(uuids) == len(mocker.cluster.servers)


def test_given_uuids_are_kept() -> None:
    wanted = [f"{n:08d}-0000-0000-0000-000000000000" for n in (1, 2)]
    with BackgroundCluster(lambda: Cluster(replicas=1, server_uuids=wanted)) as running:
        assert [s.gtids.server_uuid for s in running.cluster.servers] == wanted


def test_kill_closes_without_a_word(client: RawClient, connect: Connect) -> None:
    victim = connect()
    assert client.reply(f"KILL {victim.id}").ok
    with pytest.raises(ConnectionError):
        victim.query("SELECT 1")
    assert client.reply(f"KILL {client.id}").error.code == 1317
    with pytest.raises(ConnectionError):
        client.query("SELECT 1")


def test_a_client_that_leaves_gives_everything_back(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    leaver = connect()
    leaver.query("SELECT GET_LOCK('l', 0)")
    leaver.query("BEGIN")
    leaver.query("INSERT INTO t VALUES (1)")
    leaver.close()
    until(lambda: mocker.call(lambda: primary.connections) == 1, "the connection is gone")
    assert client.value("SELECT GET_LOCK('l', 0)") == "1"
    assert client.reply("INSERT INTO t VALUES (2)").ok.affected_rows == 1
    assert client.value("SELECT COUNT(*) FROM t") == "1"


def test_statements_are_noted(client: RawClient, primary: Server) -> None:
    client.query("SELECT 'noted'")
    assert (client.id, "SELECT 'noted'") in primary.statements


def test_raw_reply(mocker: BackgroundCluster, client: RawClient, primary: Server) -> None:
    answer = frame(OkPacket(affected_rows=77).serialise(client.capabilities), 1)
    mocker.call(lambda: primary.faults.raw_reply(answer, b"SELECT"))
    assert client.reply("DO 1").ok.affected_rows == 0
    assert client.reply("SELECT 1").ok.affected_rows == 77
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("count", [0, 3, 5, 20])
def test_drop_connection_after(
    mocker: BackgroundCluster, client: RawClient, primary: Server, count: int
) -> None:
    mocker.call(lambda: primary.faults.drop_connection_after(count, b"SELECT"))
    client.send(b"\x03SELECT 'a row that is long enough'")
    assert len(client.read_until_the_end()) == count


def test_delay_reply_holds_back_what_is_done_already(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    mocker.call(lambda: primary.faults.delay_reply(3600, b"INSERT"))
    client.send(b"\x03INSERT INTO t VALUES (1)")
    onlooker = connect()
    until(lambda: onlooker.value("SELECT COUNT(*) FROM t") == "1", "the row is there")
    mocker.call(primary.faults.clear)
    assert connect().reply("INSERT INTO t VALUES (2)").ok


def test_an_error_by_statement_meets_text_and_prepared_statements_and_runs_nothing(
    mocker: BackgroundCluster, client: RawClient, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    deadlock = MySQLError(1213, "40001", "Deadlock found")
    fault = Fault(b"", 2, pattern=re.compile("insert into t", re.I), error=deadlock)
    mocker.call(lambda: primary.faults.arm(fault))
    client.query("BEGIN")
    assert client.reply("INSERT INTO t VALUES (1)").error.code == 1213
    assert not client.reply("DO 1").status & ServerStatus.SERVER_STATUS_IN_TRANS
    client.send(b"\x16INSERT INTO t VALUES (2)")
    assert client.read_packet_anew()[0] == 0  # it was prepared, which runs nothing
    (reply,) = client.command(b"\x17" + (1).to_bytes(4, "little") + b"\0" + b"\1\0\0\0")
    assert reply.error.sqlstate == "40001"
    assert (client.value("SHOW COUNT(*) ERRORS"), fault.happened) == ("1", 2)
    assert client.reply("INSERT INTO t VALUES (3)").ok
    assert client.value("SELECT SUM(n) FROM t") == "3"


def test_a_connection_that_breaks_before_a_statement_has_not_run_it(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    fault = Fault(b"", 1, pattern=re.compile("INSERT"), unheard=True)
    mocker.call(lambda: primary.faults.arm(fault))
    with pytest.raises(ConnectionError):
        client.query("INSERT INTO t VALUES (1)")
    assert connect().value("SELECT COUNT(*) FROM t") == "0"
    assert "INSERT INTO t VALUES (1)" in [text for _, text in primary.statements]


def test_a_frozen_server_keeps_connections_and_says_nothing(
    mocker: BackgroundCluster, client: RawClient, primary: Server, replica: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    mocker.call(lambda: setattr(primary, "frozen", True))
    client.send(b"\x03INSERT INTO t VALUES (1)")
    with socket.create_connection(("127.0.0.1", primary.port)) as newcomer:
        newcomer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            newcomer.recv(1)
        mocker.call(lambda: setattr(primary, "frozen", False))
        assert client.replies()[0].ok.affected_rows == 1
        newcomer.settimeout(20)
        assert newcomer.recv(1)
    mocker.call(lambda: setattr(replica, "frozen", True))
    client.query("INSERT INTO t VALUES (2)")
    mocker.run(replica.restart())
    assert not replica.frozen


def test_faults_happen_so_often_and_no_more(
    mocker: BackgroundCluster, client: RawClient, primary: Server
) -> None:
    answer = frame(OkPacket(affected_rows=77).serialise(client.capabilities), 1)
    mocker.call(lambda: primary.faults.raw_reply(answer, times=2))
    assert [client.command(b"\x0e")[0].ok.affected_rows for _ in range(3)] == [77, 77, 0]


def test_a_slow_statement_is_stopped(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mysql_mocker.state.storage.MAX_STATEMENT_SECONDS", 0.05)
    endless = (
        "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c) SELECT SUM(n) FROM c"
    )
    assert client.reply(endless).error.code == 1317
    assert client.value("SELECT 1") == "1"
