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

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import gtid_columns
from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import OWN_LEVELS
from spark_jobs.reads import backing, doubts, group_events
from spark_jobs.records.survey import Survey
from spark_jobs.running import Order, running
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

    def bucket(self) -> Column | None:
        """A column of times `at` for `running`; None for small logs."""
        if self.survey.records <= _FEW:
            return None
        runs = self.survey.runs.values()
        length = max(run.to_us for run in runs) - min(run.from_us for run in runs)
        return fn.floor(fn.col("at") / max(1, length // _BUCKETS))


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
        One row per read that is to be judged: JUDGED, `owed_in` and `cluster`. `verdict` is null
        where the read is left to the judge.
    """
    nothing = fn.lit(None).cast("bigint")
    numbers = known.bounds.numbers
    if known.has_open:
        rows = doubts.opened(rows, known.history, known.bounds)
    else:
        rows = rows.withColumns({"asked_us": nothing} | {f"mark_top_{k}": nothing for k in numbers})
    events = group_events.transform(rows, known.survey.wanted, known.bounds, known.error_us)
    order = Order(["group"], ("at", "what"), including=True, bucket=known.bucket())
    values = {
        name: (kind, fn.col(f"told_{name}"))
        for name, kind in group_events.values(known.survey.wanted, known.bounds).items()
    }
    happened = running(events, order, values)
    if "writes" in values and numbers:
        happened = _recent(happened, order, known.bounds)
    happened = happened.where(fn.col("what") == group_events.READS)
    spent = ("group", "at", "what", "read", *(f"told_{name}" for name in values))
    reads = happened.select("*", "read.*").drop(*spent)
    if known.history.gaps:
        reads = doubts.gaps(reads, known.history, known.bounds)
    else:
        reads = reads.withColumns(
            {"gap_asked_us": nothing} | {f"gap_top_{k}": nothing for k in numbers}
        )
    if unbacked is None:
        reads = reads.withColumn("backed", fn.lit(True))
    else:
        found = unbacked.select(*RUN, "seq", fn.lit(False).alias("backed"))
        reads = reads.join(found, [*RUN, "seq"], "left")
        reads = reads.withColumn("backed", fn.coalesce("backed", fn.lit(True)))
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
    written = f"if(told_writes is null, null, struct({', '.join(parts)}))"
    writes = happened.withColumns(
        {"written": fn.expr(written), "bucket": fn.lit(0) if order.bucket is None else order.bucket}
    ).where((fn.col("what") == group_events.READS) | fn.col("written").isNotNull())
    before = "ignore nulls over (partition by `group`, bucket order by at, what)"
    lags = {f"lag_{n}": fn.expr(f"lag(written, {n}) {before}") for n in range(1, _RECENT + 2)}
    recent = fn.array_compact(fn.array(*list(lags)[:_RECENT]))
    found = writes.withColumns(lags).withColumns(
        {"recent": recent, "earlier": fn.col(f"lag_{_RECENT + 1}")}
    )
    return found.drop("written", "bucket", *lags)


def left(settled: DataFrame) -> DataFrame:
    """Select the reads that are left to the judge: LEFT."""
    return settled.where("verdict is null").select(*LEFT)


def _is_only_writer(known: Known) -> Column:
    """Whether the server that answered is the only one that ever wrote in its cluster."""
    writers: dict[str, set[str | None]] = {}
    for proxy, uuid in known.survey.writers:
        writers.setdefault(known.history.clusters[proxy], set()).add(uuid)
    found = fn.lit(True)
    for cluster, servers in writers.items():
        only = fn.lit(False)
        if len(servers) == 1:
            (name,) = servers
            only = fn.col("server_uuid").eqNullSafe(fn.lit(name))
        found = fn.when(fn.col("cluster") == cluster, only).otherwise(found)
    return found


class _Verdicts:
    """Gives verdicts on reads that carry all that they are compared with."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._numbers = known.bounds.numbers
        wanted = known.survey.wanted
        self._own = any(want.own for want in wanted.values())
        self._seen = any(want.seen for want in wanted.values()) or "cluster" in wanted

    def told(self, reads: DataFrame) -> DataFrame:
        """Make JUDGED of reads, with `owed_in` and `cluster`."""
        if self._own and self._numbers:
            reads = reads.withColumns({f"{name}_spans": self._spans(name) for name in _CLAIMS})
        promised = group_events.is_promised()
        owes = promised & fn.col("role").eqNullSafe("replica")
        plain = ~owes & (fn.col("level") == "BEST_EFFORT") & (fn.col("proof") != "waited")
        finding = fn.when(owes, self._finding()).when(plain, Finding.BEST_EFFORT.value)
        finding = finding.when(self._is_primary(promised), Finding.PRIMARY.value)
        waited = owes & (fn.col("proof") == "waited") & fn.col("wrote_us").isNotNull()
        since = fn.col("dispatched_us") + fn.col("wait_us") - fn.col("wrote_us")
        verdict = fn.when(plain, Verdict.NO_PROMISE.value).otherwise(Verdict.OK.value)
        made = {
            "finding": finding,
            "verdict": fn.when(finding.isNotNull(), verdict),
            "claimed": fn.when(plain, fn.col("required")),
            "shown": fn.when(plain, fn.col("proof_set")),
            "missing": fn.lit(None).cast("string"),
            "missed": fn.array().cast(JUDGED["missed"].dataType),
            "understated": fn.lit(False),
            "since_write_us": fn.when(waited, since),
        }
        return reads.withColumns(made).select(*JUDGED.names, "owed_in", "cluster")

    def _is_primary(self, promised: Column) -> Column:
        """Whether the verdict on a primary's answer depends on no other record."""
        proof = fn.col("proof")
        given_up = (proof == "none") & (fn.col("reason") == "wait_timeout")
        primary = promised & fn.col("role").eqNullSafe("primary") & fn.col("server").isNotNull()
        return primary & ~given_up & (proof != "waited") & _is_only_writer(self._known)

    def _finding(self) -> Column:
        col = fn.col
        own = col("level").isin(*OWN_LEVELS)
        is_odd = col("required").isNotNull() & col("required_odd")
        wrote_any, held, stated = self._written() if self._own else (None, None, None)
        saw_any, reaches, reaches_stated = self._shown() if self._seen else (None, None, None)
        nothing = ~_either(own, wrote_any, saw_any)
        sure = own | (fn.coalesce("sure", fn.lit(0)) > 0) if self._seen else fn.lit(True)
        unread = col("required").isNull()
        is_stated = unread | (_either(own, stated, reaches_stated) & ~is_odd)
        is_held = _either(own, held, reaches) & doubts.has_claim() & ~col("proof_set_odd")
        waited = col("proof") == "waited"
        covered = ~nothing & sure & is_held & is_stated
        kind_of_proof = fn.when(waited, Finding.WAITED.value).otherwise(Finding.KNOWN.value)
        finding = fn.when(covered, kind_of_proof).when(
            nothing & ~is_odd, Finding.NOTHING_WRITTEN.value
        )
        is_doubtless = col("open_us").isNull() & fn.lit(not self._known.history.gaps)
        relies = (col("proof") == "known") & (covered | ~is_doubtless)
        backed = ~relies | col("backed")
        reached = doubts.has_reached("open_us", "open", self._known.bounds)
        unhurt = doubts.has_reached("gap_asked_us", "gap_top", self._known.bounds)
        sound = reached & unhurt & backed & self._is_judgeable()
        sound &= fn.coalesce("blocked", fn.lit(0)) == 0
        if self._seen:
            sound &= own | (fn.coalesce("blind", fn.lit(0)) == 0)
        return fn.when(sound, finding)

    def _written(self) -> tuple[Column, Column, Column]:
        """Whether anything was written; whether the claim covers it, and the required set does."""
        written = [fn.col(f"top_{k}").isNotNull() for k in self._numbers]
        any_ = reduce(or_, written, fn.lit(False))
        stated = self._covers("required")
        same = (fn.col("proof_set") == fn.col("required")) & stated
        return any_, fn.coalesce(same, fn.lit(False)) | self._covers("proof_set"), stated

    def _spans(self, name: str) -> Column:
        """The intervals of a set that has gaps; null for others."""
        gaps = " or ".join(f"{name}_end_{k} < {name}_top_{k}" for k in self._numbers) or "false"
        return fn.when(fn.expr(gaps), gtid_columns.intervals(fn.col(name)))

    def _covers(self, name: str) -> Column:
        """Whether a set holds all writes before the read."""
        every = " and ".join(self._covers_of(name, k) for k in self._numbers) or "true"
        return fn.expr(every)

    def _covers_of(self, name: str, k: int) -> str:
        """SQL: whether a set holds all writes of a source before the read."""
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

    def _shown(self) -> tuple[Column, Column, Column]:
        """Whether anything was seen; whether the claim covers it, and the required set does."""
        zero = fn.lit(0)
        seen = [fn.coalesce(f"seen_{k}", zero) for k in self._numbers]
        any_ = reduce(or_, (top > 0 for top in seen), fn.lit(False))
        prefix = self._known.bounds.prefix
        claim = [prefix("proof_set", k) >= top for k, top in enumerate(seen)]
        stated = [prefix("required", k) >= top for k, top in enumerate(seen)]
        return any_, reduce(and_, claim, fn.lit(True)), reduce(and_, stated, fn.lit(True))

    def _is_judgeable(self) -> Column:
        """Whether nothing else speaks against a verdict here."""
        history, cluster = self._known.history, fn.col("cluster")
        judgeable = fn.col("server").isNotNull() & (fn.col("moment") >= history.since_us)
        for name, terms in history.terms.items():
            if terms:
                since_us = min(term.from_us for term in terms)
                judgeable &= (cluster != name) | (fn.col("arrived_us") <= since_us)
        if history.unplaced:
            judgeable &= (fn.col("owed_in") != "cluster") | ~cluster.isin(*history.unplaced)
        return judgeable


def _either(own: Column, written: Column | None, seen: Column | None) -> Column:
    """What holds of a read that must see what was written, or what was seen."""
    if written is None or seen is None:
        return seen if written is None else written  # type: ignore[return-value]  # one is wanted
    return fn.when(own, written).otherwise(seen)
