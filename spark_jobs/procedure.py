"""Did the proxy keep to the procedure, whatever became of the reads?

A read may have seen all that it had to by luck. The promise was kept only if it was proved, and a
proof takes steps that the log shows: the primary was asked in time, a replica that was left was
bounded by a question, nothing that a server claimed is contradicted by what it showed later. The
rules are `run_procedure.Procedure`'s, who goes through each proxy's records in their clock's order.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.promise import CLUSTER_LEVELS, SEEN_LEVELS
from spark_jobs.run_procedure import (
    ANSWERED,
    ASKED,
    CLAIMED,
    LOST,
    READ,
    TAIL_US,
    TOLD,
    Event,
    Procedure,
)
from spark_jobs.schema import LAPSED, NUMBERED, PROCEDURE, RUN

_ORDER: Final = ("at_us", "what", "worker", "run", "seq")


def transform(
    records: DataFrame, clock_error_us: int = 0, unsteady: Collection[str] = ()
) -> DataFrame:
    """Look for what was left out.

    Args:
        records: NUMBERED without repeats.
        clock_error_us: by how much records may be out of order, µs.
        unsteady: the proxies of which they may.

    Returns:
        PROCEDURE.
    """
    numbered = records.select(NUMBERED.names)
    error_us = fn.when(fn.col("proxy").isin(*unsteady), clock_error_us).otherwise(0)
    lapsed = ordered_pass(events(numbered, error_us), ("proxy",), _ORDER, Procedure, LAPSED)
    return fn.broadcast(lapsed).join(numbered, [*RUN, "seq"]).select(PROCEDURE.names)


def examples(found: DataFrame, most: int) -> DataFrame:
    """Pick the first few of each finding.

    Args:
        found: PROCEDURE.
        most: records per finding.

    Returns:
        PROCEDURE and ``lapses``, how many of that finding there are.
    """
    of_finding = Window.partitionBy("finding")
    order = of_finding.orderBy("arrived_us", *RUN, "seq")
    return (
        found.withColumns(
            {"lapses": fn.count("*").over(of_finding), "place": fn.row_number().over(order)}
        )
        .where(fn.col("place") <= most)
        .orderBy("finding", "place")
        .select(*PROCEDURE.names, "lapses")
    )


def events(records: DataFrame, error_us: Column) -> DataFrame:
    """What of the records a proxy's procedure is judged by.

    Args:
        records: NUMBERED.
        error_us: by how much the times of one may be off. They are taken as they speak for the
            proxy.

    Returns:
        The columns of `run_procedure.Event`.
    """
    statement, kind = fn.col("kind") == "statement", fn.col("kind")
    role, level, proof = fn.col("role"), fn.col("level"), fn.col("proof")
    observed, whole = fn.col("observed"), fn.col("whole")
    sent, ended = fn.col("dispatched_us"), fn.col("ended_us")
    on_replica, ok = role.eqNullSafe("replica"), fn.col("outcome") == "ok"
    probed = fn.when((kind == "proof") & (proof == "probed"), fn.col("proof_set")).when(
        statement & (observed != ""), observed
    )
    strict = level.isin(*CLUSTER_LEVELS, *SEEN_LEVELS)
    waited = (proof == "waited") & fn.col("proof_set").isNotNull()
    answered_us = fn.when(statement, sent + fn.col("wait_us")).otherwise(ended)
    shows = statement & (fn.col("class") == "read") & ok & (observed == "") & role.isNotNull()
    happened = fn.array(
        _event(fn.col("missing") > 0, LOST, fn.col("since_us"), fn.lit("")),
        _event(whole.isNotNull(), TOLD, ended - error_us, whole),
        _event(on_replica & waited, CLAIMED, answered_us, fn.col("proof_set")),
        _event(on_replica & probed.isNotNull(), CLAIMED, ended, probed),
        _event(on_replica & probed.isNotNull(), ASKED, fn.least(sent, ended) - error_us, probed),
        _event(shows, ANSWERED, ended + error_us, fn.lit("")),
        _event(
            fn.col("is_read") & on_replica & strict & proof.isin("known", "waited"),
            READ,
            sent,
            fn.coalesce("proof_set", fn.lit("")),
        ),
    )
    remembers = records.where(fn.col("is_read") & level.isin(*SEEN_LEVELS)).select(*RUN).distinct()
    told = (
        records.withColumn("asked_us", sent + 2 * error_us)
        .withColumn("until_us", fn.greatest("since_us", "ended_us"))
        .withColumn("shown", fn.when(ok & (observed != ""), observed))
        .withColumn("event", fn.explode(fn.array_compact(happened)))
        .select("*", "event.*")
        .select(*Event._fields)
    )
    # A WAIT's set is told once: as many statements may wait for one.
    first = ("proxy", "worker", "run", "server_uuid", "incarnation", "gtids", "what")
    claims = (
        told.where(fn.col("what") == CLAIMED)
        .groupBy(*first)
        .agg(
            *(
                fn.min_by(name, fn.struct("at_us", "seq")).alias(name)
                for name in Event._fields
                if name not in first
            )
        )
    )
    # Where nobody remembers what was seen, answers leave nothing open.
    answers = told.where(fn.col("what") == ANSWERED).join(
        fn.broadcast(remembers), [*RUN], "left_semi"
    )
    rest = told.where(~fn.col("what").isin(CLAIMED, ANSWERED))
    names = Event._fields
    return (
        rest.select(*names)
        .unionByName(claims.select(*names))
        .unionByName(answers.select(*names))
        .unionByName(_ends(records), allowMissingColumns=True)
        .select(*names)
    )


def _ends(records: DataFrame) -> DataFrame:
    """Where runs end: a crash may have taken what they were told last."""
    return (
        records.groupBy(*RUN)
        .agg(fn.max("seq").alias("seq"), fn.max("ended_us").alias("at_us"))
        .withColumns({"what": fn.lit(LOST), "until_us": fn.col("at_us") + TAIL_US})
    )


def _event(where: Column, what: int, at_us: Column, gtids: Column) -> Column:
    return fn.when(
        where,
        fn.struct(at_us.alias("at_us"), fn.lit(what).alias("what"), gtids.alias("gtids")),
    )
