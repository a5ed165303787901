"""Judges whether every read saw what its level promises.

What a read had to see follows from the writes and the times of other records (`groups`, `judge`).
Whether its server could show that follows from what servers said themselves (`evidence`,
`primary_history`).

The audit must trust what the log alone cannot show: that ``own_gtids`` is what the server reported,
that ``own_known`` is true only if the command committed nothing without a known GTID, and that a
primary shows the writes that it acknowledged.
"""

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.paths import escape
from spark_jobs.primaries.primary_history import History
from spark_jobs.reads import evidence, groups, relevant_records
from spark_jobs.reads.judge import Judge
from spark_jobs.storage import Folder
from spark_jobs.tables.schema import JUDGED, RUN
from spark_jobs.tables.timestamps import computed, published, published_schema
from spark_jobs.verdict import Verdict


def write(
    records: DataFrame,
    history: History,
    folder: Folder,
    clock_error_us: int = 0,
    unsteady: frozenset[str] = frozenset(),
    left: DataFrame | None = None,
) -> DataFrame:
    """Judge reads record by record, and write the result.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        folder: takes the judged reads as Parquet, beside those already there.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        unsteady: proxies whose own records may be out of order by the clocks' error.
        left: the reads to be judged (`plain_reads.LEFT`); None for all.

    Returns:
        JUDGED: one row per read, including those already there.
    """
    judged = transform(records, history, clock_error_us, unsteady, left)
    published(judged).write.mode("append").parquet(str(folder))
    return kept(records.sparkSession, folder)


def kept(spark: SparkSession, folder: Folder) -> DataFrame:
    """Read the judged reads: JUDGED."""
    return computed(spark.read.schema(published_schema(JUDGED)).parquet(*escape([folder])), JUDGED)


def transform(
    records: DataFrame,
    history: History,
    clock_error_us: int = 0,
    unsteady: frozenset[str] = frozenset(),
    only: DataFrame | None = None,
) -> DataFrame:
    """Judge every read that is to be judged, record by record.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        unsteady: proxies whose own records may be out of order by the clocks' error.
        only: the reads to be judged (`plain_reads.LEFT`); None for all.

    Returns:
        JUDGED: one row per read.
    """
    if only is None:
        backing = evidence.transform(records, history)
        events = groups.transform(records, backing, history, clock_error_us)
    else:
        relevant = relevant_records.find(records, only, history)
        backing = evidence.transform(records, history, relevant.claims)
        events = groups.transform(relevant.records, backing, history, clock_error_us)
        events = _of(events, only)
    known = {
        "terms": history.terms,
        "confirmations": history.confirmations,
        "gaps": history.gaps,
        "unplaced": history.unplaced,
        "successions": history.successions,
        "unsteady": unsteady,
        "clock_error_us": clock_error_us,
        "since_us": history.since_us,
    }
    handler = type("_JudgeWithHistory", (Judge,), known)
    return ordered_pass(events, groups.GROUP, groups.ORDER, handler, JUDGED)


def _of(events: DataFrame, reads: DataFrame) -> DataFrame:
    """Keep the events of these reads' groups, in which only these reads are judged."""
    which = reads.withColumnRenamed("owed_in", "kind").selectExpr(
        *RUN, "seq", f"xxhash64(kind, {groups.KEY}) as group", "true as wanted"
    )
    whose = which.select("group").distinct()
    judges = "judges and coalesce(wanted, false)"
    return (
        events.selectExpr("*", "xxhash64(kind, key) as group")
        .join(whose, "group", "left_semi")
        .join(which, [*RUN, "seq", "group"], "left")
        .where(f"{judges} or learns")
        .selectExpr(
            *(f"{judges} as judges" if name == "judges" else name for name in groups.COLUMNS)
        )
    )


def examples(judged: DataFrame, verdict: Verdict, most: int) -> DataFrame:
    """Pick the first few reads of each finding under a verdict.

    Args:
        judged: JUDGED.
        verdict: the verdict.
        most: reads per finding.

    Returns:
        JUDGED.
    """
    order = ", ".join(("arrived_us", *RUN, "seq"))
    return (
        judged.where(f"verdict = '{verdict}'")
        .selectExpr(
            *JUDGED.names, f"row_number() over (partition by finding order by {order}) as place"
        )
        .where(f"place <= {most}")
        .orderBy("finding", "place")
        .drop("place")
    )
