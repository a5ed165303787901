"""Gives verdicts on plain reads: those whose claim covers all that they had to see, by comparison.

Theory of operation
===================

A read's claim is the set that its proof says the server has. What the read had to see is a union:
what was written, or seen, in its group before it (`groups`). Sets are compared by their bounds
(`gtid_columns.Bounds`), which a window carries along each group: of each source, the least and the
greatest number written so far, and the greatest number seen so far.

*A claim covers what was written* if of each source one of its intervals holds the whole span from
the least number to the greatest. If others wrote in between, a session's own set has gaps, of which
a proxy closes all but the last few. So it is also enough that the first interval holds all but the
last few writes, and that some interval holds each of these.

*A claim covers what was seen* if its interval 1..n of each source reaches the greatest number.

All other reads are left to the judge (`judge`), which goes through their groups record by record,
and alone gives the verdict "violation". So do all reads of a group in which a set is not written as
servers write it, all after a change of the primary, and all that what is open may concern
(`doubts`). Where clocks may differ, a read that is judged by its whole cluster is held to all that
may have ended before it arrived. The verdicts are the same as if the judge had judged all reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame

from spark_jobs import gtid_columns
from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import OWN_LEVELS
from spark_jobs.reads import backing, doubts, group_events
from spark_jobs.records.survey import Survey
from spark_jobs.running import Order, running
from spark_jobs.sql import all_of, among, any_of, literal
from spark_jobs.tables.schema import JUDGED, READ, RUN
from spark_jobs.verdict import Finding, Verdict

LEFT: Final = (*READ, "owed_in", "cluster")
"""The columns that are kept of a read that is left to the judge."""

_SETS: Final = ("named", "whole", "observed", "proof_set", "required")
_UNUSED: Final = ("named_end", "named_start", "whole_start", "observed_start")
_CLAIMS: Final = ("proof_set", "required")

_RECENT: Final = 8
"""So many writes before a read are looked at one by one: a proxy keeps no more intervals apart."""

_FEW: Final = 1_000_000
"""With more records, large groups are gone through in several tasks."""

_BUCKETS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a log before its plain reads are settled.

    Attributes:
        survey: what the log holds.
        history: the history of the primaries.
        bounds: the sources of each cluster.
        has_open: whether some statement left something open.
        error_us: by how much clocks may differ, µs.
    """

    survey: Survey
    history: History
    bounds: Bounds
    has_open: bool
    error_us: int

    def bucket(self) -> str | None:
        """SQL that divides times `at` for `running`; None for small logs."""
        if self.survey.records <= _FEW:
            return None
        runs = self.survey.runs.values()
        length = max(run.to_us for run in runs) - min(run.from_us for run in runs)
        return f"floor(at / {max(1, length // _BUCKETS)})"


def bounded(records: DataFrame, cluster: Column, bounds: Bounds) -> DataFrame:
    """Add `cluster` and the bounds of all sets, as far as they are used.

    The result should be kept: many queries use it, and each of them would be planned with all that
    it was made of.

    Args:
        records: NUMBERED.
        cluster: the cluster of a record.
        bounds: the sources of each cluster.
    """
    rows = bounds.of(records.withColumn("cluster", cluster), *_SETS)
    return rows.drop(*(f"{name}_{k}" for name in _UNUSED for k in bounds.numbers))


def unbacked(rows: DataFrame, known: Known) -> DataFrame:
    """Find the ``known`` reads that rely on more than their servers had shown.

    Args:
        rows: as for `settle`.
        known: what is known of them.

    Returns:
        RUN and `seq`; mostly no row.
    """
    weighed = backing.weigh(rows, known.bounds, known.bucket())
    return weighed.where("not backed").select(*RUN, "seq")


def settle(rows: DataFrame, known: Known, unbacked: DataFrame | None) -> DataFrame:
    """Judge the plain reads.

    Args:
        rows: NUMBERED without repeats, in corrected times, as `bounded` has made them.
        known: what is known of them.
        unbacked: as `unbacked` finds them; None if there are none.

    Returns:
        JUDGED: one row per read that is to be judged. The verdict and what belongs to it are null
        where the read is left to the judge.
    """
    numbers, nothing = known.bounds.numbers, "cast(null as bigint)"
    if known.has_open:
        rows = doubts.opened(rows, known.history, known.bounds)
    else:
        names = ("asked_us", *(f"mark_top_{k}" for k in numbers))
        rows = rows.selectExpr("*", *(f"{nothing} as {name}" for name in names))
    events = group_events.transform(rows, known.survey.wanted, known.bounds, known.error_us)
    order = Order(["group"], ("at", "what"), including=True, bucket=known.bucket())
    values = {
        name: (kind, f"told_{name}")
        for name, kind in group_events.values(known.survey.wanted, known.bounds).items()
    }
    happened = running(events, order, values)
    if "writes" in values and numbers:
        happened = _recent(happened, order, known.bounds)
    happened = happened.where(f"what = {group_events.READS}")
    spent = ("group", "at", "what", "read", *(f"told_{name}" for name in values))
    reads = happened.select("*", "read.*").drop(*spent)
    if known.history.gaps:
        reads = doubts.gaps(reads, known.history, known.bounds)
    else:
        names = ("gap_asked_us", *(f"gap_top_{k}" for k in numbers))
        reads = reads.selectExpr("*", *(f"{nothing} as {name}" for name in names))
    if unbacked is None:
        reads = reads.selectExpr("*", "true as backed")
    else:
        found = unbacked.selectExpr(*RUN, "seq", "false as is_backed")
        reads = reads.join(found, [*RUN, "seq"], "left")
        reads = reads.selectExpr("*", "coalesce(is_backed, true) as backed")
    return _Verdicts(known).told(reads)


