"""What the primary's log had shown at some moments, to see how far behind a replica was."""

from bisect import bisect_left
from collections import deque
from typing import Final

from protocol.gtid import GtidSet

_MOST: Final = 256
_MOST_BYTES: Final = 1 << 20
"""Of all sets together, as if they shared nothing; the newest one is kept, however large it is."""


class LogProgress:
    """Through which transactions the log had been read, at moments that are some time apart."""

    def __init__(self, apart: float) -> None:
        """Nothing was read yet; `apart` is the least time between two moments, s."""
        self._apart = apart
        self._read: deque[tuple[float, GtidSet]] = deque()

    def __len__(self) -> int:
        return len(self._read)

    def clear(self) -> None:
        """Begin anew: another log is read, or from elsewhere."""
        self._read.clear()

    def add(self, now: float, read_through: GtidSet) -> None:
        """The log has been read through more than before.

        Args:
            now: monotonic, s.
            read_through: the transactions, those of each earlier call among them.
        """
        if self._read and now - self._read[-1][0] < self._apart:
            return
        self._read.append((now, read_through))
        most = max(1, min(_MOST, _MOST_BYTES // max(1, read_through.memory)))
        while len(self._read) > most:
            self._read.popleft()

    def behind(self, applied: GtidSet, seen_at: float) -> float:
        """How long before a look at a server the log had shown what it then lacked, s.

        Args:
            applied: what it had.
            seen_at: when that was seen, monotonic s.

        Returns:
            0 if it lacked nothing that had been shown for as long as moments are apart.
        """
        shown = [entry for entry in self._read if seen_at - entry[0] >= self._apart]
        # Each set holds those before it.
        first = bisect_left(shown, True, key=lambda entry: not applied.covers(entry[1]))
        return seen_at - shown[first][0] if first < len(shown) else 0.0
