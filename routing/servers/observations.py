"""What the primary was seen to have, and when it was asked: how old a state is, without clocks.

Only the newest state is kept whole; of each earlier one, by what the next one differs from it. So
an observation takes the memory of what was committed since the one before, however many intervals
the primary's `gtid_executed` has.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from protocol.gtid import EMPTY, GtidSet, united

_MOST: Final = 3600
_MOST_BYTES: Final = 4 << 20
_ENTRY_BYTES: Final = 60
_CHANGE_BYTES: Final = 60
"""What an entry with sets takes more, beside these."""


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


class Bound(NamedTuple):
    """What bounds all that any server had shown before a look at the primary began.

    Attributes:
        look: the number of that look (`Observations.begin_look`).
        gtids: what the primary had executed, or was committing.
        observation: what it had executed.
    """

    look: int
    gtids: GtidSet
    observation: Observation


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


class _Change(NamedTuple):
    """By what a state differs from the one before; and the bytes that this takes, about."""

    added: GtidSet
    lost: GtidSet
    memory: int


class _Entries:
    """Observations, each with the change from the one before: in columns, the oldest first.

    A worker keeps them for an hour. Each by itself would be an object between others that soon
    end, and Python could not give back what those had taken; a column is one block of memory.

    Attributes:
        first: the number of the oldest; numbers are never used again.
        changes: None for no change, the TSID if one interval was added, else the change.
        memory: the bytes that all take, about.
    """

    __slots__ = (
        "_begins",
        "_ends",
        "_tsid",
        "answered_us",
        "asked_at",
        "asked_us",
        "changes",
        "epochs",
        "first",
        "logged",
        "memory",
    )

    def __init__(self) -> None:
        self.first = 0
        self.memory = 0
        self.asked_at = array("d")
        self.asked_us = array("q")
        self.answered_us = array("q")
        self.epochs = array("q")
        self.logged = bytearray()
        self.changes: list[_Change | str | None] = []
        self._tsid = ""  # of the last such interval, so that they share one text
        self._begins = array("q")  # of these intervals
        self._ends = array("q")

    def append(self, observation: Observation, before: GtidSet) -> None:
        """Take one; the state of the last one is `before`."""
        executed = observation.executed
        added = EMPTY if before.covers(executed) else executed - before
        lost = EMPTY if executed.covers(before) else before - executed
        change: _Change | str | None = None
        begin = end = 0
        if added or lost:
            interval = None if lost else added.one_interval()
            if interval is None:
                change = _Change(added, lost, _CHANGE_BYTES + added.memory + lost.memory)
            else:
                tsid, begin, end = interval
                if tsid != self._tsid:
                    self._tsid = tsid
                change = self._tsid
        self.asked_at.append(observation.asked_at)
        self.asked_us.append(observation.asked_us)
        self.answered_us.append(observation.answered_us)
        self.epochs.append(observation.epoch)
        self.logged.append(observation.logged)
        self.changes.append(change)
        self._begins.append(begin)
        self._ends.append(end)
        self.memory += _memory(change)

    def drop_oldest(self) -> None:
        """Forget the oldest one."""
        self.memory -= _memory(self.changes[0])
        self.first += 1
        for numbers in (self.asked_us, self.answered_us, self.epochs, self._begins, self._ends):
            del numbers[:1]
        del self.asked_at[:1]
        del self.logged[:1]
        del self.changes[:1]

    def added(self, index: int) -> GtidSet:
        """What one has that the one before had not."""
        change = self.changes[index]
        if change is None:
            return EMPTY
        if isinstance(change, str):
            return GtidSet.of(change, self._begins[index], self._ends[index])
        return change.added

    def lost(self, index: int) -> GtidSet:
        """What the one before had that this one has not."""
        change = self.changes[index]
        return change.lost if isinstance(change, _Change) else EMPTY

    def observation(self, index: int, executed: GtidSet) -> Observation:
        """One of them, whose state is `executed`."""
        return Observation(
            self.asked_at[index],
            executed,
            self.epochs[index],
            self.asked_us[index],
            self.answered_us[index],
        )


def _memory(change: _Change | str | None) -> int:
    return _ENTRY_BYTES + (change.memory if isinstance(change, _Change) else 0)


class Observations:
    """The primary's `gtid_executed` at moments in the past.

    A server that has all of an observation which was asked for at a moment shows no older state
    than the primary's at that moment. That needs no agreement of clocks, and holds for any
    transaction.

    What is kept is bounded by number and by bytes; the oldest go first. Without them a read has to
    see more than it must, and a lag is taken for smaller than it is.

    Attributes:
        looks: how many looks at the primary have begun, this one's and others' before it.
        bound: of the last one that has ended; None if there is none.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.bound: Bound | None = None
        self._entries = _Entries()
        self._newest = EMPTY  # the state of the last entry
        self._found: tuple[int, GtidSet] | None = None  # an entry's number, and its state
        self._told: Observation | None = None
        # What `since` has said last, and of which moments it holds: later ones than the first.
        self._since = EMPTY
        self._after = inf
        self._until = -inf

    @property
    def memory(self) -> int:
        """The bytes that what is kept takes, about, without the newest state."""
        return self._entries.memory

    def add(self, asked_at: float, executed: GtidSet) -> None:
        """Keep what the primary answered to a question of that moment, monotonic s."""
        self.take(Observation(asked_at, executed))

    def take(self, observation: Observation) -> None:
        """Keep an answer."""
        entries = self._entries
        if not self.any:
            entries.append(observation, observation.executed)
        elif observation.asked_at >= entries.asked_at[-1]:
            entries.append(observation, self._newest)
        else:
            return
        self._newest = observation.executed
        asked_at = entries.asked_at
        while len(asked_at) > _MOST or (entries.memory > _MOST_BYTES and len(asked_at) > 1):
            entries.drop_oldest()
            if asked_at[0] >= self._until:
                self._until = -inf  # what was found is gone

    def begin_look(self) -> int:
        """The primary is about to be asked what it has and is committing; the look's number."""
        self.looks += 1
        return self.looks

    def end_look(self, look: int, gtids: GtidSet, observation: Observation) -> None:
        """It was answered; see `Bound`."""
        if self.bound is None or look > self.bound.look:
            self.bound = Bound(look, gtids, observation)

    def clear(self) -> None:
        """There is another primary: what the old one had says nothing about it."""
        self.bound = None
        self._entries = _Entries()
        self._newest = EMPTY
        self._found = None
        self._told = None
        self._since = EMPTY
        self._until = -inf

    def since(self, moment: float) -> GtidSet | None:
        """The oldest that was asked for at `moment` or later; None if there is none."""
        if self._after < moment <= self._until:
            return self._since
        asked_at = self._entries.asked_at
        index = bisect_left(asked_at, moment)
        if index == len(asked_at):
            return None
        self._since = self._state(index)
        self._after = asked_at[index - 1] if index else -inf
        self._until = asked_at[index]
        return self._since

    def _state(self, index: int) -> GtidSet:
        """What the primary had at an observation; found anew only if another was asked for last."""
        last = len(self._entries.asked_at) - 1
        if index == last:
            return self._newest
        number = self._entries.first + index
        found = self._found
        if found is not None and found[0] == number:
            return found[1]
        # If an entry after the found one was given up, there is no way on from there.
        before = -2 if found is None else found[0] - self._entries.first
        if found is not None and before >= -1 and last - index > index - before > 0:
            # Reads ask for one moment after the other.
            state = self._forward(found[1], before, index)
        else:
            state = self._back(index)
        self._found = number, state
        return state

    def _forward(self, state: GtidSet, begin: int, end: int) -> GtidSet:
        for index in range(begin + 1, end + 1):
            state = (state - self._entries.lost(index)) | self._entries.added(index)
        return state

    def _back(self, end: int) -> GtidSet:
        state = self._newest
        added: list[GtidSet] = []
        for index in range(len(self._entries.asked_at) - 1, end, -1):
            added.append(self._entries.added(index))
            lost = self._entries.lost(index)
            if lost:
                state = (state - united(added)) | lost
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
        entries = self._entries
        newest: int | None = None
        for index in range(bisect_left(entries.asked_at, moment), len(entries.asked_at)):
            new = self._state(index) if newest is None else entries.added(index)
            if not new <= required:
                break
            newest = index
            if entries.logged[index]:
                break
        if newest is None:
            self._told = None
            return None
        self._told = entries.observation(newest, self._state(newest))
        if entries.logged[newest]:
            return None
        entries.logged[newest] = True
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
        return len(self._entries.asked_at) > 0

    def staleness(self, applied: GtidSet) -> Staleness | None:
        """How old a state was when the primary was last seen; None if it never was.

        That does not grow while nothing is known of the primary, be it gone or idle.
        """
        if not self.any:
            return None
        missing = EMPTY if applied.covers(self._newest) else self._newest - applied
        if not missing:
            return Staleness(EMPTY, 0.0, known=True)
        entries = self._entries
        changes = entries.changes
        oldest, lacked = 0, missing
        for index in range(len(changes) - 1, -1, -1):
            oldest, lacked = index, missing
            change = changes[index]
            if change is None:
                continue
            missing -= entries.added(index)
            if isinstance(change, _Change):
                missing |= change.lost - applied
            if not missing:
                break
        least = entries.asked_at[-1] - entries.asked_at[oldest]
        return Staleness(lacked, least, known=oldest > 0)

    def unseen(self, now: float) -> float:
        """How long ago the primary was last seen, s; 0 if it never was."""
        return now - self._entries.asked_at[-1] if self.any else 0.0