def _recent(happened: DataFrame, order: Order, bounds: Bounds) -> DataFrame:
    """Add the last writes before each read.

    Args:
        happened: events with their running values.
        order: how these were gone through.
        bounds: the sources of each cluster.

    Returns:
        `recent`: the last `_RECENT` writes, each with ``low_k`` and ``top_k``. `earlier`: the write
        before those, with ``upto_k``, the greatest number up to it; null if there is none in the
        bucket.
    """
    parts = [
        f"told_low_{k} as low_{k}, told_top_{k} as top_{k}, top_{k} as upto_{k}"
        for k in bounds.numbers
    ]
    written = f"if(told_writes is null, null, struct({', '.join(parts)})) as written"
    writes = happened.selectExpr("*", written, f"{order.bucket or 0} as bucket").where(
        f"what = {group_events.READS} or written is not null"
    )
    before = "ignore nulls over (partition by `group`, bucket order by at, what)"
    places = range(1, _RECENT + 2)
    lags = [f"lag_{place}" for place in places]
    recent = f"array_compact(array({', '.join(lags[:_RECENT])})) as recent"
    return (
        writes.selectExpr(
            "*", *(f"lag(written, {place}) {before} as lag_{place}" for place in places)
        )
        .selectExpr("*", recent, f"{lags[_RECENT]} as earlier")
        .drop("written", "bucket", *lags)
    )


def _is_only_writer(known: Known) -> str:
    """Whether the server that answered is the only one that ever wrote in its cluster."""
    writers: dict[str, set[str | None]] = {}
    for proxy, uuid in known.survey.writers:
        writers.setdefault(known.history.clusters[proxy], set()).add(uuid)
    found = "true"
    for cluster, servers in writers.items():
        only = "false"
        if len(servers) == 1:
            (name,) = servers
            only = f"server_uuid <=> {'null' if name is None else literal(name)}"
        found = f"if(cluster = {literal(cluster)}, {only}, {found})"
    return found


