"""Did every read see what its level owes it?

What a read had to see follows from the writes and the times of other records (`groups`, `judge`),
whether its server could show it from what servers said themselves (`evidence`, `primary_history`).

What it must trust, since the log alone cannot show it: that ``own_gtids`` is what the server
reported, that ``own_known`` is true only of commands that leave nothing unnamed, and that a primary
which acknowledged a write shows it.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs import evidence, groups
from spark_jobs.columns import settle
from spark_jobs.judge import Judge
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.primary_history import History
from spark_jobs.schema import JUDGED, RUN, VERDICTS
from spark_jobs.verdict import Verdict


def write(
    records: DataFrame,
    history: History,
    folder: Path,
    clock_error_us: int = 0,
    unsteady: frozenset[str] = frozenset(),
) -> DataFrame:
    """Judge every read that is to be judged: by columns if the history was learned for that.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        folder: where what is judged is written as Parquet; what is there is replaced.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        unsteady: proxies whose own records may be out of order by the clocks' error.

    Returns:
        JUDGED: one row per read.
    """
    if history.facts is None or clock_error_us:
        return _kept(transform(records, history, clock_error_us, unsteady), folder)
    settled = settle.transform(records, history, history.facts)
    aside = folder.with_name(f"{folder.name}.settled")
    settled = replace(settled, told=_kept(settled.told, aside))
    left = settled.left
    if left.isEmpty():
        # Nothing is written twice.
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
        return records.sparkSession.read.schema(JUDGED).parquet(str(folder))
    judged = _kept(settled.reads.unionByName(transform(records, history, only=left)), folder)
    shutil.rmtree(aside)
    return judged


def _kept(table: DataFrame, folder: Path) -> DataFrame:
    table.write.mode("overwrite").parquet(str(folder))
    return table.sparkSession.read.schema(table.schema).parquet(str(folder))


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
        only: the reads to be judged (`columns.settle.Settled.left`); None for all.

    Returns:
        JUDGED: one row per read.
    """
    backing = evidence.transform(records, history)
    events = groups.transform(records, backing, history, clock_error_us)
    if only is not None:
        events = _of(events, only)
    known = {
        "terms": history.terms,
        "confirmations": history.confirmations,
        "gaps": history.gaps,
        "unplaced": history.unplaced,
        "successions": history.successions,
        "unsteady": unsteady,
        "clock_error_us": clock_error_us,
    }
    handler = type("_JudgeWithHistory", (Judge,), known)
    return ordered_pass(events, groups.GROUP, groups.ORDER, handler, JUDGED)


def _of(events: DataFrame, reads: DataFrame) -> DataFrame:
    """The groups of some reads, and only those reads to be judged."""
    whose = reads.select("group").distinct()
    which = reads.select(*RUN, "seq", "group").withColumn("wanted", fn.lit(True))
    return (
        events.withColumn("group", groups.hashed(fn.col("key")))
        .join(whose, "group", "left_semi")
        .join(which, [*RUN, "seq", "group"], "left")
        .withColumn("judges", fn.col("judges") & fn.coalesce("wanted", fn.lit(False)))
        .where(fn.col("judges") | fn.col("learns"))
        .select(*groups.COLUMNS)
    )


def count(judged: DataFrame) -> DataFrame:
    """Count the verdicts.

    Args:
        judged: JUDGED.

    Returns:
        VERDICTS.
    """
    return (
        judged.select("level", "scope", "verdict", "finding")
        .groupBy("level", "scope", "verdict", "finding")
        .agg(fn.count("*").alias("reads"))
        .orderBy(fn.desc("reads"), *VERDICTS.names[:4])
        .select(VERDICTS.names)
    )


def examples(judged: DataFrame, verdict: Verdict, most: int) -> DataFrame:
    """Pick the first few reads of each finding under a verdict.

    Args:
        judged: JUDGED.
        verdict: which.
        most: reads per finding.

    Returns:
        JUDGED.
    """
    order = ("arrived_us", *RUN, "seq")
    place = fn.row_number().over(Window.partitionBy("finding").orderBy(*order))
    return (
        judged.select(JUDGED.names)
        .where(fn.col("verdict") == verdict.value)
        .withColumn("place", place)
        .where(fn.col("place") <= most)
        .orderBy("finding", "place")
        .select(JUDGED.names)
    )
