"""Replicas that are too far behind, or do not replicate, before real servers."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import re
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import MONITOR_USER

OPTIONS = {"max_lag": "500ms", "monitor_interval": "100ms", "consistency": "BEST_EFFORT"}
STOPS = {
    "STOP REPLICA": "its receiver is stopped; its applier is stopped",
    "STOP REPLICA IO_THREAD": "its receiver is stopped",
    "STOP REPLICA SQL_THREAD": "its applier is stopped",
    "STOP REPLICA; RESET REPLICA ALL": "it has no replication channel",
}


def connected(running: RunningProxy) -> Connection[DictCursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=running.port,
        user="app",
        password="app-secret",
        database="app",
        autocommit=True,
        cursorclass=DictCursor,
    )


def shown(client: Connection[DictCursor], server: RealServer) -> dict[str, str | None]:
    """The row of a server in SHOW TIDEGATE SERVERS."""
    with client.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SERVERS")
        return next(row for row in cursor.fetchall() if row["server"] == server.address)


def eventually(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def becomes(
    client: Connection[DictCursor], server: RealServer, lagging: str, replication: str = ""
) -> None:
    """Wait until a server is shown so."""

    def is_so() -> bool:
        row = shown(client, server)
        return row["lagging"] == lagging and replication in (row["replication"] or "")

    eventually(is_so)


def servers_of_reads(
    running: RunningProxy, reads: int = 12, statement: str = "SELECT COUNT(*) FROM late"
) -> set[str]:
    """The servers that answer, each time another client."""
    found = set()
    for _ in range(reads):
        with contextlib.closing(connected(running)) as client, client.cursor() as cursor:
            cursor.execute(statement)
            cursor.fetchall()
            cursor.execute("SHOW TIDEGATE LAST")
            row = cursor.fetchone()
            assert row is not None
            found.add(row["server"])
    return found


class Writer:
    """Writes on the primary, past the proxy."""

    def __init__(self, primary: RealServer) -> None:
        self._primary = primary
        primary.query("CREATE TABLE IF NOT EXISTS app.late (id INT AUTO_INCREMENT PRIMARY KEY)")

    def __call__(self) -> None:
        self._primary.query("INSERT INTO app.late VALUES ()")


@pytest.fixture
def write(cluster: Cluster) -> Iterator[Writer]:
    writer = Writer(cluster.primary)
    cluster.wait_caught_up()
    yield writer
    for replica in cluster.replicas:
        status = replica.replica_status()
        if not status:
            cluster.attach(replica)
        elif status["SQL_Delay"]:
            replica.set_source_delay(0)
        replica.query("START REPLICA")


def falls_behind(client: Connection[DictCursor], server: RealServer, write: Writer) -> None:
    """Wait until a server is shown as too far behind, while the primary writes."""

    def is_behind() -> bool:
        write()
        return shown(client, server)["lagging"] == "yes"

    eventually(is_behind)


@pytest.mark.parametrize("stop", STOPS)
def test_a_replica_that_was_stopped(
    cluster: Cluster, proxy: StartProxy, write: Writer, stop: str
) -> None:
    running = proxy(**OPTIONS)
    first, second = cluster.replicas
    with contextlib.closing(connected(running)) as client:
        for replica in cluster.replicas:
            becomes(client, replica, "no", "running")
        assert servers_of_reads(running) == {first.address, second.address}
        for statement in stop.split("; "):
            first.query(statement)
        becomes(client, first, "no", STOPS[stop])  # it lacks nothing yet
        assert running.metric("tidegate_replica_replicating", server=first.address) == 0
        falls_behind(client, first, write)
        assert running.metric("tidegate_replica_lagging", server=first.address) == 1
        becomes(client, second, "no")
        assert servers_of_reads(running) == {second.address}
        if not first.replica_status():
            cluster.attach(first)
        first.query("START REPLICA")
        for replica in cluster.replicas:
            becomes(client, replica, "no", "running")
        assert servers_of_reads(running) == {first.address, second.address}
    log = running.stderr
    assert log.count(f"replica {first.address} does not replicate: {STOPS[stop]}") == 1
    assert log.count(f"replica {first.address} replicates again") == 1
    assert log.count(f"replica {first.address} is too far behind to be read") == 1
    assert f"({STOPS[stop]}); reads go to other servers" in log
    assert log.count(f"replica {first.address} is no longer too far behind") == 1


@pytest.mark.parametrize("policy", ["primary", "stale"])
def test_no_replica_is_left(
    cluster: Cluster, proxy: StartProxy, write: Writer, policy: str
) -> None:
    running = proxy(**OPTIONS, on_max_lag=policy)
    replicas = {replica.address for replica in cluster.replicas}
    with contextlib.closing(connected(running)) as client:
        for replica in cluster.replicas:
            becomes(client, replica, "no", "running")
            replica.query("STOP REPLICA")
        for replica in cluster.replicas:
            falls_behind(client, replica, write)
        expected = {cluster.primary.address} if policy == "primary" else replicas
        assert servers_of_reads(running) == expected
    assert f"(on-max-lag = {policy})" in running.stderr
    if policy == "primary":
        assert running.metric("tidegate_statements_total", reason="replica_lagging") == 12


def test_a_channel_is_broken(cluster: Cluster, proxy: StartProxy, write: Writer) -> None:
    running = proxy(**OPTIONS)
    first, second = cluster.replicas
    cluster.primary.query("CREATE TABLE app.single (id INT PRIMARY KEY)")
    cluster.wait_caught_up()
    with contextlib.closing(connected(running)) as client:
        becomes(client, first, "no", "running")
        first.query("SET GLOBAL super_read_only = OFF")
        first.query("SET sql_log_bin = 0")
        first.query("INSERT INTO app.single VALUES (1)")
        first.query("SET sql_log_bin = 1")
        first.query("SET GLOBAL super_read_only = ON")
        cluster.primary.query("INSERT INTO app.single VALUES (1)")
        becomes(client, first, "yes", "its applier is stopped (error 1062: Worker ")
        text = shown(client, first)["replication"]
        assert text is not None
        assert "Duplicate entry '1' for key 'single.PRIMARY'" in text
        becomes(client, second, "no")
        assert servers_of_reads(running) == {second.address}
        first.query("SET GLOBAL super_read_only = OFF")
        first.query("SET sql_log_bin = 0")
        first.query("DELETE FROM app.single")
        first.query("SET sql_log_bin = 1")
        first.query("SET GLOBAL super_read_only = ON")
        first.query("START REPLICA")
        becomes(client, first, "no", "running")
    log = running.stderr
    assert log.count("its applier is stopped (error 1062") == 2  # once of each kind
    write()


def test_a_replica_that_is_late_on_purpose(
    cluster: Cluster, proxy: StartProxy, write: Writer
) -> None:
    running = proxy(**OPTIONS)
    first, second = cluster.replicas
    cluster.replicas[0].set_source_delay(3600)
    with contextlib.closing(connected(running)) as client:
        becomes(client, first, "no", "running, 3600 s late (SOURCE_DELAY)")
        falls_behind(client, first, write)
        becomes(client, second, "no")
        assert servers_of_reads(running) == {second.address}
        bounded = "/* tidegate consistency=BOUNDED_STALENESS(60m) */ SELECT COUNT(*) FROM late"
        assert servers_of_reads(running, statement=bounded) == {first.address, second.address}
    assert "does not replicate" not in running.stderr
    assert "(running, 3600 s late (SOURCE_DELAY))" in running.stderr


def test_the_primary_is_gone(cluster: Cluster, proxy: StartProxy, write: Writer) -> None:
    """Whoever had kept up until then does not fall behind."""
    first, second = cluster.replicas
    primary = cluster.primary
    running = proxy(**OPTIONS)
    with contextlib.closing(connected(running)) as client:
        becomes(client, second, "no", "running")
        first.query("STOP REPLICA")
        falls_behind(client, first, write)
        executed = primary.gtid_executed
        assert second.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", executed) == "0"
        becomes(client, second, "no")
    primary.kill()
    eventually(lambda: running.metric("tidegate_server_up", server=primary.address) == 0)
    eventually(lambda: _tries_again(second))
    time.sleep(1)  # longer than max-lag; nothing may happen
    assert running.metric("tidegate_replica_replicating", server=second.address) == 0
    assert running.metric("tidegate_replica_lagging", server=second.address) == 0
    assert running.metric("tidegate_replica_lagging", server=first.address) == 1
    warning = f"replica {second.address} does not replicate: its receiver is not connected to its"
    errors = re.findall(rf"{warning} source \(error (\d+)", running.stderr)
    assert errors[-1] == "2003"
    assert len(errors) == len(set(errors)), "it is said again with each attempt"


def _tries_again(replica: RealServer) -> bool:
    return "attempt 2/" in str(replica.replica_status()["Last_IO_Error"])


def test_a_replica_that_had_stopped_before_the_start(
    cluster: Cluster, proxy: StartProxy, write: Writer
) -> None:
    first, second = cluster.replicas
    first.query("STOP REPLICA")
    write()
    running = proxy(**{**OPTIONS, "max_lag": "24h"})
    with contextlib.closing(connected(running)) as client:
        becomes(client, first, "yes")
        becomes(client, second, "no")
        assert servers_of_reads(running) == {second.address}
        first.query("START REPLICA")
        becomes(client, first, "no")


def test_without_the_right_to_see_replication_only_the_lag_counts(
    cluster: Cluster, proxy: StartProxy, write: Writer
) -> None:
    first, _ = cluster.replicas
    grants = [
        str(grant)
        for (grant,) in cluster.primary.query(f"SHOW GRANTS FOR {MONITOR_USER}")
        if "SELECT" in str(grant)
    ]
    for grant in grants:
        cluster.primary.query(grant.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    try:
        cluster.wait_caught_up()
        running = proxy(**OPTIONS)
        with contextlib.closing(connected(running)) as client:
            eventually(lambda: shown(client, first)["lag_ms"] is not None)
            first.query("STOP REPLICA")
            falls_behind(client, first, write)
            assert shown(client, first)["replication"] is None
        assert "GRANT SELECT ON performance_schema.replication_connection_status" in running.stderr
    finally:
        for grant in grants:
            cluster.primary.query(grant)
