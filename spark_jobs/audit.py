"""One audit: from the lines of a log to findings and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.findings import Findings, Row
from spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.day import Day

_EXAMPLES: Final = 5
"""Reads of each finding that a report shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is known of the log before it is judged.

    Attributes:
        name: what the report calls it.
        parsed: its lines, as `ingest.parse` gives them.
        complete: how many segments were finished.
        live: how many were still open.
        unread: files that seem to hold records and cannot be read.
        unknown: files that were not taken for segments.
        day: what is judged; None for all of it.
        notes: sentences for the report.
    """

    name: str
    parsed: "DataFrame"
    complete: int
    live: int
    unread: Sequence[str] = ()
    unknown: Sequence[str] = ()
    day: "Day | None" = None
    notes: Sequence[str] = ()


def judge(
    spark: "SparkSession",
    log: Log,
    out: Path,
    clock_error_us: int = 0,
    min_coverage: float = 1.0,
) -> Findings:
    """Judge a log and write its tables.

    Args:
        spark: a session.
        log: what to judge.
        out: directory for the tables, one Parquet directory each; earlier ones are replaced.
        clock_error_us: by how much the clocks of proxies may differ, µs; the log may tell of more.
        min_coverage: share of the promised reads that must have been judged for a verdict.
    """
    from spark_jobs import (
        clocks,
        consistency_audit,
        ingest,
        lag_analysis,
        log_integrity,
        primary_history,
        replication,
        routing_mix,
    )

    def collect(table: "DataFrame") -> list[Row]:
        return [Row(row.asDict(recursive=True)) for row in table.collect()]

    def keep(table: "DataFrame", title: str) -> list[Row]:
        rows = table.collect()
        small = spark.createDataFrame(rows, table.schema).coalesce(1)
        small.write.mode("overwrite").parquet(str(out / title))
        return [Row(row.asDict(recursive=True)) for row in rows]

    def during(table: "DataFrame", column: str) -> "DataFrame":
        """What of a table is the day's: the rest was read for its sake."""
        if log.day is None:
            return table
        return table.where(f"{column} >= {log.day.begin_us} and {column} < {log.day.end_us}")

    numbered = ingest.number(log.parsed.where("fault is null")).persist()
    records = numbered.where("repeat is null")
    found = clocks.learn(records)
    timed, error_us = found.corrected(records), max(found.error_us, clock_error_us)
    history = primary_history.learn(timed, error_us)
    judged = during(consistency_audit.transform(timed, history, error_us), "arrived_us")
    judged.write.mode("overwrite").parquet(str(out / "reads"))
    judged = spark.read.parquet(str(out / "reads"))
    told = during(records, "arrived_us")

    findings = Findings(
        log=log.name,
        complete=log.complete,
        live=log.live,
        unread=log.unread,
        unknown=log.unknown,
        min_coverage=min_coverage,
        notes=[*log.notes, *found.told],
        faults=keep(log_integrity.faults(log.parsed), "faults"),
        runs=keep(log_integrity.runs(during(numbered, "arrived_us")), "runs"),
        clocks=keep(found.table(spark), "clocks"),
        verdicts=keep(consistency_audit.count(judged), "verdicts"),
        lost=keep(during(primary_history.lost(history.past), "asked_us"), "lost"),
        violations=collect(consistency_audit.examples(judged, Verdict.VIOLATION, _EXAMPLES)),
        undecided=collect(consistency_audit.examples(judged, Verdict.NOT_JUDGED, _EXAMPLES)),
        understated=judged.where(f"understated and verdict = '{Verdict.OK}'").count(),
        lag=keep(lag_analysis.transform(judged), "lag"),
        replication=keep(
            replication.transform(during(log.parsed, "arrived_us").select("line")), "replication"
        ),
        mix=keep(routing_mix.transform(told), "mix"),
        fallbacks=keep(routing_mix.fallbacks(told), "fallbacks"),
        errors=keep(routing_mix.errors(told), "errors"),
    )
    history.past.unpersist()
    numbered.unpersist()
    return findings
