"""The proxy is killed, or stopped, and starts again: no read in a scope misses what it was told."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.test_split_brain import eventually

INSERT = "INSERT INTO kept VALUES ()"
COUNT = "SELECT COUNT(*) FROM kept"
WRITERS = 3
ROUNDS = 3
BEFORE_KILL = 5
"""Writes of each, at least, that the kill falls behind."""


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.kept")
    cluster.primary.query("CREATE TABLE app.kept (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.primary.query("GRANT SESSION_VARIABLES_ADMIN ON *.* TO app@'%'")
    cluster.wait_caught_up()


@pytest.fixture
def start(proxy: StartProxy, tmp_path: Path) -> Callable[[], RunningProxy]:
    """Starts a proxy on the same state directory; nothing but what a read must see leads it."""

    def started() -> RunningProxy:
        return proxy(scope="user", wait_budget="100ms", state_dir=str(tmp_path / "state"))

    return started


def count(running: RunningProxy) -> int:
    with closing(running.connect()) as session:
        ((found,),) = run(session, COUNT)
        assert isinstance(found, int)
        return found


def scope_of(running: RunningProxy) -> tuple[object, ...]:
    """Whether that of the user is known, what it requires, and what it has lost."""
    with closing(running.connect()) as session:
        scopes = {row[0]: row for row in run(session, "SHOW TIDEGATE SCOPES")}
        _, _, known, required, _, lost, _ = scopes["user"]
        return known, required, lost


def is_kept(running: RunningProxy) -> Callable[[], bool]:
    def kept() -> bool:
        return (
            running.metric("tidegate_scopes_kept") == 1
            and running.metric("tidegate_scopes_behind") == 0
        )

    return kept


class Writer(threading.Thread):
    """Writes until the proxy is gone.

    Attributes:
        acknowledged: how many writes were acknowledged.
        enough: there were as many as the kill waits for.
    """

    def __init__(self, running: RunningProxy) -> None:
        super().__init__(daemon=True)
        self._running = running
        self.acknowledged = 0
        self.enough = threading.Event()

    def run(self) -> None:
        with suppress(pymysql.err.MySQLError), closing(self._running.connect()) as session:
            while self.acknowledged < 100_000:
                run(session, INSERT)
                self.acknowledged += 1
                if self.acknowledged >= BEFORE_KILL:
                    self.enough.set()


@pytest.fixture
def stopped_appliers(cluster: Cluster) -> Iterator[Callable[[], None]]:
    def stop() -> None:
        for replica in cluster.replicas:
            replica.query("STOP REPLICA SQL_THREAD")

    yield stop
    for replica in cluster.replicas:
        replica.query("START REPLICA")


def test_a_kill_amid_writes_loses_nothing_that_a_client_was_told(
    cluster: Cluster, start: Callable[[], RunningProxy], stopped_appliers: Callable[[], None]
) -> None:
    """Replicas have what was kept before, and nothing of what is written then."""
    acknowledged = 0
    running = start()
    assert count(running) == 0  # from now on the scope is alive
    for _ in range(ROUNDS):
        eventually(is_kept(running))
        cluster.wait_caught_up()
        stopped_appliers()
        writers = [Writer(running) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            assert writer.enough.wait(30)
        running.kill()
        for writer in writers:
            writer.join(30)
            acknowledged += writer.acknowledged
        running = start()
        for _ in range(WRITERS):  # sessions take replicas in turns
            assert count(running) >= acknowledged
        for replica in cluster.replicas:
            replica.query("START REPLICA")
    assert acknowledged >= ROUNDS * WRITERS * BEFORE_KILL


def test_a_stop_keeps_all_as_it_is(
    cluster: Cluster, start: Callable[[], RunningProxy], stopped_appliers: Callable[[], None]
) -> None:
    running = start()
    assert count(running) == 0
    cluster.wait_caught_up()
    stopped_appliers()
    with closing(running.connect()) as session:
        run(session, INSERT)
    before = scope_of(running)
    assert before[0] == "yes"
    assert running.stop() == 0
    again = start()
    assert again.metric("tidegate_scopes_restored_total", known="yes") == 1
    assert count(again) == 1
    assert scope_of(again) == before
    # Nobody had to ask what the scope must see.
    assert again.metric("tidegate_probes_total") == 0


@pytest.mark.deep
def test_what_was_lost_while_nobody_looked_is_told(
    cluster: Cluster, start: Callable[[], RunningProxy]
) -> None:
    """The primary is put back while the proxy is away."""
    primary = cluster.primary
    data, kept = cluster.scratch.path / primary.name, cluster.scratch.path / "kept"
    running = start()
    assert count(running) == 0
    eventually(is_kept(running))
    primary.stop()
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(data, kept)
    primary.start()
    with closing(running.connect()) as session:
        for _ in range(7):
            run(session, INSERT)
    running.stop()
    primary.kill()
    shutil.rmtree(data)
    shutil.copytree(kept, data)
    primary.start()
    again = start()
    with closing(again.connect()) as session:
        with pytest.raises(pymysql.err.OperationalError, match="acknowledged writes are gone"):
            run(session, COUNT)
        run(session, COUNT)
    assert again.metric("tidegate_lost_transactions_total") == 7
    cluster.create()


def test_what_has_no_name_is_remembered(start: Callable[[], RunningProxy]) -> None:
    running = start()
    assert count(running) == 0
    with closing(running.connect()) as session:
        run(session, "SET sql_log_bin = 0")
        run(session, INSERT)
    running.kill()
    again = start()
    for _ in range(WRITERS):
        assert count(again) == 1
    assert "something was written without a GTID" in again.stderr


def test_several_workers_between_make_all_unknown(
    cluster: Cluster, start: Callable[[], RunningProxy], proxy: StartProxy, tmp_path: Path
) -> None:
    running = start()
    assert count(running) == 0
    eventually(is_kept(running))
    running.stop()
    many = proxy(
        workers="2",
        state_dir=str(tmp_path / "state"),
        failover="read_only",
    )
    with closing(many.connect()) as session:
        run(session, INSERT)
    many.stop()
    again = start()
    assert again.metric("tidegate_scopes_restored_total", known="no") == 1
    assert "another process has served clients meanwhile" in again.stderr
    assert count(again) == 1
