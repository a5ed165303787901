"""The third pass: gives verdicts on reads whose claim covers all that they had to see.

A read's claim is the set that its proof says the server has. All other reads are left to the judge,
which gives the same verdicts one record at a time. So the verdict here is never "violation", and
reads in doubt get none. Where clocks may differ, a read that is judged by its whole cluster is held
to all that may have ended before it arrived.

What a read had to see is looked up in `series`: what its group knew of each source when the read
arrived. A claim that holds the whole span from the least number to the greatest is enough. If the
claim has gaps, as a session's own set has where others wrote, the writes that lie in its intervals
are counted.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import NEVER, Flags, Numbers, ragged
from spark_jobs.columns import hashes, places, steps
from spark_jobs.columns.chunk import NO_SET, Chunk
from spark_jobs.columns.piece import Piece, read, write
from spark_jobs.columns.places import BLIND, BLOCKED, DOUBTED, Places
from spark_jobs.columns.plan import Gap, Plan
from spark_jobs.columns.series import DOUBT, OWN, SEEN, SHOWN, Series
from spark_jobs.columns.sets import Sets, covered_by
from spark_jobs.promise import OWN_LEVELS, PROMISES, SCOPES
from spark_jobs.tables.schema import JUDGED, READ
from spark_jobs.tables.small_table import published_arrow
from spark_jobs.tables.timestamps import published_table
from spark_jobs.verdict import Finding, Verdict

LAST: Final = 8
"""How many writes before a read are checked one by one if their numbers do not rise: a required set
hardly has more intervals."""

COLUMNS: Final = tuple(
    dict.fromkeys(
        (
            *(*READ, "kind", "class", "may_write", "incarnation", "snapshot_us", "own_known"),
            *("required", "proof_set", "own_gtids", "observed"),
        )
    )
)

LEFT: Final = (*READ, "owed_in", "cluster")
"""The columns that are kept of a read that is left to the judge."""


@dataclass(slots=True)
class Settled:
    """Counts over some pieces.

    Attributes:
        reads: how many reads were to be judged.
        left: how many of them are left to the judge.
        suspects: how many reads may show a lapse of the procedure.
        liars: servers that may be contradicted: RUN, server_uuid, incarnation.
    """

    reads: int = 0
    left: int = 0
    suspects: int = 0
    liars: set[steps.Liar] = field(default_factory=set)

    def add(self, other: "Settled") -> None:
        """Add the result of another piece."""
        self.reads += other.reads
        self.left += other.left
        self.suspects += other.suspects
        self.liars |= other.liars


def settle(piece: Piece, plan: Plan, folder: Path, reads: Path) -> Settled:
    """Judge the plain reads of a piece.

    Args:
        piece: the piece.
        plan: what is known of the log.
        folder: takes ``left`` (LEFT) and ``suspects`` (RUN and `seq`), as Parquet.
        reads: takes JUDGED of the settled reads, as people query it (`timestamps`), as Parquet.
    """
    found = Settled()
    written: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for chunk in read(piece, COLUMNS, plan.rules):
        its = _Reads(chunk, plan)
        told, left = its.judged()
        found.reads += told.num_rows + left.num_rows
        found.left += left.num_rows
        for name, table in (("reads", told), ("left", left)):
            if table.num_rows:
                written[name].append(table)
        suspects = steps.suspects(chunk, its.places, plan)
        found.suspects += suspects.num_rows
        if suspects.num_rows:
            written["suspects"].append(suspects)
        found.liars |= steps.liars(chunk, its.places, plan)
    for name, its_tables in written.items():
        write(its_tables, reads if name == "reads" else folder / name, piece)
    return found


class _Reads:
    """The reads of a chunk that are to be judged."""

    def __init__(self, chunk: Chunk, plan: Plan) -> None:
        self._chunk, self._plan = chunk, plan
        self.places = Places(chunk, plan.clusters)
        self._series = Series.open(plan.series)
        self._doubts = None if plan.doubts is None else Series.open(plan.doubts)
        self._hashes = [hashes.of(it) for it in chunk.sets.sources]

    def judged(self) -> tuple[pa.Table, pa.Table]:
        """JUDGED of the settled reads, and LEFT of the others."""
        chunk = self._chunk
        level = chunk.text("level")
        known = level.isin(*PROMISES) & chunk.text("scope").isin(*SCOPES)
        bounded = ~level.isin("BOUNDED_STALENESS") | chunk.known("bound_us")
        owing = chunk.is_judged & chunk.of_replica & known & bounded
        finding = np.full(len(chunk), _NO_FINDING)
        verdict = np.full(len(chunk), _OK)
        self._settle_alone(finding, verdict, known & bounded, chunk.is_judged & ~owing)
        wrote_us = np.full(len(chunk), -1)
        rows = np.flatnonzero(owing)
        if len(rows):
            finding[rows], wrote_us[rows] = _Owing(self, chunk, self._plan, rows).findings()
        settled = np.flatnonzero(chunk.is_judged & (finding != _NO_FINDING))
        left = np.flatnonzero(chunk.is_judged & (finding == _NO_FINDING))
        return self._told(settled, verdict, finding, wrote_us), self._left(left)

    def _settle_alone(self, finding: Numbers, verdict: Numbers, known: Flags, where: Flags) -> None:
        """Settle the reads whose verdict depends on no other record."""
        chunk = self._chunk
        proof, server = chunk.text("proof"), chunk.text("server")
        given_up = proof.isin("none") & chunk.text("reason").isin("wait_timeout")
        where &= ~proof.isin("waited")
        plain = where & chunk.text("level").isin("BEST_EFFORT")
        primary = where & known & chunk.of_primary & server.known & ~given_up & self._only_writer
        finding[primary] = _FINDINGS.index(Finding.PRIMARY.value)
        finding[plain] = _FINDINGS.index(Finding.BEST_EFFORT.value)
        verdict[plain] = _NO_PROMISE

    @cached_property
    def _only_writer(self) -> Flags:
        """Whether the server that answered is the only one that ever wrote in its cluster."""
        uuid, its = self._chunk.text("server_uuid"), self.places
        alone = np.zeros((len(its.clusters) + 1, len(uuid.held) + 1), bool)
        for place, cluster in enumerate(its.clusters):
            writers = self._plan.writers.get(cluster, frozenset())
            for number, name in enumerate((*uuid.values, None)):
                alone[place, number] = not writers or writers == {name}
        return alone[its.cluster_codes, uuid.codes]

    def _told(
        self, rows: Numbers, verdict: Numbers, finding: Numbers, wrote_us: Numbers
    ) -> pa.Table:
        chunk = self._chunk
        its = pa.array(rows)
        plain = verdict[rows] == _NO_PROMISE
        waits = chunk.text("proof").isin("waited")[rows]
        answered = chunk.number("dispatched_us")[rows] + chunk.number("wait_us")[rows]
        since = answered - wrote_us[rows]
        unknown = ~waits | (wrote_us[rows] < 0)
        nothing = pa.nulls(len(rows), pa.string())
        columns = {name: chunk.column(name).take(its) for name in READ}
        columns |= {
            "verdict": _of(verdict[rows], _VERDICTS),
            "finding": _of(finding[rows], _FINDINGS),
            "claimed": self._where(plain, "required", rows),
            "shown": self._where(plain, "proof_set", rows),
            "missing": nothing,
            "missed": _nothing_missed(len(rows)),
            "understated": pa.array(np.zeros(len(rows), bool)),
            "since_write_us": pa.array(since, mask=unknown),
        }
        return published_table(columns)

    def _where(self, plain: Flags, name: str, rows: Numbers) -> pa.Array:
        if not plain.any():
            return pa.nulls(len(rows), pa.string())
        texts = self._chunk.text(name).array(rows).dictionary_decode()
        return pc.if_else(pa.array(plain), texts, None)

    def _left(self, rows: Numbers) -> pa.Table:
        chunk, its = self._chunk, pa.array(rows)
        columns = {name: chunk.column(name).take(its) for name in READ}
        names = pa.array(self.places.clusters, pa.string())
        columns["owed_in"] = chunk.owed_in.array(rows).dictionary_decode()
        columns["cluster"] = names.take(pa.array(self.places.cluster_codes[rows]))
        for name in columns:
            if pa.types.is_dictionary(columns[name].type):
                columns[name] = columns[name].dictionary_decode()
        return pa.table(columns)


class _Owing:
    """Reads with a promise that replicas answered.

    All arrays have one item for each of these reads.
    """

    def __init__(self, reads: _Reads, chunk: Chunk, plan: Plan, rows: Numbers) -> None:
        self._reads, self._chunk, self._plan, self._rows = reads, chunk, plan, rows
        self._series, self._doubts = reads._series, reads._doubts
        its = reads.places
        self._cluster = its.cluster_codes[rows]
        self._clusters = its.clusters
        self._own = chunk.text("level").isin(*OWN_LEVELS)[rows]
        self._waits = chunk.text("proof").isin("waited")[rows]
        self._known = chunk.text("proof").isin("known")[rows]
        self._claims = (self._waits | self._known) & chunk.text("proof_set").known[rows]
        self._claim = np.where(self._claims, chunk.set("proof_set")[rows], NO_SET)
        self._required = chunk.set("required")[rows]
        self._sent = chunk.number("dispatched_us")[rows]
        self._at_us = self._sent + np.where(self._waits, chunk.number("wait_us")[rows], 0)
        bounded = chunk.text("level").isin("BOUNDED_STALENESS")[rows]
        bound = np.where(bounded, chunk.number("bound_us")[rows], 0)
        self._moment = chunk.moment_us[rows] - bound
        self._kinds = chunk.owed_in.codes[rows]
        self._in_session = self._kinds == 0
        self._in_cluster = self._kinds == chunk.owed_in.values.index("cluster")
        relative = self._moment - plan.since_us
        self._at = np.where(self._in_session, chunk.number("seq")[rows], relative)
        self._group = np.zeros(len(rows), np.int64)
        for number, kind in enumerate(chunk.owed_in.values):
            mine = self._kinds == number
            if mine.any():
                self._group[mine] = its.group(kind)[rows[mine]]
        self._wrote_us = np.full(len(rows), -1)
        self._nothing = np.ones(len(rows), bool)
        self._sure = self._own.copy()
        self._held = np.ones(len(rows), bool)  # whether the claim covers what the read had to see
        self._said = np.ones(len(rows), bool)  # whether the proxy's required set covers it

    def findings(self) -> tuple[Numbers, Numbers]:
        """The finding of each read, and when a write was last acknowledged to its group."""
        chunk, rows, sets = self._chunk, self._rows, self._chunk.sets
        blocked = self._happened(OWN, BLOCKED)
        blind = self._happened(SEEN, BLIND) & ~self._own
        self._hold_written()
        self._hold_seen()
        unread = chunk.text("required").known[rows] & sets.odd[self._required]
        self._said = (self._said & ~unread) | ~chunk.text("required").known[rows]
        self._held &= self._claims & ~sets.odd[self._claim]
        doubtless, reached = self._doubted()
        sound = ~blocked & ~blind & ~self._turned() & self._judgeable() & reached & self._unhurt()
        covered = ~self._nothing & self._sure & self._held & self._said
        nothing = self._nothing & ~unread
        found = np.where(
            covered,
            np.where(self._waits, _WAITED, _KNOWN),
            np.where(nothing, _NOTHING, _NO_FINDING),
        )
        relies = self._known & ((found == _KNOWN) | ~(doubtless & (not self._plan.gaps)))
        backed = np.ones(len(rows), bool)
        its = np.flatnonzero(relies & sound & (found != _NO_FINDING))
        backed[its] = self._backed(its)
        return np.where(sound & backed, found, _NO_FINDING), self._wrote_us

    # What happened before the reads

    def _find(self, about: int, of: str, where: Flags) -> tuple[Numbers, Numbers, Numbers]:
        """The reads with tellings before them, and the places of the last and the first telling."""
        its = np.flatnonzero(where)
        if not len(its):
            return its, its, its
        group = places.series(self._group[its], of)
        end, first = self._until(self._series, about, group, its)
        there = end >= 0
        return its[there], end[there], first[there]

    def _until(
        self, series: Series, about: int, group: Numbers, its: Numbers
    ) -> tuple[Numbers, Numbers]:
        # In a session, earlier records have lower numbers. In other groups, what ended at the very
        # moment counts, too.
        return series.find(about, group, self._at[its], until=~self._in_session[its])

    def _happened(self, about: int, of: str) -> Flags:
        happened = np.zeros(len(self._rows), bool)
        happened[self._find(about, of, np.ones(len(self._rows), bool))[0]] = True
        return happened

    def _in_clusters_of(self, sources: Mapping[str, Collection[str]], source: str) -> Flags:
        """Whether each read's cluster has this source."""
        have = [source in sources.get(cluster, ()) for cluster in self._clusters]
        flags: Flags = np.array([*have, False])[self._cluster]
        return flags

    def _hold_written(self) -> None:
        """Check claims against what was written in their groups."""
        for source in sorted({it for its in self._plan.own.values() for it in its}):
            where = self._own & self._in_clusters_of(self._plan.own, source)
            its, end, first = self._find(OWN, source, where)
            if not len(its):
                continue
            self._nothing[its] = False
            self._note_writes(OWN, source, its, end)
            claim, required = self._claim[its], self._required[its]
            said = self._covers_writes(required, source, end, first)
            self._said[its] &= said
            # A WAIT's claim is mostly the required set, which has been checked.
            other = np.flatnonzero(claim != required)
            said[other] = self._covers_writes(claim[other], source, end[other], first[other])
            self._held[its] &= said

    def _note_writes(self, about: int, source: str, its: Numbers, end: Numbers) -> None:
        """Note when the newest write up to each telling was acknowledged.

        Where clocks may differ, writes that only may have ended before a cluster's read do not
        count.
        """
        error_us = self._plan.rules.error_us
        unsure = np.flatnonzero(self._in_cluster[its]) if error_us else its[:0]
        if len(unsure):
            at = self._at[its[unsure]] - 2 * error_us
            of_source = places.series(self._group[its[unsure]], source)
            end = end.copy()
            end[unsure], _ = self._series.find(about, of_source, at, until=True)
        wrote = np.where(end >= 0, self._series.most_z[end], 0)
        newest = np.maximum(self._wrote_us[its], wrote)
        self._wrote_us[its] = np.where(wrote > 0, newest, self._wrote_us[its])

    def _covers_writes(self, which: Numbers, source: str, end: Numbers, first: Numbers) -> Flags:
        """Whether sets hold all writes of a source from the first to the last."""
        sets, series = self._chunk.sets, self._series
        place = sets.sources.index(source) if source in sets.sources else -1
        low, high = -series.most_x[end], series.most_y[end]
        covered = covered_by(sets, which, place, low, high)
        left = np.flatnonzero(~covered)
        if not len(left) or place < 0:
            return covered
        # Consecutive reads often have the same set and the same writes.
        key = pa.array(hashes.mixed(which[left], end[left])).dictionary_encode()
        codes = key.indices.to_numpy()
        one = left[np.unique(codes, return_index=True)[1]]
        answer = self._counted(which[one], place, end[one], first[one])
        covered[left] = answer[codes]
        return covered

    def _counted(self, which: Numbers, place: int, end: Numbers, first: Numbers) -> Flags:
        """The same, by counting writes."""
        sets, series = self._chunk.sets, self._series
        rises = series.falls[end] == series.falls[first]
        within = np.zeros(len(which), np.int64)
        for rows, at in ragged(sets.begins, which):
            mine = (sets.source[at] == place) & rises[rows]
            rows, at = rows[mine], at[mine]
            begin = _first_from(series.x, first[rows], end[rows] + 1, -sets.low[at], falling=True)
            behind = _first_from(series.y, first[rows], end[rows] + 1, sets.high[at] + 1)
            within[rows] += np.maximum(0, behind - begin)
        covered: Flags = rises & (within == end - first + 1)
        left = np.flatnonzero(~rises)
        if len(left):
            covered[left] = self._recent(which[left], place, end[left], first[left])
        return covered

    def _recent(self, which: Numbers, place: int, end: Numbers, first: Numbers) -> Flags:
        """The same, with the last few writes one by one, and those before them as one span."""
        sets, series = self._chunk.sets, self._series
        covered = np.ones(len(which), bool)
        for back in range(LAST):
            its = np.flatnonzero(covered & (end - back >= first))
            at = end[its] - back
            covered[its] = covered_by(sets, which[its], place, -series.x[at], series.y[at])
        its = np.flatnonzero(covered & (end - LAST >= first))
        at = end[its] - LAST
        covered[its] = covered_by(sets, which[its], place, -series.most_x[at], series.most_y[at])
        return covered

    def _hold_seen(self) -> None:
        """Check claims against what was seen in their groups: whole sets of servers."""
        sets = self._chunk.sets
        for source in sorted({it for its in self._plan.seen.values() for it in its}):
            where = ~self._own & self._in_clusters_of(self._plan.seen, source)
            its, end, _ = self._find(SEEN, source, where)
            if not len(its):
                continue
            self._nothing[its] = False
            self._sure[its] |= self._series.most_y[end] > 0
            self._note_writes(SEEN, source, its, end)
            top = self._series.most_x[end]
            prefix = _prefixes(sets, source)
            self._held[its] &= prefix[self._claim[its]] >= top
            self._said[its] &= prefix[self._required[its]] >= top

    # What is in doubt

    def _doubted(self) -> tuple[Flags, Flags]:
        """Whether nothing was left open before each read, and whether its server had caught up.

        A server has caught up if it had reached the tide marks that bound what was left open.
        """
        doubtless = np.ones(len(self._rows), bool)
        reached = np.ones(len(self._rows), bool)
        if self._doubts is None:
            return doubtless, reached
        group = places.series(self._group, DOUBTED)
        every = np.arange(len(self._rows))
        end, _ = self._until(self._doubts, DOUBT, group, every)
        its = np.flatnonzero(end >= 0)
        doubtless[its] = False
        known = self._chunk.text("server_uuid").known[self._rows]
        reached[its] = known[its] & (self._doubts.most_x[end[its]] <= self._at_us[its])
        for source in sorted({it for its in self._plan.doubted.values() for it in its}):
            if not len(its):
                break
            of_source = places.series(self._group[its], source)
            end, _ = self._until(self._doubts, DOUBT, of_source, its)
            there = np.flatnonzero(end >= 0)
            prefix = _prefixes(self._chunk.sets, source)[self._claim[its[there]]]
            reached[its[there]] &= prefix >= self._doubts.most_x[end[there]]
        return doubtless, reached

    def _unhurt(self) -> Flags:
        """Whether no gap before each read concerns it, or its server had reached the gap's mark."""
        unhurt = np.ones(len(self._rows), bool)
        proxy = self._chunk.text("proxy")
        for (whose, name), gaps in self._plan.gaps.items():
            if whose == "cluster":
                of = np.array([*(it == name for it in self._clusters), False])[self._cluster]
                its = np.flatnonzero(self._in_cluster & of)
            else:
                of = proxy.isin(name)[self._rows]
                its = np.flatnonzero(~self._in_cluster & ~self._in_session & of)
            if not len(its):
                continue
            times = np.array([gap.from_us for gap in gaps])
            step = np.searchsorted(times, self._moment[its], "right") - 1
            for number in np.unique(step[step >= 0]):
                mine = its[step == number]
                unhurt[mine] &= self._has_reached(mine, gaps[number])
        return unhurt

    def _has_reached(self, its: Numbers, gap: Gap) -> Flags:
        if gap.unbounded:
            return np.zeros(len(its), bool)
        if gap.mark is None:
            return np.ones(len(its), bool)
        known = self._chunk.text("server_uuid").known[self._rows[its]]
        reached: Flags = known & (self._at_us[its] >= gap.mark.asked_us)
        for source, top in gap.mark.tops.items():
            reached &= _prefixes(self._chunk.sets, source)[self._claim[its]] >= top
        return reached

    def _turned(self) -> Flags:
        """Whether another primary may have begun before each read."""
        since = [self._plan.turned_us.get(it, NEVER) for it in self._clusters]
        arrived = self._chunk.number("arrived_us")[self._rows]
        turned: Flags = arrived > np.array([*since, NEVER])[self._cluster]
        return turned

    def _backed(self, its: Numbers) -> Flags:
        """Whether servers had been shown to have what these reads claim."""
        claim = np.full(len(self._chunk), NO_SET)
        claim[self._rows] = self._claim
        where = self._chunk, self._reads.places, self._series
        return backed(*where, self._rows[its], claim, self._plan.since_us)

    def _judgeable(self) -> Flags:
        crowded = [it in self._plan.crowded for it in self._clusters]
        known = self._chunk.text("server").known[self._rows]
        known &= ~np.array([*crowded, True])[self._cluster]
        known &= self._moment >= self._plan.known_us
        if not self._plan.unplaced:
            return known
        nobodys = [it in self._plan.unplaced for it in self._clusters]
        judgeable: Flags = known & ~(self._in_cluster & np.array([*nobodys, True])[self._cluster])
        return judgeable


