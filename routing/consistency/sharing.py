"""What one worker adds to wide scopes for the others, and takes from them.

Sessions enter what they write into *contributions*, one for each row of the board that somebody
reads. Before a scope is read it is *refreshed*: what the others' slots have gained since the last
time is recorded in it, doubts as doubts of its own. From then on it behaves like a scope of one
worker. `scope_board` has the theory of the memory.

While a proxy hands over to its successor, both serve clients, and each has a board of its own. Each
*links* the other's and reads it as it reads other workers' slots: the first look at a row there is
a doubt, since what was written before it was read is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.gtid import EMPTY, GtidSet
from protocol.wire import encode_text
from routing.consistency.decision import Scope
from routing.consistency.scope import ScopeState, keys_of
from routing.consistency.scope_board import (
    NOTHING,
    ROOM,
    UNKNOWN,
    Incarnation,
    Mark,
    Slot,
    flag_of,
    is_written,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from routing.consistency.scope import ScopeKey
    from routing.consistency.scope_board import ScopeBoard
    from routing.servers.topology import Server

_ROWS_KNOWN: Final = 20_000


class Contribution:
    """What the sessions of this worker have added to a row."""

    def __init__(self, sharing: Sharing, row: int) -> None:
        self._sharing = sharing
        self._row = row
        self._doubts = 0
        self._shows = 0
        self.state = ScopeState(Scope.PROXY, "", 0, unknown=False)

    def record_write(self, gtids: GtidSet, primary_applied: GtidSet) -> None:
        """A server acknowledged these transactions (`ScopeState.record_write`)."""
        before = self.state.own
        self.state.record_write(gtids, primary_applied)
        if self.state.own is not before:
            self._tell()

    def may_have_written(self) -> None:
        """A command that may write ended, and nothing said what it committed (fact 2.3)."""
        self._doubts += 1
        self._tell()

    def record_answer(self) -> None:
        """A server's answer went to a client."""
        if self._sharing.board.is_remembered(self._row):
            self._shows += 1
            self._tell()

    def compare_with_primary(self, executed: GtidSet, required: GtidSet) -> GtidSet:
        """Compare with what a primary has, as a `ScopeState` does; return what is lost."""
        lost = self.state.compare_with_primary(executed, required, 0)
        if lost:
            self._tell()
        return lost

    def _tell(self) -> None:
        sharing, state = self._sharing, self.state
        if _length(state.own) + _length(state.lost) > ROOM:
            # Readers ask the primary, which has all that is left out here.
            self._doubts += 1
            sharing.overflowed += 1
            state.own = EMPTY
            state.lost = _shortened(state.lost)
        sharing.board.write(
            self._row,
            Slot(0, self._doubts, self._shows, sharing.incarnation, state.own, state.lost),
        )


@dataclass(slots=True)
class _Read:
    """A scope of this worker that is read.

    Attributes:
        row, flag: where it is on the board.
        marks: those of the others' slots when they were last taken, in their order.
        doubts, shows: the numbers that those slots had.
        is_new: nothing was taken yet.
        remembers: it is read at a level that does.
    """

    row: int
    flag: int
    marks: list[Mark]
    doubts: list[int]
    shows: list[int]
    is_new: bool = True
    remembers: bool = False


