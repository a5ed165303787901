"""What the supervisor knows of one worker, whatever comes first."""

from multiprocessing.connection import Connection
from typing import cast

from proxy.observe.metrics import Metrics
from proxy.supervisor import MISSED_HEARTBEATS, ChildWorker
from proxy.worker import HEARTBEAT, Heartbeat


class _QuickPipe:
    """Leads to a worker that has answered before `send` returns."""

    def __init__(self, worker: ChildWorker) -> None:
        self._worker = worker
        self._reports: list[object] = []
        self.asked = 0

    def send(self, request: str) -> None:
        self.asked += 1
        self._reports.append(Heartbeat() if request == HEARTBEAT else Metrics().snapshot())
        self._worker.receive()  # as the supervising thread does, beside the one that asks

    def poll(self) -> bool:
        return bool(self._reports)

    def recv(self) -> object:
        return self._reports.pop()


def test_a_worker_that_answers_at_once_is_asked_again() -> None:
    worker = ChildWorker(0)
    pipe = _QuickPipe(worker)
    worker._pipe, worker.port = cast(Connection, pipe), 6446
    for attempt in (1, 2, 3):
        worker.ask()
        assert worker.answer(0) is not None
        assert pipe.asked == attempt


def test_a_worker_that_does_not_listen_yet_is_not_asked() -> None:
    worker = ChildWorker(0)
    pipe = _QuickPipe(worker)
    worker._pipe = cast(Connection, pipe)
    worker.ask()
    assert worker.answer(0) is None
    assert pipe.asked == 0


class _SilentPipe:
    """Leads to a worker that answers only when it is told to."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.reports: list[object] = []

    def send(self, request: str) -> None:
        self.requests.append(request)

    def poll(self) -> bool:
        return bool(self.reports)

    def recv(self) -> object:
        return self.reports.pop()


def test_a_worker_hangs_that_misses_enough_heartbeats() -> None:
    worker, pipe = ChildWorker(0), _SilentPipe()
    worker._pipe, worker.port = cast(Connection, pipe), 6446
    assert not worker.hangs()  # it is asked
    looks = [worker.hangs() for _ in range(MISSED_HEARTBEATS)]
    assert looks == [False] * (MISSED_HEARTBEATS - 1) + [True]
    assert pipe.requests == [HEARTBEAT]  # one question at a time: a full pipe would block


def test_a_late_heartbeat_counts() -> None:
    worker, pipe = ChildWorker(0), _SilentPipe()
    worker._pipe, worker.port = cast(Connection, pipe), 6446
    for _ in range(3):
        assert not worker.hangs()
        assert not any(worker.hangs() for _ in range(MISSED_HEARTBEATS - 1))
        pipe.reports.append(Heartbeat())
        worker.receive()


def test_a_worker_that_answers_at_once_never_hangs() -> None:
    worker = ChildWorker(0)
    pipe = _QuickPipe(worker)
    worker._pipe, worker.port = cast(Connection, pipe), 6446
    assert not any(worker.hangs() for _ in range(3 * MISSED_HEARTBEATS))
    assert pipe.asked == 3 * MISSED_HEARTBEATS


def test_a_worker_that_does_not_listen_yet_owes_no_heartbeat() -> None:
    worker, pipe = ChildWorker(0), _SilentPipe()
    worker._pipe = cast(Connection, pipe)
    assert not any(worker.hangs() for _ in range(3 * MISSED_HEARTBEATS))
    assert not pipe.requests
