"""Finds the reads and servers that may show a lapse of the procedure, and leaves out all others.

A read at STRONG or BOUNDED_STALENESS is no lapse if one of the first sets that the primary was
asked for in the read's time was received before the read was sent, and the read's proof covers that
set. At the levels that remember what was seen, nothing was left unasked if only one server answered
in a group. And a server is not contradicted by a set that holds all that it had shown before.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.promise import CLUSTER_LEVELS, SEEN_LEVELS
from spark_jobs.reads import backing, groups
from spark_jobs.reads.plain_reads import Known
from spark_jobs.running import Kind, Order, running
from spark_jobs.tables.schema import RUN

_FIRST: Final = 4
"""How many sets after a read's moment are tried; `run_procedure` tries at least as many."""

Liar = tuple[str, int, str, str | None, int | None]
"""RUN, server_uuid and incarnation."""


@dataclass(frozen=True)
class Suspects:
    """What may show a lapse.

    Attributes:
        reads: RUN and `seq` of reads; None if there are none.
        liars: servers that may be contradicted.
        changed: servers (`false_proofs.SERVER`) of which a run counted many new incarnations.
    """

    reads: DataFrame | None
    liars: Collection[Liar]
    changed: Collection[tuple[str, int, str, str]]

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return self.reads is not None or bool(self.liars) or bool(self.changed)


def find(
    rows: DataFrame,
    known: Known,
    changed: Collection[tuple[str, int, str, str]],
    persisted: list[DataFrame],
) -> Suspects:
    """Look for suspects; this runs jobs.

    Args:
        rows: NUMBERED with `cluster` and bounds, as `plain_reads.bounded` makes them.
        known: what is known of the log.
        changed: see `Suspects`.
        persisted: tables that are persisted here are added to it, for the caller to unpersist.
    """
    names = (*RUN, "seq", "server_uuid", "incarnation")
    parts = [part.select(*names, fn.lit(True).alias("is_read")) for part in _reads(rows, known)]
    parts.append(_liars(rows, known).select(*names, fn.lit(False).alias("is_read")))
    found = reduce(DataFrame.unionAll, parts).persist()
    persisted.append(found)
    server = fn.struct(*RUN, "server_uuid", "incarnation")
    reads, liars = found.agg(
        fn.count_if("is_read"), fn.collect_set(fn.when(~fn.col("is_read"), server))
    ).collect()[0]
    suspected = found.where("is_read").select(*RUN, "seq").distinct() if reads else None
    return Suspects(suspected, sorted(map(tuple, liars), key=repr), changed)


def _reads(rows: DataFrame, known: Known) -> Iterator[DataFrame]:
    wanted = known.survey.wanted
    if "cluster" in wanted:
        yield _unasked(rows, known)
    if any(want.seen for kind, want in wanted.items() if kind != "cluster"):
        proved = fn.col("role").eqNullSafe("replica") & fn.col("proof").isin("known", "waited")
        remembers = fn.col("is_judged") & proved & fn.col("level").isin(*SEEN_LEVELS)
        for kind, want in wanted.items():
            if want.seen and kind != "cluster":
                yield _crossing(rows, remembers, kind)
        yield rows.where(remembers & _is_holed(known))


def _is_holed(known: Known) -> Column:
    """Whether an answer at READ_ALL_WRITES may have shown gaps."""
    shown = (fn.col("outcome") == "ok") & (fn.col("observed") != "")
    gaps = [
        fn.col(f"observed_end_{k}") != fn.col(f"observed_top_{k}") for k in known.bounds.numbers
    ]
    every = fn.col("level") == "READ_ALL_WRITES"
    return every & shown & reduce(or_, gaps, fn.col("observed_odd"))


