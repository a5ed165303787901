"""A worker or the whole proxy starts again behind a promotion: all writes go to the new primary."""

from __future__ import annotations  # Connection is generic for the type checker only

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from proxy.state.state_file import FILE_NAME, PrimaryTerm, StateFile
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.test_split_brain import (
    INSERT,
    OPTIONS,
    close_to_writes,
    eventually,
    is_gone,
    is_writable,
    open_for_writes,
    rows_on,
)
from tests.support.forked_workers import WORKER

WORKERS = 3


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.split")
    cluster.primary.query("CREATE TABLE app.split (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.wait_caught_up()


def worker_pids(running: RunningProxy) -> set[int]:
    """Of the processes that serve clients."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    found = set()
    for child in map(int, children):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            if Path(f"/proc/{child}/comm").read_text().strip() == WORKER:
                found.add(child)
    return found


def write_by_all(running: RunningProxy) -> int:
    """Write over many connections at once, so that each worker has some; return how many."""
    with ExitStack() as stack:
        sessions: list[Connection[Cursor]] = [
            stack.enter_context(closing(running.connect())) for _ in range(24)
        ]
        for session in sessions:
            run(session, INSERT)
    return len(sessions)


def fail_over(cluster: Cluster, running: RunningProxy, workers: int) -> None:
    """The primary stands still, a replica takes over, and the old primary goes on, writable."""
    primary, replica = cluster.primary, cluster.replicas[0]
    primary.pause()
    eventually(is_gone(running, primary))
    open_for_writes(replica)
    eventually(lambda: running.metric("tidegate_promotions_total") == workers)
    primary.resume()
    eventually(lambda: is_writable_for(running, primary.address) == workers)


def is_writable_for(running: RunningProxy, address: str) -> float:
    return running.metric("tidegate_server_writable", server=address)


def terms_are(running: RunningProxy, number: int) -> Callable[[], bool]:
    return lambda: all(
        running.metric("tidegate_primary_term", worker=str(worker)) == number
        for worker in range(WORKERS)
    )


def test_a_worker_that_starts_again(cluster: Cluster, proxy: StartProxy) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS, workers=str(WORKERS))
    eventually(terms_are(running, 1))
    fail_over(cluster, running, WORKERS)
    before = worker_pids(running)
    assert len(before) == WORKERS
    os.kill(min(before), signal.SIGKILL)
    eventually(lambda: len(worker_pids(running) - before) == 1)
    eventually(terms_are(running, 2))
    eventually(lambda: running.metric("tidegate_worker_up") == WORKERS)
    written = write_by_all(running)
    assert (rows_on(primary), rows_on(replica)) == ("0", str(written))
    assert running.health() == (200, "OK\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_proxy_that_starts_again(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path, workers: int
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    options = {**OPTIONS, "state_dir": str(tmp_path / "state"), "workers": str(workers)}
    running = proxy(**options)
    eventually(lambda: running.metric("tidegate_primary_term") == workers)
    fail_over(cluster, running, workers)
    running.kill()
    again = proxy(**options)
    written = write_by_all(again)
    assert (rows_on(primary), rows_on(replica)) == ("0", str(written))
    assert f"server {replica.address} is the primary since term 2" in again.stderr
    # It is followed where it went meanwhile, too.
    again.kill()
    close_to_writes(replica)
    third = proxy(**options)
    with closing(third.connect()) as session:
        run(session, INSERT)
    assert rows_on(primary) == "1"
    with closing(StateFile(tmp_path / "state")) as file:
        terms = file.terms()
    assert [term.address for term in terms] == [
        primary.address,
        replica.address,
        primary.address,
    ]
    assert [term.server_uuid for term in terms[:2]] == [primary.server_uuid, replica.server_uuid]


def test_an_old_primary_is_not_followed_while_the_last_one_is_gone(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    options = {**OPTIONS, "state_dir": str(tmp_path)}
    running = proxy(**options)
    eventually(lambda: running.metric("tidegate_primary_term") == 1)
    fail_over(cluster, running, 1)
    running.kill()
    replica.pause()
    again = proxy(**options)
    eventually(is_writable(again, primary))
    status, text = again.health()
    assert status == 503
    assert f"it was the primary before {replica.address}, which may come back" in text
    replica.resume()
    eventually(lambda: again.health()[0] == 200)
    with closing(again.connect()) as session:
        run(session, INSERT)
    assert (rows_on(primary), rows_on(replica)) == ("0", "1")


def test_what_is_kept_may_be_of_another_cluster(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path
) -> None:
    with closing(StateFile(tmp_path)) as file:
        file.add(PrimaryTerm(1, "192.0.2.1:3306", "11111111-1111-1111-1111-111111111111", 1))
    running = proxy(**OPTIONS, state_dir=str(tmp_path))
    assert "the primary since term 1 is 192.0.2.1:3306, which is not configured" in running.stderr
    with closing(running.connect()) as session:
        run(session, INSERT)
    eventually(lambda: running.metric("tidegate_primary_term") == 2)
    assert rows_on(cluster.primary) == "1"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_read_ends_the_start(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path, workers: int
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(RuntimeError, match="not a database; move it away"):
        proxy(**OPTIONS, state_dir=str(tmp_path), workers=str(workers))


def test_a_promotion_that_cannot_be_kept_is_not_followed(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS, state_dir=str(tmp_path))
    eventually(lambda: running.metric("tidegate_primary_term") == 1)
    with closing(StateFile(tmp_path)) as file:
        connection = file._used
        connection.execute("BEGIN IMMEDIATE")  # as good as a disk that takes no more
        close_to_writes(primary)
        open_for_writes(replica)
        eventually(lambda: "another program keeps it locked" in running.health()[1])
        assert running.metric("tidegate_promotions_total") == 0
        connection.execute("ROLLBACK")
    eventually(lambda: running.metric("tidegate_promotions_total") == 1)
    with closing(running.connect()) as session:
        run(session, INSERT)
    assert rows_on(replica) == "1"
