"""The nightly audit: one log in, one verdict out.

Exit codes: 0 every promise was kept; 1 at least one was not, or what had been acknowledged is lost;
2 nobody can tell (no log, no Java, a log that lacks what the verdict needs).
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.counter_example import counter_example, lost_writes
from spark_jobs.findings import UNDECIDED, Findings, Row
from spark_jobs.report import render
from spark_jobs.spark_session import start_spark, what_is_missing
from spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.segments import Segments

_EXAMPLES: Final = 5


def run(log: Path, out: Path | None, clock_error_us: int = 0) -> int:
    """Audit a routing log and print the verdict.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/*.jsonl``, also as ``.gz`` or ``.zst``.
        out: where the report and the tables go; None for ``_audit`` in `log`, which is never read.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        The exit code.
    """
    missing = what_is_missing()
    if missing:
        return _undecided(missing)
    if not log.is_dir():
        return _undecided(f"There is no directory {log}.")
    out = log / "_audit" if out is None else out
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Nobody must take an earlier night's report for this one's.
        (out / "report.md").unlink(missing_ok=True)
        return _run(log, out, clock_error_us)
    except OSError as error:
        return _undecided(f"The audit could not read its log or write its report: {error}")


def _run(log: Path, out: Path, clock_error_us: int) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    from spark_jobs import segments as files

    with tempfile.TemporaryDirectory(prefix="tidegate-audit-") as scratch:
        segments = files.find_segments(log, Path(scratch), out)
        if not segments.paths:
            unread = "".join(f"\nNot read: {name}" for name in segments.unread)
            return _undecided(f"There is no segment date=YYYY-MM-DD/*.jsonl in {log}.{unread}")
        spark_log = out / "spark.log"
        try:
            spark = start_spark(spark_log)
            try:
                findings = audit(spark, str(log), segments, out, clock_error_us)
            finally:
                spark.stop()
        except (PySparkException, Py4JError) as error:
            # Where the error is Java's, the first line only says what was called.
            told = " ".join(str(error).strip().split("\n")[:2])
            return _undecided(f"Spark failed, see {spark_log}: {told}")
    report = out / "report.md"
    report.write_text(render(findings), encoding="utf-8")
    for read in findings.violations:
        print(counter_example(read), end="\n\n")
    for row in findings.lost[:_EXAMPLES]:
        print(lost_writes(row), end="\n\n")
    print(findings.verdict, findings.explanation)
    print(f"Report: {report}")
    return findings.exit_code


def audit(
    spark: "SparkSession", name: str, segments: "Segments", out: Path, clock_error_us: int = 0
) -> Findings:
    """Judge a log and write its tables.

    Args:
        spark: a session.
        name: what the report calls the log.
        segments: the files.
        out: directory for the tables, one Parquet directory each; earlier ones are replaced.
        clock_error_us: by how much the clocks of proxies may differ, µs.
    """
    from spark_jobs import (
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

    lines = ingest.read(spark, segments)
    parsed = ingest.parse(lines)
    numbered = ingest.number(parsed.where("fault is null")).persist()
    records = numbered.where("repeat is null")
    history = primary_history.learn(records, clock_error_us)
    judged = consistency_audit.transform(records, history, clock_error_us)
    judged.write.mode("overwrite").parquet(str(out / "reads"))
    judged = spark.read.parquet(str(out / "reads"))

    findings = Findings(
        log=name,
        complete=len(segments.complete),
        live=len(segments.live),
        unread=segments.unread,
        unknown=segments.unknown,
        faults=keep(log_integrity.faults(parsed), "faults"),
        runs=keep(log_integrity.runs(numbered), "runs"),
        verdicts=keep(consistency_audit.count(judged), "verdicts"),
        lost=keep(primary_history.lost(history.past), "lost"),
        violations=collect(consistency_audit.examples(judged, Verdict.VIOLATION, _EXAMPLES)),
        undecided=collect(consistency_audit.examples(judged, Verdict.NOT_JUDGED, _EXAMPLES)),
        understated=judged.where(f"understated and verdict = '{Verdict.OK}'").count(),
        lag=keep(lag_analysis.transform(judged), "lag"),
        replication=keep(replication.transform(lines), "replication"),
        mix=keep(routing_mix.transform(records), "mix"),
        fallbacks=keep(routing_mix.fallbacks(records), "fallbacks"),
        errors=keep(routing_mix.errors(records), "errors"),
    )
    history.past.unpersist()
    numbered.unpersist()
    return findings


def _undecided(why: str) -> int:
    print(why, file=sys.stderr)
    return UNDECIDED


def main(arguments: list[str] | None = None) -> int:
    """Run the audit from the command line."""
    parser = argparse.ArgumentParser(prog="tidegate audit", description="Audit a routing log.")
    parser.add_argument("--log", type=Path, required=True, help="directory of the routing log")
    parser.add_argument("--out", type=Path, help="directory for report and tables (LOG/_audit)")
    parser.add_argument(
        "--clock-error",
        type=float,
        default=0.0,
        metavar="MS",
        help="by how many milliseconds the clocks of proxies may differ (0)",
    )
    chosen = parser.parse_args(arguments)
    return run(chosen.log, chosen.out, round(chosen.clock_error * 1000))


if __name__ == "__main__":
    sys.exit(main())
