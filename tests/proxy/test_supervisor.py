"""What the supervisor knows of one worker, whatever comes first."""

from multiprocessing.connection import Connection
from typing import cast

from proxy.observe.metrics import Metrics
from proxy.supervisor import ChildWorker


class _QuickPipe:
    """Leads to a worker that has answered before `send` returns."""

    def __init__(self, worker: ChildWorker) -> None:
        self._worker = worker
        self._reports: list[object] = []
        self.asked = 0

    def send(self, request: str) -> None:
        self.asked += 1
        self._reports.append(Metrics().snapshot())
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
