"""Which records named a GTID: what a counter-example tells beside the GTIDs themselves."""

from bisect import bisect_right, insort
from collections import defaultdict, deque
from typing import Final, NamedTuple

from spark_jobs.gtid import GtidSet

_MOST: Final = 5
"""Records that a counter-example names."""

_WRITES: Final = 50_000
"""Writes that are remembered at least, and twice as many at most."""

_SIGHTS: Final = 64
"""Whole sets that are remembered."""


class Source(NamedTuple):
    """MISSED: a record that names GTIDs."""

    how: str
    run: str
    session: int
    seq: int
    ended_us: int
    digest: str | None
    gtids: str | None


class Sources:
    """The records of a group that named GTIDs: the newest ones, if there are many."""

    def __init__(self) -> None:
        self._writes = _Writes()
        self._earlier = _Writes()
        self._sights: deque[tuple[GtidSet, Source]] = deque(maxlen=_SIGHTS)

    def add(self, gtids: GtidSet, source: Source) -> None:
        """A record names these, and hardly any that another one names."""
        if self._writes.count >= _WRITES:
            self._earlier, self._writes = self._writes, _Writes()
        self._writes.add(gtids, source)

    def add_whole(self, gtids: GtidSet, source: Source) -> None:
        """A record names a server's whole set, and some of it is new."""
        self._sights.append((gtids, source))

    def of(self, gtids: GtidSet) -> list[Source]:
        """The first few that named any of these."""
        found: dict[tuple[str, int], Source] = {}
        rest = gtids.copy()
        for writes in (self._earlier, self._writes):
            for source, its in writes.of(gtids, _MOST - len(found)):
                found.setdefault((source.run, source.seq), source)
                rest.remove(its)
        for its, source in self._sights:
            if not rest or len(found) >= _MOST:
                break
            shown = rest.common(its)
            if shown:
                found.setdefault((source.run, source.seq), source)
                rest.remove(shown)
        return list(found.values())


class _Writes:
    """Writes by what they committed; no two commit the same."""

    def __init__(self) -> None:
        self.count = 0
        self._spans: defaultdict[str, list[tuple[int, int, Source]]] = defaultdict(list)

    def add(self, gtids: GtidSet, source: Source) -> None:
        self.count += 1
        for tsid, start, end in gtids:
            insort(self._spans[tsid], (start, end, source), key=lambda span: span[0])

    def of(self, gtids: GtidSet, most: int) -> list[tuple[Source, GtidSet]]:
        """The first few that committed any of these, and what of it."""
        found: dict[tuple[str, int], tuple[Source, GtidSet]] = {}
        for tsid, start, end in gtids:
            spans = self._spans[tsid]
            index = max(0, bisect_right(spans, start, key=lambda span: span[0]) - 1)
            while index < len(spans) and spans[index][0] < end:
                its_start, its_end, source = spans[index]
                index += 1
                if its_end <= start:
                    continue
                key = (source.run, source.seq)
                if key not in found and len(found) == most:
                    return list(found.values())
                its = found.setdefault(key, (source, GtidSet()))[1]
                its.add(tsid, max(start, its_start), min(end, its_end))
        return list(found.values())
