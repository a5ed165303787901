"""SIGHUP, which asks a daemon to read its configuration anew."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Hangup:
    """Takes the signal from now on, so that it never ends the process.

    One that comes before anybody can act on it is remembered: what was read by then may be what was
    there before the change that it tells of.
    """

    def __init__(self) -> None:
        self._pending = False
        self._act: Callable[[], None] | None = None
        signal.signal(signal.SIGHUP, self._on_signal)

    def call(self, act: Callable[[], None]) -> None:
        """Call this at each signal; it must return at once."""
        self._act = act
        if self._pending:
            self._pending = False
            act()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._act is None:
            self._pending = True
        else:
            self._act()
