"""Which events of a procedure may tell of a lapse: all others are left out, and no row sees them.

A read at STRONG or BOUNDED_STALENESS lapsed nowhere if one of the first sets that the primary was
asked for in its time was told before it was sent, and its proof covers that. At the levels that
remember, nothing was left unasked where one server alone answered in a place. And no server is
contradicted by a set that holds all it claimed before. Where clocks may differ, the judge is asked
alone.
"""

from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import clusters, procedure_events
from spark_jobs.columns import evidence, gtid_columns
from spark_jobs.columns.facts import Facts
from spark_jobs.primary_history import History
from spark_jobs.promise import CLUSTER_LEVELS, SEEN_LEVELS
from spark_jobs.run_procedure import ANSWERED, ASKED, CLAIMED, LOST, READ, TOLD, Event
from spark_jobs.schema import RUN

_PIECE_US: Final = 10_000_000
"""Questions are cut into pieces of so long; a read looks into its own and the next."""

_FIRST: Final = 4
"""Sets behind a read's time that are looked at: `run_procedure` tries as many."""

_NEVER: Final = 2**62
"""The end of a set that nothing covers."""

_KEY: Final = (*RUN, "seq")


def suspect(records: DataFrame, history: History, facts: Facts) -> DataFrame | None:
    """Find the events that may tell of a lapse; this runs jobs.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records. What is read here is kept with it.
        facts: of the same records.

    Returns:
        Columns of `run_procedure.Event`: of reads that may have lapsed, what that follows from,
        and what those servers said that may be contradicted. None if there is nothing.
    """
    placed = records.withColumn("cluster", clusters.column(history.clusters))
    reads, crossed = _unasked(placed, facts), _crossed(placed, facts)
    if crossed is not None:
        history.kept.append(crossed.persist())
        reads = reads.unionByName(_left(placed, crossed, facts))
    reads = reads.distinct().persist()
    history.kept.append(reads)
    liars = evidence.found(history.weighed, evidence.ASKED).select("server").distinct()
    left: list[DataFrame] = []
    proxies = [row.proxy for row in reads.select("proxy").distinct().collect()]
    if proxies:
        its = records.where(fn.col("proxy").isin(*proxies))
        left.append(_happened(its, LOST, TOLD))
        left.append(_happened(its, READ).join(reads, [*_KEY], "left_semi"))
        if crossed is not None:
            answers = _in_places(_happened(its, ANSWERED, more=("owed_in",)), _kinds(facts))
            left.append(answers.join(crossed, "place", "left_semi").drop("place").distinct())
    if not liars.isEmpty():
        said = _happened(records, CLAIMED, ASKED).withColumn("server", evidence.server())
        left.append(said.join(liars, "server", "left_semi").drop("server"))
    if not left:
        return None
    return reduce(DataFrame.unionByName, (it.select(*Event._fields) for it in left))


def _happened(records: DataFrame, *which: int, more: tuple[str, ...] = ()) -> DataFrame:
    return procedure_events.happened(records, fn.lit(0), which, *more)