def backed(
    chunk: Chunk, its: Places, series: Series, rows: Numbers, claim: Numbers, since_us: int
) -> Flags:
    """Whether servers had been shown to have what some reads of a chunk rely on.

    Args:
        chunk: the chunk.
        its: the places of the chunk.
        series: the series of what was shown.
        rows: the reads.
        claim: for each record of the chunk, the number of the set that it relies on.
        since_us: times in series are counted from then.
    """
    sets = chunk.sets
    found = np.ones(len(rows), bool)
    known = chunk.text("server_uuid").known[rows]
    server, sent = its.server[rows], chunk.number("dispatched_us")[rows] - since_us
    for place, source in enumerate(sets.sources):
        top = sets.tops(place)[claim[rows]]
        mine = np.flatnonzero(top > 0)
        if not len(mine):
            continue
        end, _ = series.find(SHOWN, places.series(server[mine], source), sent[mine], until=True)
        shown = np.where(end >= 0, series.most_x[end], 0)
        found[mine] &= (shown >= top[mine]) & known[mine]
    return found


def _prefixes(sets: Sets, source: str) -> Numbers:
    """The n of each set's interval 1..n of a source; 0 if it has none."""
    if source not in sets.sources:
        return np.zeros(len(sets.odd), np.int64)
    return sets.prefixes(sets.sources.index(source))


