"""The nightly audit: one log in, one verdict out.

Exit codes: 0 every promise was kept; 1 a promise or the procedure was not kept, what had been
acknowledged is lost, or a replica's binary log contradicts a WAIT; 2 nobody can tell (no log, no
Java, a log that lacks what the verdict needs).
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs import archive, audit, options
from spark_jobs.counter_example import contradiction, counter_example, lost_writes
from spark_jobs.findings import UNDECIDED, Findings
from spark_jobs.options import Options, UsageError
from spark_jobs.progress import Progress
from spark_jobs.report import page, textfile, written
from spark_jobs.spark_session import is_local, start_spark, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.segments import Segments

_LOST: Final = 5
"""Answers of primaries that lacked something that are printed."""

_CONTRADICTED: Final = 5
"""WAITs that binary logs contradict that are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the audit from the command line."""
    try:
        chosen = options.parse(arguments)
    except UsageError as error:
        return _undecided(f"tidegate: {error}")
    return run_with(chosen)


def run(log: Path, out: Path | None, clock_error_us: int = 0) -> int:
    """Audit all of a routing log, as `run_with` does."""
    return run_with(Options(log=log, out=options.place(log, out), clock_error_us=clock_error_us))


def run_with(chosen: Options, spark: "SparkSession | None" = None) -> int:
    """Audit a routing log and print the verdict.

    Args:
        chosen: what is asked for.
        spark: a session that goes on afterwards; None for one of the audit's own.

    Returns:
        The exit code.
    """
    begun_s, begun = time.time(), time.monotonic()
    judged: list[Findings] = []
    code = _checked(chosen, spark, judged)
    if chosen.textfile is None:
        return code
    try:
        textfile.write(
            chosen.textfile,
            log=str(chosen.log),
            exit_code=code,
            begun_s=begun_s,
            duration_s=time.monotonic() - begun,
            findings=judged[-1] if judged else None,
        )
    except OSError as error:
        print(f"The audit could not write {chosen.textfile}: {error}", file=sys.stderr)
        return code or UNDECIDED
    return code


def _checked(chosen: Options, spark: "SparkSession | None", judged: list[Findings]) -> int:
    """Audit where that is possible; what was found is added to `judged`."""
    missing = what_is_missing() or page.what_is_missing()
    if missing:
        return _undecided(missing)
    if chosen.binlogs is not None and find_spec("pyarrow") is None:
        return _undecided("--binlogs needs PyArrow: pip install 'tidegate[audit]'")
    if not chosen.log.is_dir():
        return _undecided(f"There is no directory {chosen.log}.")
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
        written.remove(chosen.out)
        return _run(chosen, spark, judged)
    except OSError as error:
        return _undecided(f"The audit could not read its log or write its report: {error}")


def _run(chosen: Options, given: "SparkSession | None", judged: list[Findings]) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    from spark_jobs import segments as files

    log, out = chosen.log, chosen.out
    progress, begun = Progress(), time.monotonic()
    # Where others work, they must see it.
    shared = None if given is None and is_local(chosen.master) else out
    with tempfile.TemporaryDirectory(prefix="tidegate-audit-", dir=shared) as scratch:
        segments = files.find_segments(log, Path(scratch), out)
        if not segments.paths:
            unread = "".join(f"\nNot read: {name}" for name in segments.unread)
            return _undecided(f"There is no segment date=YYYY-MM-DD/*.jsonl in {log}.{unread}")
        spark_log = out / "spark.log"
        progress.stage("starting Spark")
        try:
            if given is not None:
                own = archive.shipped(given.newSession())
                own.conf.set("spark.sql.session.timeZone", "UTC")
                findings = _judge(own, segments, chosen, progress)
            else:
                spark = start_spark(spark_log, chosen.master)
                try:
                    findings = _judge(spark, segments, chosen, progress)
                finally:
                    spark.stop()
        except (PySparkException, Py4JError, RuntimeError) as error:
            # Where the error is Java's, the first line only says what was called.
            told = " ".join(str(error).strip().split("\n")[:2])
            return _undecided(f"Spark failed, see {spark_log}: {told}")
        finally:
            progress.end()
    judged.append(findings)
    report = written.write(findings, out, written.kept(out), time.monotonic() - begun)
    _tell(findings)
    print(f"Report: {report}")
    return findings.exit_code


def _judge(
    spark: "SparkSession", segments: "Segments", chosen: Options, progress: Progress
) -> Findings:
    """Judge all that the log holds."""
    from spark_jobs import ingest

    log = audit.Log(
        name=str(chosen.log),
        parsed=ingest.parse(ingest.read(spark, segments)),
        complete=len(segments.complete),
        live=len(segments.live),
        unread=segments.unread,
        unknown=segments.unknown,
        binlogs=chosen.binlogs,
    )
    return audit.judge(
        spark, log, chosen.out, chosen.clock_error_us, chosen.min_coverage, progress.stage
    )


def _tell(findings: Findings) -> None:
    for read in findings.violations:
        print(counter_example(read), end="\n\n")
    for row in findings.lost[:_LOST]:
        print(lost_writes(row), end="\n\n")
    if findings.binlogs is not None:
        for row in findings.binlogs.first_contradicted[:_CONTRADICTED]:
            print(contradiction(row), end="\n\n")
    print(findings.verdict, findings.explanation)


def _undecided(why: str) -> int:
    print(why, file=sys.stderr)
    return UNDECIDED


if __name__ == "__main__":
    sys.exit(main())
