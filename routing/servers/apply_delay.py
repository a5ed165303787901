"""How long after its acknowledgement a write is there, on one replica, by what was met lately.

Delays differ from one write to the next, and a mean does not tell by how much. So the last few are
kept, and two questions are asked of them: when will a write be there nearly for certain, which is
after the longest of them; and from when on may it be there already, which is from half of the
shortest. One delay that was out of the ordinary is forgotten after a few others. All are hints:
nothing is proved by them.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

_KEPT: Final = 8
"""So many delays: of nine alike, the ninth is the longest once in nine times."""
_KNOWN_S: Final = 10.0
"""How long they count after the last one was met."""
_MEASURED_KNOWN_S: Final = 600.0
"""The same where the monitor would notice that they change: replicas that are late stay so."""
_FRESH_S: Final = 2.0
"""After so long a time without another one, a write may be there at any time."""
BLOCKED_S: Final = 0.002
"""A WAIT that took longer has really waited."""


class ApplyDelay:
    """Delays of one replica, s; all times are monotonic."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._delays: Final[list[float]] = []  # the oldest first
        self._missing = 0.0  # that of a write which is not there yet is longer
        self._met_at = -inf
        self._is_measured = False  # by the monitor
        # Of what is kept
        self._mean = 0.0
        self._longest = 0.0
        self._shortest = 0.0

    def applied(self, delay: float, waited: float, now: float) -> None:
        """A WAIT ended well.

        Args:
            delay: how long ago what it waited for was acknowledged.
            waited: how long it took. One that has not really waited says no more than that the
                write was there by then.
            now: when it ended.
        """
        if waited >= BLOCKED_S or self._missing or delay < self._longest:
            self._add(delay, now)

    def measured(self, delays: Iterable[float], now: float) -> None:
        """Writes were applied so long after their commits, by their timestamps."""
        for delay in delays:
            self._is_measured = True
            self._add(delay, now)

    def unmeasured(self) -> None:
        """That is not to be seen, or not any more."""
        self._is_measured = False

    def missing(self, delay: float, now: float) -> None:
        """What was acknowledged so long ago is not there yet; it is no news if it is not due."""
        self._forget_old(now)
        if delay >= self.at_most(now):
            self._missing = delay
            self._met_at = now

    def _add(self, delay: float, now: float) -> None:
        self._forget_old(now)
        if len(self._delays) == _KEPT:
            self._delays.pop(0)
        self._delays.append(delay)
        total, longest, shortest = 0.0, delay, delay
        for kept in self._delays:  # each read that waits does this; sum, min and max cost more
            total += kept
            if kept > longest:
                longest = kept
            elif kept < shortest:
                shortest = kept
        self._mean = total / len(self._delays)
        self._longest = longest
        self._shortest = shortest
        self._missing = 0.0
        self._met_at = now

    def _forget_old(self, now: float) -> None:
        if not self.is_known(now):
            self._delays.clear()
            self._mean = self._longest = self._shortest = self._missing = 0.0

    def is_known(self, now: float) -> bool:
        """Whether anything was met lately."""
        return now - self._met_at < (_MEASURED_KNOWN_S if self._is_measured else _KNOWN_S)

    def expected(self, now: float) -> float:
        """How long after its acknowledgement a write is there, in the mean."""
        return max(self._mean, self._missing) if self.is_known(now) else 0.0

    def at_most(self, now: float) -> float:
        """Within how long nearly all writes are there; 0 where nothing is known."""
        return max(self._longest, self._missing) if self.is_known(now) else 0.0

    def at_least(self, now: float) -> float:
        """Before how long hardly any write is there."""
        is_fresh = now - self._met_at < _FRESH_S
        return max(self._shortest, self._missing) / 2 if is_fresh else 0.0
