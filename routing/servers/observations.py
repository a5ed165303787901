"""What the primary was seen to have, and when it was asked: how old a state is, without clocks.

Only the newest state is kept whole; of each earlier one, by what the next one differs from it. So
an observation takes the memory of what was committed since the one before, however many intervals
the primary's `gtid_executed` has.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.gtid import EMPTY, GtidSet, united

_MOST: Final = 3600
_MOST_BYTES: Final = 4 << 20
_ENTRY_BYTES: Final = 200
"""What an entry takes beside its sets."""


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


class Staleness(NamedTuple):
    """How old a state was when the primary was last seen.

    Attributes:
        missing: what it lacks of the oldest observation of which it lacks anything.
        least: how much older that observation is than the newest, s; 0 if nothing is missing.
        known: the state is no older. Else it lacks something that the primary had already at the
            oldest observation that is kept.
    """

    missing: GtidSet
    least: float
    known: bool


class _Entry:
    """An observation, and by what its state differs from that of the one before."""

    __slots__ = (
        "added",
        "answered_us",
        "asked_at",
        "asked_us",
        "epoch",
        "logged",
        "lost",
        "memory",
        "number",
    )

    def __init__(self, number: int, observation: Observation, before: GtidSet) -> None:
        executed = observation.executed
        self.number = number
        self.asked_at = observation.asked_at
        self.asked_us = observation.asked_us
        self.answered_us = observation.answered_us
        self.epoch = observation.epoch
        self.logged = observation.logged
        self.added = EMPTY if before.covers(executed) else executed - before
        self.lost = EMPTY if executed.covers(before) else before - executed
        self.memory = _ENTRY_BYTES
        for gtids in (self.added, self.lost):
            if gtids is not EMPTY:
                self.memory += gtids.memory


class Observations:
    """The primary's `gtid_executed` at moments in the past.

    A server that has all of an observation which was asked for at a moment shows no older state
    than the primary's at that moment. That needs no agreement of clocks, and holds for any
    transaction.

    What is kept is bounded by number and by bytes; the oldest go first. Without them a read has to
    see more than it must, and a lag is taken for smaller than it is.

    Attributes:
        memory: the bytes that what is kept takes, about, without the newest state.
    """

    def __init__(self) -> None:
        self.memory = 0
        self._entries: deque[_Entry] = deque()
        self._newest = EMPTY  # the state of the last entry
        self._found: tuple[int, GtidSet] | None = None  # an entry's number, and its state
        self._told: Observation | None = None

    def add(self, asked_at: float, executed: GtidSet) -> None:
        """Keep what the primary answered to a question of that moment, monotonic s."""
        self.take(Observation(asked_at, executed))

    def take(self, observation: Observation) -> None:
        """Keep an answer."""
        entries = self._entries
        if not entries:
            entry = _Entry(0, observation, observation.executed)
        elif observation.asked_at >= entries[-1].asked_at:
            entry = _Entry(entries[-1].number + 1, observation, self._newest)
        else:
            return
        entries.append(entry)
        self.memory += entry.memory
        self._newest = observation.executed
        while len(entries) > _MOST or (self.memory > _MOST_BYTES and len(entries) > 1):
            self.memory -= entries.popleft().memory

    def clear(self) -> None:
        """There is another primary: what the old one had says nothing about it."""
        self._entries.clear()
        self.memory = 0
        self._newest = EMPTY
        self._found = None
        self._told = None

    def since(self, moment: float) -> GtidSet | None:
        """The oldest that was asked for at `moment` or later; None if there is none."""
        oldest: _Entry | None = None
        for entry in reversed(self._entries):
            if entry.asked_at < moment:
                break
            oldest = entry
        return None if oldest is None else self._state(oldest)

    def _state(self, wanted: _Entry) -> GtidSet:
        """What the primary had at an observation; found anew only if another was asked for last."""
        newest = self._entries[-1].number
        if wanted.number == newest:
            return self._newest
        found = self._found
        if found is not None and found[0] == wanted.number:
            return found[1]
        if (
            found is not None
            and self._entries[0].number <= found[0] + 1  # none between them was given up
            and newest - wanted.number > wanted.number - found[0] > 0
        ):
            # Reads ask for one moment after the other.
            state = self._forward(found[1], found[0], wanted.number)
        else:
            state = self._back(wanted.number)
        self._found = wanted.number, state
        return state

    def _forward(self, state: GtidSet, begin: int, end: int) -> GtidSet:
        for entry in self._entries:
            if begin < entry.number <= end:
                state = (state - entry.lost) | entry.added
            elif entry.number > end:
                break
        return state

    def _back(self, end: int) -> GtidSet:
        state = self._newest
        added: list[GtidSet] = []
        for entry in reversed(self._entries):
            if entry.number == end:
                break
            added.append(entry.added)
            if entry.lost:
                state = (state - united(added)) | entry.lost
                added.clear()
        added.reverse()  # a server's transactions come in order
        return state - united(added)

    def to_log(self, moment: float, required: GtidSet) -> Observation | None:
        """The one to be logged before a read that relies on what `since` said of `moment`.

        Of those that say the same, the newest: it serves later reads, too. None if the log has one
        that the read can rely on.
        """
        if self.is_logged(moment, required):
            return None
        newest: _Entry | None = None
        for entry in self._entries:
            if entry.asked_at < moment:
                continue
            new = self._state(entry) if newest is None else entry.added
            if not new <= required:
                break
            newest = entry
            if entry.logged:
                break
        if newest is None:
            self._told = None
            return None
        self._told = Observation(
            newest.asked_at,
            self._state(newest),
            newest.epoch,
            newest.asked_us,
            newest.answered_us,
        )
        if newest.logged:
            return None
        newest.logged = True
        return self._told

    def is_logged(self, moment: float, required: GtidSet) -> bool:
        """Whether the log has the one that the last read relied on (`to_log`), and this one can."""
        reported = self._told
        return (
            reported is not None and reported.asked_at >= moment and reported.executed <= required
        )

    def age(self, applied: GtidSet, now: float) -> float | None:
        """How long ago the primary had something that is not in `applied`: the oldest such, s.

        0 if `applied` has all that was ever seen there; None if nothing ever was.
        """
        staleness = self.staleness(applied)
        return None if staleness is None else self.age_now(staleness, now)

    def age_now(self, staleness: Staleness, now: float) -> float:
        """How long ago the primary had what a state lacks, s; 0 if that is nothing."""
        return staleness.least + self.unseen(now) if staleness.missing else 0.0

    @property
    def any(self) -> bool:
        """Whether the primary was ever seen."""
        return bool(self._entries)

    def staleness(self, applied: GtidSet) -> Staleness | None:
        """How old a state was when the primary was last seen; None if it never was.

        That does not grow while nothing is known of the primary, be it gone or idle.
        """
        if not self._entries:
            return None
        oldest: _Entry | None = None
        lacked = EMPTY
        missing = EMPTY if applied.covers(self._newest) else self._newest - applied
        for entry in reversed(self._entries):
            if not missing:
                break
            oldest, lacked = entry, missing
            if entry.added:
                missing -= entry.added
            if entry.lost:
                missing |= entry.lost - applied
        if oldest is None:
            return Staleness(EMPTY, 0.0, known=True)
        least = self._entries[-1].asked_at - oldest.asked_at
        return Staleness(lacked, least, known=oldest is not self._entries[0])

    def unseen(self, now: float) -> float:
        """How long ago the primary was last seen, s; 0 if it never was."""
        return now - self._entries[-1].asked_at if self._entries else 0.0
