"""Replicas that nobody has named: found by what servers report (`topology = auto`)."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor, DictCursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.statements import run
from tests.real_mysql.template import REPLICATION_PASSWORD, REPLICATION_USER
from tests.support.waiting import until

RIGHT = "REPLICATION SLAVE ON *.*"
OTHER_UUID = "0badcafe-0000-1111-2222-333344445555"
NO_REPORT_HOST = "set report_host"


@pytest.fixture(autouse=True)
def allowed(cluster: Cluster) -> None:
    """The monitor may ask which replicas there are."""
    cluster.primary.query(f"GRANT {RIGHT} TO monitor")
    cluster.wait_caught_up()


def start(proxy: StartProxy, **options: str | None) -> RunningProxy:
    """A proxy that finds replicas."""
    settings = {"topology": "auto", "replicas": None, "monitor_interval": "100ms"}
    return proxy(consistency="BEST_EFFORT", **{**settings, **options})


def servers(running: RunningProxy) -> list[str]:
    """The servers that the proxy knows, the primary first."""
    with running.connect() as session, session.cursor(DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE SERVERS")
        return [str(row["server"]) for row in cursor.fetchall()]


def has(running: RunningProxy, *expected: RealServer) -> bool:
    return sorted(servers(running)) == sorted(server.address for server in expected)


def await_servers(running: RunningProxy, *expected: RealServer) -> None:
    names = [server.address for server in expected]
    until(lambda: has(running, *expected), lambda: f"{servers(running)} are {names}")


def await_reads(running: RunningProxy, *replicas: RealServer) -> None:
    """Wait until replicas that were found are in use."""
    words = [f"server {replica.address} serves reads from now on" for replica in replicas]
    until(lambda: all(word in running.stderr for word in words), "the replicas are in use")


def test_replicas_are_found_and_read(cluster: Cluster, proxy: StartProxy) -> None:
    running = start(proxy)
    await_reads(running, *cluster.replicas)
    cluster.primary.query("CREATE TABLE app.found (a INT)")
    cluster.wait_caught_up()
    with running.connect() as session, session.cursor(DictCursor) as cursor:
        run(session, "SELECT * FROM app.found")
        cursor.execute("SHOW TIDEGATE LAST")
        (last,) = cursor.fetchall()
    assert last["server"] in [replica.address for replica in cluster.replicas]
    assert f"SHOW REPLICAS of {cluster.primary.address}" in running.stderr


def test_a_replica_of_a_replica_is_found(cluster: Cluster, proxy: StartProxy) -> None:
    first, second = cluster.replicas
    second.query("STOP REPLICA")
    second.query("CHANGE REPLICATION SOURCE TO SOURCE_PORT = %s", first.port)
    second.query("START REPLICA")
    reported = "SELECT COUNT(*) FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog%'"
    until(lambda: cluster.primary.value(reported) == "1", "the primary has one replica only")
    running = start(proxy)
    await_servers(running, *cluster.servers)
    assert f"{second.address} has come: SHOW REPLICAS of {first.address}" in running.stderr


def test_a_replica_that_is_stopped_for_good_goes_and_may_come_again(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = start(proxy, monitor_interval="20ms")  # it goes after 1.2 s
    await_servers(running, *cluster.servers)
    first, second = cluster.replicas
    second.kill()
    await_servers(running, cluster.primary, first)
    assert f"server {second.address} has gone" in running.stderr
    second.start()
    await_servers(running, *cluster.servers)


@pytest.mark.deep
def test_a_replica_whose_receiver_stands_still_stays(cluster: Cluster, proxy: StartProxy) -> None:
    """It is watched on: whether it may be read is a question of its lag."""
    running = start(proxy, monitor_interval="10ms")  # 0.6 s are enough
    await_servers(running, *cluster.servers)
    second = cluster.replicas[1]
    second.query("STOP REPLICA IO_THREAD")
    until(lambda: not is_reported(cluster.primary, second), "the primary has noticed")
    begun = looks(second)
    until(lambda: looks(second) > begun + 150, "it was looked at often enough to be let go")
    assert has(running, *cluster.servers)


@pytest.mark.deep
def test_a_replica_that_goes_over_to_another_cluster_is_left(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """The other cluster is a server that does not replicate any more, and this one."""
    running = start(proxy, monitor_interval="20ms")
    await_reads(running, *cluster.replicas)
    other, strayed = cluster.replicas
    other.query("STOP REPLICA")
    other.query("RESET REPLICA ALL")
    strayed.query("STOP REPLICA")
    strayed.query("CHANGE REPLICATION SOURCE TO SOURCE_PORT = %s", other.port)
    strayed.query("START REPLICA")
    why = f"{strayed.address} serves no reads for now: it replicates from none of these servers"
    until(lambda: why in running.stderr, "it is sent nothing")
    await_servers(running, cluster.primary)


def looks(server: RealServer) -> int:
    ((_, count),) = server.query("SHOW GLOBAL STATUS LIKE 'Com_show_replica_status'")
    return int(str(count))


def is_reported(source: RealServer, replica: RealServer) -> bool:
    return any(row[2] == replica.port for row in source.query("SHOW REPLICAS"))


def test_a_replica_without_report_host_is_named_in_the_log(
    cluster: Cluster, proxy: StartProxy
) -> None:
    first, second = cluster.replicas
    uuid = second.server_uuid
    second.kill()
    second.start("--report-host=")
    until(lambda: is_reported(cluster.primary, second), "it is connected")
    running = start(proxy)
    await_servers(running, cluster.primary, first)
    until(lambda: uuid in running.stderr, "the replica is in the log")
    assert NO_REPORT_HOST in running.stderr


def test_one_server_by_two_names_is_one_server(cluster: Cluster, proxy: StartProxy) -> None:
    first, second = cluster.replicas
    running = start(proxy, replicas=f"localhost:{first.port}")
    names = {cluster.primary.address, f"localhost:{first.port}", second.address}
    until(lambda: set(servers(running)) == names, "the other one is found")
    assert f"server {first.address} has come" not in running.stderr


def test_without_the_right_the_log_names_it(cluster: Cluster, proxy: StartProxy) -> None:
    cluster.primary.query(f"REVOKE {RIGHT} FROM monitor")
    running = start(proxy)
    until(lambda: "GRANT REPLICATION SLAVE" in running.stderr, "the log names the right")
    assert has(running, cluster.primary)
    cluster.primary.query(f"GRANT {RIGHT} TO monitor")
    await_servers(running, *cluster.servers)


@contextlib.contextmanager
def registered(source: RealServer, host: str, port: int, uuid: str = OTHER_UUID) -> Iterator[None]:
    """Somebody who registers as a replica, with whatever address."""
    reader: Connection[Cursor] = pymysql.connect(
        host="127.0.0.1", port=source.port, user=REPLICATION_USER, password=REPLICATION_PASSWORD
    )
    with reader:
        run(reader, f"SET @replica_uuid = '{uuid}'")
        name = host.encode()
        texts = bytes([len(name)]) + name + b"\0\0"
        payload = (
            struct.pack("<I", 4_000_000_000 + int(uuid[-6:], 16))
            + texts
            + struct.pack("<HII", port, 0, 0)
        )
        reader._execute_command(0x15, payload)  # type: ignore[attr-defined]  # COM_REGISTER_SLAVE
        reader._read_ok_packet()  # type: ignore[attr-defined]
        yield


def test_what_is_no_address_is_never_connected_to(cluster: Cluster, proxy: StartProxy) -> None:
    hosts = ["'; DROP TABLE a", "a:b", "x" * 200, "a..b", "\u00e4.example", "a b", "[::1]", "%s"]
    uuids = [f"0badcafe-0000-0000-0000-{number:012}" for number in range(len(hosts))]
    running = start(proxy)
    await_servers(running, *cluster.servers)
    with contextlib.ExitStack() as stack:
        for host, uuid in zip(hosts, uuids, strict=True):
            stack.enter_context(registered(cluster.primary, host, 3306, uuid))
        until(lambda: all(uuid in running.stderr for uuid in uuids), "the log has all of them")
        assert running.stderr.count("the address that it reports is none") == len(hosts)
        assert has(running, *cluster.servers)


@pytest.mark.deep
def test_those_who_report_too_many_addresses_are_left_out(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = start(proxy)
    await_reads(running, *cluster.replicas)
    with contextlib.ExitStack() as stack:
        for number in range(80):
            uuid = f"0badcafe-0000-0000-0000-{number:012}"
            stack.enter_context(registered(cluster.primary, "127.0.0.1", number + 1, uuid))
        until(lambda: "more than 64 replicas" in running.stderr, "the log says so")
        until(lambda: len(servers(running)) > 60, "the others are watched")
        assert len(servers(running)) <= 1 + 64
        for replica in cluster.replicas:
            assert f"server {replica.address} has gone" not in running.stderr
            assert f"server {replica.address} serves no reads" not in running.stderr
    await_servers(running, *cluster.servers)


def test_a_name_that_leads_nowhere_takes_nothing_down(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tmp_path / "names"
    names.touch()
    monkeypatch.setenv("TIDEGATE_TEST_NAMES", str(names))
    running = proxy(
        module="tests.real_mysql.movable_names",
        topology="auto",
        replicas=None,
        monitor_interval="100ms",
    )
    with registered(cluster.primary, "nowhere.test", 3306):
        until(lambda: "nowhere.test:3306 is down" in running.stderr, "it was looked at")
        until(lambda: len(servers(running)) == 4, "all are known")
        assert "nowhere.test:3306 serves reads" not in running.stderr


def test_who_reports_the_address_of_another_server_is_not_used_nor_is_it_harmed(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = start(proxy)
    await_servers(running, *cluster.servers)
    first = cluster.replicas[0]
    with registered(cluster.primary, "127.0.0.1", first.port):
        until(lambda: OTHER_UUID in running.stderr, "the log has it")
        assert f"at {first.address}, which it reports, is {first.server_uuid}" in running.stderr
        assert has(running, *cluster.servers)
    assert f"server {first.address} serves no reads" not in running.stderr


def test_after_a_promotion_the_new_primary_is_asked(cluster: Cluster, proxy: StartProxy) -> None:
    for replica in cluster.replicas:
        replica.query("SET GLOBAL super_read_only = ON")
    running = start(proxy, failover="read_only", monitor_interval="20ms")
    await_reads(running, *cluster.replicas)
    new, other = cluster.replicas
    other.kill()
    await_servers(running, cluster.primary, new)  # the other one has gone
    cluster.primary.kill()
    new.query("STOP REPLICA")
    new.query("RESET REPLICA ALL")
    new.query("SET GLOBAL super_read_only = OFF")
    new.query("SET GLOBAL read_only = OFF")
    until(lambda: f"server {new.address} is the primary now" in running.stderr, "it is followed")
    other.start()
    # A server that starts does not wait for its receiver to begin (`init_replica`), and STOP
    # REPLICA ends none that has not begun: it would begin beside the one for the new source.
    until(lambda: other.replica_status()["Replica_IO_Running"] != "No", "its receiver has begun")
    other.query("STOP REPLICA")
    other.query("CHANGE REPLICATION SOURCE TO SOURCE_PORT = %s", new.port)
    other.query("START REPLICA")
    until(
        lambda: other.replica_status()["Replica_IO_Running"] == "Yes",
        lambda: f"the other one replicates: {other.replica_status()}",
    )
    # The old primary was named, and stays.
    await_servers(running, *cluster.servers)
    assert f"{other.address} has come: SHOW REPLICAS of {new.address}" in running.stderr


def test_a_primary_that_nobody_has_named_is_found_after_a_start(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path
) -> None:
    """The one that was named is dead, and nobody replicates from it any more."""
    for replica in cluster.replicas:
        replica.query("SET GLOBAL super_read_only = ON")
    options = {"failover": "read_only", "state_dir": str(tmp_path)}
    running = start(proxy, **options)
    await_reads(running, *cluster.replicas)
    new, other = cluster.replicas
    cluster.primary.kill()
    other.query("STOP REPLICA")
    other.query("CHANGE REPLICATION SOURCE TO SOURCE_PORT = %s", new.port)
    other.query("START REPLICA")
    new.query("STOP REPLICA")
    new.query("RESET REPLICA ALL")
    new.query("SET GLOBAL super_read_only = OFF")
    new.query("SET GLOBAL read_only = OFF")
    until(lambda: f"server {new.address} is the primary now" in running.stderr, "it is followed")
    running.stop()
    running = start(proxy, **options)

    def writes() -> bool:
        try:
            with running.connect() as session:
                run(session, "CREATE TABLE IF NOT EXISTS app.after (a INT)")
        except pymysql.err.OperationalError:
            return False
        return True

    until(writes, "the new primary takes writes")
    assert new.query("SELECT * FROM app.after") == []
    await_servers(running, *cluster.servers)
