"""MySQL's parallel workers do what the mocker's tests say, with and without a commit order."""

import contextlib
from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from protocol.gtid import GtidSet
from tests.mysql_mocker.commit_order_matrix import CHECKS, Pair, lay_out, wait_caught_up, write
from tests.mysql_mocker.raw_client import RawClient
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.support.waiting import until

USER, PASSWORD = "matrix", "matrix-secret"
FAILED = (
    "SELECT COALESCE(MAX(LAST_ERROR_NUMBER), 0)"
    " FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER <> 3030"
)
"""3030 is of the younger ones that were rolled back."""


class RealPair:
    """The cluster's primary and its first replica, which has four workers."""

    def __init__(self, cluster: Cluster) -> None:
        self.server = cluster.replicas[0]
        self.primary = RawClient(cluster.primary.port, USER, PASSWORD, "app")
        self.replica = RawClient(self.server.port, USER, PASSWORD, "app")

    @contextlib.contextmanager
    def holding(self, number: int) -> Iterator[None]:
        """A client of the replica has the row that the transaction wants."""
        del number
        with contextlib.closing(self.server.admin("app")) as holder:
            holder.begin()
            with holder.cursor() as cursor:
                cursor.execute("SELECT * FROM held WHERE id = 1 FOR UPDATE")
            yield
            holder.rollback()

    def error_code(self) -> int:
        if self.server.replica_status()["Replica_SQL_Running"] == "Yes":
            return 0
        return int(self.server.value(FAILED))

    def retried(self) -> int:
        return int(
            self.server.value(
                "SELECT COUNT_TRANSACTIONS_RETRIES FROM"
                " performance_schema.replication_applier_status"
            )
        )


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[RealPair]:
    for statement in (
        "DROP DATABASE IF EXISTS app",
        "CREATE DATABASE app",
        f"CREATE USER IF NOT EXISTS {USER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON *.* TO {USER}",
    ):
        cluster.primary.query(statement)
    cluster.wait_caught_up()
    cluster.replicas[0].query("SET GLOBAL read_only = 0")
    running = RealPair(cluster)
    yield running
    for client in (running.primary, running.replica):
        client.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_order(check: Callable[[Pair], None], pair: RealPair) -> None:
    check(pair)


def test_a_gap_is_shown_until_it_is_filled(pair: RealPair, proxy: StartProxy) -> None:
    running = proxy()

    def gap() -> float:
        return running.metric("tidegate_replica_gap_transactions", server=pair.server.address)

    lay_out(pair, "OFF")
    until(lambda: gap() == 0, "no gap is shown")
    with pair.holding(1010):
        write(pair, 1010)
        until(lambda: gap() == 1, "the gap is shown")
    wait_caught_up(pair)
    until(lambda: gap() == 0, "it is shown no longer")


def test_a_group_in_the_binary_log_is_committed_in_any_order(cluster: Cluster) -> None:
    """With binlog_order_commits off, replica_preserve_commit_order changes nothing about that."""
    primary, replica = cluster.primary, cluster.replicas[0]
    primary.query("CREATE TABLE app.grouped (id INT PRIMARY KEY, v INT)")
    primary.query("INSERT INTO app.grouped VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)")
    cluster.wait_caught_up()
    assert replica.value("SELECT @@GLOBAL.replica_preserve_commit_order") == "1"
    ended = Event()

    def intervals() -> int:
        return GtidSet.parse(replica.gtid_executed).interval_count

    whole = intervals()

    def update(number: int) -> None:
        with primary.connect() as client, client.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("UPDATE app.grouped SET v = v + 1 WHERE id = %s", (number,))

    writers = [Thread(target=update, args=(number,)) for number in range(6)]
    replica.query("SET GLOBAL binlog_order_commits = OFF")
    try:
        for writer in writers:
            writer.start()
        until(lambda: intervals() > whole, "a gap is shown")
    finally:
        ended.set()
        for writer in writers:
            writer.join()
        replica.query("SET GLOBAL binlog_order_commits = ON")
    cluster.wait_caught_up()
    assert intervals() == whole
