"""What an audit is at, on the one line that a terminal keeps for it."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """Stages of an audit; says nothing where nobody is looking."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin.

        Args:
            stream: where to say it; by default standard error.
            clock: seconds.
        """
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._clock = clock
        self._begun = clock()

    def stage(self, name: str) -> None:
        """Another stage begins."""
        if self._is_shown:
            taken = self._clock() - self._begun
            self._stream.write(f"{_CLEAR}audit, {taken:,.0f} s: {name} …")
            self._stream.flush()

    def end(self) -> None:
        """Leave the line as if nothing had been there."""
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
