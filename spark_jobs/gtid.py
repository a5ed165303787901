"""GTID sets for the audit: an implementation of its own, so that it can contradict the proxy's.

A set maps each TSID (``uuid`` or ``uuid:tag``) to one flat sorted list of bounds
``[start, end, start, end, …]``: half-open inside, closed in text, never touching. A bound at an
even index opens an interval, one at an odd index closes it, so the parity of a bisection tells
inside from outside. Adding costs a bisection. The cost of a difference depends on the intervals of
the smaller set and of the result, and the result can be cut short. So the reads of a session with
100,000 writes are judged without going through all of the writes for each read.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

END: Final = 2**63 - 1
"""One past the last transaction number that MySQL gives out."""

ALL: Final = 2**62
"""More intervals than any set has."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL: Final = re.compile(r"([0-9]{1,64})(?:\s*-\s*([0-9]{1,64}))?")


class MalformedGtidSetError(ValueError):
    """The text is no GTID set, or a server would read it as an empty one."""


class GtidSet:
    """A set of GTIDs that grows. What `parse` returns is shared: add to your own sets only."""

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[str, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._bounds == other._bounds

    def __repr__(self) -> str:
        return f"GtidSet({self.text()!r})"

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Every interval as (TSID, start, end), half-open, in order."""
        for tsid in sorted(self._bounds):
            bounds = self._bounds[tsid]
            for index in range(0, len(bounds), 2):
                yield tsid, bounds[index], bounds[index + 1]

    def count(self) -> int:
        """How many GTIDs the set has."""
        return sum(end - start for _, start, end in self)

    def add(self, tsid: str, start: int, end: int) -> None:
        """Add the half-open interval [start, end) of one TSID."""
        bounds = self._bounds.setdefault(tsid, [])
        low = bisect_left(bounds, start)
        high = bisect_right(bounds, end)
        bounds[low:high] = [start] * (low % 2 == 0) + [end] * (high % 2 == 0)

    def update(self, other: "GtidSet") -> None:
        """Add all of another set."""
        for tsid, start, end in other:
            self.add(tsid, start, end)

    def remove(self, other: "GtidSet") -> None:
        """Take away what is in another set."""
        for tsid, start, end in other:
            bounds = self._bounds.get(tsid)
            if bounds is None:
                continue
            low = bisect_left(bounds, start)
            high = bisect_right(bounds, end)
            bounds[low:high] = [start] * (low % 2) + [end] * (high % 2)
            if not bounds:
                del self._bounds[tsid]

    def copy(self) -> "GtidSet":
        """A copy, which the caller may change."""
        copy = GtidSet()
        copy._bounds = {tsid: list(bounds) for tsid, bounds in self._bounds.items()}
        return copy

    def minus(self, other: "GtidSet", most: int = ALL) -> "GtidSet":
        """The GTIDs that are not in `other`: the first `most` intervals or a few more."""
        rest = GtidSet()
        found = 0
        for tsid in sorted(self._bounds):
            mine, theirs = self._bounds[tsid], other._bounds.get(tsid, [])
            if len(mine) <= len(theirs):
                spans, bounds, outside = mine, theirs, 1
            else:
                spans, bounds, outside = [0, *theirs, END], mine, 0
            for start, end in zip(spans[::2], spans[1::2], strict=True):
                for piece in _cut(bounds, start, end, outside, most - found):
                    rest.add(tsid, *piece)
                    found += 1
                if found >= most:
                    return rest
        return rest

    def common(self, other: "GtidSet", most: int = ALL) -> "GtidSet":
        """The GTIDs that are also in `other`: the first `most` intervals or a few more."""
        both = GtidSet()
        found = 0
        for tsid in sorted(self._bounds.keys() & other._bounds.keys()):
            spans, bounds = sorted((self._bounds[tsid], other._bounds[tsid]), key=len)
            for start, end in zip(spans[::2], spans[1::2], strict=True):
                for piece in _cut(bounds, start, end, 0, most - found):
                    both.add(tsid, *piece)
                    found += 1
                if found >= most:
                    return both
        return both

    def covers(self, other: "GtidSet") -> bool:
        """Whether all of `other` is here."""
        return not other.minus(self, 1)

    def shortened(self, most: int) -> str:
        """The text of the first `most` intervals; an ellipsis says that there may be more."""
        first = GtidSet()
        for tsid, start, end in islice(self, most):
            first.add(tsid, start, end)
        return first.text() + (",…" if len(list(islice(self, most))) == most else "")

    def text(self) -> str:
        """Canonical text on one line; "" is the empty set."""
        parts: list[str] = []
        uuid = tag = ""
        for tsid, start, end in self:
            its_uuid, _, its_tag = tsid.partition(":")
            if its_uuid != uuid:
                parts.append(f",{its_uuid}" if parts else its_uuid)
                uuid, tag = its_uuid, ""
            if its_tag != tag:
                parts.append(f":{its_tag}")
                tag = its_tag
            parts.append(f":{start}" if end - start == 1 else f":{start}-{end - 1}")
        return "".join(parts)


@lru_cache(maxsize=256)
def parse(text: str) -> GtidSet:
    """Read a set as leniently as a server does, except where a server would read nothing.

    MySQL reads a bare UUID, a tag without an interval and a reversed interval as an empty set, so
    any wait for it succeeds; here they are errors.

    Raises:
        MalformedGtidSetError: the text is no GTID set.
    """
    gtids = GtidSet()
    for item in text.lower().split(","):
        if not item.strip():
            continue
        uuid, *parts = (part.strip() for part in item.split(":"))
        if not _UUID.fullmatch(uuid):
            raise MalformedGtidSetError(f"no UUID: {uuid[:64]!r}")
        tsid, bare = uuid, True
        for part in parts:
            interval = _INTERVAL.fullmatch(part)
            if interval:
                start = int(interval[1])
                end = int(interval[2] or start) + 1
                if not 1 <= start < end <= END:
                    raise MalformedGtidSetError(f"no interval: {part[:64]!r}")
                gtids.add(tsid, start, end)
                bare = False
            elif _TAG.fullmatch(part) and not (bare and tsid != uuid):
                tsid, bare = f"{uuid}:{part}", True
            else:
                raise MalformedGtidSetError(f"neither interval nor tag: {part[:64]!r}")
        if bare:
            raise MalformedGtidSetError(f"no interval after {tsid!r}")
    return gtids


def _cut(
    bounds: list[int], start: int, end: int, outside: int, most: int
) -> Iterator[tuple[int, int]]:
    """The first `most` parts of [start, end) inside the intervals, or outside of them."""
    low = bisect_right(bounds, start)
    last = bisect_left(bounds, end)
    high = min(last, low + 2 * most)
    cut = [start] * (low % 2 != outside) + bounds[low:high]
    if high == last and high % 2 != outside:
        cut.append(end)
    return zip(cut[::2], cut[1::2], strict=False)
