"""Goes through one cluster's events: finds tide marks, changes of the primary and lost writes."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import Handler
from spark_jobs.sources import Source, Sources

REIGN, WROTE, OPEN, GAP, TIDE = range(5)
"""Kinds of events. At the same microsecond they sort in this order: a primary that is asked then
has what ended then.

REIGN: a run sent the first statement that a primary answered. WROTE: a write was acknowledged.
OPEN: a statement may have made unnamed writes, or a session's statements before it are missing.
GAP: a run's records before this one are missing. TIDE: a primary was asked for its whole set.
"""

_MOST: Final = 64
"""Lost intervals that are reported at most."""


class Event(NamedTuple):
    """What happened at `at_us`.

    For REIGN, `ended_us` is when the primary was sent the last statement that it answered. For
    TIDE, it is when the primary had answered.
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
    """A row of PAST."""

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
    """A tide mark that may still be lowered by sets that were asked for before it was answered.

    Each of these sets is a valid bound, so the mark is their intersection.
    """

    number: int
    tide: Event
    gtids: GtidSet


@dataclass(eq=False)
class _Begun:
    """A term whose first set is kept back as long as later sets may correct it.

    A GTID that the same primary shows again was never lost: clocks were wrong.

    Attributes:
        term: PAST of the term.
        executed: the primary's set.
        gone: acknowledged GTIDs that are missing from it.
        again: those of `gone` that were acknowledged once more. A primary that lost its newest
            transactions gives their numbers to others, so it proves nothing that it shows these.
        writes: the records that name `gone`.
        succeeded: whether the set is the first one of another primary, or of another incarnation.
    """

    term: _Past
    executed: GtidSet
    gone: GtidSet
    again: GtidSet
    writes: list[Source]
    succeeded: bool

    def rows(self) -> Iterator[_Past]:
        """PAST of the term and of what it lost, as far as that still holds."""
        if self.succeeded or self.gone:
            yield self.term._replace(gtids=self.executed.text())
        if self.gone:
            gtids = self.gone.shortened(_MOST)
            yield self.term._replace(what="lost", gtids=gtids, writes=self.writes)


@dataclass
class _Reign:
    """The primary that a run knows.

    Attributes:
        server: its server_uuid and incarnation.
        since_us: when it was sent the first statement that it answered.
        last_us: when it was sent the last statement that it answered.
        earlier_us: `last_us` of the primary before it; None if the run knew no other.
        was_asked: whether the run has asked it for its whole set.
    """

    server: tuple[str | None, int | None]
    since_us: int
    last_us: int
    earlier_us: int | None
    was_asked: bool = False


