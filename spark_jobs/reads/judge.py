"""Goes through one group of statements and judges its reads.

The judge unites what was written and what was seen in the group, and checks each read against the
set that its level must see. Neither the proxy's ``required`` nor its conclusions count.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import Handler
from spark_jobs.primaries.primary_history import Confirmation, Gaps, Term
from spark_jobs.promise import OWN_LEVELS, PROMISES, SCOPES, SEEN_LEVELS
from spark_jobs.reads.event import Event, claim_of, shown_by
from spark_jobs.sources import Source, Sources
from spark_jobs.verdict import Finding, Verdict

_MOST: Final = 16
"""Missing intervals that a counter-example names at most."""

_GIVEN_UP: Final = ("none", "wait_timeout")
"""Proof and reason of an answer under the timeout policy `stale`."""

_NO_GAPS: Final = Gaps()

_NEVER: Final = 2**62
"""A mark that no server reaches."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, why, and what was missing."""

    verdict: Verdict
    finding: Finding
    missing: GtidSet | None = None


@dataclass(slots=True)
class _Maybe:
    """What a cluster's reads must see if clocks differ by as much as they may.

    Attributes:
        owed: the GTIDs; empty where clocks agree.
        mark: the newest tide mark that bounds unnamed writes.
    """

    owed: GtidSet = field(default_factory=GtidSet)
    mark: int = 0