def _unasked(rows: DataFrame, known: Known) -> DataFrame:
    """The reads for which the primary may not have been asked in time."""
    level, numbers = fn.col("level"), known.bounds.numbers
    bounded = level == "BOUNDED_STALENESS"
    asks = fn.col("is_judged") & fn.col("role").eqNullSafe("replica") & level.isin(*CLUSTER_LEVELS)
    asks &= fn.col("proof").isin("known", "waited") & (~bounded | fn.col("bound_us").isNotNull())
    since = fn.col("moment_us") - fn.when(bounded, fn.col("bound_us")).otherwise(0)
    span = [fn.array(f"whole_low_{k}", f"whole_top_{k}") for k in numbers]
    answer = fn.struct(fn.col("ended_us").alias("ended_us"), fn.array(*span).alias("spans"))
    is_set = fn.col("whole").isNotNull() & ~fn.col("whole_odd")
    events = [
        fn.when(is_set, fn.struct(fn.col("dispatched_us").alias("at"), fn.lit(0).alias("turn"))),
        fn.when(asks, fn.struct(since.alias("at"), fn.lit(1).alias("turn"))),
    ]
    found = (
        rows.withColumn("event", fn.explode(fn.array_compact(fn.array(*events))))
        .select("*", "event.*")
        .withColumn("set", fn.when(fn.col("turn") == 0, answer))
    )
    # From the newest on: the sets right before a read in this order were asked for after it.
    backwards = "over (partition by proxy order by at desc, turn)"
    following = [
        fn.expr(f"lag(set, {place}) ignore nulls {backwards}") for place in range(1, _FIRST + 1)
    ]
    found = found.withColumn("sets", fn.array_compact(fn.array(*following)))

    def is_proof(answer: Column) -> Column:
        in_time = answer["ended_us"] <= fn.col("dispatched_us")
        held = [
            (answer["spans"][k][1] == 0)
            | (
                (fn.col(f"proof_set_low_{k}") > 0)
                & (fn.col(f"proof_set_low_{k}") <= answer["spans"][k][0])
                & (answer["spans"][k][1] <= fn.col(f"proof_set_end_{k}"))
            )
            for k in numbers
        ]
        return reduce(and_, held, in_time)

    proved = fn.coalesce(fn.exists("sets", is_proof), fn.lit(False))
    return found.where((fn.col("turn") == 1) & (fn.col("proof_set_odd") | ~proved))


def _crossing(rows: DataFrame, remembers: Column, kind: str) -> DataFrame:
    """The reads that may have left a server: several servers answered in their group."""
    statement = (fn.col("kind") == "statement") & (fn.col("class") == "read")
    shows = statement & (fn.col("outcome") == "ok") & (fn.col("observed") == "")
    shows &= fn.col("role").isNotNull()
    if kind == "application":
        shows &= fn.coalesce(fn.col("application") != "", fn.lit(False))
    reads = remembers & (fn.col("owed_in") == kind)
    group = groups.number_of(kind)
    server = fn.xxhash64("server_uuid", fn.col("incarnation").isNotNull(), "incarnation")
    is_answer, is_read = fn.coalesce(shows, fn.lit(False)), fn.coalesce(reads, fn.lit(False))
    crossed = (
        rows.where(is_answer | is_read)
        .groupBy(group.alias("group"))
        .agg(
            (fn.min(server) != fn.max(server)).alias("several"),
            fn.bool_or(is_answer).alias("answered"),
            fn.bool_or(is_read).alias("remembers"),
        )
        .where("several and answered and remembers")
    )
    return rows.where(is_read).withColumn("group", group).join(crossed, "group", "left_semi")


def _liars(rows: DataFrame, known: Known) -> DataFrame:
    """Answers of servers whose whole set may lack what they had shown before."""
    bounds, statement = known.bounds, fn.col("kind") == "statement"
    probed = (fn.col("kind") == "proof") & (fn.col("proof") == "probed")
    whole = (probed & fn.col("proof_set").isNotNull(), statement & (fn.col("observed") != ""))
    events = [
        fn.when(
            where,
            fn.struct(
                fn.col(f"{name}_odd").alias("odd"),
                *(bounds.prefix(name, k).alias(f"whole_{k}") for k in bounds.numbers),
            ),
        )
        for where, name in zip(whole, ("proof_set", "observed"), strict=True)
    ]
    answers = (
        rows.where(fn.col("role").eqNullSafe("replica"))
        .select(
            *RUN,
            "seq",
            "server_uuid",
            "incarnation",
            backing.server().alias(backing.SERVER),
            fn.least("dispatched_us", "ended_us").alias("at"),
            fn.lit(1).alias("turn"),
            fn.explode(fn.array_compact(fn.array(*events))).alias("event"),
        )
        .select("*", "event.*")
        .drop("event")
    )
    shown = backing.shown(rows, bounds).withColumn("turn", fn.lit(0))
    shown = shown.drop(*(f"prefix_{k}" for k in bounds.numbers))
    order = Order([backing.SERVER], ("at", "turn"), including=True, bucket=known.bucket())
    values: dict[str, tuple[Kind, Column]] = {
        f"shown_{k}": ("max", fn.col(f"top_{k}")) for k in bounds.numbers
    }
    values["rough"] = "max", fn.when(fn.col("turn") == 0, fn.col("odd").cast("int"))
    both = answers.unionByName(shown, allowMissingColumns=True)
    zero = fn.lit(0)
    lacks = [fn.col(f"whole_{k}") < fn.coalesce(f"shown_{k}", zero) for k in bounds.numbers]
    belied = fn.col("odd") | fn.col("server_uuid").isNull() | (fn.coalesce("rough", zero) > 0)
    return running(both, order, values).where((fn.col("turn") == 1) & reduce(or_, lacks, belied))
