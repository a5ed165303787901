"""Goes through one group of statements and judges its reads.

The judge unites what was written and what was seen in the group, and checks each read against the
set that its level must see. Neither the proxy's ``required`` nor its conclusions count.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyspark.sql import Row

from spark_jobs.event import Event, claim_of, shown_by
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.primary_history import Confirmation, Gaps, Term
from spark_jobs.promise import OWN_LEVELS, PROMISES, SCOPES, SEEN_LEVELS
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
class Said:
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


class Judge:
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

    def eval(self, row: Row) -> Iterator[tuple[object, ...]]:
        """Take the next event; yield JUDGED if it is a read that is judged here."""
        it = Event._make(row)
        self._begin_terms(it)
        if it.maybe:
            self._learn_maybe(it)
            return
        if it.hole and it.kind == "connection":
            self._doubts(Finding.MISSING_RECORDS, it.mark)
        if it.judges:
            owed = self._owed(it)
            said = self._judge(it, owed)
            plain = said.verdict is Verdict.OK
            yield (
                *it.read,
                said.verdict.value,
                said.finding.value,
                None if plain else it.required,
                None if plain else it.proof_set,
                said.missing.shortened(_MOST) if said.missing else None,
                self._sources.of(said.missing) if said.missing else [],
                self._is_understated(it, owed),
                self._since_write_us(it),
            )
        if it.learns:
            self._learn(it)

    # What a read must see

    def _owed(self, it: Event) -> GtidSet:
        if it.level in OWN_LEVELS:
            return self._in_terms(it, self._own)
        return self._in_terms(it, self._seen(it) if it.kind == "connection" else self._all)

    def _seen(self, it: Event) -> GtidSet:
        """What its connection had seen and written at the read's moment.

        After the read that took a snapshot, no other replica answers until the snapshot ends. In
        other groups, the event's `at` is that moment already.
        """
        if it.moment_us == it.arrived_us:
            if it.role != "primary":
                self._moment = it.moment_us, self._all.copy()
        elif it.moment_us == self._moment[0]:
            return self._moment[1]
        return self._all

    def _in_terms(self, it: Event, owed: GtidSet) -> GtidSet:
        for term in self._terms(it)[len(self._begun) :]:
            # The read allows an older state, but one of the present primary's.
            if term.from_us < it.moment_us:
                owed = owed.common(parse(term.executed))
        return owed

    def _terms(self, it: Event) -> Sequence[Term]:
        return self.terms.get(it.cluster, ())

    def _begin_terms(self, it: Event) -> None:
        """Begin terms; nobody can be shown any more what a new primary does not have."""
        terms = self._terms(it)
        if len(self._begun) == len(terms):
            return
        now = it.arrived_us if it.kind == "connection" else it.at
        while len(self._begun) < len(terms) and terms[len(self._begun)].from_us < now:
            term = terms[len(self._begun)]
            self._begun.append(term)
            self._keep(term)

    def _keep(self, term: Term) -> None:
        executed = parse(term.executed)
        for gtids in (self._own, self._all, self._maybe.owed, self._moment[1]):
            gtids.remove(gtids.minus(executed))

    # The verdict

    def _judge(self, it: Event, owed: GtidSet) -> Said:
        if it.level == "BEST_EFFORT":
            return Said(Verdict.NO_PROMISE, Finding.BEST_EFFORT)
        if it.level not in PROMISES or it.scope not in SCOPES:
            return Said(Verdict.NOT_JUDGED, Finding.UNKNOWN_LEVEL)
        if it.level == "BOUNDED_STALENESS" and it.bound_us is None:
            return Said(Verdict.NOT_JUDGED, Finding.NO_BOUND)
        if it.server is None:
            return Said(Verdict.NO_ANSWER, Finding.NO_SERVER)
        if it.role == "primary":
            if (it.proof, it.reason) == _GIVEN_UP:
                return Said(Verdict.GIVEN_UP, Finding.STALE_POLICY)
            if self._is_confirmed(it):
                return Said(Verdict.OK, Finding.PRIMARY)
            return Said(Verdict.NOT_JUDGED, Finding.PRIMARY_CHANGED)
        return self._judge_replica(it, owed)

    def _is_confirmed(self, it: Event) -> bool:
        """Whether this primary acknowledged the writes, or was asked for its set after them."""
        others = [at_us for uuid, at_us in self._writers.items() if uuid != it.server_uuid]
        if not others:
            return True
        return any(
            max(others) <= asked_us and answered_us <= it.dispatched_us
            for asked_us, answered_us in self.confirmations.get((it.cluster, it.server_uuid), ())
        )

    def _judge_replica(  # noqa: C901 one rule after the other
        self, it: Event, owed: GtidSet
    ) -> Said:
        if it.kind == "cluster" and it.cluster in self.unplaced:
            return Said(Verdict.NOT_JUDGED, Finding.UNKNOWN_CLUSTER)
        doubt = self._doubt_of(it)
        most = self._most(it, owed)
        if not most and doubt is None:
            return Said(Verdict.OK, Finding.NOTHING_WRITTEN)
        if (it.proof, it.reason) == _GIVEN_UP:
            return Said(Verdict.GIVEN_UP, Finding.STALE_POLICY)
        if self._is_early(it):
            return Said(Verdict.NOT_JUDGED, Finding.MISSING_RECORDS)
        claim, finding = claim_of(it)
        missing = self._missing(it, owed, claim)
        if missing and self._may_be_younger(it, missing):
            return Said(Verdict.NOT_JUDGED, Finding.CLOCKS, missing)
        if missing:
            return Said(Verdict.VIOLATION, finding, missing)
        missing = self._missing(it, most, claim)
        if missing:
            return Said(Verdict.NOT_JUDGED, Finding.CLOCKS, missing)
        if it.proof == "known" and it.unbacked != "":
            unbacked = claim if it.unbacked is None else parse(it.unbacked)
            missing = self._unbacked(it, most, unbacked)
            if missing:
                return Said(Verdict.NOT_JUDGED, Finding.UNBACKED, missing)
        if doubt is not None:
            return Said(Verdict.NOT_JUDGED, doubt)
        if self._maybe.mark > (it.reached or 0):
            return Said(Verdict.NOT_JUDGED, Finding.CLOCKS)
        return Said(Verdict.OK, Finding.KNOWN if it.proof == "known" else Finding.WAITED)

    def _is_early(self, it: Event) -> bool:
        """Whether the read must see the state at a moment before the order of events is known."""
        return (it.moment_us if it.kind == "connection" else it.at) < self.since_us

    def _most(self, it: Event, owed: GtidSet) -> GtidSet:
        """What the read must see if clocks differ by as much as they may."""
        maybe = self._maybe.owed
        return self._in_terms(it, maybe) if maybe and it.kind == "cluster" else owed

    def _missing(self, it: Event, owed: GtidSet, shown: GtidSet) -> GtidSet:
        """The first few of the GTIDs that neither the proof nor the server's past shows."""
        missing = owed.minus(shown, _MOST)
        earlier = self._shown_earlier(it) if missing else None
        return missing if earlier is None else self._beyond(owed.minus(shown), earlier)

    def _may_be_younger(self, it: Event, missing: GtidSet) -> bool:
        """Whether all records that named these may have ended after the read arrived.

        Where a clock was set back, the records' order does not show it.
        """
        if it.kind in ("connection", "cluster") or it.proxy not in self.unsteady:
            return False
        since_us = it.at - self.clock_error_us
        while self._young and self._young[0][0] <= since_us:
            _, gtids, own = self._young.popleft()
            self._sure[True].update(gtids)
            if own:
                self._sure[False].update(gtids)
        return not missing.common(self._sure[it.level not in OWN_LEVELS], 1)

    def _grows(self, it: Event, gtids: GtidSet, *, own: bool) -> None:
        """Remember when the group's sets grew, if its records may be out of order."""
        if it.proxy in self.unsteady and it.kind not in ("connection", "cluster"):
            self._young.append((it.ended_us, gtids, own))

    def _unbacked(self, it: Event, owed: GtidSet, unbacked: GtidSet) -> GtidSet:
        """The first few of the owed GTIDs in the part of the proof that no evidence backs."""
        missing = owed.common(unbacked, _MOST)
        earlier = self._shown_earlier(it) if missing else None
        return missing if earlier is None else self._beyond(owed.common(unbacked), earlier)

    def _shown_earlier(self, it: Event) -> GtidSet | None:
        if it.answerer is None or it.level not in SEEN_LEVELS:
            return None
        return self._shown_by.get(it.answerer)

    def _beyond(self, missing: GtidSet, earlier: GtidSet) -> GtidSet:
        """Leave out what the same server showed in the group earlier: it cannot lack that later.

        That is enough for what the group has seen; what it has written needs a proof.
        """
        missing.remove(missing.minus(self._own).common(earlier))
        return missing

    def _is_understated(self, it: Event, owed: GtidSet) -> bool:
        if it.required is None or it.role == "primary" or it.level not in PROMISES:
            return False
        try:
            return bool(self._missing(it, owed, parse(it.required)))
        except MalformedGtidSetError:
            return True

    def _doubt_of(self, it: Event) -> Finding | None:
        """Why the server may lack unnamed writes; None if it has reached the tide marks."""
        reached = it.reached or 0
        if self._unbounded or self._mark > reached:
            return self._doubt
        if it.kind != "connection":
            whose = ("cluster", it.cluster) if it.kind == "cluster" else ("proxy", it.proxy)
            unbounded, mark = self.gaps.get(whose, _NO_GAPS).before(it.at)
            if unbounded or mark > reached:
                return Finding.MISSING_RECORDS
        return None

    # What a statement adds

    def _learn(self, it: Event) -> None:
        if it.named:
            self._wrote(it)
            try:
                self._learn_named(parse(it.named), it)
            except MalformedGtidSetError:
                self._doubts(Finding.MALFORMED_WRITE, None)
        if it.observed and (it.kind != "cluster" or it.role == "primary"):
            self._saw(it.observed, it)
        if it.kind != "cluster":
            self._saw(shown_by(it), it)
        if it.is_unnamed:
            self._doubts(Finding.UNNAMED_WRITE, it.mark)
            if it.server_uuid is not None:
                self._wrote(it)
        for term in self._begun:
            if it.ended_us <= term.until_us:
                self._keep(term)

    def _learn_maybe(self, it: Event) -> None:
        """Add what the read must see only if clocks differ by as much as they may."""
        for text in {it.named, it.observed if it.role == "primary" else ""}:
            try:
                self._maybe.owed.update(self._held(parse(text), it))
            except MalformedGtidSetError:
                continue
        if it.is_unnamed:
            self._maybe.mark = max(self._maybe.mark, _NEVER if it.mark is None else it.mark)
        for term in self._begun:
            if it.ended_us <= term.until_us:
                self._keep(term)

    def _learn_named(self, named: GtidSet, it: Event) -> None:
        self._wrote_us = it.ended_us
        named = self._held(named, it)
        self._own.update(named)
        self._grows(it, named, own=True)
        if it.own_gtids:
            self._all.update(named)
            self._sources.add(named, _source("wrote", it, it.named))
        else:
            self._saw(it.named, it)

    def _held(self, gtids: GtidSet, it: Event) -> GtidSet:
        """The GTIDs that reads are held to.

        Of a late answer of an earlier primary, these are the GTIDs that the new primary has. An
        answer is late if its statement was sent before the new primary was asked, or by a run that
        did not know the new primary yet.
        """
        if it.role != "primary":
            return gtids
        run = (it.proxy, it.worker, it.run)
        for term in reversed(self._begun):
            if term.server_uuid == it.server_uuid:
                if term.until_us <= it.dispatched_us:
                    break
                continue
            turned_us = self.successions.get((*run, term.server_uuid), 0)
            if it.dispatched_us < max(term.until_us, turned_us):
                return gtids.common(parse(term.executed))
        return gtids

    def _wrote(self, it: Event) -> None:
        self._writers[it.server_uuid] = max(it.ended_us, self._writers.get(it.server_uuid, 0))

    def _saw(self, text: str, it: Event) -> None:
        if not text or (text, it.answerer) == self._last_seen:
            return
        try:
            gtids = parse(text)
        except MalformedGtidSetError:
            return  # a text that is no set shows nothing
        self._last_seen = text, it.answerer
        if it.answerer:
            self._shown_by[it.answerer].update(gtids)
        gtids = self._held(gtids, it)
        if not self._all.covers(gtids):
            self._all.update(gtids)
            self._grows(it, gtids, own=False)
            self._sources.add_whole(gtids, _source("saw" if it.ordinal else "had", it, text))

    def _doubts(self, finding: Finding, mark: int | None) -> None:
        """From here on a replica must have reached the mark; if it is None, none can."""
        self._doubt = finding
        if mark is None:
            self._unbounded = True
        else:
            self._mark = max(self._mark, mark)

    def _since_write_us(self, it: Event) -> int | None:
        if it.proof != "waited" or self._wrote_us is None:
            return None
        return it.dispatched_us + it.wait_us - self._wrote_us


def _source(how: str, it: Event, gtids: str) -> Source:
    return Source(how, it.run, it.session, it.seq, it.ended_us, it.digest, gtids)
