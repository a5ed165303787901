"""Checks one proxy's procedure, in the order of its clock: did it ask where it had to?"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import Handler
from spark_jobs.promise import SEEN_LEVELS
from spark_jobs.sources import Source, Sources
from spark_jobs.verdict import Lapse

LOST, TOLD, CLAIMED, ANSWERED, ASKED, READ = range(6)
"""Kinds of events; at the same microsecond they sort in this order.

LOST: from then until `until_us`, records of a run are missing from the log, or may be. TOLD: a
primary told its whole set. CLAIMED: a server said that it has a set. ANSWERED: a statement's answer
showed data but no set; the server began with it at `asked_us` or later. ASKED: a server was asked
for its whole set, which is `gtids`. READ: a read was sent to a replica, with the proof `gtids`;
`shown` is the whole set in its answer.
"""

_SETS: Final = 20_000
"""How many of a primary's whole sets are remembered at least."""

_FEW: Final = 4
"""How many of the newest sets are tried: after a change of the primary they may be smaller."""

_MANY: Final = 256
"""How many of the oldest sets are tried. The oldest is mostly the smallest. But many sessions ask
independently, and the first question may be answered last; and where a clock was set back, no order
is certain.
"""

TAIL_US: Final = 10_000_000
"""For how long after a run's last record a crash may have destroyed its records."""

_ANSWERS: Final = 64
"""How many answers of one server to one group are remembered. The newest alone would not do: it may
have ended after a later read arrived."""

_GAPS: Final = 10_000
"""How many answers with gaps are remembered until the log's end shows whether they are holes."""

_MOST: Final = 16
"""Intervals that a finding names at most."""

_Server = tuple[int, str, str | None, int | None]
_Worker = tuple[int, str]
"""A worker, and its run."""


class _Answer(NamedTuple):
    """An answer without a set.

    Attributes:
        at_us: when it was recorded.
        begun_us: when the server began with it, or earlier.
        worker: who passed it on.
    """

    at_us: int
    begun_us: int
    worker: _Worker

    def seen_us(self, worker: _Worker) -> int:
        """From when on a question of `worker` may bound what the answer showed.

        A worker does nothing else between taking an answer and recording it. But another one may
        know of the answer, and ask, before the record is made: the system may have stopped the
        first one in between. That answer can only be dated by what happened before it.
        """
        return self.at_us if worker == self.worker else self.begun_us


class Event(NamedTuple):
    """What happened at `at_us`; `arrived_us` is the record's `moment_us`."""

    proxy: str
    worker: int
    run: str
    seq: int
    session: int
    at_us: int
    what: int
    arrived_us: int
    asked_us: int
    until_us: int
    user: str
    application: str | None
    scope: str
    level: str
    bound_us: int | None
    server_uuid: str | None
    incarnation: int | None
    gtids: str | None
    shown: str | None

    @property
    def server(self) -> _Server:
        """The incarnation of a server, as its run counts them."""
        return self.worker, self.run, self.server_uuid, self.incarnation

    @property
    def groups(self) -> dict[str, tuple[str, object]]:
        """The groups that the event belongs to, by kind."""
        session = self.worker, self.run, self.session
        own: dict[str, object] = {"connection": session, "user": self.user, "proxy": ""}
        names = own | ({"application": self.application} if self.application else {})
        return {kind: (kind, name) for kind, name in names.items()}


class Lapsed(NamedTuple):
    """A row of LAPSED."""

    proxy: str
    worker: int
    run: str
    seq: int
    finding: str
    lacking: str


