"""All servers begin anew in place: RESET BINARY LOGS AND GTIDS on the primary and its replicas."""

from contextlib import closing

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.support.waiting import eventually

DIVERGED = "until it is made anew"
AGAIN = "it is read again"
NEW = 5


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.rewound")
    cluster.primary.query("CREATE TABLE app.rewound (id INT AUTO_INCREMENT PRIMARY KEY)")
    write(cluster.primary, NEW)
    cluster.wait_caught_up()


def write(server: RealServer, times: int) -> None:
    for _ in range(times):
        server.query("INSERT INTO app.rewound VALUES ()")


def readers(running: RunningProxy, reads: int) -> set[str]:
    """Who answers reads that must see what their sessions wrote."""
    found = set()
    for _ in range(reads):
        with closing(running.connect()) as client, client.cursor() as cursor:
            cursor.execute("INSERT INTO rewound VALUES ()")
            cursor.execute("SELECT COUNT(*) FROM rewound")
            cursor.execute("SHOW TIDEGATE LAST")
            found |= {str(value) for row in cursor.fetchall() for value in row}
    return found


def looks(replica: RealServer) -> int:
    """How often the monitor has asked for its binary log, as it does while it has diverged."""
    sql = "SHOW GLOBAL STATUS LIKE 'Com_show_binary_log_status'"
    return int(replica.query(sql)[0][1])


def rewind(cluster: Cluster, running: RunningProxy, order: str) -> None:
    """Take the GTIDs of all servers, and write some of their names again."""
    primary, replicas = cluster.primary, cluster.replicas
    for replica in replicas:
        replica.query("STOP REPLICA")
    if order == "replicas first":
        for replica in replicas:
            replica.query("RESET BINARY LOGS AND GTIDS")
    primary.query("RESET BINARY LOGS AND GTIDS")
    write(primary, NEW)
    if order == "after the proxy has noticed":
        eventually(lambda: running.stderr.count(DIVERGED) == len(replicas))
    for replica in replicas:
        if order != "replicas first":
            # The names come back at once: nobody need have seen the replica without any.
            replica.query("RESET BINARY LOGS AND GTIDS")
        replica.query("RESET REPLICA")
        replica.query("START REPLICA")
    write(primary, NEW)
    cluster.wait_caught_up()


def test_a_replica_that_has_all_names_again_before_anybody_has_looked_is_used_again(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """The primary writes so much that a replica has more than before when it is looked at next.

    Only its binary log tells: its files are counted from 1 again.
    """
    primary, replicas = cluster.primary, cluster.replicas
    for replica in replicas:
        replica.query("FLUSH BINARY LOGS")
    running = proxy(monitor_interval="1500ms")
    assert not {replica.address for replica in replicas}.isdisjoint(readers(running, 4))
    for replica in replicas:
        replica.query("STOP REPLICA")
    primary.query("RESET BINARY LOGS AND GTIDS")
    write(primary, 1)
    eventually(lambda: running.stderr.count(DIVERGED) == len(replicas))
    write(primary, 20 * NEW)
    for replica in replicas:
        replica.query("RESET BINARY LOGS AND GTIDS")
        replica.query("RESET REPLICA")
        replica.query("START REPLICA")
    cluster.wait_caught_up()
    eventually(lambda: running.stderr.count(AGAIN) == len(replicas))
    eventually(lambda: {replica.address for replica in replicas} <= readers(running, 4))


def test_a_replica_that_was_reset_before_the_primary_lost_something_stays_out_of_use(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """Its binary log began anew, but what it has now are the old primary's transactions."""
    primary, replicas = cluster.primary, cluster.replicas
    for replica in replicas:
        replica.query("FLUSH BINARY LOGS")
    running = proxy(monitor_interval="50ms")
    assert not {replica.address for replica in replicas}.isdisjoint(readers(running, 4))
    cluster.wait_caught_up()
    copy = primary.gtid_executed
    for replica in replicas:
        replica.query("STOP REPLICA")
        replica.query("RESET BINARY LOGS AND GTIDS")
        replica.query(f"SET GLOBAL gtid_purged = '{copy}'")
        replica.query("START REPLICA")
    write(primary, NEW)
    cluster.wait_caught_up()
    eventually(lambda: {replica.address for replica in replicas} <= readers(running, 4))
    cluster.wait_caught_up()
    for replica in replicas:
        replica.query("STOP REPLICA")
    primary.query("RESET BINARY LOGS AND GTIDS")
    primary.query(f"SET GLOBAL gtid_purged = '{copy}'")
    write(primary, 1)
    eventually(lambda: running.stderr.count(DIVERGED) == len(replicas))
    before = [looks(replica) for replica in replicas]
    write(primary, 10 * NEW)  # all names again
    for replica, had in zip(replicas, before, strict=True):
        eventually(lambda r=replica, had=had: looks(r) > had + 3 or AGAIN in running.stderr)
    assert AGAIN not in running.stderr
    assert {replica.address for replica in replicas}.isdisjoint(readers(running, 4))


@pytest.mark.parametrize(
    "order", ["replicas first", "primary first", "after the proxy has noticed"]
)
@pytest.mark.parametrize("interval", ["50ms", "1500ms"])
def test_a_cluster_that_was_rewound_is_used_again(
    cluster: Cluster, proxy: StartProxy, order: str, interval: str
) -> None:
    write(cluster.primary, 2 * NEW)
    cluster.wait_caught_up()
    running = proxy(monitor_interval=interval)
    assert not {replica.address for replica in cluster.replicas}.isdisjoint(readers(running, 4))
    rewind(cluster, running, order)
    # While clients write without a pause, the monitor may see a replica ahead at each of its looks.
    eventually(lambda: running.stderr.count(AGAIN) == running.stderr.count(DIVERGED))
    eventually(lambda: {replica.address for replica in cluster.replicas} <= readers(running, 4))
    assert running.stderr.count(AGAIN) == running.stderr.count(DIVERGED)


def test_names_that_a_statement_through_the_proxy_took_are_not_looked_for(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """The replicas have the names that the primary gives next, and not what it writes."""
    primary, replicas = cluster.primary, cluster.replicas
    primary.query("GRANT RELOAD ON *.* TO app")
    cluster.wait_caught_up()
    running = proxy(monitor_interval="60s")
    with closing(running.connect()) as first, closing(running.connect()) as other:
        for replica in replicas:
            replica.query("STOP REPLICA")
        with first.cursor() as cursor:
            cursor.execute("RESET BINARY LOGS AND GTIDS")
        for rows, client in ((NEW + 1, other), (NEW + 2, first)):
            with client.cursor() as cursor:
                cursor.execute("INSERT INTO rewound VALUES ()")
                cursor.execute("SELECT COUNT(*) FROM rewound")
                assert cursor.fetchall() == ((rows,),)
    for replica in replicas:
        replica.query("RESET BINARY LOGS AND GTIDS")
        replica.query("RESET REPLICA")
        replica.query("START REPLICA")
    cluster.wait_caught_up()
