"""Arithmetic on the numbers of one TSID: sorted, merged intervals as flat *boundaries*.

Boundaries are one flat tuple ``(start, end, start, end, ...)``, strictly ascending, each interval
half-open; ``n`` is inside when an odd number of boundaries are ``<= n``. Every operation bisects
the larger operand by the intervals of the smaller one. The head and the tail that two operands
share are found by comparing slices, not numbers, because the operands are mostly two states of one
server: long, and different in one place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, TypeAlias

Boundaries: TypeAlias = tuple[int, ...]

FIRST_NUMBER: Final = 1
END_OF_NUMBERS: Final = 2**63 - 1
"""GNO_END: one beyond the last number a server accepts (fact 3.1)."""

_BEYOND: Final = 2**63
_SHORT: Final = 16  # with fewer boundaries, looking for shared ends costs more than it saves


def normalise(intervals: Iterable[tuple[int, int]]) -> Boundaries:
    """Sorts and merges half-open intervals, each of which must be non-empty and in range."""
    merged: list[int] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1]:
            merged[-1] = max(merged[-1], end)
        else:
            merged += (start, end)
    return tuple(merged)


def contains(boundaries: Boundaries, number: int) -> bool:
    """Whether the number is inside."""
    return bisect_right(boundaries, number) & 1 == 1


def is_subset(a: Boundaries, b: Boundaries) -> bool:
    """Whether all of `a` is in `b`; both non-empty."""
    if a is b:
        return True
    if len(a) + len(b) == 4:
        return b[0] <= a[0] and a[1] <= b[1]
    if len(a) < _SHORT or len(b) < _SHORT or a[0] < b[0] or a[-1] > b[-1]:
        return _is_subset(a, b)
    head, tail = _shared(a, b)
    return _is_subset(a[head : len(a) - tail], b[head : len(b) - tail])


def union(a: Boundaries, b: Boundaries) -> Boundaries:
    """All of both; `a` or `b` itself if it contains the other. Both non-empty."""
    # If the code compared each length, mypyc would unpack the tuples and return copies of them.
    if len(a) + len(b) == 4:
        a_start, a_end = a[0], a[1]
        b_start, b_end = b[0], b[1]
        if a_start <= b_start and b_end <= a_end:
            return a
        if b_start <= a_start and a_end <= b_end:
            return b
        if a_end < b_start:
            return a + b
        if b_end < a_start:
            return b + a
        return (a_start, b_end) if a_start < b_start else (b_start, a_end)
    if a[-1] < b[0]:
        return a + b
    if b[-1] < a[0]:
        return b + a
    head, tail = _shared(a, b)
    own, other = a[head : len(a) - tail], b[head : len(b) - tail]
    if _is_subset(other, own):
        return a
    if _is_subset(own, other):
        return b
    return a[:head] + _union(own, other) + a[len(a) - tail :]


def intersection(a: Boundaries, b: Boundaries) -> Boundaries:
    """The numbers in both; may be empty."""
    if not a or not b or a[-1] <= b[0] or b[-1] <= a[0]:
        return ()
    head, tail = _shared(a, b)
    common = _intersection(a[head : len(a) - tail], b[head : len(b) - tail])
    return a[:head] + common + a[len(a) - tail :]


def difference(a: Boundaries, b: Boundaries) -> Boundaries:
    """The numbers of `a` that are not in `b`; `a` itself if they are disjoint. Both non-empty."""
    if a[-1] <= b[0] or b[-1] <= a[0]:
        return a
    head, tail = _shared(a, b)
    # The complement has the same boundaries, and one more at either end.
    outside = (0, *b[head : len(b) - tail], _BEYOND)
    return _intersection(a[head : len(a) - tail], outside)


def _is_subset(a: Boundaries, b: Boundaries) -> bool:
    if not a:
        return True
    if not b or a[0] < b[0] or a[-1] > b[-1]:
        return False
    if len(b) == 2:
        return True
    at = 0
    for k in range(0, len(a), 2):
        at = bisect_right(b, a[k], at)
        if at & 1 == 0 or b[at] < a[k + 1]:
            return False
    return True


def _union(a: Boundaries, b: Boundaries) -> Boundaries:
    if len(a) < len(b):
        a, b = b, a
    merged: list[int] = []
    at = 0
    for k in range(0, len(b), 2):
        start, end = b[k], b[k + 1]
        begin = bisect_left(a, start, at)
        merged += a[at:begin]
        if begin & 1 == 0:
            merged.append(start)
        at = bisect_right(a, end, begin)
        if at & 1 == 0:
            merged.append(end)
    merged += a[at:]
    return tuple(merged)


def _intersection(a: Boundaries, b: Boundaries) -> Boundaries:
    if len(a) < len(b):
        a, b = b, a
    common: list[int] = []
    at = 0
    for k in range(0, len(b), 2):
        start, end = b[k], b[k + 1]
        begin = bisect_right(a, start, at)
        if begin & 1:
            common.append(start)
        at = bisect_left(a, end, begin)
        common += a[begin:at]
        if at & 1:
            common.append(end)
    return tuple(common)


def _shared(a: Boundaries, b: Boundaries) -> tuple[int, int]:
    """The lengths of the shared head, and of the shared tail of the rest; both are even."""
    shorter = min(len(a), len(b))
    if shorter < _SHORT:
        return 0, 0
    low, high = 0, shorter
    while low < high:
        half = (high - low + 1) // 2
        if a[low : low + half] == b[low : low + half]:
            low += half
        else:
            high = low + half - 1
    head = low & ~1
    low, high = 0, shorter - head
    a_end, b_end = len(a), len(b)
    while low < high:
        half = (high - low + 1) // 2
        if a[a_end - low - half : a_end - low] == b[b_end - low - half : b_end - low]:
            low += half
        else:
            high = low + half - 1
    return head, low & ~1
