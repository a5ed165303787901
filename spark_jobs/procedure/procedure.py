"""Checks whether the proxy kept to the procedure, whatever the reads' verdicts are.

A read may have seen all that it had to by luck. The promise was kept only if it was proved, and a
proof takes steps that the log shows: the primary was asked in time; when a read left a replica, a
question to the primary bounded what had been seen there; and nothing that a server claimed is
contradicted by what it showed later. `run_procedure.Procedure` has the rules. It goes through each
proxy's records in the order of their times.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.procedure import false_proofs, procedure_events
from spark_jobs.procedure.false_proofs import FalseProofs
from spark_jobs.procedure.run_procedure import Procedure
from spark_jobs.procedure.suspects import Suspects
from spark_jobs.promise import CLUSTER_LEVELS
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import LAPSED, NUMBERED, PROCEDURE, RUN
from spark_jobs.verdict import Lapse

_ORDER: Final = ("at_us", "what", "worker", "run", "seq")


def transform(
    records: DataFrame,
    clock_error_us: int = 0,
    unsteady: Collection[str] = (),
    suspects: Suspects | None = None,
    kept: list[DataFrame] | None = None,
    since_us: int = 0,
) -> DataFrame:
    """Look for steps that were left out. This runs jobs.

    Args:
        records: NUMBERED without repeats.
        clock_error_us: by how much the records of unsteady proxies may be out of order, µs.
        unsteady: proxies whose records may be out of order.
        suspects: the records to look at; None for all.
        kept: tables that are persisted here are added to it, for the caller to unpersist.
        since_us: all questions from this time on are known; earlier ones may not be.

    Returns:
        PROCEDURE.
    """
    if since_us:
        records = records.withColumn("is_judged", fn.col("is_judged") & ~_early(since_us))
    spark, numbered = records.sparkSession, records.selectExpr(*NUMBERED.names)
    error_us = fn.when(fn.col("proxy").isin(*unsteady), clock_error_us).otherwise(0)
    if suspects is None:
        events = procedure_events.happened(numbered, error_us)
    elif suspects.reads is not None or suspects.liars:
        events = procedure_events.of_suspects(numbered, suspects.reads, suspects.liars)
    else:
        events = None
    lapsed = small_table.local(spark, [], LAPSED)
    if events is not None:
        events = procedure_events.needed(events, numbered)
        lapsed = ordered_pass(events, ("proxy",), _ORDER, Procedure, LAPSED).persist()
        if kept is not None:
            kept.append(lapsed)
    if suspects is None:
        doubtful = _doubtful(numbered, lapsed)
    else:
        doubtful = _contradicted(numbered, lapsed)
        if suspects.changed:
            rows = [
                dict(zip(false_proofs.SERVER, server, strict=True)) for server in suspects.changed
            ]
            changed = small_table.local(spark, rows, doubtful.schema)
            doubtful = doubtful.unionAll(changed).distinct()
    if not doubtful.isEmpty():
        relied = false_proofs.events(
            numbered.join(fn.broadcast(doubtful), [*false_proofs.SERVER]), error_us
        )
        false = ordered_pass(relied, false_proofs.SERVER, false_proofs.ORDER, FalseProofs, LAPSED)
        key = (*RUN, "seq", "finding")
        lapsed = lapsed.unionAll(false).groupBy(*key).agg(fn.first("lacking").alias("lacking"))
    return fn.broadcast(lapsed).join(numbered, [*RUN, "seq"]).selectExpr(*PROCEDURE.names)


def _early(since_us: int) -> Column:
    """Whether a read needs a question from a time before `since_us`."""
    level = fn.col("level")
    bound_us = fn.when(level == "BOUNDED_STALENESS", fn.coalesce("bound_us", fn.lit(0)))
    asks_us = fn.col("moment_us") - fn.coalesce(bound_us, fn.lit(0))
    return level.isin(*CLUSTER_LEVELS) & (asks_us < since_us)


def _contradicted(records: DataFrame, lapsed: DataFrame) -> DataFrame:
    """`false_proofs.SERVER` of the servers that contradicted a claim."""
    replicas = records.where((fn.col("role") == "replica") & fn.col("server_uuid").isNotNull())
    claims = fn.broadcast(lapsed.where(fn.col("finding") == Lapse.CONTRADICTED.value))
    return (
        replicas.join(claims.select(*RUN, "seq"), [*RUN, "seq"], "left_semi")
        .select(*false_proofs.SERVER)
        .distinct()
    )


def _doubtful(records: DataFrame, lapsed: DataFrame) -> DataFrame:
    """`false_proofs.SERVER` of those that contradicted a claim or had many incarnations."""
    replicas = records.where((fn.col("role") == "replica") & fn.col("server_uuid").isNotNull())
    incarnation = fn.col("incarnation")
    often = replicas.groupBy(*false_proofs.SERVER).agg(
        (fn.max(incarnation) - fn.min(incarnation)).alias("changes")
    )
    changed = often.where(fn.col("changes") >= false_proofs.OFTEN).select(*false_proofs.SERVER)
    return _contradicted(records, lapsed).unionAll(changed).distinct()
