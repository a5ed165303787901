"""One audit: from the lines of a log to findings and tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.findings import Findings
from spark_jobs.row import Row
from spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.day import Period

_EXAMPLES: Final = 5
"""Reads of each finding that a report shows."""


MANY = 300_000
"""Records from which on a log is judged by columns, and read again rather than kept in memory."""

_FITS: Final = 10_000_000
"""Records below which they are kept in memory after all if columns can say nothing of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is known of the log before it is judged.

    Attributes:
        name: what the report calls it.
        parsed: its lines, as `ingest.parse` gives them; of a long log they are read many times, so
            they should come from `ingest.keep`.
        complete: how many segments were finished.
        live: how many were still open.
        unread: files that seem to hold records and cannot be read.
        unknown: files that were not taken for segments.
        period: what is judged; None for all of it.
        notes: sentences for the report.
        binlogs: a directory of binary logs to compare it with.
    """

    name: str
    parsed: "DataFrame"
    complete: int
    live: int
    unread: Sequence[str] = ()
    unknown: Sequence[str] = ()
    period: "Period | None" = None
    notes: Sequence[str] = ()
    binlogs: Path | None = None


def judge(
    spark: "SparkSession",
    log: Log,
    out: Path,
    clock_error_us: int = 0,
    min_coverage: float = 1.0,
    stage: Callable[[str], None] = lambda _name: None,
) -> Findings:
    """Judge a log and write its tables.

    Args:
        spark: a session.
        log: what to judge.
        out: directory for the tables, one Parquet directory each; earlier ones are replaced.
        clock_error_us: by how much the clocks of proxies may differ, µs; the log may tell of more.
        min_coverage: share of the promised reads that must have been judged for a verdict.
        stage: is told the name of each stage that begins.
    """
    from spark_jobs import (
        binlog_findings,
        clocks,
        consistency_audit,
        gtid_growth,
        ingest,
        lag_analysis,
        log_integrity,
        primary_history,
        procedure,
        replication,
        routing_mix,
        scene,
        statement,
        unreported,
    )

    def collect(table: "DataFrame") -> list[Row]:
        return [Row(row.asDict(recursive=True)) for row in table.collect()]

    def keep(table: "DataFrame", title: str) -> list[Row]:
        rows = table.collect()
        small = spark.createDataFrame(rows, table.schema).coalesce(1)
        small.write.mode("overwrite").parquet(str(out / title))
        return [Row(row.asDict(recursive=True)) for row in rows]

    def during(table: "DataFrame", column: str) -> "DataFrame":
        """What of a table is to be judged: the rest was read for its sake."""
        if log.period is None:
            return table
        return table.where(f"{column} >= {log.period.begin_us} and {column} < {log.period.end_us}")

    stage("reading records and what primaries said")
    whole = log.parsed.where("fault is null")
    count = whole.count()
    many = count >= MANY
    kept: list[DataFrame] = []
    numbered = ingest.number(whole, kept)
    if not many:
        kept.append(numbered.persist())
    records = numbered.where("repeat is null")
    found = clocks.learn(records)
    timed, error_us = found.corrected(records), max(found.error_us, clock_error_us)
    if log.period is not None:
        timed = timed.withColumn("is_judged", statement.judged_in(log.period))
    history = primary_history.learn(timed, error_us, plainly=many)
    if many and history.facts is None and count < _FITS:
        kept.append(numbered.persist())
    stage("judging reads")
    judged = consistency_audit.write(timed, history, out / "reads", error_us, found.unsteady)
    lapsed = procedure.transform(timed, error_us, found.unsteady, history)
    lapsed = during(lapsed, "arrived_us")
    lapsed.write.mode("overwrite").parquet(str(out / "procedure"))
    lapsed = spark.read.parquet(str(out / "procedure"))
    stage("summing up")
    told = during(records, "arrived_us")
    past_proxies = unreported.count(during(timed, "arrived_us"), history.clusters)
    lagging = replication.told(during(log.parsed, "arrived_us").select("line")).persist()
    replicated = keep(replication.transform(lagging), "replication")
    lags = spark.read.parquet(str(out / "replication"))
    violations, undecided = (
        consistency_audit.examples(judged, verdict, _EXAMPLES)
        for verdict in (Verdict.VIOLATION, Verdict.NOT_JUDGED)
    )

    findings = Findings(
        log=log.name,
        complete=log.complete,
        live=log.live,
        unread=log.unread,
        unknown=log.unknown,
        min_coverage=min_coverage,
        notes=[*log.notes, *found.told, *past_proxies.sentences],
        unreported=past_proxies.transactions,
        faults=keep(log_integrity.faults(log.parsed), "faults"),
        runs=keep(log_integrity.runs(during(numbered, "arrived_us")), "runs"),
        lapses=collect(procedure.examples(lapsed, _EXAMPLES)),
        clocks=keep(found.table(spark), "clocks"),
        verdicts=keep(consistency_audit.count(judged), "verdicts"),
        lost=keep(during(primary_history.lost(history.past), "asked_us"), "lost"),
        violations=collect(violations),
        undecided=collect(undecided),
        scenes=collect(scene.transform(timed, violations.union(undecided))),
        understated=judged.where(f"understated and verdict = '{Verdict.OK}'").count(),
        lag=keep(lag_analysis.transform(judged), "lag"),
        replication=replicated,
        replication_hours=keep(replication.by_hour(lagging), "replication_hours"),
        waits=keep(lag_analysis.waits(told), "waits"),
        hours=keep(lag_analysis.hours(judged), "hours"),
        minutes=keep(lag_analysis.minutes(told), "minutes"),
        foregone=keep(lag_analysis.foregone(judged, told, lags), "foregone"),
        growth=keep(gtid_growth.transform(told), "growth"),
        pinned=keep(routing_mix.pinned(told), "pinned"),
        pinned_users=keep(routing_mix.pinned_users(told), "pinned_users"),
        mix=keep(routing_mix.transform(told), "mix"),
        fallbacks=keep(routing_mix.fallbacks(told), "fallbacks"),
        errors=keep(routing_mix.errors(told), "errors"),
        clock_error_us=error_us,
        binlogs=None
        if log.binlogs is None
        else binlog_findings.look(
            spark, log.binlogs, timed, out, error_us, clock_error_us, log.period
        ),
    )
    history.release()
    for table in (*kept, lagging):
        table.unpersist()
    return findings