def _first_from(
    values: Numbers, begin: Numbers, end: Numbers, wanted: Numbers, *, falling: bool = False
) -> Numbers:
    """The first place from `begin` on where sorted values reach the wanted one; `end` if none."""
    low, high = begin.copy(), end.copy()
    while True:
        left = np.flatnonzero(low < high)
        if not len(left):
            return low
        middle = (low[left] + high[left]) // 2
        its = values[middle]
        reached = its <= wanted[left] if falling else its >= wanted[left]
        high[left] = np.where(reached, middle, high[left])
        low[left] = np.where(reached, low[left], middle + 1)


def _of(codes: Numbers, values: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values))


def _nothing_missed(count: int) -> pa.Array:
    empty = published_arrow(JUDGED).field("missed").type
    return pa.array([[]], empty).take(pa.array(np.zeros(count, np.int64)))


_FINDINGS: Final = (
    *(it.value for it in (Finding.BEST_EFFORT, Finding.PRIMARY, Finding.NOTHING_WRITTEN)),
    *(it.value for it in (Finding.WAITED, Finding.KNOWN)),
)
_NOTHING, _WAITED, _KNOWN = range(2, 5)
_NO_FINDING: Final = -1
_VERDICTS: Final = (Verdict.OK.value, Verdict.NO_PROMISE.value)
_OK, _NO_PROMISE = range(2)
