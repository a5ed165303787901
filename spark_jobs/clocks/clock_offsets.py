"""Computes how far clocks are apart from bounds on how far each is ahead of another.

This is pure arithmetic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

_FOREVER: Final = float("inf")

_MOST: Final = 80
"""Clocks that are compared at most; the effort grows with the cube of their number."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far clocks are ahead of a reference, which is one of them.

    Attributes:
        ahead_us: by clock; 0 where nothing contradicts that it agrees.
        error_us: by how much the difference of two clocks that do not agree may be off; 0 if all
            agree.
        slack_us: by how much the bounds contradict each other: some clock was set without a trace,
            or drifts.
    """

    ahead_us: Mapping[int, int]
    error_us: int
    slack_us: int = 0


def solve(clocks: Iterable[int], bounds: Mapping[tuple[int, int], int]) -> Offsets:
    """Find offsets that satisfy all bounds, as many of them 0 as possible.

    Where no offsets satisfy them all (a clock drifts, or was set forward), all bounds are widened
    by the same slack, which is added to the error.

    Args:
        clocks: their numbers, the most trusted first.
        bounds: by (a, b): by how many µs clock a is ahead of clock b at most.
    """
    ahead: dict[int, int] = {}
    error_us = slack_us = 0
    for order in _connected(list(clocks), bounds):
        compared = {pair: most for pair, most in bounds.items() if pair[0] in order}
        offsets = _solve(order, compared)
        ahead |= offsets.ahead_us
        error_us = max(error_us, offsets.error_us)
        slack_us = max(slack_us, offsets.slack_us)
    return Offsets(ahead, error_us, slack_us)


def _connected(order: list[int], bounds: Mapping[tuple[int, int], int]) -> list[list[int]]:
    """Group the clocks that bounds compare, directly or by way of others."""
    part = {clock: clock for clock in order}
    for a, b in bounds:
        old, new = part[a], part[b]
        if old != new:
            part = {clock: new if now == old else now for clock, now in part.items()}
    parts: dict[int, list[int]] = {}
    for clock in order:
        parts.setdefault(part[clock], []).append(clock)
    return list(parts.values())


def _solve(order: list[int], bounds: Mapping[tuple[int, int], int]) -> Offsets:
    worst = -min(bounds.values(), default=0)
    if worst <= 0:
        return Offsets(dict.fromkeys(order, 0), 0)
    if len(order) > _MOST:
        # There are too many clocks to find out which of them are wrong.
        return Offsets(dict.fromkeys(order, 0), worst, worst)
    order = _fewest_contradictions_first(order, bounds)
    slack, closed = _consistent(order, bounds, worst)
    ahead = _choose(order, closed)
    error_us = 0.0
    for a, b in permutations(order, 2):
        if ahead[a] != ahead[b] and closed[a][b] < _FOREVER:
            error_us = max(error_us, closed[a][b] - (ahead[a] - ahead[b]))
    # A clock that contradicts itself was ahead of the chosen offset at times, and behind at others.
    return Offsets(ahead, max(round(error_us), slack) + slack, slack)


def _fewest_contradictions_first(
    order: list[int], bounds: Mapping[tuple[int, int], int]
) -> list[int]:
    found = dict.fromkeys(order, 0)
    for (a, b), most in bounds.items():
        if most < 0:
            found[a] += 1
            found[b] += 1
    return sorted(order, key=lambda clock: found[clock])


_Closed = dict[int, dict[int, float]]
"""By clock a, then b: how far a is ahead of b at most, by all bounds together."""


def _consistent(
    order: list[int], bounds: Mapping[tuple[int, int], int], worst: int
) -> tuple[int, _Closed]:
    """The least slack with which all bounds can be satisfied, and the bounds closed with it."""
    closed = _close(order, bounds, 0)
    if closed is not None:
        return 0, closed
    low, high = 0, worst  # with the worst bound's slack none is negative
    while closed is None or high - low > 1:
        middle = (low + high + 1) // 2
        tried = _close(order, bounds, middle)
        if tried is None:
            low = middle
        else:
            high, closed = middle, tried
    return high, closed


def _close(order: list[int], bounds: Mapping[tuple[int, int], int], slack: int) -> _Closed | None:
    """Close the bounds (Floyd-Warshall); None if they contradict each other."""
    closed: _Closed = {a: dict.fromkeys(order, _FOREVER) for a in order}
    for a in order:
        closed[a][a] = 0
    for (a, b), most in bounds.items():
        closed[a][b] = min(closed[a][b], most + slack)
    for middle in order:
        onward = closed[middle]
        for row in closed.values():
            first = row[middle]
            if first == _FOREVER:
                continue
            for b, second in onward.items():
                if first + second < row[b]:
                    row[b] = first + second
    return None if any(closed[a][a] < 0 for a in order) else closed


def _choose(order: list[int], closed: _Closed) -> dict[int, int]:
    """Choose clock by clock how far it is ahead: 0 if possible, else the middle of the range."""
    bounds = {a: dict(row) for a, row in closed.items()}
    reference, *others = order
    ahead = {reference: 0}
    for clock in others:
        low, high = -bounds[reference][clock], bounds[clock][reference]
        if low <= 0 <= high:
            chosen = 0
        elif abs(low) == _FOREVER or abs(high) == _FOREVER:
            # It is known that the clock was set, by at least this, but not by how much at most.
            chosen = int(low if low > 0 else high)
        else:
            chosen = int(low + high) // 2
        ahead[clock] = chosen
        for row in bounds.values():
            by_clock, by_reference = row[clock], row[reference]
            for b in order:
                row[b] = min(
                    row[b],
                    by_clock + chosen + bounds[reference][b],
                    by_reference - chosen + bounds[clock][b],
                )
    return ahead
