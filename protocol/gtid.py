"""`Gtid`, the name of one committed transaction, and `GtidSet`, any number of them.

Transactions are numbered by TSID: a source's UUID, or a UUID and a tag. Here a TSID is text,
``uuid`` or ``uuid:tag`` in lower case. ``u:1-9`` does not contain ``u:tag:1`` (fact 3.1).

Intervals are half-open in memory, as in the binary forms, and closed in text. What a set costs in
memory and time depends on how many intervals it has, never on how many numbers are in them.
`gtid_intervals` has the arithmetic, `gtid_text` and `gtid_binary` the two ways to write a set down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol import gtid_binary, gtid_text
from protocol.errors import MalformedGtidSetError
from protocol.gtid_intervals import (
    Boundaries,
    contains,
    difference,
    intersection,
    is_subset,
    normalise,
    union,
)

if TYPE_CHECKING:
    from mypy_extensions import i64  # an int in Python; when compiled, an unboxed number

__all__ = ["EMPTY", "Gtid", "GtidSet", "MalformedGtidSetError", "united"]

_NOTHING: Final[dict[str, Boundaries]] = {}  # never changed
_MANY_SETS: Final = 4  # fewer are united faster one by one
_SET_BYTES: Final = 350  # an object, a dict, and the head of a text
_TSID_BYTES: Final = 200
_BOUNDARY_BYTES: Final = 40  # a number, and the reference to it
_ZERO: Final = 0x30
_LONG_TEXT: Final = 256  # characters; a shorter text is read faster than compared with another


class Gtid(NamedTuple):
    """One transaction's name: ``uuid:number`` or ``uuid:tag:number``."""

    tsid: str
    number: int

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Reads one GTID in any of the server's spellings.

        Raises:
            MalformedGtidSetError: the text is no GTID, or more than one.
        """
        boundaries, _ = gtid_text.parse(text)
        for tsid, numbers in boundaries.items():
            if len(boundaries) == 1 and len(numbers) == 2 and numbers[1] - numbers[0] == 1:
                return cls(tsid, numbers[0])
        raise MalformedGtidSetError(f"not exactly one GTID in {len(text)} characters")

    def __str__(self) -> str:
        return f"{self.tsid}:{self.number}"


class GtidSet:
    """A set of GTIDs: immutable, hashable, always normalised.

    ``a | b``, ``a & b``, ``a - b``, ``a <= b``, ``gtid in a`` mean what they mean for Python's
    sets; ``str(a)`` is what the server prints, `text` the same on one line. An operation whose
    result equals an operand returns that operand, so ``is`` tells whether anything has changed.

    Args:
        intervals: half-open intervals by TSID, in any order, overlapping or not.

    Raises:
        MalformedGtidSetError: a TSID or an interval that a server would refuse.
    """

    __slots__ = ("_boundaries", "_hash", "_numbers", "_source", "_text", "_uuid")

    def __init__(self, intervals: Mapping[str, Iterable[tuple[int, int]]] | None = None) -> None:
        self._boundaries: dict[str, Boundaries] = _NOTHING  # in canonical order of the TSIDs
        self._text = ""  # "" until asked for
        self._hash = 0
        # Set by `followed_by` if all is under one UUID: the UUID, its numbers, and `uuid:`.
        self._uuid = ""
        self._numbers: Boundaries = ()
        self._source = b""
        if intervals:
            checked: dict[str, list[tuple[int, int]]] = {}
            for name, pairs in intervals.items():
                known = checked.setdefault(gtid_text.parse_tsid(name), [])
                known += [gtid_text.check_interval(start, end) for start, end in pairs]
            self._boundaries = {
                tsid: normalise(checked[tsid]) for tsid in sorted(checked) if checked[tsid]
            }

    @classmethod
    def parse(cls, text: str | bytes, near: GtidSet | None = None) -> GtidSet:
        """Reads text in any of the server's spellings; "" is the empty set.

        Args:
            text: what a server printed, or a person wrote.
            near: a set that is probably almost the same, such as the last one from the same server.
                It changes the speed, not the result; an equal set may be returned as itself.

        Raises:
            MalformedGtidSetError: not a set, or one that a server would take for an empty one.
        """
        if isinstance(text, bytes):
            uuid, number = gtid_text.one_gtid(text)
            if number > 0:
                return _of({uuid: (number, number + 1)}, text.decode("ascii"))
            try:
                text = text.decode("ascii")
            except UnicodeDecodeError as error:
                raise MalformedGtidSetError("a GTID set is not ASCII") from error
        if near is not None and text and text == near._text:
            return near
        if near is not None and len(text) > _LONG_TEXT:
            line = gtid_text.one_line(text)
            near_line = near.text
            if line == near_line:
                return near
            changed = gtid_text.parse_changed(line, near._boundaries, near_line)
            if changed is not None:
                return _of(changed, line)
        boundaries, canonical = gtid_text.parse(text)
        if near is not None and boundaries == near._boundaries:
            if not near._text:
                near._text = canonical
            return near
        return _of(boundaries, canonical) if boundaries else EMPTY

    @classmethod
    def from_binary(cls, data: bytes) -> GtidSet:
        """Reads either binary form (facts 3.2, 3.3).

        Raises:
            MalformedGtidSetError: truncated, trailing bytes, or not as a server writes it.
        """
        return _of(gtid_binary.decode(data))

    def to_binary(self) -> bytes:
        """The binary form that the server chooses: the untagged one unless there is a tag."""
        return gtid_binary.encode(self._boundaries)

    @property
    def text(self) -> str:
        """Canonical text on one line, as WAIT_FOR_EXECUTED_GTID_SET is given it."""
        if not self._text:
            self._text = gtid_text.format_set(self._boundaries)
        return self._text

    @property
    def tsids(self) -> tuple[str, ...]:
        """The TSIDs that have numbers, in canonical order."""
        return tuple(self._boundaries)

    @property
    def interval_count(self) -> int:
        """How many intervals there are; memory and time depend on this."""
        count = 0
        for numbers in self._boundaries.values():
            count += len(numbers)
        return count // 2

    @property
    def memory(self) -> int:
        """The bytes that it takes, about, if it shares nothing with other sets."""
        size = _SET_BYTES + len(self._text)
        for numbers in self._boundaries.values():
            size += _TSID_BYTES + _BOUNDARY_BYTES * len(numbers)
        return size

    def intervals(self, tsid: str) -> tuple[tuple[int, int], ...]:
        """The half-open intervals of one TSID, ascending."""
        numbers = self._boundaries.get(tsid, ())
        return tuple([(numbers[k], numbers[k + 1]) for k in range(0, len(numbers), 2)])

    @classmethod
    def of(cls, tsid: str, begin: int, end: int) -> GtidSet:
        """The half-open interval of a TSID that a set has returned (`one_interval`)."""
        return _of({tsid: (begin, end)})

    def one_interval(self) -> tuple[str, int, int] | None:
        """The TSID and the half-open interval, if that is all there is."""
        if len(self._boundaries) == 1:
            for tsid, numbers in self._boundaries.items():
                if len(numbers) == 2:
                    return tsid, numbers[0], numbers[1]
        return None

    def count(self) -> int:
        """How many GTIDs. `len` is the same, but fails beyond `sys.maxsize`."""
        total = 0
        for numbers in self._boundaries.values():
            total += sum(numbers[1::2]) - sum(numbers[::2])
        return total

    def compact(self, within: GtidSet) -> GtidSet:
        """This set, plus those numbers in its gaps that `within` has.

        A session that is told of its own writes one by one collects an interval for each. Where a
        server is known to have committed the transactions between them, to require those, too,
        costs a read nothing and makes the set short again.
        """
        closed: dict[str, Boundaries] = {}
        for tsid, numbers in self._boundaries.items():
            known = within._boundaries.get(tsid, ())
            if len(numbers) > 2 and known:
                between = intersection(known, (numbers[0], numbers[-1]))
                if between:
                    joined = union(numbers, between)
                    if joined is not numbers:
                        closed[tsid] = joined
        return _of({**self._boundaries, **closed}) if closed else self

    def followed_by(self, text: bytes, most: int) -> tuple[GtidSet, GtidSet]:  # noqa: C901 hot: calls would cost more
        """Reads one GTID and adds it to this set, in the ordinary case.

        A server reports a session's transactions one by one, and most of them have the same source
        as the previous one, and a higher number.

        Args:
            text: a GTID, as a server writes it.
            most: how many intervals the result may have.

        Returns:
            The GTID as a set, and this set with it; or two empty sets if the case is not an
            ordinary one: then use `parse` and ``|``.
        """
        source = self._source
        if not source:
            source = self._find_source()
        begin = len(source)
        size = len(text)
        if begin == 0 or not text.startswith(source) or not begin < size <= gtid_text.LONGEST_GTID:
            return EMPTY, EMPTY
        number: i64 = 0
        for position in range(begin, size):
            digit: i64 = text[position] - _ZERO
            if digit < 0 or digit > 9 or (number == 0 and digit == 0):
                return EMPTY, EMPTY
            number = number * 10 + digit
        numbers = self._numbers
        last: i64 = numbers[-1]
        uuid, line, written = self._uuid, self._text, text.decode("ascii")
        if number == last and len(numbers) <= 2 * most:
            joined: Boundaries = (numbers[0], number + 1)
            if len(numbers) > 2:
                joined = (*numbers[:-1], number + 1)
            if line:
                if last - numbers[-2] > 1:
                    line = line[: line.rfind("-")]  # without its last number
                line = f"{line}-{written[begin:]}"
        elif number > last and len(numbers) < 2 * most:
            joined = (*numbers, number, number + 1)
            if line:
                line += written[begin - 1 :]
        else:
            return EMPTY, EMPTY
        both = _of({uuid: joined}, line)
        both._uuid = uuid
        both._numbers = joined
        both._source = source
        return _of({uuid: (number, number + 1)}, written), both

    def _find_source(self) -> bytes:
        """If the set has one UUID and no tag, note it, and return `uuid:`; else return nothing."""
        if len(self._boundaries) == 1:
            for tsid, numbers in self._boundaries.items():
                if len(tsid) == gtid_text.UUID_LENGTH:
                    self._uuid = tsid
                    self._numbers = numbers
                    self._source = tsid.encode("ascii") + b":"
        return self._source

    def __or__(self, other: GtidSet) -> GtidSet:
        own, others = self._boundaries, other._boundaries
        if own is others or not others:
            return self
        if not own:
            return other
        joined: dict[str, Boundaries] | None = None
        contained = True  # in `other`
        for tsid, numbers in others.items():
            known = own.get(tsid)
            merged = numbers if known is None else union(known, numbers)
            if merged is not numbers and (merged is not known or known != numbers):
                contained = False  # a new tuple from `union` never equals an operand
            if merged is not known:
                if joined is None:
                    joined = dict(own)
                joined[tsid] = merged
        if joined is None:
            return self
        if contained and len(joined) == len(others):
            return other
        if len(joined) > len(own):
            joined = {tsid: joined[tsid] for tsid in sorted(joined)}
        return _of(joined)

    def __and__(self, other: GtidSet) -> GtidSet:
        if self is other:
            return self
        common: dict[str, Boundaries] = {}
        for tsid, numbers in self._boundaries.items():
            both = intersection(numbers, other._boundaries.get(tsid, ()))
            if both:
                common[tsid] = both
        return _own_if_equal(self, common)

    def __sub__(self, other: GtidSet) -> GtidSet:
        rest: dict[str, Boundaries] = {}
        for tsid, numbers in self._boundaries.items():
            subtracted = other._boundaries.get(tsid)
            left = numbers if subtracted is None else difference(numbers, subtracted)
            if left:
                rest[tsid] = left
        return _own_if_equal(self, rest)

    def covers(self, other: GtidSet) -> bool:
        """Whether this set contains another: ``other <= self``, in fewer steps when compiled."""
        own, others = self._boundaries, other._boundaries
        if own is others:
            return True
        for tsid, numbers in others.items():
            known = own.get(tsid)
            if known is None or not is_subset(numbers, known):
                return False
        return True

    def __le__(self, other: GtidSet) -> bool:
        return other.covers(self)

    def __contains__(self, gtid: Gtid | str) -> bool:
        if isinstance(gtid, str):
            gtid = Gtid.parse(gtid)
        return contains(self._boundaries.get(gtid.tsid, ()), gtid.number)

    def __bool__(self) -> bool:
        return bool(self._boundaries)

    def __len__(self) -> int:
        return self.count()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return self._boundaries == other._boundaries

    def __hash__(self) -> int:
        if self._hash == 0:
            self._hash = hash(tuple(self._boundaries.items()))
        return self._hash

    def __str__(self) -> str:
        return self.text.replace(",", ",\n")

    def __repr__(self) -> str:
        return f"GtidSet.parse({self.text!r})"


def united(sets: Sequence[GtidSet]) -> GtidSet:
    """The union of all the sets: ``a | b | c``, in one pass."""
    if len(sets) < _MANY_SETS:
        together = EMPTY
        for gtids in sets:
            together = together | gtids
        return together
    pairs: dict[str, list[tuple[int, int]]] = {}
    for gtids in sets:
        for tsid, numbers in gtids._boundaries.items():
            known = pairs.setdefault(tsid, [])
            for k in range(0, len(numbers), 2):
                if known and known[-1][1] == numbers[k]:  # a server's transactions, one by one
                    known[-1] = (known[-1][0], numbers[k + 1])
                else:
                    known.append((numbers[k], numbers[k + 1]))
    return _of({tsid: normalise(pairs[tsid]) for tsid in sorted(pairs)})


def _of(boundaries: dict[str, Boundaries], text: str = "") -> GtidSet:
    """A set with these boundaries, which are normalised and in order; it keeps the dict."""
    made = GtidSet()
    made._boundaries = boundaries
    made._text = text
    return made


def _own_if_equal(own: GtidSet, boundaries: dict[str, Boundaries]) -> GtidSet:
    return own if boundaries == own._boundaries else _of(boundaries)


EMPTY: Final = GtidSet()
"""The empty set."""
