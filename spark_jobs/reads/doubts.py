"""What was left open before reads, and what bounds it, as columns that reads are compared with.

A statement may have committed GTIDs that no record names, and records may be missing. The next
whole set of the primary bounds them: a tide mark (`primary_history`). A server has caught up once
it was asked after the mark and has all that the mark holds.
"""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.records.survey import NEVER
from spark_jobs.tables.schema import RUN

_STEPS: Final = 32
"""How many steps of a history of gaps are compared at most."""


def _marks(history: History, bounds: Bounds) -> DataFrame:
    """The marks of each cluster: all up to each one, as `asked_us` and ``mark_top_k``."""
    upto = Window.partitionBy("cluster").orderBy("mark")
    upto = upto.rowsBetween(Window.unboundedPreceding, 0)
    rows = history.past.where("what = 'mark'").select("cluster", "mark", "at_us", "gtids")
    asked = fn.when(fn.col("gtids_odd"), NEVER).otherwise(fn.col("at_us"))
    return bounds.of(rows, "gtids").select(
        "cluster",
        "mark",
        fn.max(asked).over(upto).alias("asked_us"),
        *(fn.max(f"gtids_top_{k}").over(upto).alias(f"mark_top_{k}") for k in bounds.numbers),
    )


def opened(records: DataFrame, history: History, bounds: Bounds) -> DataFrame:
    """Add what bounds that which each record leaves open.

    Args:
        records: NUMBERED and `cluster`.
        history: the history of the primaries.
        bounds: the sources of each cluster.

    Returns:
        The records with `asked_us` (when the mark was asked for; NEVER if there is none; null where
        nothing was left open) and ``mark_top_k``.
    """
    bound = (
        history.past.where("what = 'bound'")
        .select("cluster", *RUN, "seq", "mark")
        .join(_marks(history, bounds), ["cluster", "mark"], "left")
        .groupBy("cluster", *RUN, "seq")
        .agg(
            fn.max("asked_us").alias("asked_us"),
            *(fn.max(f"mark_top_{k}").alias(f"mark_top_{k}") for k in bounds.numbers),
        )
    )
    is_open = fn.col("is_unnamed") | fn.col("hole")
    joined = records.join(fn.broadcast(bound), ["cluster", *RUN, "seq"], "left")
    return joined.withColumn("asked_us", fn.when(is_open, fn.coalesce("asked_us", fn.lit(NEVER))))


def _steps(history: History) -> Iterator[tuple[str, str, int, int, bool, int | None]]:
    for (whose, name), gaps in history.gaps.items():
        steps = gaps.steps(_STEPS)
        ends = [*(from_us for from_us, *_ in steps[1:]), NEVER]
        for (from_us, unbounded, mark), until_us in zip(steps, ends, strict=True):
            yield whose, name, from_us, until_us, unbounded, mark or None


def gaps(reads: DataFrame, history: History, bounds: Bounds) -> DataFrame:
    """Add what bounds the records that are missing before each read's moment.

    Args:
        reads: `moment` (µs), `owed_in`, `proxy` and `cluster`.
        history: the history of the primaries.
        bounds: the sources of each cluster.

    Returns:
        The reads with `gap_asked_us` (NEVER if nothing bounds them; null if nothing is missing)
        and ``gap_top_k``. A session's own numbers show what it lacks.
    """
    spark = reads.sparkSession
    types = "whose string, name string, from_us long, until_us long, unbounded boolean, mark long"
    steps = spark.createDataFrame(list(_steps(history)), types)
    of_proxy = fn.col("whose") == "proxy"
    names = steps.withColumn("proxy", fn.col("name"))
    cluster = fn.when(of_proxy, clusters.column(history.clusters)).otherwise(fn.col("name"))
    marked = names.withColumn("cluster", cluster).join(
        _marks(history, bounds), ["cluster", "mark"], "left"
    )
    endless = fn.col("unbounded") | (fn.col("mark").isNotNull() & fn.col("asked_us").isNull())
    table = marked.select(
        "whose",
        "name",
        "from_us",
        "until_us",
        fn.when(endless, NEVER).otherwise(fn.col("asked_us")).alias("gap_asked_us"),
        *(fn.col(f"mark_top_{k}").alias(f"gap_top_{k}") for k in bounds.numbers),
    )
    kind = fn.col("owed_in")
    whose = fn.when(kind == "cluster", "cluster").when(kind != "connection", "proxy")
    name = fn.when(kind == "cluster", fn.col("cluster")).otherwise(fn.col("proxy"))
    named = reads.withColumns({"read_whose": whose, "read_name": name})
    within = (fn.col("from_us") <= fn.col("moment")) & (fn.col("moment") < fn.col("until_us"))
    same = (fn.col("whose") == fn.col("read_whose")) & (fn.col("name") == fn.col("read_name"))
    joined = named.join(fn.broadcast(table), same & within, "left")
    return joined.drop("whose", "name", "from_us", "until_us", "read_whose", "read_name")


def has_claim() -> Column:
    """Whether a read claims that its server has ``proof_set``."""
    return fn.col("proof").isin("known", "waited") & fn.col("proof_set").isNotNull()


def has_reached(asked: str, top: str, bounds: Bounds) -> Column:
    """Whether a read's server had reached a mark, or there is none.

    Args:
        asked: the column that tells when the mark was asked for.
        top: the prefix of the columns of its bounds.
        bounds: the sources of each cluster.
    """
    answered = fn.col("dispatched_us") + fn.when(
        fn.col("proof") == "waited", fn.col("wait_us")
    ).otherwise(0)
    reached = fn.col("server_uuid").isNotNull() & (fn.col(asked) <= answered)
    for k in bounds.numbers:
        reached &= fn.when(has_claim(), bounds.prefix("proof_set", k)).otherwise(0) >= fn.coalesce(
            f"{top}_{k}", fn.lit(0)
        )
    return fn.col(asked).isNull() | reached
