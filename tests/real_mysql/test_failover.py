"""The primary dies, a replica takes over, and what it lacks is told."""

import time
from collections.abc import Callable

import pymysql
import pytest
from pymysql.connections import Connection

from routing.consistency.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.disturbances import PROMOTED, promote
from tests.real_mysql.routes import ThroughTidegate, clients
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.workload import Workload
from tests.support.history_checker import check


def _value(connection: "Connection[pymysql.cursors.Cursor]", sql: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return row[0] if row else None


def _eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _watched(cluster: Cluster, proxy: StartProxy, on_lost_writes: str) -> RunningProxy:
    """A proxy that has seen both replicas read only."""
    for replica in cluster.replicas:
        replica.query("SET GLOBAL super_read_only = ON")
    running = proxy(
        failover="read_only",
        monitor_interval="100ms",
        scope="user",
        wait_budget="2s",
        on_lost_writes=on_lost_writes,
    )
    with running.connect() as connection:

        def seen() -> bool:
            with connection.cursor() as cursor:
                cursor.execute("SHOW TIDEGATE SERVERS")
                return [row[6] for row in cursor.fetchall()] == ["no", "yes", "yes"]

        _eventually(seen)
    return running


@pytest.mark.parametrize("policy", ["error", "continue"])
def test_what_the_new_primary_lacks_is_told_once(
    cluster: Cluster, proxy: StartProxy, policy: str
) -> None:
    running = _watched(cluster, proxy, policy)
    writer, reader = running.connect(), running.connect()
    cluster.primary.query("DROP TABLE IF EXISTS app.failover")
    _value(writer, "CREATE TABLE failover (a INT)")
    _value(writer, "INSERT INTO failover VALUES (1)")
    assert _value(reader, "SELECT COUNT(*) FROM failover") == 1
    cluster.wait_caught_up()
    for replica in cluster.replicas:
        replica.query("STOP REPLICA IO_THREAD")
    before = cluster.primary.gtid_executed
    _value(writer, "INSERT INTO failover VALUES (2)")
    gtid = cluster.primary.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", before)
    lost = gtid.rpartition(":")[2]
    new, other = cluster.replicas
    cluster.primary.kill()
    promote(new, [other])

    def promoted() -> bool:
        try:
            with running.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SHOW TIDEGATE SERVERS")
                servers = cursor.fetchall()
        except pymysql.err.OperationalError:
            return False  # its primary is not known to be gone yet
        return bool(servers[0][0] == f"127.0.0.1:{new.port}")

    _eventually(promoted)
    # Its session was on the old primary, and goes on.
    if policy == "error":
        with pytest.raises(pymysql.err.OperationalError, match=f":{lost};") as caught:
            _value(reader, "SELECT COUNT(*) FROM failover")
        assert caught.value.args[0] == 1105
    assert _value(reader, "SELECT COUNT(*) FROM failover") == 1
    assert f":{lost}" in running.stderr
    with reader.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SCOPES")
        assert [row[5].rpartition(":")[2] for row in cursor.fetchall()][1:] == [lost]
    # And the new primary's writes are seen like those of the old one.
    with running.connect() as writer:
        for count in range(2, 6):
            _value(writer, "INSERT INTO failover VALUES (3)")
            assert _value(reader, "SELECT COUNT(*) FROM failover") == count


def test_a_replica_that_was_writable_all_along_is_no_primary(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(failover="read_only", monitor_interval="100ms")
    connection = running.connect()
    assert _value(connection, "SELECT 1") == 1
    cluster.primary.kill()
    time.sleep(1)  # ten looks of the monitor
    for session in (connection, running.connect()):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            _value(session, "CREATE TABLE no_primary (a INT)")
        assert caught.value.args[0] == 1290
    assert "is the primary now" not in running.stderr


def test_promises_hold_across_a_promotion(cluster: Cluster, proxy: StartProxy) -> None:
    """In good order, so that nothing is lost: clients write and read on, and see nothing stale."""
    levels = ["READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"]
    workload = Workload(cluster, clients([*levels, "BOUNDED_STALENESS(500ms)"], list(Scope)))
    running = _watched(cluster, proxy, "error")
    seen = workload.run(
        lambda client, name: ThroughTidegate(running, client, name), 2_000, PROMOTED.during
    )
    violations = check(seen.history)
    assert not violations, "\n".join(map(str, violations[:5]))
    codes = {int(error[1:].partition(",")[0]) for error in seen.errors if error[0] == "("}
    # Writes that the old primary would not take any more, and the ends of sessions of which it had
    # more than can be carried; sessions that only read, or rest, go on.
    assert codes <= {1290, 1053, 2013, 2003}, dict(seen.errors)
    assert running.metric("tidegate_promotions_total") == 1
    assert running.metric("tidegate_lost_transactions_total") == 0
    new = cluster.replicas[0].address
    assert running.metric("tidegate_statements_total", server=new, role="primary", reason="write")
    assert running.metric("tidegate_statements_total", role="replica", reason="read") > 500
