"""One cluster in the order of its clocks: tide marks, changes of the primary, lost writes."""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Row

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.sources import Source, Sources

REIGN, WROTE, OPEN, GAP, TIDE = range(5)
"""What happened; at one microsecond in this order, so that whoever is asked knows what ended.

REIGN: a run sent the first statement that a primary answered. WROTE: a write was acknowledged.
OPEN: a statement left something unnamed, or a session's statements before it are missing. GAP: a
run's records before this one are missing. TIDE: a primary was asked for its whole set.
"""

_MOST: Final = 64
"""Lost intervals that are told of."""


class Event(NamedTuple):
    """What happened at `at_us`.

    Of REIGN, `ended_us` is when the primary was sent the last statement that it answered; of TIDE,
    when it had answered.
    """

    cluster: str
    proxy: str
    worker: int
    run: str
    session: int
    seq: int
    at_us: int
    what: int
    server_uuid: str | None
    incarnation: int | None
    ended_us: int
    since_us: int
    digest: str | None
    is_whole: bool
    gtids: str | None


class _Past(NamedTuple):
    """PAST."""

    what: str
    cluster: str
    proxy: str | None = None
    worker: int | None = None
    run: str | None = None
    seq: int | None = None
    at_us: int | None = None
    until_us: int | None = None
    answered_us: int | None = None
    mark: int | None = None
    server_uuid: str | None = None
    gtids: str | None = None
    writes: list[Source] | None = None


@dataclass(eq=False)
class _Mark:
    """A tide mark that sets asked for until its own was answered may still lower.

    Each of them would do, so the mark is what they have in common.
    """

    number: int
    tide: Event
    gtids: GtidSet


@dataclass
class _Reign:
    """Which primary a run knows.

    Attributes:
        server: it, and its incarnation.
        last_us: when it was sent the last statement that it answered.
        earlier_us: the same of the primary before it; None if the run knew no other.
        told: it has been asked for its whole set.
    """

    server: tuple[str | None, int | None]
    last_us: int
    earlier_us: int | None
    told: bool = False