def _unasked(records: DataFrame, facts: Facts) -> DataFrame:
    """The reads (_KEY) for which the primary may not have been asked in time."""
    slots = range(facts.slots)
    bounded = fn.col("level") == "BOUNDED_STALENESS"
    reads, told = fn.col("what") == READ, fn.col("what") == TOLD
    asks = told | (fn.col("level").isin(*CLUSTER_LEVELS) & ~(bounded & fn.col("bound_us").isNull()))
    since = fn.col("arrived_us") - fn.when(bounded, fn.col("bound_us")).otherwise(0)
    rows = (
        _happened(records, READ, TOLD, more=("cluster",))
        .where(asks)
        .select(
            *(*_KEY, "what", "at_us", "gtids", "cluster"),
            fn.when(told, fn.col("asked_us")).otherwise(since).alias("when_us"),
        )
    )
    rows = gtid_columns.split(rows, "gtids", facts.sources, facts.slots)
    piece = fn.expr(f"when_us div {_PIECE_US}")
    # Those asked for in the next piece are there as well.
    rows = rows.withColumn(
        "piece", fn.explode(fn.when(told, fn.array(piece, piece - 1)).otherwise(fn.array(piece)))
    )
    answer = fn.struct(
        fn.col("at_us").alias("us"),
        *(
            fn.when(fn.col("gtids_odd"), _NEVER)
            .otherwise(fn.col(f"gtids_top{slot}"))
            .alias(f"top{slot}")
            for slot in slots
        ),
    )
    # A question of the same moment counts. Of several, `run_procedure` has the last answered first.
    window = (
        "over (partition by proxy, piece order by when_us, what desc, at_us desc, worker desc, "
        "run desc, seq desc)"
    )

    def proves(its: Column) -> Column:
        covered = (gtid_columns.prefix("gtids", slot) >= its[f"top{slot}"] for slot in slots)
        return reduce(and_, covered, its["us"] <= fn.col("at_us"))

    tried = {
        f"answer{ahead}": fn.expr(f"lead(answer, {ahead}) ignore nulls {window}")
        for ahead in range(1, _FIRST + 1)
    }
    proved = reduce(or_, (fn.coalesce(proves(fn.col(name)), fn.lit(False)) for name in tried))
    return (
        rows.withColumn("answer", fn.when(told, answer))
        .withColumns(tried)
        .where(reads & ~proved)
        .select(*_KEY)
    )


def _crossed(records: DataFrame, facts: Facts) -> DataFrame | None:
    """The places (`place`) in which several servers answered somebody who remembers."""
    kinds = _kinds(facts)
    if not kinds:
        return None
    seen = (fn.col("what") == ANSWERED) | fn.col("level").isin(*SEEN_LEVELS)
    is_read = fn.col("what") == READ
    happened = _happened(records, READ, ANSWERED, more=("cluster", "owed_in")).where(seen)
    server = fn.xxhash64("server_uuid", "incarnation")
    return (
        _in_places(happened, kinds)
        .groupBy("place")
        .agg(
            fn.bool_or(is_read).alias("read"),
            fn.bool_or(~is_read).alias("answered"),
            (fn.min(server) != fn.max(server)).alias("several"),
        )
        .where("read and answered and several")
        .select("place")
    )


def _left(records: DataFrame, crossed: DataFrame, facts: Facts) -> DataFrame:
    """The reads (_KEY) that may have left a server in such a place, or were shown gaps."""
    reads = _happened(records, READ, more=("cluster", "owed_in")).where(
        fn.col("level").isin(*SEEN_LEVELS)
    )
    crossing = _in_places(reads, _kinds(facts)).join(crossed, "place", "left_semi")
    every = reads.where("level = 'READ_ALL_WRITES' and shown is not null")
    every = gtid_columns.split(every, "shown", facts.sources, facts.slots)
    gaps = (
        fn.col(f"shown_high{slot}") != fn.col(f"shown_top{slot}") for slot in range(facts.slots)
    )
    holed = every.where(reduce(or_, gaps, fn.col("shown_odd")))
    return crossing.select(*_KEY).unionByName(holed.select(*_KEY))


def _in_places(events: DataFrame, kinds: list[str]) -> DataFrame:
    """Events with the `place` of each of these kinds that they belong to; a read only with its own.

    Args:
        events: columns of `run_procedure.Event`, and `owed_in` of reads.
        kinds: of groups, as in `groups`.
    """
    keys = {
        "connection": fn.xxhash64(fn.lit("connection"), *RUN, "session"),
        "user": fn.xxhash64(fn.lit("user"), "proxy", "user"),
        "application": fn.when(
            fn.col("application") != "", fn.xxhash64(fn.lit("application"), "proxy", "application")
        ),
        "proxy": fn.xxhash64(fn.lit("proxy"), "proxy"),
    }
    answered = fn.col("what") == ANSWERED
    places = (fn.when(answered | (fn.col("owed_in") == kind), keys[kind]) for kind in kinds)
    return events.withColumn("place", fn.explode(fn.array_compact(fn.array(*places))))


def _kinds(facts: Facts) -> list[str]:
    """The kinds of places in which somebody remembers what was seen."""
    return [kind for kind, deep in facts.wanted.items() if deep]