class Judge(Handler):
    """Judges the reads of one group, whose events come in order.

    Attributes:
        terms: the terms of primaries, by cluster.
        confirmations: the confirmations of primaries, by cluster and server_uuid.
        gaps: the gaps in the log, by cluster and by proxy.
        unplaced: clusters without a primary, which may be part of any other.
        successions: when runs turned to another primary.
        unsteady: proxies whose own records may be out of order.
        clock_error_us: by how much they may be out of order, µs.
        since_us: the order of events is known from then on.
    """

    terms: ClassVar[Mapping[str, Sequence[Term]]] = {}
    confirmations: ClassVar[Mapping[tuple[str, str | None], Sequence[Confirmation]]] = {}
    gaps: ClassVar[Mapping[tuple[str, str], Gaps]] = {}
    unplaced: ClassVar[frozenset[str]] = frozenset()
    successions: ClassVar[Mapping[tuple[object, ...], int]] = {}
    unsteady: ClassVar[frozenset[str]] = frozenset()
    clock_error_us: ClassVar[int] = 0
    since_us: ClassVar[int] = 0

    def __init__(self) -> None:
        self._own = GtidSet()
        self._all = GtidSet()
        self._shown_by: defaultdict[tuple[object, ...], GtidSet] = defaultdict(GtidSet)
        self._sources = Sources()
        self._writers: dict[str | None, int] = {}
        self._wrote_us: int | None = None
        self._doubt: Finding | None = None
        self._mark = 0
        self._unbounded = False
        self._maybe = _Maybe()
        self._begun: list[Term] = []
        # The group's growth that is younger than the clocks' error, as (time, GTIDs, own writes),
        # and the unions of what is older: by False the own writes, by True all.
        self._young: deque[tuple[int, GtidSet, bool]] = deque()
        self._sure = {False: GtidSet(), True: GtidSet()}
        self._moment: tuple[int, GtidSet] = (0, GtidSet())
        self._last_seen: tuple[str, object] = ("", None)

    def eval(self, row: Iterable[object]) -> Iterator[tuple[object, ...]]:
        """Take the next event; yield JUDGED if it is a read that is judged here."""
        event = Event._make(row)
        self._begin_terms(event)
        if event.maybe:
            self._learn_maybe(event)
            return
        if event.hole and event.kind == "connection":
            self._doubts(Finding.MISSING_RECORDS, event.mark)
        if event.judges:
            owed = self._owed(event)
            judgement = self._judge(event, owed)
            plain = judgement.verdict is Verdict.OK
            yield (
                *event.read,
                judgement.verdict.value,
                judgement.finding.value,
                None if plain else event.required,
                None if plain else event.proof_set,
                judgement.missing.shortened(_MOST) if judgement.missing else None,
                self._sources.of(judgement.missing) if judgement.missing else [],
                self._is_understated(event, owed),
                self._since_write_us(event),
            )
        if event.learns:
            self._learn(event)

    # What a read must see

    def _owed(self, event: Event) -> GtidSet:
        if event.level in OWN_LEVELS:
            return self._in_terms(event, self._own)
        return self._in_terms(event, self._seen(event) if event.kind == "connection" else self._all)

    def _seen(self, event: Event) -> GtidSet:
        """What its connection had seen and written at the read's moment.

        After the read that took a snapshot, no other replica answers until the snapshot ends. In
        other groups, the event's `at` is that moment already.
        """
        if event.moment_us == event.arrived_us:
            if event.role != "primary":
                self._moment = event.moment_us, self._all.copy()
        elif event.moment_us == self._moment[0]:
            return self._moment[1]
        return self._all

    def _in_terms(self, event: Event, owed: GtidSet) -> GtidSet:
        for term in self._terms(event)[len(self._begun) :]:
            # The read allows an older state, but one of the present primary's.
            if term.from_us < event.moment_us:
                owed = owed.common(parse(term.executed))
        return owed

    def _terms(self, event: Event) -> Sequence[Term]:
        return self.terms.get(event.cluster, ())

    def _begin_terms(self, event: Event) -> None:
        """Begin terms; nobody can be shown any more what a new primary does not have."""
        terms = self._terms(event)
        if len(self._begun) == len(terms):
            return
        now = event.arrived_us if event.kind == "connection" else event.at
        while len(self._begun) < len(terms) and terms[len(self._begun)].from_us < now:
            term = terms[len(self._begun)]
            self._begun.append(term)
            self._keep(term)

    def _keep(self, term: Term) -> None:
        executed = parse(term.executed)
        for gtids in (self._own, self._all, self._maybe.owed, self._moment[1]):
            gtids.remove(gtids.minus(executed))

    # The verdict

    def _judge(self, event: Event, owed: GtidSet) -> Judgement:
        if event.level == "BEST_EFFORT":
            return Judgement(Verdict.NO_PROMISE, Finding.BEST_EFFORT)
        if event.level not in PROMISES or event.scope not in SCOPES:
            return Judgement(Verdict.NOT_JUDGED, Finding.UNKNOWN_LEVEL)
        if event.level == "BOUNDED_STALENESS" and event.bound_us is None:
            return Judgement(Verdict.NOT_JUDGED, Finding.NO_BOUND)
        if event.server is None:
            return Judgement(Verdict.NO_ANSWER, Finding.NO_SERVER)
        if event.role == "primary":
            if (event.proof, event.reason) == _GIVEN_UP:
                return Judgement(Verdict.GIVEN_UP, Finding.STALE_POLICY)
            if self._is_confirmed(event):
                return Judgement(Verdict.OK, Finding.PRIMARY)
            return Judgement(Verdict.NOT_JUDGED, Finding.PRIMARY_CHANGED)
        return self._judge_replica(event, owed)

    def _is_confirmed(self, event: Event) -> bool:
        """Whether this primary acknowledged the writes, or was asked for its set after them."""
        others = [at_us for uuid, at_us in self._writers.items() if uuid != event.server_uuid]
        if not others:
            return True
        return any(
            max(others) <= asked_us and answered_us <= event.dispatched_us
            for asked_us, answered_us in self.confirmations.get(
                (event.cluster, event.server_uuid), ()
            )
        )

    def _judge_replica(  # noqa: C901 one rule after the other
        self, event: Event, owed: GtidSet
    ) -> Judgement:
        if event.kind == "cluster" and event.cluster in self.unplaced:
            return Judgement(Verdict.NOT_JUDGED, Finding.UNKNOWN_CLUSTER)
        doubt = self._doubt_of(event)
        most = self._most(event, owed)
        if not most and doubt is None:
            return Judgement(Verdict.OK, Finding.NOTHING_WRITTEN)
        if (event.proof, event.reason) == _GIVEN_UP:
            return Judgement(Verdict.GIVEN_UP, Finding.STALE_POLICY)
        if self._is_early(event):
            return Judgement(Verdict.NOT_JUDGED, Finding.MISSING_RECORDS)
        claim, finding = claim_of(event)
        missing = self._missing(event, owed, claim)
        by_word = missing and _is_independent(event, owed, claim)
        if missing and not by_word:
            if self._may_be_younger(event, missing):
                return Judgement(Verdict.NOT_JUDGED, Finding.CLOCKS, missing)
            return Judgement(Verdict.VIOLATION, finding, missing)
        perhaps = None if by_word else self._missing(event, most, claim)
        if perhaps:
            return Judgement(Verdict.NOT_JUDGED, Finding.CLOCKS, perhaps)
        if event.proof != "waited" and event.unbacked != "":
            unbacked = claim if event.unbacked is None else parse(event.unbacked)
            relied = self._unbacked(event, most, unbacked)
            if relied:
                return Judgement(Verdict.NOT_JUDGED, Finding.UNBACKED, relied)
        if doubt is not None:
            return Judgement(Verdict.NOT_JUDGED, doubt)
        if self._maybe.mark > (event.reached or 0):
            return Judgement(Verdict.NOT_JUDGED, Finding.CLOCKS)
        if by_word:
            return Judgement(Verdict.BY_WORD, Finding.INDEPENDENT, missing)
        return Judgement(Verdict.OK, Finding.WAITED if event.proof == "waited" else Finding.KNOWN)

    def _is_early(self, event: Event) -> bool:
        """Whether the read must see the state at a moment before the order of events is known."""
        return (event.moment_us if event.kind == "connection" else event.at) < self.since_us

    def _most(self, event: Event, owed: GtidSet) -> GtidSet:
        """What the read must see if clocks differ by as much as they may."""
        maybe = self._maybe.owed
        return self._in_terms(event, maybe) if maybe and event.kind == "cluster" else owed

    def _missing(self, event: Event, owed: GtidSet, shown: GtidSet) -> GtidSet:
        """The first few of the GTIDs that neither the proof nor the server's past shows."""
        missing = owed.minus(shown, _MOST)
        earlier = self._shown_earlier(event) if missing else None
        return missing if earlier is None else self._beyond(owed.minus(shown), earlier)

    def _may_be_younger(self, event: Event, missing: GtidSet) -> bool:
        """Whether all records that named these may have ended after the read arrived.

        Where a clock was set back, the records' order does not show it.
        """
        if event.kind in ("connection", "cluster") or event.proxy not in self.unsteady:
            return False
        since_us = event.at - self.clock_error_us
        while self._young and self._young[0][0] <= since_us:
            _, gtids, own = self._young.popleft()
            self._sure[True].update(gtids)
            if own:
                self._sure[False].update(gtids)
        return not missing.common(self._sure[event.level not in OWN_LEVELS], 1)

    def _grows(self, event: Event, gtids: GtidSet, *, own: bool) -> None:
        """Remember when the group's sets grew, if its records may be out of order."""
        if event.proxy in self.unsteady and event.kind not in ("connection", "cluster"):
            self._young.append((event.ended_us, gtids, own))

    def _unbacked(self, event: Event, owed: GtidSet, unbacked: GtidSet) -> GtidSet:
        """The first few of the owed GTIDs in the part of the proof that no evidence backs."""
        missing = owed.common(unbacked, _MOST)
        earlier = self._shown_earlier(event) if missing else None
        return missing if earlier is None else self._beyond(owed.common(unbacked), earlier)

    def _shown_earlier(self, event: Event) -> GtidSet | None:
        if event.answerer is None or event.level not in SEEN_LEVELS:
            return None
        return self._shown_by.get(event.answerer)

    def _beyond(self, missing: GtidSet, earlier: GtidSet) -> GtidSet:
        """Leave out what the same server showed in the group earlier: it cannot lack that later.

        That is enough for what the group has seen; what it has written needs a proof.
        """
        missing.remove(missing.minus(self._own).common(earlier))
        return missing

    def _is_understated(self, event: Event, owed: GtidSet) -> bool:
        if event.required is None or event.role == "primary" or event.level not in PROMISES:
            return False
        try:
            return bool(self._missing(event, owed, parse(event.required)))
        except MalformedGtidSetError:
            return True

    def _doubt_of(self, event: Event) -> Finding | None:
        """Why the server may lack unnamed writes; None if it has reached the tide marks."""
        reached = event.reached or 0
        if self._unbounded or self._mark > reached:
            return self._doubt
        if event.kind != "connection":
            whose = (
                ("cluster", event.cluster) if event.kind == "cluster" else ("proxy", event.proxy)
            )
            unbounded, mark = self.gaps.get(whose, _NO_GAPS).before(event.at)
            if unbounded or mark > reached:
                return Finding.MISSING_RECORDS
        return None

    # What a statement adds

    def _learn(self, event: Event) -> None:
        if event.named:
            self._wrote(event)
            try:
                self._learn_named(parse(event.named), event)
            except MalformedGtidSetError:
                self._doubts(Finding.MALFORMED_WRITE, None)
        if event.observed and (event.kind != "cluster" or event.role == "primary"):
            self._saw(event.observed, event)
        if event.kind != "cluster":
            self._saw(shown_by(event), event)
        if event.is_unnamed:
            self._doubts(Finding.UNNAMED_WRITE, event.mark)
            if event.server_uuid is not None:
                self._wrote(event)
        for term in self._begun:
            if event.ended_us <= term.until_us:
                self._keep(term)

    def _learn_maybe(self, event: Event) -> None:
        """Add what the read must see only if clocks differ by as much as they may."""
        for text in {event.named, event.observed if event.role == "primary" else ""}:
            try:
                self._maybe.owed.update(self._held(parse(text), event))
            except MalformedGtidSetError:
                continue
        if event.is_unnamed:
            self._maybe.mark = max(self._maybe.mark, _NEVER if event.mark is None else event.mark)
        for term in self._begun:
            if event.ended_us <= term.until_us:
                self._keep(term)

    def _learn_named(self, named: GtidSet, event: Event) -> None:
        self._wrote_us = event.ended_us
        named = self._held(named, event)
        self._own.update(named)
        self._grows(event, named, own=True)
        if event.own_gtids:
            self._all.update(named)
            self._sources.add(named, _source("wrote", event, event.named))
        else:
            self._saw(event.named, event)

    def _held(self, gtids: GtidSet, event: Event) -> GtidSet:
        """The GTIDs that reads are held to.

        Of a late answer of an earlier primary, these are the GTIDs that the new primary has. An
        answer is late if its statement was sent before the new primary was asked, or by a run that
        did not know the new primary yet.
        """
        if event.role != "primary":
            return gtids
        run = (event.proxy, event.worker, event.run)
        for term in reversed(self._begun):
            if term.server_uuid == event.server_uuid:
                if term.until_us <= event.dispatched_us:
                    break
                continue
            turned_us = self.successions.get((*run, term.server_uuid), 0)
            if event.dispatched_us < max(term.until_us, turned_us):
                return gtids.common(parse(term.executed))
        return gtids

    def _wrote(self, event: Event) -> None:
        self._writers[event.server_uuid] = max(
            event.ended_us, self._writers.get(event.server_uuid, 0)
        )

    def _saw(self, text: str, event: Event) -> None:
        if not text or (text, event.answerer) == self._last_seen:
            return
        try:
            gtids = parse(text)
        except MalformedGtidSetError:
            return  # a text that is no set shows nothing
        self._last_seen = text, event.answerer
        if event.answerer:
            self._shown_by[event.answerer].update(gtids)
        gtids = self._held(gtids, event)
        if not self._all.covers(gtids):
            self._all.update(gtids)
            self._grows(event, gtids, own=False)
            self._sources.add_whole(gtids, _source("saw" if event.ordinal else "had", event, text))

    def _doubts(self, finding: Finding, mark: int | None) -> None:
        """From here on a replica must have reached the mark; if it is None, none can."""
        self._doubt = finding
        if mark is None:
            self._unbounded = True
        else:
            self._mark = max(self._mark, mark)

    def _since_write_us(self, event: Event) -> int | None:
        if event.proof != "waited" or self._wrote_us is None:
            return None
        return event.dispatched_us + event.wait_us - self._wrote_us


def _is_independent(event: Event, owed: GtidSet, claim: GtidSet) -> bool:
    """Whether the proxy says of all that the server lacked that it changes nothing for the read."""
    if event.proof != "independent" or event.level not in OWN_LEVELS or event.required is None:
        return False
    try:
        named = parse(event.required)
    except MalformedGtidSetError:
        return False
    return not owed.minus(claim).minus(named, 1)


def _source(how: str, event: Event, gtids: str) -> Source:
    return Source(how, event.run, event.session, event.seq, event.ended_us, event.digest, gtids)
