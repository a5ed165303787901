"""Remembers which records named which GTIDs, for counter-examples."""

from bisect import bisect_right, insort
from collections import defaultdict, deque
from typing import Final, NamedTuple

from spark_jobs.gtid import GtidSet

_MOST: Final = 5
"""Records that a counter-example names at most."""

_WRITES: Final = 50_000
"""How many writes are remembered at least; at most twice as many are."""

_SIGHTS: Final = 64
"""How many records with whole sets are remembered."""


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
        """Add a record that names GTIDs which hardly any other record names."""
        if self._writes.count >= _WRITES:
            self._earlier, self._writes = self._writes, _Writes()
        self._writes.add(gtids, source)

    def add_whole(self, gtids: GtidSet, source: Source) -> None:
        """Add a record that names a server's whole set, some of which is new."""
        self._sights.append((gtids, source))

    def of(self, gtids: GtidSet) -> list[Source]:
        """The first few records that named any of these GTIDs."""
        found: dict[tuple[str, int], Source] = {}
        rest = gtids.copy()
        for writes in (self._earlier, self._writes):
            for source, written in writes.of(gtids, _MOST - len(found)):
                found.setdefault((source.run, source.seq), source)
                rest.remove(written)
        for whole, source in self._sights:
            if not rest or len(found) >= _MOST:
                break
            shown = rest.common(whole)
            if shown:
                found.setdefault((source.run, source.seq), source)
                rest.remove(shown)
        return list(found.values())


class _Writes:
    """Writes by the GTIDs that they committed; no two writes commit the same GTID."""

    def __init__(self) -> None:
        self.count = 0
        self._spans: defaultdict[str, list[tuple[int, int, Source]]] = defaultdict(list)

    def add(self, gtids: GtidSet, source: Source) -> None:
        self.count += 1
        for tsid, start, end in gtids:
            insort(self._spans[tsid], (start, end, source), key=lambda span: span[0])

    def of(self, gtids: GtidSet, most: int) -> list[tuple[Source, GtidSet]]:
        """The first few writes that committed any of these GTIDs, and which of them."""
        found: dict[tuple[str, int], tuple[Source, GtidSet]] = {}
        for tsid, start, end in gtids:
            spans = self._spans[tsid]
            index = max(0, bisect_right(spans, start, key=lambda span: span[0]) - 1)
            while index < len(spans) and spans[index][0] < end:
                first, last, source = spans[index]
                index += 1
                if last <= start:
                    continue
                key = (source.run, source.seq)
                if key not in found and len(found) == most:
                    return list(found.values())
                known = found.setdefault(key, (source, GtidSet()))[1]
                known.add(tsid, max(start, first), min(end, last))
        return list(found.values())
