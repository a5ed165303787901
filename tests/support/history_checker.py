"""Decides from a history alone which reads broke the promise of their level.

``check(history) -> list[Violation]`` takes `Write` and `Read` of `tests.support.history`. What each
level promises is turned into writes that a read must not miss:

* READ_OWN_WRITES: those acknowledged in its scope before it was invoked.
* MONOTONIC_READS: these, and those that reads in its scope had returned before.
* READ_ALL_WRITES: these, and whatever must have been committed before one of them: acknowledged, to
  anyone, before that one was invoked, or of a lower order. (For a scope PROXY, the first line is
  "every write acknowledged through this proxy".)
* STRONG: all acknowledged, to anyone, before it was invoked.
* BOUNDED_STALENESS: all acknowledged, to anyone, more than the bound before it was invoked.

A read misses a write if its value is certainly older. At every level, BEST_EFFORT too, a value must
be that of a write that was invoked before the read returned, and that was not aborted. Each read is
reported at most once, with the first rule that it broke in the order of `Rule`. Nothing is reported
that is not certain, so a history of a system that keeps its promises has no violation.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from routing.consistency.decision import Level
from tests.support.history import Read, Register, ScopeKey, Write


class Rule(Enum):
    """What was broken; the value says how."""

    NEVER_WRITTEN = "which nobody ever wrote"
    ABORTED = "which was not committed"
    FUTURE = "which had not been written yet"
    OWN_WRITES = "which was acknowledged in its scope before"
    MONOTONIC = "which had been read in its scope"
    ALL_WRITES = "which was committed before what its scope had seen"
    STRONG = "which was acknowledged before"
    STALENESS = "which was acknowledged longer ago than the bound"


@dataclass(frozen=True, slots=True)
class Violation:
    """A read that must not have been.

    Attributes:
        rule: what it broke.
        read: the read.
        got: the write whose value it returned; None for the initial value, or one never written.
        missed: the newer write that it had to see; None if the value itself is at fault.
        witness: why it had to: the acknowledged write or the earlier read; None as with `missed`.
    """

    rule: Rule
    read: Read
    got: Write | None
    missed: Write | None = None
    witness: Write | Read | None = None

    def __str__(self) -> str:
        text = f"{self.read}: got {self.got or self.read.value or 'the initial value'}"
        if self.missed is None:
            return f"{text}, {self.rule.value}"
        text += f", missed {self.missed}, {self.rule.value}"
        if isinstance(self.witness, Read):
            return f"{text}: {self.witness}, got {self.witness.value}"
        return f"{text}: {self.witness}" if self.rule is Rule.ALL_WRITES else text


def check(
    history: Iterable[Write | Read], *, order_spans_registers: bool = True
) -> list[Violation]:
    """Find the reads that broke the promise of their level, in the order of their beginnings.

    Args:
        history: what clients did, in any order.
        order_spans_registers: `Write.order` compares writes of different registers, as positions in
            the primary's binary log do. False if each register counts its versions by itself.

    Raises:
        ValueError: a register was given one value twice, or the initial value; an aborted write was
            acknowledged; or `Write.order` contradicts the times.
    """
    return _Checker(history, order_spans_registers=order_spans_registers).run()


class _Newest:
    """The newest of some writes to one register, with what made each known.

    "Certainly older" looks at when the newer one was invoked, or at its order. So of all writes the
    last by either is enough.
    """

    __slots__ = ("by_order", "by_time")

    def __init__(self) -> None:
        self.by_time: tuple[Write, Write | Read] | None = None
        self.by_order: tuple[Write, Write | Read] | None = None

    def add(self, write: Write, witness: Write | Read) -> None:
        if self.by_time is None or write.invoked > self.by_time[0].invoked:
            self.by_time = (write, witness)
        if write.order is not None and (self.by_order is None or write.order > _order(self)):
            self.by_order = (write, witness)

    def copy(self) -> "_Newest":
        copied = _Newest()
        copied.by_time, copied.by_order = self.by_time, self.by_order
        return copied


def _order(newest: _Newest) -> float:
    """The largest order; less than all if none is known."""
    if newest.by_order is None or newest.by_order[0].order is None:
        return -math.inf
    return newest.by_order[0].order


def _check_order(writes: Iterable[Write]) -> None:
    """Raise ValueError if a write follows in time one that it precedes in order."""
    ordered = [(write.order, write) for write in writes if write.order is not None]
    ordered.sort(key=lambda pair: pair[0], reverse=True)
    earliest: Write | None = None
    acknowledged = math.inf
    for _, write in ordered:
        if earliest is not None and acknowledged < write.invoked:
            raise ValueError(f"order contradicts times: {write} after {earliest}")
        if write.acknowledged is not None and write.acknowledged < acknowledged:
            earliest, acknowledged = write, write.acknowledged


class _RegisterLog:
    """The committed writes to one register: those before a time, those before a place in order."""

    def __init__(self, writes: list[Write]) -> None:
        self._acknowledged: list[int] = []
        self._newest: list[_Newest] = []
        newest = _Newest()
        acknowledged = [
            (write.acknowledged, write) for write in writes if write.acknowledged is not None
        ]
        for at, write in sorted(acknowledged, key=lambda pair: pair[0]):
            newest = newest.copy()
            newest.add(write, write)
            self._acknowledged.append(at)
            self._newest.append(newest)
        ordered = [(write.order, write) for write in writes if write.order is not None]
        ordered.sort(key=lambda pair: pair[0])
        self._orders = [order for order, _ in ordered]
        self._ordered = [write for _, write in ordered]

    def acknowledged_before(self, moment: int) -> _Newest | None:
        index = bisect_left(self._acknowledged, moment)
        return self._newest[index - 1] if index else None

    def up_to(self, order: float) -> Write | None:
        index = bisect_right(self._orders, order)
        return self._ordered[index - 1] if index else None


class _ScopeKnowledge:
    """What a scope was told and shown so far."""

    def __init__(self) -> None:
        self.own: defaultdict[Register, _Newest] = defaultdict(_Newest)
        self.seen: defaultdict[Register, _Newest] = defaultdict(_Newest)
        self.anywhere = _Newest()

    def wrote(self, write: Write) -> None:
        self.own[write.register].add(write, write)
        self.anywhere.add(write, write)

    def saw(self, write: Write, read: Read) -> None:
        self.seen[write.register].add(write, read)
        self.anywhere.add(write, read)


class _Checker:
    def __init__(self, history: Iterable[Write | Read], *, order_spans_registers: bool) -> None:
        self._reads: list[Read] = []
        self._written: dict[tuple[Register, int], Write] = {}
        for operation in history:
            if isinstance(operation, Read):
                self._reads.append(operation)
                continue
            name = (operation.register, operation.value)
            if not operation.value or name in self._written:
                raise ValueError(f"not a new value: {operation}")
            committed = operation.acknowledged is not None or operation.order is not None
            if operation.aborted and committed:
                raise ValueError(f"aborted and committed: {operation}")
            self._written[name] = operation
        self._reads.sort(key=lambda read: read.invoked)
        self._spans = order_spans_registers
        self._logs = self._registers()
        # When each write was certainly committed: it was acknowledged, or somebody had read it.
        self._committed_by: dict[tuple[Register, int], int] = {}
        self._ends = self._all_ends()
        self._knowledge: defaultdict[ScopeKey, _ScopeKnowledge] = defaultdict(_ScopeKnowledge)

    def _registers(self) -> dict[Register, _RegisterLog]:
        writes: defaultdict[Register, list[Write]] = defaultdict(list)
        for write in self._written.values():
            if not write.lost:
                writes[write.register].append(write)
        for comparable in [self._written.values()] if self._spans else list(writes.values()):
            _check_order(comparable)
        return {register: _RegisterLog(of_register) for register, of_register in writes.items()}

    def _all_ends(self) -> list[tuple[int, Write, Write | Read]]:
        """Each moment at which somebody learned of a write: when, of which, and how."""
        ends: list[tuple[int, Write, Write | Read]] = []
        for write in self._written.values():
            if write.acknowledged is not None:
                ends.append((write.acknowledged, write, write))
        for read in self._reads:
            written = self._got(read)
            if written is not None and not written.aborted and read.returned >= written.invoked:
                ends.append((read.returned, written, read))
        ends.sort(key=lambda end: end[0])
        for moment, write, _ in ends:
            self._committed_by.setdefault((write.register, write.value), moment)
        return ends

    def _got(self, read: Read) -> Write | None:
        return self._written.get((read.register, read.value)) if read.value else None

    def run(self) -> list[Violation]:
        violations: list[Violation] = []
        position, ends = 0, self._ends
        for read in self._reads:
            while position < len(ends) and ends[position][0] < read.invoked:
                self._learn(*ends[position][1:])
                position += 1
            violation = self._judge(read)
            if violation is not None:
                violations.append(violation)
        return violations

    def _learn(self, write: Write, how: Write | Read) -> None:
        if write.lost:
            return
        if isinstance(how, Write):
            for scope in write.scopes:
                self._knowledge[scope].wrote(write)
        else:
            for scope in {how.scope, *how.scopes}:
                self._knowledge[scope].saw(write, how)

    def _judge(self, read: Read) -> Violation | None:
        got = self._got(read)
        if read.value:
            if got is None:
                return Violation(Rule.NEVER_WRITTEN, read, None)
            if got.aborted:
                return Violation(Rule.ABORTED, read, got)
            if read.returned < got.invoked:
                return Violation(Rule.FUTURE, read, got)
        level = read.level
        if level is Level.STRONG:
            return self._missed(read, got, self._told_before(read, read.invoked), Rule.STRONG)
        if level is Level.BOUNDED_STALENESS:
            required = self._told_before(read, read.invoked - read.staleness)
            return self._missed(read, got, required, Rule.STALENESS)
        if level is Level.BEST_EFFORT:
            return None
        scope = self._knowledge[read.scope]
        violation = self._missed(read, got, scope.own.get(read.register), Rule.OWN_WRITES)
        if violation is None and level is not Level.READ_OWN_WRITES:
            violation = self._missed(read, got, scope.seen.get(read.register), Rule.MONOTONIC)
        if violation is None and level is Level.READ_ALL_WRITES:
            violation = self._missed_before(read, got, scope.anywhere)
        return violation

    def _told_before(self, read: Read, moment: int) -> _Newest | None:
        log = self._logs.get(read.register)
        return log.acknowledged_before(moment) if log else None

    def _missed_before(self, read: Read, got: Write | None, seen: _Newest) -> Violation | None:
        """What was committed before the newest thing that the scope had seen."""
        log = self._logs.get(read.register)
        if log is None:
            return None
        if seen.by_time is not None:
            newest, witness = seen.by_time
            before = log.acknowledged_before(newest.invoked)
            if violation := self._missed(read, got, before, Rule.ALL_WRITES, witness):
                return violation
        if seen.by_order is not None and self._spans:
            required = log.up_to(_order(seen))
            if required is not None and self._older(got, required):
                return Violation(Rule.ALL_WRITES, read, got, required, seen.by_order[1])
        return None

    def _missed(
        self,
        read: Read,
        got: Write | None,
        required: _Newest | None,
        rule: Rule,
        because: Write | Read | None = None,
    ) -> Violation | None:
        if required is None:
            return None
        for newest in (required.by_time, required.by_order):
            if newest is not None and self._older(got, newest[0]):
                return Violation(rule, read, got, newest[0], because or newest[1])
        return None

    def _older(self, got: Write | None, required: Write) -> bool:
        """Whether a version (None: the initial one) is certainly older than another."""
        if got is None:
            return True
        if got.order is not None and required.order is not None:
            return got.order < required.order
        committed_by = self._committed_by.get((got.register, got.value))
        return committed_by is not None and committed_by < required.invoked