class PrimarySnapshots(Handler):
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
        self._last_us: dict[str | None, int] = {}
        self._begun: defaultdict[str | None, list[_Begun]] = defaultdict(list)
        self._confirmed: dict[str | None, int] = {}

    def eval(self, row: Iterable[object]) -> Iterator[_Past]:
        """Take the next event; yield PAST of what it settles."""
        event = Event._make(row)
        self._cluster = event.cluster
        if event.what == REIGN:
            yield from self._succeed(event)
            return
        if event.what in (OPEN, GAP):
            self._open[event.server_uuid].append(event)
            return
        try:
            gtids = parse(event.gtids or "")
        except MalformedGtidSetError:
            return
        if event.what == WROTE:
            self._acknowledge(gtids, event)
            return
        yield from self._settle(event.at_us)
        changed = False
        reign = self._reigns.get((event.proxy, event.worker, event.run))
        if reign is not None and reign.server != (event.server_uuid, event.incarnation):
            reign = None
        if reign is not None:
            yield from self._take_back(reign, gtids, event)
        presides = reign is not None and event.server_uuid not in self._superseded
        if reign is not None and presides:
            gone = self._acknowledged.minus(gtids)
            changed = bool(gone) or (reign.earlier_us is not None and not reign.was_asked)
            if changed:
                self._begin(reign, gtids, gone, event)
            yield from self._confirm(event)
            reign.was_asked = True
        yield from self._bound(gtids, event, anybodys=changed, presides=presides)

    def terminate(self) -> Iterator[_Past]:
        """Yield PAST of everything that is still open."""
        yield from self._settle(None)
        for begun in chain.from_iterable(self._begun.values()):
            yield from begun.rows()
        for queue in self._open.values():
            for event in queue:
                if event.what == GAP:
                    yield self._bounded(event, None)

    # Tide marks

    def _bound(
        self, gtids: GtidSet, tide: Event, *, anybodys: bool, presides: bool
    ) -> Iterator[_Past]:
        """Bound what was open when this set was asked for.

        Args:
            gtids: the set.
            tide: its event.
            anybodys: whether the set is the first of a new primary. It bounds also what any other
                server may have committed: that is in this set, or lost.
            presides: whether its server is the present primary. Then the set bounds also what an
                earlier primary may have committed, even if that became known only later.
        """
        for mark in self._marks:
            if mark.tide.server_uuid == tide.server_uuid and not gtids.covers(mark.gtids):
                mark.gtids.remove(mark.gtids.minus(gtids))
        bounded: list[Event] = []
        for uuid in list(self._open):
            own = uuid is None or uuid == tide.server_uuid
            if own or anybodys or (presides and self._is_over(uuid, tide)):
                bounded += self._open.pop(uuid)
        if not bounded:
            return
        self._numbers += 1
        self._marks.append(_Mark(self._numbers, tide, gtids.copy()))
        for event in bounded:
            yield self._bounded(event, self._numbers)

    def _is_over(self, uuid: str | None, tide: Event) -> bool:
        """Whether a server had ceased to be the primary when this set was asked for."""
        return uuid in self._superseded or self._last_us.get(uuid, tide.at_us) < tide.at_us

    def _bounded(self, event: Event, mark: int | None) -> _Past:
        what, at_us = ("gap", event.since_us) if event.what == GAP else ("bound", event.at_us)
        key = (event.proxy, event.worker, event.run, event.seq)
        return _Past(what, self._cluster, *key, at_us=at_us, mark=mark)

    def _settle(self, now_us: int | None) -> Iterator[_Past]:
        """Yield PAST of the marks that no set can lower any more."""
        lowering = [mark for mark in self._marks if now_us and mark.tide.ended_us >= now_us]
        for mark in self._marks:
            if mark not in lowering:
                at_us, gtids = mark.tide.at_us, mark.gtids.text()
                yield _Past("mark", self._cluster, at_us=at_us, mark=mark.number, gtids=gtids)
        self._marks = lowering

    # Changes of the primary

    def _succeed(self, event: Event) -> Iterator[_Past]:
        """A run has another primary than before."""
        run = (event.proxy, event.worker, event.run)
        before = self._reigns.get(run)
        self._last_us[event.server_uuid] = max(
            event.ended_us, self._last_us.get(event.server_uuid, 0)
        )
        if before is not None and before.server[0] != event.server_uuid:
            self._superseded.add(before.server[0])
            self._superseded.discard(event.server_uuid)
            yield _Past(
                "succeeded", self._cluster, *run, at_us=event.at_us, server_uuid=event.server_uuid
            )
        earlier_us = None if before is None else before.last_us
        server = (event.server_uuid, event.incarnation)
        self._reigns[run] = _Reign(server, event.at_us, event.ended_us, earlier_us)

    def _acknowledge(self, gtids: GtidSet, event: Event) -> None:
        how = "saw" if event.is_whole else "wrote"
        source = Source(
            how, event.run, event.session, event.seq, event.ended_us, event.digest, event.gtids
        )
        if not event.is_whole:
            self._sources.add(gtids, source)
            for begun in chain.from_iterable(self._begun.values()):
                begun.again.update(gtids.common(begun.gone))
        elif not self._acknowledged.covers(gtids):
            self._sources.add_whole(gtids, source)
        self._acknowledged.update(gtids)
        newest_us = max(event.ended_us, self._acknowledged_us.get(event.server_uuid, 0))
        self._acknowledged_us[event.server_uuid] = newest_us

    def _begin(self, reign: _Reign, gtids: GtidSet, gone: GtidSet, tide: Event) -> None:
        """Begin a term: the primary is another one, or lacks acknowledged writes."""
        since_us, succeeded = tide.at_us, reign.earlier_us is not None and not reign.was_asked
        if reign.earlier_us is not None and not reign.was_asked:
            since_us = min(reign.earlier_us, tide.at_us)
        term = _Past(
            "term",
            self._cluster,
            tide.proxy,
            tide.worker,
            tide.run,
            tide.seq,
            at_us=since_us,
            until_us=tide.at_us,
            server_uuid=tide.server_uuid,
        )
        writes = self._sources.of(gone) if gone else []
        begun = _Begun(term, gtids.copy(), gone, GtidSet(), writes, succeeded)
        self._begun[tide.server_uuid].append(begun)
        self._acknowledged.remove(gone)

    def _take_back(self, reign: _Reign, gtids: GtidSet, tide: Event) -> Iterator[_Past]:
        """Take back losses: what this primary shows again was never lost.

        Numbers that the primary may have given to other transactions meanwhile do not count.
        """
        left = []
        for begun in self._begun[tide.server_uuid]:
            back = begun.gone.common(gtids)
            back.remove(begun.again)
            if back and reign.since_us > min(
                (source.ended_us for source in begun.writes), default=0
            ):
                # The primary may have lost its own ones, and given their numbers to others.
                back = _of_others(back, tide.server_uuid)
            if back:
                begun.gone.remove(back)
                begun.executed.update(back)
                begun.writes = self._sources.of(begun.gone)
                self._acknowledged.update(back)
            if begun.gone:
                left.append(begun)
            else:
                yield from begun.rows()
        self._begun[tide.server_uuid] = left

    def _confirm(self, tide: Event) -> Iterator[_Past]:
        """Note the first question to this primary after others had acknowledged something."""
        uuid = tide.server_uuid
        others = (us for other, us in self._acknowledged_us.items() if other != uuid)
        if max(others, default=-1) <= self._confirmed.get(uuid, -1):
            return
        self._confirmed[uuid] = tide.at_us
        yield _Past(
            "confirmed",
            self._cluster,
            until_us=tide.at_us,
            answered_us=tide.ended_us,
            server_uuid=uuid,
        )


def _of_others(gtids: GtidSet, uuid: str | None) -> GtidSet:
    """The GTIDs whose UUID is not this server's own."""
    others = GtidSet()
    for tsid, start, end in gtids:
        if tsid.partition(":")[0] != uuid:
            others.add(tsid, start, end)
    return others
