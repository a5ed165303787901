"""One promise across workers: what one of them was told, reads through any other see."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.routes import worker_of
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.test_kept_primary import worker_pids
from tests.real_mysql.test_split_brain import eventually

WORKERS = 3
INSERT = "INSERT INTO shared VALUES ()"
COUNT = "SELECT COUNT(*) FROM shared"
OPTIONS = {"scope": "user", "wait_budget": "50ms", "workers": str(WORKERS)}
READS = 200


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.shared")
    cluster.primary.query("CREATE TABLE app.shared (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.primary.query("GRANT SESSION_VARIABLES_ADMIN ON *.* TO app@'%'")
    cluster.wait_caught_up()


def one_of_each(running: RunningProxy, stack: ExitStack) -> list[Connection[Cursor]]:
    """A session of each worker."""
    found: dict[int, Connection[Cursor]] = {}

    def is_complete() -> bool:
        session = stack.enter_context(closing(running.connect()))
        found.setdefault(worker_of(session), session)
        return len(found) == WORKERS

    eventually(is_complete)
    return [found[worker] for worker in sorted(found)]


def count(session: Connection[Cursor]) -> int:
    ((found,),) = run(session, COUNT)
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS"])
def test_what_one_worker_was_told_all_others_show(
    proxy: StartProxy, late_replicas: None, level: str
) -> None:
    running = proxy(**OPTIONS, consistency=level)
    with ExitStack() as stack:
        sessions = one_of_each(running, stack)
        for expected, writer in enumerate(sessions * 3, 1):
            run(writer, INSERT)
            for reader in sessions:
                assert count(reader) == expected


def test_who_writes_where_nobody_reads_is_found_by_the_first_read(
    proxy: StartProxy, late_replicas: None
) -> None:
    running = proxy(**OPTIONS)
    with ExitStack() as stack:
        first, second, third = one_of_each(running, stack)
        run(first, INSERT)
        assert count(second) == 1
        run(first, INSERT)
        assert count(third) == 2
        assert count(second) == 2


def test_replicas_answer_once_they_have_what_others_wrote(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(**{**OPTIONS, "wait_budget": "2s"})
    with ExitStack() as stack:
        first, second, _ = one_of_each(running, stack)
        assert count(second) == 0
        run(first, INSERT)
        cluster.wait_caught_up()
        assert count(second) == 1
        (shown,) = run(second, "SHOW TIDEGATE LAST")
        assert "replica" in shown, shown


class Register(threading.Thread):
    """Writes through one session until it ends, and says how many were acknowledged."""

    def __init__(
        self, running: RunningProxy, acknowledged: list[int], lock: threading.Lock
    ) -> None:
        super().__init__(daemon=True)
        self._running, self._told, self._lock = running, acknowledged, lock
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            with suppress(pymysql.err.MySQLError), closing(self._running.connect()) as session:
                while not self.stopping.is_set():
                    run(session, INSERT)
                    with self._lock:
                        self._told[0] += 1


def test_a_worker_that_is_killed_makes_no_read_miss_anything(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """Replicas apply all the time, so that it matters what is waited for."""
    running = proxy(**{**OPTIONS, "wait_budget": "1s"})

    def is_up_again(restarts: int) -> bool:
        return (
            running.metric("tidegate_worker_restarts_total") == restarts
            and running.metric("tidegate_worker_up") == WORKERS
        )

    eventually(lambda: is_up_again(0))
    acknowledged, lock = [0], threading.Lock()
    writers = [Register(running, acknowledged, lock) for _ in range(4)]
    for writer in writers:
        writer.start()

    read = 0
    kills = 2
    try:
        while read < READS or kills:
            with suppress(pymysql.err.MySQLError), closing(running.connect()) as session:
                for _ in range(25):
                    with lock:
                        before = acknowledged[0]
                    found = count(session)
                    assert found >= before, f"{found} of {before} writes are shown"
                    read += 1
            if kills and read >= READS // 4:
                kills -= 1
                os.kill(min(worker_pids(running)), signal.SIGKILL)
                eventually(partial(is_up_again, 2 - kills))
    finally:  # else they go on while pytest tells of a failure
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(30)
    assert is_up_again(2)
    assert acknowledged[0] > 0


@pytest.mark.parametrize("workers", [str(WORKERS), None])
def test_what_has_no_name_is_remembered(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path, workers: str | None
) -> None:
    state: dict[str, str] = {"state_dir": str(tmp_path / "state")}
    running = proxy(**OPTIONS, **state)
    with ExitStack() as stack:
        first, second, third = one_of_each(running, stack)
        assert [count(session) for session in (first, second)] == [0, 0]
        run(first, "SET sql_log_bin = 0")
        run(first, INSERT)
        assert [count(session) for session in (second, third)] == [1, 1]
    running.stop()
    again = proxy(**{**OPTIONS, **state, "workers": workers})
    for _ in range(WORKERS):
        with closing(again.connect()) as session:
            assert count(session) == 1


def test_a_proxy_that_becomes_several_workers_remembers_it_too(
    proxy: StartProxy, tmp_path: Path
) -> None:
    state: dict[str, str] = {"state_dir": str(tmp_path / "state")}
    running = proxy(**{**OPTIONS, **state, "workers": None})
    with closing(running.connect()) as session:
        run(session, "SET sql_log_bin = 0")
        run(session, INSERT)
    running.stop()
    again = proxy(**OPTIONS, **state)
    with ExitStack() as stack:
        assert [count(session) for session in one_of_each(again, stack)] == [1] * WORKERS
