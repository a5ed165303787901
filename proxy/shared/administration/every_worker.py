"""Asks all workers of the proxy, from a thread of the process that serves the metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from proxy.shared.administration.question import LENGTH, OF_ONE, Answer, Question
from proxy.shared.administration.worker_sockets import WorkerSockets
from proxy.state.shared_names import PLAIN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from pathlib import Path

    from proxy.state.shared_names import SharedNames

_log = logging.getLogger(__name__)


class Loop(Protocol):
    """The event loop of a worker, for other threads."""

    def result(self, work: Coroutine[object, object, bytes], within: float) -> bytes | None:
        """What a coroutine gives, or None if it does not within so many seconds."""


class OneWorker:
    """The only worker, which runs in this process.

    Attributes:
        loop: its event loop, once it runs.
    """

    def __init__(self, answers: Callable[[], Callable[[bytes], Awaitable[bytes]] | None]) -> None:
        """`answers` gives what answers for the worker; None before it serves."""
        self.loop: Loop | None = None
        self._answers = answers

    def __call__(self, question: Question) -> Mapping[int, Answer | None]:
        """What it answers; None if it does not in time."""
        answers = self._answers()
        if answers is None or self.loop is None:
            return {0: None}
        found = self.loop.result(_bytes_of(answers, question.serialise()), question.within)
        return {0: None if found is None else Answer.parse(found[LENGTH.size :])}


class SeveralWorkers:
    """Workers that are processes of their own."""

    def __init__(self, folder: Path, workers: int, names: SharedNames = PLAIN) -> None:
        """Ask at the sockets in `folder`.

        Raises:
            StateError: it cannot be opened.
        """
        self._sockets = WorkerSockets(folder, names)
        self._workers = range(workers)

    def __call__(self, question: Question) -> Mapping[int, Answer | None]:
        """What each answers; None for one that does not."""
        if question.subject not in OF_ONE:
            return self._sockets.ask_blocking(self._workers, question)
        for worker in self._workers:
            answers = self._sockets.ask_blocking((worker,), question)
            if answers[worker] is not None:
                return answers
        return {0: None}

    def close(self) -> None:
        """Ask no more."""
        self._sockets.close()


async def _bytes_of(answers: Callable[[bytes], Awaitable[bytes]], question: bytes) -> bytes:
    return await answers(question)
