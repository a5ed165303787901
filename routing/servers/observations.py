"""What the primary was seen to have, and when it was asked: how old a state is, without clocks."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from protocol.gtid import EMPTY, GtidSet

_KEPT: Final = 3600


@dataclass(eq=False, slots=True)
class Observation:
    """An answer of the primary's.

    Attributes:
        asked_at: when it was asked, monotonic s.
        executed: its `gtid_executed`.
        epoch: the primary's at that moment.
        asked_us: when it was asked, UTC µs.
        answered_us: when it had answered, UTC µs.
        logged: the routing log has it.
    """

    asked_at: float
    executed: GtidSet
    epoch: int = 0
    asked_us: int = 0
    answered_us: int = 0
    logged: bool = True


class Observations:
    """The primary's `gtid_executed` at moments in the past.

    A server that has all of an observation which was asked for at a moment shows no older state
    than the primary's at that moment. That needs no agreement of clocks, and holds for any
    transaction.
    """

    def __init__(self) -> None:
        self._history: deque[Observation] = deque(maxlen=_KEPT)
        self._told: Observation | None = None

    def add(self, asked_at: float, executed: GtidSet) -> None:
        """Keep what the primary answered to a question of that moment, monotonic s."""
        self.take(Observation(asked_at, executed))

    def take(self, observation: Observation) -> None:
        """Keep an answer."""
        if not self._history or observation.asked_at >= self._history[-1].asked_at:
            self._history.append(observation)

    def clear(self) -> None:
        """There is another primary: what the old one had says nothing about it."""
        self._history.clear()
        self._told = None

    def since(self, moment: float) -> GtidSet | None:
        """The oldest that was asked for at `moment` or later; None if there is none."""
        found: GtidSet | None = None
        for observation in reversed(self._history):
            if observation.asked_at < moment:
                break
            found = observation.executed
        return found

    def to_log(self, moment: float, required: GtidSet) -> Observation | None:
        """The one to be logged before a read that relies on what `since` said of `moment`.

        Of those that say the same, the newest: it serves later reads, too. None if the log has one
        that the read can rely on.
        """
        told = self._told
        if told is not None and told.asked_at >= moment and told.executed <= required:
            return None
        newest: Observation | None = None
        for one in self._history:
            if one.asked_at < moment:
                continue
            if not one.executed <= required:
                break
            newest = one
            if one.logged:
                break
        if newest is None or newest.logged:
            self._told = newest
            return None
        newest.logged = True
        self._told = newest
        return newest

    def age(self, applied: GtidSet, now: float) -> float | None:
        """How long ago the primary had something that is not in `applied`: the oldest such, s.

        0 if `applied` has all that was ever seen there; None if nothing ever was.
        """
        lacking = self.lacking(applied, now)
        return None if lacking is None else lacking[1]

    def lacking(self, applied: GtidSet, now: float) -> tuple[GtidSet, float] | None:
        """The oldest observation that is not in `applied`, with its `age`."""
        if not self._history:
            return None
        oldest: Observation | None = None
        for observation in reversed(self._history):
            if applied.covers(observation.executed):
                break
            oldest = observation
        if oldest is None:
            return EMPTY, 0.0
        return oldest.executed - applied, now - oldest.asked_at