class Procedure(Handler):
    """Goes through the events of one proxy."""

    def __init__(self) -> None:
        self._asked_us: list[int] = []
        self._sets: list[str] = []
        self._forgotten_us = -1
        self._primary = GtidSet()
        self._claims: defaultdict[_Server, _Claims] = defaultdict(_Claims)
        self._answered: defaultdict[tuple[str, object], dict[object, deque[_Answer]]]
        self._answered = defaultdict(dict)
        self._gaps: list[tuple[Event, GtidSet]] = []
        self._lost_us = -1

    def eval(self, row: Iterable[object]) -> Iterator[Lapsed]:
        """Take the next event; yield LAPSED of the lapses that it shows."""
        event = Event._make(row)
        if event.what == LOST:
            self._lost_us = max(self._lost_us, event.until_us)
            return
        try:
            gtids = parse(event.gtids or "")
        except MalformedGtidSetError:
            return
        if event.what == TOLD:
            self._remember(event, gtids)
        elif event.what == CLAIMED:
            self._claims[event.server].add(gtids, event)
        elif event.what == ANSWERED:
            answer = _Answer(event.at_us, event.asked_us, (event.worker, event.run))
            for group in event.groups.values():
                newest = self._answered[group].setdefault(event.server[2:], deque(maxlen=_ANSWERS))
                newest.append(answer)
        elif event.what == ASKED:
            yield from self._claims[event.server].compare(gtids, event)
        else:
            yield from self._judge(event, gtids)

    def terminate(self) -> Iterator[Lapsed]:
        """Yield LAPSED of the gaps that are holes: the primary has what they lack."""
        for event, gaps in self._gaps:
            holes = gaps.common(self._primary, _MOST)
            if holes:
                yield _lapsed(event, event.seq, Lapse.HOLES, holes)

    def _remember(self, event: Event, gtids: GtidSet) -> None:
        self._primary.update(gtids)
        index = bisect_left(self._asked_us, event.asked_us)
        self._asked_us.insert(index, event.asked_us)
        self._sets.insert(index, event.gtids or "")
        if len(self._sets) > 2 * _SETS:
            self._forgotten_us = self._asked_us[_SETS - 1]
            del self._asked_us[:_SETS], self._sets[:_SETS]

    def _judge(self, event: Event, proof: GtidSet) -> Iterator[Lapsed]:
        if event.level == "STRONG":
            yield from self._need(event, proof, event.arrived_us, Lapse.NOT_ASKED)
        elif event.level == "BOUNDED_STALENESS" and event.bound_us is not None:
            yield from self._need(event, proof, event.arrived_us - event.bound_us, Lapse.NOT_ASKED)
        elif event.level in SEEN_LEVELS:
            groups = event.groups
            others = self._answered[groups.get(event.scope, groups["connection"])]
            elsewhere = (
                answers for server, answers in others.items() if server != event.server[2:]
            )
            before = [
                answer
                for answers in elsewhere
                for answer in answers
                if answer.at_us <= event.arrived_us
            ]
            if before:
                seen_us = max(answer.seen_us((event.worker, event.run)) for answer in before)
                yield from self._need(event, proof, seen_us, Lapse.LEFT)
            if event.level == "READ_ALL_WRITES" and event.shown and len(self._gaps) < _GAPS:
                gaps = _gaps(event.shown)
                if gaps:
                    self._gaps.append((event, gaps))

    def _need(self, event: Event, proof: GtidSet, since_us: int, lapse: Lapse) -> Iterator[Lapsed]:
        """Yield a lapse unless the proof covers some set that was asked for since `since_us`.

        If records of that time are missing, one of them may have had such a set: no lapse then.
        """
        if since_us <= max(self._forgotten_us, self._lost_us):
            return
        first = bisect_left(self._asked_us, since_us)
        last = max(first + _MANY, len(self._sets) - _FEW)
        tried = [*self._sets[first : first + _MANY], *self._sets[last:]]
        if not any(proof.covers(parse(gtids)) for gtids in tried):
            lacking = parse(tried[0]).minus(proof, _MOST) if tried else GtidSet()
            yield _lapsed(event, event.seq, lapse, lacking)


class _Claims:
    """What one incarnation of a server claimed to have."""

    def __init__(self) -> None:
        self._claimed = GtidSet()
        self._sources = Sources()

    def add(self, gtids: GtidSet, event: Event) -> None:
        if not self._claimed.covers(gtids):
            self._claimed.update(gtids)
            source = Source(
                "had", event.run, event.session, event.seq, event.at_us, None, event.gtids
            )
            self._sources.add_whole(gtids, source)

    def compare(self, shown: GtidSet, event: Event) -> Iterator[Lapsed]:
        """Compare the claims with a whole set that was asked for later; yield contradictions."""
        missing = self._claimed.minus(shown)
        if not missing:
            return
        for seq in [source.seq for source in self._sources.of(missing)] or [event.seq]:
            yield _lapsed(event, seq, Lapse.CONTRADICTED, missing)
        self._claimed.remove(missing)


def _gaps(shown: str) -> GtidSet:
    """What a set lacks between its intervals of each source; nothing if the text is no set."""
    gaps = GtidSet()
    try:
        intervals = parse(shown)
    except MalformedGtidSetError:
        return gaps
    last, since = "", 0
    for tsid, start, end in intervals:
        if tsid == last:
            gaps.add(tsid, since, start)
        last, since = tsid, end
    return gaps


def _lapsed(event: Event, seq: int, lapse: Lapse, lacking: GtidSet) -> Lapsed:
    return Lapsed(event.proxy, event.worker, event.run, seq, lapse.value, lacking.shortened(_MOST))