@dataclass(slots=True)
class Sharing:
    """The contributions and read scopes of one worker.

    Attributes:
        board: the memory.
        incarnation: the primary that contributions were last compared with.
        torn: how often a slot could not be read.
        overflowed: how often a slot had no room for what was to be in it.
        linked: views of the boards of other proxies, which share the scopes meanwhile.
    """

    board: ScopeBoard
    incarnation: Incarnation = UNKNOWN
    torn: int = 0
    overflowed: int = 0
    linked: list[Sharing] = field(default_factory=list)
    _contributions: dict[int, Contribution] = field(default_factory=dict)
    _read: dict[ScopeKey, _Read] = field(default_factory=dict)
    _rows: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    # What sessions add

    def writers(self, user: str, application: str) -> list[Contribution]:
        """The contributions for a session: those to rows of its wide scopes that somebody reads."""
        rows = self._rows.get((user, application))
        if rows is None:
            if len(self._rows) >= _ROWS_KNOWN:
                self._rows.clear()
            rows = tuple({self.board.row(key): None for key in keys_of(user, application)})
            self._rows[user, application] = rows
        board = self.board
        return [self._contribution(row) for row in rows if board.is_read(row)]

    def on_unlogged_write(self, keys: Sequence[ScopeKey]) -> None:
        """Something without a GTID was written in these scopes; empty means in any."""
        self.board.add_unlogged(keys)
        for other in self.linked:
            other.board.add_unlogged(keys)

    def _contribution(self, row: int) -> Contribution:
        contribution = self._contributions.get(row)
        if contribution is None:
            contribution = self._contributions[row] = Contribution(self, row)
        return contribution

    # What scopes take

    def refresh(self, scope: ScopeState, remembers: bool, now: float) -> None:
        """Let a scope require what other workers have added, before it is read.

        Args:
            scope: it is alive.
            remembers: it is read at a level that remembers.
            now: monotonic, s.
        """
        board = self.board
        key = scope.kind, scope.key
        read = self._read.get(key)
        if read is None:
            count = len(board.others)
            read = _Read(board.row(key), flag_of(key), [(0, 0)] * count, [0] * count, [0] * count)
            self._read[key] = read
            board.begin_reading(read.row)
        if remembers and not read.remembers:
            read.remembers = True
            board.begin_remembering(read.row)
            scope.record_answers_elsewhere()
        if not scope.unlogged and board.is_unlogged(read.flag):
            scope.unlogged = True
        for number, mark in board.news(read.row, read.marks):
            self._take(number, mark, scope, read, now)
        read.is_new = False
        if self.linked:
            for other in self.linked:
                other.refresh(scope, remembers, now)

    def on_drop(self, scope: ScopeState) -> None:
        """The scope is not alive any more."""
        self._read.pop((scope.kind, scope.key), None)
        for other in self.linked:
            other.on_drop(scope)

    # Other proxies

    def link(self, board: ScopeBoard) -> None:
        """From now on scopes require what another proxy adds, too; the view has no slots there."""
        self.linked.append(Sharing(board, self.incarnation))

    def unlink(self, scopes: Iterable[ScopeState], now: float) -> None:
        """Take what other proxies have added to the scopes that are alive; they add no more."""
        for scope in scopes:
            for other in self.linked:
                read = other._read.get((scope.kind, scope.key))
                other.refresh(scope, read is not None and read.remembers, now)
        self.linked.clear()

    def _take(self, number: int, mark: Mark, scope: ScopeState, read: _Read, now: float) -> None:
        """Take over what the slot of the other worker with this number has gained."""
        board = self.board
        slot = board.slot(board.others[number], read.row) if is_written(mark) else NOTHING
        if slot is None:
            self.torn += 1
            scope.may_have_written()
            scope.record_answers_elsewhere()
            return  # and again at the next refresh, until it is whole
        generation, version = mark
        is_new_generation = generation != read.marks[number][0]
        if is_new_generation or slot.doubts != read.doubts[number]:
            scope.may_have_written()
        if is_new_generation or slot.shows != read.shows[number]:
            scope.record_answers_elsewhere()
        # The slot that was read may be newer than the mark.
        read.marks[number] = generation, slot.version or version
        read.doubts[number], read.shows[number] = slot.doubts, slot.shows
        if slot.lost:
            scope.record_loss_elsewhere(slot.lost, tell=not read.is_new)
        if slot.own:
            scope.record_write(slot.own, EMPTY, now)
            if not self.incarnation.may_be(slot.incarnation):
                scope.doubt()

    # Terms

    def required(self) -> list[tuple[Contribution, GtidSet]]:
        """All contributions, with what they require now."""
        return [
            (contribution, contribution.state.own) for contribution in self._contributions.values()
        ]

    def on_compared(self, primary: Server) -> None:
        """All contributions were compared with what this primary has."""
        self.incarnation = Incarnation.of(primary.uuid, primary.started)
        for other in self.linked:
            other.incarnation = self.incarnation


def _length(gtids: GtidSet) -> int:
    return len(encode_text(gtids.text))


def _shortened(gtids: GtidSet) -> GtidSet:
    """As many of its first intervals as fit: readers are told that something is lost."""
    if _length(gtids) <= ROOM // 2:
        return gtids
    kept = EMPTY
    for tsid in gtids.tsids:
        for interval in gtids.intervals(tsid):
            longer = kept | GtidSet({tsid: [interval]})
            if _length(longer) > ROOM // 2:
                return kept
            kept = longer
    return kept
