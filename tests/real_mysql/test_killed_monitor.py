"""The monitor's connections are killed, or its statements, while servers serve everybody else."""

from contextlib import closing

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import MONITOR_USER
from tests.support.waiting import eventually

OPTIONS: dict[str, str | None] = {"failover": "read_only", "monitor_interval": "50ms"}
KILLED = 5


def connections(server: RealServer) -> set[str]:
    found = server.value(
        "SELECT COALESCE(GROUP_CONCAT(ID), '') FROM performance_schema.processlist WHERE USER = %s",
        MONITOR_USER,
    )
    return set(filter(None, found.split(",")))


def kill_connections(server: RealServer) -> None:
    """Kill what the monitor has there, and wait for it to have others."""
    eventually(lambda: bool(connections(server)))
    before = connections(server)
    for number in before:
        server.query(f"KILL {number}")
    eventually(lambda: bool(connections(server) - before))


def is_served(running: RunningProxy) -> bool:
    with closing(running.connect()) as client, client.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS killed_monitor (id INT)")
        cursor.execute("INSERT INTO killed_monitor VALUES (1)")
        cursor.execute("SELECT COUNT(*) > 0 FROM killed_monitor")
        return cursor.fetchall() == ((1,),)


def test_a_killed_connection_of_the_monitor_takes_no_server_down(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(**OPTIONS)
    eventually(lambda: running.health() == (200, "OK\n"))
    for _ in range(KILLED):
        for server in cluster.servers:
            kill_connections(server)
            assert running.health() == (200, "OK\n")
        assert is_served(running)
    for server in cluster.servers:
        assert running.metric("tidegate_server_watched", server=server.address) == 1
        assert running.metric("tidegate_server_up", server=server.address) == 1
    assert "the monitor's connection to" in running.stderr
    for alarm in ("no write is served", "is down", "is not watched", "writes are served again"):
        assert alarm not in running.stderr


def test_an_idle_connection_of_the_monitor_that_times_out_takes_no_server_down(
    cluster: Cluster, proxy: StartProxy
) -> None:
    for server in cluster.servers:
        server.query("SET GLOBAL wait_timeout = 1")
    running = proxy(failover="read_only", monitor_interval="1500ms")
    eventually(lambda: running.stderr.count("the monitor's connection to") >= KILLED)
    assert running.health() == (200, "OK\n")
    for alarm in ("no write is served", "is down", "is not watched"):
        assert alarm not in running.stderr


def test_a_primary_that_stops_is_still_noticed(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(**OPTIONS)
    eventually(lambda: running.health() == (200, "OK\n"))
    cluster.primary.stop()
    eventually(lambda: "cannot be reached" in running.health()[1])
    assert "no write is served" in running.stderr