class Tides:
    """Goes through the events of one cluster."""

    def __init__(self) -> None:
        self._cluster = ""
        self._acknowledged = GtidSet()
        self._acknowledged_us: dict[str | None, int] = {}
        self._sources = Sources()
        self._open: defaultdict[str | None, deque[Event]] = defaultdict(deque)
        self._marks: list[_Mark] = []
        self._numbers = 0
        self._reigns: dict[tuple[str, int, str], _Reign] = {}
        self._superseded: set[str | None] = set()
        self._confirmed: dict[str | None, int] = {}

    def eval(self, row: Row) -> Iterator[_Past]:
        """Take the next event; PAST of what it settles."""
        it = Event._make(row)
        self._cluster = it.cluster
        if it.what == REIGN:
            self._succeed(it)
            return
        if it.what in (OPEN, GAP):
            self._open[it.server_uuid].append(it)
            return
        try:
            gtids = parse(it.gtids or "")
        except MalformedGtidSetError:
            return
        if it.what == WROTE:
            self._acknowledge(gtids, it)
            return
        yield from self._settle(it.at_us)
        changed = False
        reign = self._reigns.get((it.proxy, it.worker, it.run))
        present = reign is not None and reign.server == (it.server_uuid, it.incarnation)
        if reign is not None and present and it.server_uuid not in self._superseded:
            gone = self._acknowledged.minus(gtids)
            changed = bool(gone) or (reign.earlier_us is not None and not reign.told)
            if changed:
                yield from self._begin(reign, gtids, gone, it)
            yield from self._confirm(it)
            reign.told = True
        yield from self._bound(gtids, it, anybodys=changed)

    def terminate(self) -> Iterator[_Past]:
        """Settle what was still open."""
        yield from self._settle(None)
        for queue in self._open.values():
            for it in queue:
                if it.what == GAP:
                    yield self._bounded(it, None)

    # Tide marks

    def _bound(self, gtids: GtidSet, tide: Event, *, anybodys: bool) -> Iterator[_Past]:
        """Bound what was open when this set was asked for.

        `anybodys`: also what earlier primaries may have committed. It is in the first set of the
        next one, or lost.
        """
        for mark in self._marks:
            if mark.tide.server_uuid == tide.server_uuid and not gtids.covers(mark.gtids):
                mark.gtids.remove(mark.gtids.minus(gtids))
        bounded: list[Event] = []
        for server_uuid in list(self._open) if anybodys else {tide.server_uuid, None}:
            bounded += self._open.pop(server_uuid, ())
        if not bounded:
            return
        self._numbers += 1
        self._marks.append(_Mark(self._numbers, tide, gtids.copy()))
        for it in bounded:
            yield self._bounded(it, self._numbers)

    def _bounded(self, it: Event, mark: int | None) -> _Past:
        what, at_us = ("gap", it.since_us) if it.what == GAP else ("bound", it.at_us)
        key = (it.proxy, it.worker, it.run, it.seq)
        return _Past(what, self._cluster, *key, at_us=at_us, mark=mark)

    def _settle(self, now_us: int | None) -> Iterator[_Past]:
        """Give out the marks that no set lowers any more."""
        lowering = [mark for mark in self._marks if now_us and mark.tide.ended_us >= now_us]
        for mark in self._marks:
            if mark not in lowering:
                at_us, gtids = mark.tide.at_us, mark.gtids.text()
                yield _Past("mark", self._cluster, at_us=at_us, mark=mark.number, gtids=gtids)
        self._marks = lowering

    # Changes of the primary

    def _succeed(self, it: Event) -> None:
        """A run has another primary than before."""
        run = (it.proxy, it.worker, it.run)
        before = self._reigns.get(run)
        if before is not None and before.server[0] != it.server_uuid:
            self._superseded.add(before.server[0])
            self._superseded.discard(it.server_uuid)
        earlier_us = None if before is None else before.last_us
        self._reigns[run] = _Reign((it.server_uuid, it.incarnation), it.ended_us, earlier_us)

    def _acknowledge(self, gtids: GtidSet, it: Event) -> None:
        how = "saw" if it.is_whole else "wrote"
        source = Source(how, it.run, it.session, it.seq, it.ended_us, it.digest, it.gtids)
        if not it.is_whole:
            self._sources.add(gtids, source)
        elif not self._acknowledged.covers(gtids):
            self._sources.add_whole(gtids, source)
        self._acknowledged.update(gtids)
        newest_us = max(it.ended_us, self._acknowledged_us.get(it.server_uuid, 0))
        self._acknowledged_us[it.server_uuid] = newest_us

    def _begin(self, reign: _Reign, gtids: GtidSet, gone: GtidSet, tide: Event) -> Iterator[_Past]:
        """The primary is another one, or at least lacks what had been acknowledged."""
        since_us = tide.at_us
        if reign.earlier_us is not None and not reign.told:
            since_us = min(reign.earlier_us, tide.at_us)
        key = (tide.proxy, tide.worker, tide.run, tide.seq)
        term = _Past("term", self._cluster, *key, at_us=since_us, until_us=tide.at_us)
        yield term._replace(gtids=gtids.text())
        if gone:
            self._acknowledged.remove(gone)
            told, writes = gone.shortened(_MOST), self._sources.of(gone)
            uuid = tide.server_uuid
            yield term._replace(what="lost", server_uuid=uuid, gtids=told, writes=writes)

    def _confirm(self, tide: Event) -> Iterator[_Past]:
        """Note when this primary was first asked after others had acknowledged something."""
        uuid = tide.server_uuid
        others = (us for its, us in self._acknowledged_us.items() if its != uuid)
        if max(others, default=-1) <= self._confirmed.get(uuid, -1):
            return
        self._confirmed[uuid] = tide.at_us
        yield _Past(
            *("confirmed", self._cluster),
            until_us=tide.at_us,
            answered_us=tide.ended_us,
            server_uuid=uuid,
        )
