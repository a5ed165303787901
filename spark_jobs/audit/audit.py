"""One audit: from the lines of a log to findings and tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from spark_jobs import storage
from spark_jobs.audit.log import Log
from spark_jobs.findings.findings import SHOWN, Findings
from spark_jobs.findings.incident import divide
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_EXAMPLES: Final = 5
"""How many reads that were not judged a report shows, of each finding."""


def judge(
    spark: "SparkSession",
    log: Log,
    out: storage.Folder,
    clock_error_us: int = 0,
    min_coverage: float = 1.0,
    stage: Callable[[str], None] = lambda _name: None,
) -> Findings:
    """Judge a log and write its tables.

    Args:
        spark: a session.
        log: what to judge.
        out: folder for the tables, one folder of Parquet each; earlier ones are replaced.
        clock_error_us: by how much the clocks of proxies may differ, µs; where the log shows a
            larger difference, that counts.
        min_coverage: share of the promised reads that must have been judged for a verdict.
        stage: is called with the name of each stage that begins.
    """
    from spark_jobs.audit import (
        causes,
        deduplication,
        judgement,
        log_integrity,
        related_records,
        unreported,
    )
    from spark_jobs.binlogs import binlog_findings
    from spark_jobs.clocks import clocks
    from spark_jobs.primaries import clusters, primary_history
    from spark_jobs.reads import consistency_audit, verdict_counts
    from spark_jobs.state import end
    from spark_jobs.tables import report_schema, schema, small_table
    from spark_jobs.traffic import gtid_growth, lag_analysis, replication, routing_mix

    def keep(rows: Sequence[Mapping[str, object]], of: "StructType", title: str) -> list[Row]:
        small_table.write(rows, of, out / title)
        return [Row(row) for row in rows]

    def collect(table: "DataFrame") -> list[Row]:
        return [Row(row.asDict(recursive=True)) for row in table.collect()]

    def rows_of(table: "DataFrame") -> list[dict[str, object]]:
        return [row.asDict(recursive=True) for row in table.collect()]

    def during(table: "DataFrame", column: str) -> "DataFrame":
        """The rows in the judged period: the others were read only to judge these."""
        if log.period is None:
            return table
        return table.where(f"{column} >= {log.period.begin_us} and {column} < {log.period.end_us}")

    scratch = storage.fresh(log.scratch, "judged")
    persisted: list[DataFrame] = []
    try:
        stage("reading records")
        once = deduplication.look(spark, log, persisted)
        survey = once.survey
        spans = {
            run: clocks.Span(run_survey.from_us, run_survey.to_us, run_survey.records)
            for run, run_survey in survey.runs.items()
        }
        found = clocks.learn(once.records, spans, is_steady=once.is_steady)
        error_us = max(found.error_us, clock_error_us)
        judged = judgement.reach(once, found, error_us, out, scratch, stage, persisted)
        if log.ends is not None and log.period is not None and found.agree:
            stage("keeping what the next day begins with")
            audited = end.Audited(
                records=once.records,
                survey=survey,
                history=judged.history,
                bounds=judged.bounds,
                day=log.period,
                before=None if once.before is None else once.before.facts,
                live=log.lines.live,
            )
            end.write_state(audited, log.ends, scratch / "state")
        stage("summing up")
        timed = judged.timed
        arrived = during(once.records, "arrived_us")
        statements = arrived.where("kind = 'statement'")
        replicated, hourly = [], []
        if survey.lagging:
            told = during(log.lines.parsed.where("fault is null"), "arrived_us").select("line")
            lagging = replication.told(told).persist()
            persisted.append(lagging)
            replicated = rows_of(replication.transform(lagging))
            hourly = rows_of(replication.by_hour(lagging))
        minutes = rows_of(lag_analysis.minutes(statements))
        worst = [row["minute_us"] for row in minutes if isinstance(row["minute_us"], int)]
        written = rows_of(lag_analysis.written(statements, worst)) if worst else []
        mix = rows_of(routing_mix.mix(statements))
        waits = rows_of(lag_analysis.waits(statements))
        has_errors = any(row["errors"] or row["lost"] for row in mix)
        has_fallbacks = any(row["fell_back"] for row in mix)
        fell_back = rows_of(routing_mix.fallbacks(statements)) if has_fallbacks else []
        pinned = rows_of(routing_mix.pinned(statements)) if routing_mix.may_be_pinned(mix) else []
        verdicts = rows_of(verdict_counts.transform(judged.reads))
        told_verdicts = {row["verdict"] for row in verdicts}
        losses = during(primary_history.lost(judged.history.past), "asked_us")
        lost = keep(rows_of(losses) if judged.history.has_lost else [], schema.LOST, "lost")
        is_violated = Verdict.VIOLATION.value in told_verdicts
        incidents = causes.find(judged, lost, is_violated=is_violated)
        undecided = []
        if Verdict.NOT_JUDGED.value in told_verdicts:
            undecided = collect(
                consistency_audit.examples(judged.reads, Verdict.NOT_JUDGED, _EXAMPLES)
            )
        first = [incident.read for incident in divide(incidents, SHOWN)[0]]
        drawn = [*(read for read in first if read is not None), *undecided]
        drawn_reads = small_table.local(spark, [read.as_dict() for read in drawn], schema.JUDGED)
        past_proxies = unreported.count(
            survey, arrived, clusters.of_record(judged.history.clusters), judged.history.clusters
        )
        return Findings(
            log=log.name,
            complete=log.complete,
            live=log.live,
            unread=log.unread,
            unknown=log.unknown,
            damaged={**log.lines.damaged, **log.damaged},
            min_coverage=min_coverage,
            notes=[*log.notes, *found.sentences, *past_proxies.sentences],
            unreported=past_proxies.transactions,
            faults=keep(log_integrity.faults(survey), schema.FAULTS, "faults"),
            runs=keep(
                log_integrity.runs(survey, once.missing(), once.repeats), schema.RUNS, "runs"
            ),
            lapsed=judged.lapses,
            incidents=incidents,
            clocks=keep(found.rows(), schema.CLOCKS, "clocks"),
            verdicts=keep(verdicts, schema.VERDICTS, "verdicts"),
            lost=lost,
            undecided=undecided,
            scenes=collect(related_records.transform(timed, drawn_reads)) if drawn else [],
            understated=sum(int(str(row["understated"])) for row in verdicts),
            lag=keep(rows_of(lag_analysis.lag(judged.reads)), schema.LAG, "lag"),
            replication=keep(replicated, schema.REPLICATION, "replication"),
            replication_hours=keep(hourly, report_schema.REPLICATION_HOURS, "replication_hours"),
            waits=keep(waits, report_schema.WAITS, "waits"),
            hours=keep(rows_of(lag_analysis.hours(judged.reads)), report_schema.HOURS, "hours"),
            minutes=keep(
                lag_analysis.with_written(minutes, written), report_schema.MINUTES, "minutes"
            ),
            foregone=keep(
                lag_analysis.foregone(
                    rows_of(lag_analysis.exposed(judged.reads)),
                    fell_back,
                    rows_of(lag_analysis.probes(arrived))[0],
                    replicated,
                ),
                report_schema.FOREGONE,
                "foregone",
            ),
            growth=keep(rows_of(gtid_growth.growth(arrived)), report_schema.GROWTH, "growth"),
            pinned=keep(
                [row for row in pinned if not row["by_user"]], report_schema.PINNED, "pinned"
            ),
            pinned_users=keep(
                [row for row in pinned if row["by_user"]], report_schema.PINNED, "pinned_users"
            ),
            mix=keep(mix, schema.MIX, "mix"),
            fallbacks=keep(fell_back, schema.FALLBACKS, "fallbacks"),
            errors=keep(
                rows_of(routing_mix.errors(statements)) if has_errors else [],
                schema.ERRORS,
                "errors",
            ),
            clock_error_us=error_us,
            binlogs=None
            if log.binlogs is None
            else binlog_findings.look(
                spark,
                log.binlogs,
                binlog_findings.Compared(timed, judged.reads),
                out,
                error_us,
                clock_error_us,
                log.period,
            ),
        )
    finally:
        for table in persisted:
            table.unpersist()
        storage.discard(scratch)
