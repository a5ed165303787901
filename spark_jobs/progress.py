"""Shows the stage of an audit on one line of a terminal."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """The stages of an audit; nothing is written if the stream is no terminal."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin.

        Args:
            stream: where to write; by default standard error.
            clock: monotonic s.
        """
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._clock = clock
        self._begun = clock()

    def stage(self, name: str) -> None:
        """Show that another stage begins."""
        if self._is_shown:
            taken = self._clock() - self._begun
            self._stream.write(f"{_CLEAR}audit, {taken:,.0f} s: {name} …")
            self._stream.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
