"""Replicas that are made anew with older data, or begin to commit in any order, while in use.

Their connections stay, so nothing tells but a question; `proof-max-age` says how often it is asked.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import time
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.statements import run
from tests.support.waiting import until

COUNT = "SELECT COUNT(*) FROM app.rebuilt"
CONFIRMATIONS = "tidegate_confirmations_total"
LEVELS = [
    "READ_OWN_WRITES",
    "MONOTONIC_READS",
    "READ_ALL_WRITES",
    "STRONG",
    "BOUNDED_STALENESS(1ms)",
]
PATIENT = "SET tidegate_wait_budget = '10s', tidegate_on_timeout = 'error'"
IMPATIENT = "SET tidegate_wait_budget = '10ms', tidegate_on_timeout = 'primary'"


def last(session: Connection[Cursor], column: str) -> object:
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (row,) = cursor.fetchall()
        return dict(row)[column]


@pytest.fixture(autouse=True)
def table(cluster: Cluster) -> str:
    """An empty table; gives what the servers had executed with it."""
    cluster.primary.query("DROP TABLE IF EXISTS app.rebuilt")
    cluster.primary.query("CREATE TABLE app.rebuilt (a INT)")
    cluster.wait_caught_up()
    return cluster.primary.gtid_executed


def rebuild(replica: RealServer, executed: str) -> None:
    """Bring back the table as it was when so much was executed; replication is not started."""
    with replica.admin() as admin:
        for sql in (
            "STOP REPLICA",
            "RESET REPLICA",
            "SET GLOBAL super_read_only = OFF",
            "RESET BINARY LOGS AND GTIDS",
            "SET sql_log_bin = OFF",
            "DELETE FROM app.rebuilt",
            f"SET GLOBAL gtid_purged = '{executed}'",
            "SET GLOBAL super_read_only = ON",
        ):
            run(admin, sql)


def start(cluster: Cluster, age: str) -> Iterator[RunningProxy]:
    options = {"proof_max_age": age, "monitor_user": None, "monitor_password_file": None}
    proxy = RunningProxy(cluster, f"age{age}", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture(scope="module")
def of_a_second(cluster: Cluster) -> Iterator[RunningProxy]:
    """A proxy without a monitor that takes proofs for a second, as it does by default."""
    yield from start(cluster, "1s")


@pytest.fixture(scope="module")
def of_no_age(cluster: Cluster) -> Iterator[RunningProxy]:
    """One that asks in front of every read."""
    yield from start(cluster, "0")


@contextlib.contextmanager
def at(running: RunningProxy, level: str) -> Iterator[Connection[Cursor]]:
    """A session that waits for replicas as long as it takes."""
    with running.connect() as session:
        run(session, f"SET tidegate_consistency = '{level}'")
        run(session, PATIENT)
        yield session


@pytest.mark.parametrize("level", LEVELS)
def test_a_rebuilt_replica_is_found_out_within_the_age(
    cluster: Cluster, of_a_second: RunningProxy, table: str, level: str
) -> None:
    with at(of_a_second, level) as session:
        run(session, "INSERT INTO app.rebuilt VALUES (1)")
        cluster.wait_caught_up()
        assert run(session, COUNT) == [(1,)]
        for replica in cluster.replicas:
            rebuild(replica, table)
        time.sleep(1.1)
        run(session, IMPATIENT)
        for _ in range(3):
            assert run(session, COUNT) == [(1,)]


@pytest.mark.parametrize("level", LEVELS)
def test_with_an_age_of_0_no_read_is_stale(
    cluster: Cluster, of_no_age: RunningProxy, table: str, level: str
) -> None:
    running = of_no_age
    held, lost = (running.metric(CONFIRMATIONS, result=result) for result in ("held", "lost"))
    with at(running, level) as session:
        run(session, "INSERT INTO app.rebuilt VALUES (1)")
        cluster.wait_caught_up()
        for _ in range(3):
            assert run(session, COUNT) == [(1,)]
        assert last(session, "role") == "replica"
        assert last(session, "proof") in ("known", "waited")
        assert running.metric(CONFIRMATIONS, result="held") > held
        for replica in cluster.replicas:
            rebuild(replica, table)
        run(session, IMPATIENT)
        assert run(session, COUNT) == [(1,)]
        assert last(session, "role") == "primary"
        assert "audit_failed" in str(last(session, "fallbacks"))
        assert running.metric(CONFIRMATIONS, result="lost") == lost + 1
        assert "it was rebuilt" in running.stderr
        for _ in range(3):
            assert run(session, COUNT) == [(1,)]
        for replica in cluster.replicas:
            replica.query("START REPLICA")
        cluster.wait_caught_up()
        run(session, PATIENT)
        for _ in range(3):
            assert run(session, COUNT) == [(1,)]
        assert last(session, "role") == "replica"
        assert running.metric(CONFIRMATIONS, result="unanswered") == 0


@contextlib.contextmanager
def in_any_order(cluster: Cluster) -> Iterator[None]:
    """No replica keeps the order of commits, for the length of a `with` block."""

    def keep_order(value: str) -> None:
        for replica in cluster.replicas:
            with replica.applier_stopped():
                replica.query(f"SET GLOBAL replica_preserve_commit_order = {value}")

    keep_order("OFF")
    try:
        yield
    finally:
        keep_order("ON")


def test_a_read_that_waits_asks_for_the_order_of_commits_at_any_age(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(proof_max_age="1h", monitor_user=None, monitor_password_file=None)
    with at(running, "READ_ALL_WRITES") as session:
        run(session, PATIENT)
        run(session, "INSERT INTO app.rebuilt VALUES (1)")
        assert run(session, COUNT) == [(1,)]
        assert last(session, "role") == "replica"
        with in_any_order(cluster):
            run(session, "INSERT INTO app.rebuilt VALUES (1)")
            expect_another_order(session)
    assert running.metric(CONFIRMATIONS, result="lost") == 0


def test_a_read_that_need_not_wait_asks_for_the_order_of_commits_within_the_age(
    cluster: Cluster, of_no_age: RunningProxy
) -> None:
    with at(of_no_age, "READ_ALL_WRITES") as session:
        run(session, "INSERT INTO app.rebuilt VALUES (1)")
        assert run(session, COUNT) == [(1,)]
        assert run(session, COUNT) == [(1,)]
        assert last(session, "proof") == "known"
        with in_any_order(cluster):
            expect_another_order(session)


def expect_another_order(session: Connection[Cursor]) -> None:
    """No replica is read from at READ_ALL_WRITES; at other levels the order does not matter."""
    for _ in range(2):
        assert len(run(session, COUNT)) == 1
        assert last(session, "role") == "primary"
    assert last(session, "reason") == "commit_order"
    run(session, PATIENT)
    run(session, "SET tidegate_consistency = 'READ_OWN_WRITES'")

    def reads_a_replica() -> bool:
        assert len(run(session, COUNT)) == 1
        return last(session, "role") == "replica"

    until(reads_a_replica, "a replica that was late is asked again")
