"""What the primary was seen to have, and when it was asked: how old a state is, without clocks."""

from collections import deque
from typing import Final

from protocol.gtid import GtidSet

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
        if not self._history:
            return None
        missing: float | None = None
        for asked_at, executed in reversed(self._history):
            if executed <= applied:
                break
            missing = asked_at
        return 0.0 if missing is None else now - missing
