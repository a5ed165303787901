"""Clients in threads, each of which does the same again and again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClientThreads(ABC):
    """Clients that are at work in a `with` block.

    Attributes:
        count: how often a client has come and gone without an error.
        errors: what went wrong otherwise.
    """

    def __init__(self, threads: int = 2) -> None:
        self.count = 0
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    @abstractmethod
    def come_and_go(self) -> None:
        """One client's whole life; whatever it raises is an error of `errors`."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.come_and_go()
            except Exception as error:
                self.errors.append(repr(error))
                self._stop.wait(0.1)
            else:
                with self._counting:
                    self.count += 1
