"""The memory that a process and its children use."""

import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.processor import descendants

_EVERY_S: Final = 0.5


class PeakMemory:
    """The most memory that a process and its descendants used at one time in a `with` block.

    Pages that several of them share count once (PSS). It is read twice a second, so a shorter peak
    may be missed.

    Attributes:
        bytes: that memory.
    """

    def __init__(self, pid: int) -> None:
        """Measure the process with this id."""
        self.bytes = 0
        self._pid = pid
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._left.set()
        self._thread.join()

    def _watch(self) -> None:
        left = False
        while not left:
            left = self._left.wait(_EVERY_S)
            now = sum(map(_memory, (self._pid, *descendants(self._pid))))
            self.bytes = max(self.bytes, now)


def _memory(pid: int) -> int:
    """The memory of a process, bytes; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