class _Verdicts:
    """Gives verdicts on reads that carry all that they are compared with; in SQL."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._numbers = known.bounds.numbers
        wanted = known.survey.wanted
        self._own = any(want.own for want in wanted.values())
        self._seen = any(want.seen for want in wanted.values()) or "cluster" in wanted

    def told(self, reads: DataFrame) -> DataFrame:
        """Make JUDGED of reads."""
        if self._own and self._numbers:
            reads = reads.selectExpr(
                "*", *(f"{self._spans(name)} as {name}_spans" for name in _CLAIMS)
            )
        parts = {"promised": group_events.is_promised(), "own": among("level", OWN_LEVELS)}
        if self._own:
            parts |= {f"{name}_covers": self._covers(name) for name in _CLAIMS}
        reads = reads.selectExpr("*", *(f"{part} as {name}" for name, part in parts.items()))
        owes = "(promised and role <=> 'replica')"
        plain = f"(not {owes} and level = 'BEST_EFFORT' and proof != 'waited')"
        finding = f"""case when {owes} then {self._finding()}
            when {plain} then '{Finding.BEST_EFFORT}'
            when {self._is_primary()} then '{Finding.PRIMARY}' end"""
        verdict = f"if({plain}, '{Verdict.NO_PROMISE}', '{Verdict.OK}')"
        waited = f"({owes} and proof = 'waited')"
        nothing = f"cast(array() as {JUDGED['missed'].dataType.simpleString()})"
        made = {
            "verdict": f"if(finding is null, null, {verdict})",
            "finding": "finding",
            "claimed": f"if({plain}, required, null)",
            "shown": f"if({plain}, proof_set, null)",
            "missing": "cast(null as string)",
            "missed": f"if(finding is null, null, {nothing})",
            "understated": "if(finding is null, null, false)",
            "since_write_us": f"if({waited}, dispatched_us + wait_us - wrote_us, null)",
        }
        return reads.selectExpr("*", f"{finding} as finding").selectExpr(
            *READ, *(f"{value} as {name}" for name, value in made.items())
        )

    def _is_primary(self) -> str:
        """Whether the verdict on a primary's answer depends on no other record."""
        given_up = "proof = 'none' and reason = 'wait_timeout'"
        return f"""(promised and role <=> 'primary' and server is not null and proof != 'waited'
            and not ({given_up}) and {_is_only_writer(self._known)})"""

    def _finding(self) -> str:
        is_odd = "(required is not null and required_odd)"
        wrote_any, held, stated = self._written() if self._own else (None, None, None)
        saw_any, reaches, reaches_stated = self._shown() if self._seen else (None, None, None)
        nothing = f"not {_either(wrote_any, saw_any)}"
        sure = "(own or coalesce(sure, 0) > 0)" if self._seen else "true"
        is_stated = f"(required is null or {_either(stated, reaches_stated)} and not {is_odd})"
        is_held = f"({_either(held, reaches)} and {doubts.HAS_CLAIM} and not proof_set_odd)"
        covered = f"(not {nothing} and {sure} and {is_held} and {is_stated})"
        finding = f"""case when {covered}
            then if(proof = 'waited', '{Finding.WAITED}', '{Finding.KNOWN}')
            when {nothing} and not {is_odd} then '{Finding.NOTHING_WRITTEN}' end"""
        is_doubtless = "false" if self._known.history.gaps else "open_us is null"
        bounds = self._known.bounds
        sound = [
            doubts.has_reached("open_us", "open", bounds),
            doubts.has_reached("gap_asked_us", "gap_top", bounds),
            f"(backed or not (proof = 'known' and ({covered} or not {is_doubtless})))",
            *self._judgeable(),
            "coalesce(blocked, 0) = 0",
        ]
        if self._seen:
            sound.append("(own or coalesce(blind, 0) = 0)")
        return f"if({all_of(sound)}, {finding}, null)"

    def _written(self) -> tuple[str, str, str]:
        """Whether anything was written; whether the claim covers it, and the required set does."""
        any_ = any_of(f"top_{k} is not null" for k in self._numbers)
        same = "coalesce(proof_set = required and required_covers, false)"
        return any_, f"({same} or proof_set_covers)", "required_covers"

    def _spans(self, name: str) -> str:
        """The intervals of a set that has gaps; null for others."""
        gaps = any_of(f"{name}_end_{k} < {name}_top_{k}" for k in self._numbers)
        return f"if({gaps}, {gtid_columns.intervals(name)}, null)"

    def _covers(self, name: str) -> str:
        """Whether a set holds all writes before the read."""
        return all_of(self._covers_of(name, k) for k in self._numbers)

    def _covers_of(self, name: str, k: int) -> str:
        """Whether a set holds all writes of a source before the read."""
        first, last = (
            f"({begin} > 0 and {begin} <= low_{k} and top_{k} <= {end})"
            for begin, end in (
                (f"{name}_low_{k}", f"{name}_end_{k}"),
                (f"{name}_start_{k}", f"{name}_top_{k}"),
            )
        )
        earlier = (
            f"(size(recent) = writes or (earlier is not null and 0 < {name}_low_{k} and "
            f"{name}_low_{k} <= low_{k} and coalesce(earlier.upto_{k}, 0) <= {name}_end_{k}))"
        )
        holds = (
            f"i.source = {self._known.bounds.source(k)} and i.low <= w.low_{k} and "
            f"w.top_{k} <= i.high"
        )
        recent = f"forall(recent, w -> w.top_{k} is null or exists({name}_spans, i -> {holds}))"
        return (
            f"(top_{k} is null or {first} or {last} or "
            f"({name}_spans is not null and {earlier} and coalesce({recent}, false)))"
        )

    def _shown(self) -> tuple[str, str, str]:
        """Whether anything was seen; whether the claim covers it, and the required set does."""
        seen = [f"coalesce(seen_{k}, 0L)" for k in self._numbers]
        prefix = self._known.bounds.prefix
        claim, stated = (
            all_of(f"{prefix(name, k)} >= {top}" for k, top in enumerate(seen)) for name in _CLAIMS
        )
        return any_of(f"{top} > 0" for top in seen), claim, stated

    def _judgeable(self) -> Iterator[str]:
        """Whether nothing else speaks against a verdict here."""
        history = self._known.history
        yield "server is not null"
        yield f"moment >= {history.since_us}"
        for name, terms in history.terms.items():
            if terms:
                since_us = min(term.from_us for term in terms)
                yield f"(cluster != {literal(name)} or arrived_us <= {since_us})"
        if history.unplaced:
            yield f"(owed_in != 'cluster' or not {among('cluster', history.unplaced)})"


def _either(written: str | None, seen: str | None) -> str:
    """What holds of a read that must see what was written, or what was seen."""
    if written is None or seen is None:
        return seen if written is None else written  # type: ignore[return-value]  # one is wanted
    return f"if(own, {written}, {seen})"
