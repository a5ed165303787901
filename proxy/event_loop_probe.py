"""Finds out from another thread whether an event loop runs, or hangs in a callback."""

import threading
import time
from collections.abc import Callable
from typing import Final

HANGS_S: Final = 10.0
"""After so long without an answer it hangs: as long as a supervisor gives its workers."""


class EventLoopProbe:
    """Asks by a callback, when somebody wants to know; one question is under way at a time."""

    def __init__(
        self,
        call: Callable[[Callable[[], object]], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet.

        Args:
            call: has the event loop call a function (`call_soon_threadsafe`).
            now: monotonic, s.
        """
        self._call = call
        self._now = now
        self._asking = threading.Lock()
        self._answered: threading.Event | None = None
        self._asked_at = 0.0

    def silence(self, within: float) -> float:
        """Wait for an answer for so long; how long the question has had none, s, or else 0."""
        with self._asking:
            answered = self._answered
            if answered is None or answered.is_set():
                answered = self._answered = threading.Event()
                self._asked_at = self._now()
                self._call(answered.set)
            asked_at = self._asked_at
        return 0.0 if answered.wait(within) else max(self._now() - asked_at, within)
