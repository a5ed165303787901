"""What the primary was seen to have, and when it was asked: how old a state is, without clocks."""

from collections import deque
from typing import Final

from protocol.gtid import EMPTY, GtidSet

_KEPT: Final = 3600


class Observations:
    """The primary's `gtid_executed` at moments in the past.

    Whoever has all of an observation that was asked for at a moment shows no older state than the
    primary's at that moment. That needs no agreement of clocks, and holds for any transaction.
    """

    def __init__(self) -> None:
        self._history: deque[tuple[float, GtidSet]] = deque(maxlen=_KEPT)

    def add(self, asked_at: float, executed: GtidSet) -> None:
        """Keep what the primary answered to a question of that moment, monotonic s."""
        if not self._history or asked_at >= self._history[-1][0]:
            self._history.append((asked_at, executed))

    def clear(self) -> None:
        """Another primary: what the old one had says nothing of it."""
        self._history.clear()

    def since(self, moment: float) -> GtidSet | None:
        """The oldest that was asked for at `moment` or later; None if there is none."""
        found: GtidSet | None = None
        for asked_at, executed in reversed(self._history):
            if asked_at < moment:
                break
            found = executed
        return found

    def age(self, applied: GtidSet, now: float) -> float | None:
        """How long ago the primary had something that is not in `applied`: the oldest such, s.

        0 if `applied` has all that was ever seen there; None if nothing ever was.
        """
        lacking = self.lacking(applied, now)
        return None if lacking is None else lacking[1]

    def lacking(self, applied: GtidSet, now: float) -> tuple[GtidSet, float] | None:
        """What that was, with its `age`."""
        if not self._history:
            return None
        oldest: tuple[float, GtidSet] | None = None
        for observed in reversed(self._history):
            if observed[1] <= applied:
                break
            oldest = observed
        return (EMPTY, 0.0) if oldest is None else (oldest[1] - applied, now - oldest[0])
