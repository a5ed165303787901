"""What is set of a server happens to its clients, and is shown."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pymysql
import pytest

from mysql_mocker import BlockingCluster, ControlError, MockCluster
from mysql_mocker.control.settings import SETTINGS
from mysql_mocker.control.values import duration, duration_text
from scripts.ports import reserve_ports
from tests.mysql_mocker.control.conftest import Connect, comes_to, count, run
from tests.support.waiting import until


def test_init_is_everywhere_before_the_first_client(connect: Connect) -> None:
    for name in ("primary", "replica1", "replica2"):
        assert count(connect(name)) == 1


def test_lag_of_one_replica_leaves_the_other_alone(
    cluster: BlockingCluster, connect: Connect
) -> None:
    cluster.set("replica1", lag="1h")
    run(connect(), "INSERT INTO t VALUES (1)")
    comes_to(connect("replica2"), 2)
    assert count(connect("replica1")) == 1
    states = {state.name: state for state in cluster.state()}
    assert [states[name].pending for name in states] == [0, 1, 0]
    assert states["replica1"].settings["lag"] == "3600s"
    cluster.set("replicas", lag=0)
    cluster.caught_up()
    assert count(connect("replica1")) == 2


def test_a_stopped_applier_and_a_frozen_server(cluster: BlockingCluster, connect: Connect) -> None:
    cluster.set("replica1", applying=False)
    cluster.set("replica2", frozen=True)
    run(connect(), "INSERT INTO t VALUES (1)")
    assert count(connect("replica1")) == 1
    with pytest.raises(pymysql.err.OperationalError) as error:
        connect("replica2", connect_timeout=0.2, read_timeout=0.2)
    assert "timed out" in str(error.value)
    with pytest.raises(ControlError, match="within 10ms: replica1, replica2"):
        cluster.caught_up("10ms")
    cluster.set("replicas", applying="on", frozen="off")
    for name in ("replica1", "replica2"):
        comes_to(connect(name), 2)


def test_a_server_dies_and_comes_back(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect("replica1")
    cluster.set("replica1", running=False)
    with pytest.raises(pymysql.err.OperationalError):
        client.ping(reconnect=False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((cluster.server("replica1").host, cluster.server("replica1").port))
    run(connect(), "INSERT INTO t VALUES (1)")
    cluster.caught_up()  # by those that run
    cluster.set("replica1", running=True)
    comes_to(connect("replica1"), 2)


def test_a_read_only_primary(cluster: BlockingCluster, connect: Connect) -> None:
    client = connect()
    cluster.set("primary", read_only=True)
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(client, "INSERT INTO t VALUES (1)")
    assert error.value.args[0] == 1290
    cluster.set("primary", read_only=False)
    run(client, "INSERT INTO t VALUES (1)")


def test_a_slow_login(cluster: BlockingCluster, connect: Connect) -> None:
    cluster.set("primary", login_delay="1h")
    with pytest.raises(pymysql.err.OperationalError):
        connect(connect_timeout=0.2, read_timeout=0.2)
    cluster.set("primary", login_delay=0)
    assert count(connect()) == 1


def test_connections_break(cluster: BlockingCluster, connect: Connect) -> None:
    clients = [connect() for _ in range(3)]
    assert cluster.disconnect("all") == 3
    for client in clients:
        with pytest.raises(pymysql.err.OperationalError):
            run(client, "SELECT 1")
    until(lambda: cluster.server("primary").connections == 0, "all are gone")


def test_statements_tell_where_reads_went(cluster: BlockingCluster, connect: Connect) -> None:
    count(connect("replica2"))
    assert "SELECT COUNT(*) FROM t" in cluster.statements("replica2")
    assert "SELECT COUNT(*) FROM t" not in cluster.statements("replica1")


def test_reset_undoes_everything_but_data(cluster: BlockingCluster, connect: Connect) -> None:
    run(connect(), "INSERT INTO t VALUES (1)")
    cluster.set("all", running=False)
    cluster.set("replicas", lag="1h", applying=False, read_only=False, login_delay="1h")
    cluster.set("primary", read_only=True)
    cluster.fault("primary", error=1213, times="always")
    before = [state.settings for state in cluster.state()]
    cluster.reset()
    assert before != [state.settings for state in cluster.state()]
    for state in cluster.state():
        replica = state.name != "primary"
        expected = {
            "lag": "0s" if replica else None, "applying": True if replica else None,
            "read_only": replica, "login_delay": "0s", "frozen": False, "running": True,
        }  # fmt: skip
        assert {name: state.settings[name] for name in expected} == expected
        assert (state.faults, cluster.statements(state.name)) == ([], [])
        comes_to(connect(state.name), 2)


def test_nothing_is_set_where_something_is_wrong(cluster: BlockingCluster) -> None:
    before = cluster.state()
    for server, settings, sentence in (
        (
            "replica3",
            {"lag": 1},
            "there is no server 'replica3'; the servers are primary, replica1, replica2",
        ),
        ("replica1", {"lag": 1, "delay": 2}, f"no setting 'delay'; {', '.join(SETTINGS)} are"),
        ("replica1", {"login_delay": 1, "lag": "soon"}, "lag: want a duration such as '300ms'"),
        ("replica1", {"login_delay": 1, "frozen": "maybe"}, "frozen: want true or false"),
        ("primary", {"login_delay": 1, "lag": 1}, "only replicas have lag; primary is primary"),
        ("all", {"login_delay": 1, "applying": 1}, "only replicas have applying"),
    ):
        with pytest.raises(ControlError) as error:
            cluster.set(server, **settings)
        assert sentence in str(error.value)
    assert cluster.state() == before


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [("300ms", 0.3), ("1.5s", 1.5), ("2 m", 120), (".5h", 1800), ("7us", 7e-6), (3, 3), ("3", 3),
     (0.25, 0.25), (0, 0)],
)  # fmt: skip
def test_durations(raw: object, seconds: float) -> None:
    assert duration("lag", raw) == pytest.approx(seconds)
    assert duration("lag", duration_text(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "raw", [None, True, [], {}, "", "-1s", "1d", "1s 2s", -1, float("nan"), float("inf"), "8000h",
            "1e3", "\u0661s", "9" * 5000],
)  # fmt: skip
def test_what_is_no_duration(raw: object) -> None:
    with pytest.raises(ControlError, match="lag: want a duration"):
        duration("lag", raw)


async def settings_in_an_event_loop() -> list[Any]:
    async with MockCluster(replicas=1, lag="1h") as cluster:
        await cluster.set("replica1", lag="5ms")
        await cluster.caught_up()
        return [(await cluster.server("replica1")).settings["lag"], cluster.primary.name]


def test_the_same_in_an_event_loop() -> None:
    assert asyncio.run(settings_in_an_event_loop()) == ["5ms", "primary"]


def test_what_a_cluster_cannot_be() -> None:
    for options, sentence in (
        ({"replicas": -1}, "replicas: want from 0"),
        ({"lag": "late"}, "lag: want a duration"),
        ({"port": 65535}, "port: choose a lower one"),
        ({"http": "port"}, "http: want a whole number"),
    ):
        with pytest.raises(ControlError, match=sentence):
            MockCluster(**options)  # type: ignore[arg-type]
    with (
        pytest.raises(ControlError, match=r"init: Table .*nowhere.* \(in: INSERT INTO nowhere"),
        MockCluster(init="CREATE TABLE t (n INT); INSERT INTO nowhere VALUES (1)"),
    ):
        pass


def test_it_ends_whatever_it_is_in_the_midst_of() -> None:
    with MockCluster(replicas=1, init="CREATE TABLE t (n INT)") as cluster:
        clients = [
            pymysql.connect(
                host="127.0.0.1", port=cluster.primary.port, user="root", database="test",
                autocommit=True, read_timeout=0.1,
            )
            for _ in range(3)
        ]  # fmt: skip
        cluster.fault("primary", match="SELECT 5", delay="1h")
        cluster.set("primary", semi_sync="after_sync", login_delay="1h")
        cluster.set("replica1", ack_delay="1h")
        for client, statement in zip(
            clients, ("SELECT 5", "INSERT INTO t VALUES (1)", "SELECT 7"), strict=True
        ):
            cluster.set("primary", frozen=statement == "SELECT 7")
            with pytest.raises(pymysql.err.OperationalError, match="timed out"):
                run(client, statement)
        late = socket.create_connection(("127.0.0.1", cluster.primary.port))
    late.close()
    with pytest.raises(RuntimeError, match="runs once"), cluster._cluster:
        pass


def test_binary_logs_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    with MockCluster(replicas=1, binlog_dir=tmp_path) as cluster:
        assert sorted(folder.name for folder in tmp_path.iterdir()) == ["primary", "replica1"]
        client = pymysql.connect(host="127.0.0.1", port=cluster.primary.port, user="root")
        ((name, *_), *_) = run(client, "SHOW BINARY LOGS")
        client.close()
        assert (tmp_path / "primary" / name).stat().st_size


def test_ports_are_in_a_row_and_a_taken_one_is_an_error() -> None:
    port, next_one = reserve_ports(2)
    with MockCluster(replicas=1, port=port) as cluster:
        assert [server.port for server in cluster.servers] == [port, next_one]
        with pytest.raises(OSError, match=str(port)), MockCluster(replicas=0, port=port):
            pass
