"""The nightly audit: one log in, one verdict out.

Exit codes: 0 every promise was kept; 1 a promise or the procedure was not kept, acknowledged writes
are lost, or a binary log contradicts a WAIT or that a read was independent; 2 nobody can tell (no
log, no Java, a log that lacks what the verdict needs); 130 and 143 it was stopped by SIGINT or
SIGTERM.
"""

import fcntl
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs import (
    archive,
    day_audit,
    disk,
    live,
    markdown,
    options,
    scratch,
    stop_signals,
    storage,
)
from spark_jobs.audit import audit
from spark_jobs.audit.log import Log
from spark_jobs.findings.counter_example import contradiction, dependence
from spark_jobs.findings.findings import CLEAN, UNDECIDED, VIOLATED, Findings
from spark_jobs.findings.results import Results
from spark_jobs.options import Options, UsageError
from spark_jobs.progress import Progress
from spark_jobs.records import segments
from spark_jobs.records.segments import Listing
from spark_jobs.report import incidents, page, textfile, written
from spark_jobs.spark_session import SQL_SETTINGS, is_local, start_spark, what_is_missing
from spark_jobs.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONTRADICTED: Final = 5
"""How many WAITs, and how many reads, that binary logs contradict are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the audit from the command line."""
    try:
        chosen = options.parse(arguments)
    except UsageError as error:
        return _undecided(f"tidegate: {error}")
    try:
        with stop_signals.handled():
            return run_with(chosen)
    except stop_signals.Stopped as stopped:
        print(
            f"Stopped by {stopped.name}. What the audit had kept is whole; the same command can be "
            "run again.",
            file=sys.stderr,
        )
        return stopped.exit_code


@dataclass(frozen=True, slots=True)
class _Run:
    """One audit.

    Attributes:
        chosen: the options.
        given: a session that the caller keeps; None to start and stop one.
        scratch: a directory for temporary files, which all workers see unless `out` is a URI.
        progress: shows the stages.
        judged: takes the findings.
    """

    chosen: Options
    given: "SparkSession | None"
    scratch: Path
    judged: list[Findings]
    progress: Progress = field(default_factory=Progress)


def run(log: Path, out: Path | None, clock_error_us: int = 0) -> int:
    """Audit all of a routing log, as `run_with` does."""
    return run_with(Options(log=log, out=options.place(log, out), clock_error_us=clock_error_us))


def run_with(chosen: Options, spark: "SparkSession | None" = None) -> int:
    """Audit a routing log and print the verdict.

    Args:
        chosen: the options.
        spark: a session that the caller keeps; None to start and stop one for the audit.

    Returns:
        The exit code.
    """
    begun_s, begun = time.time(), time.monotonic()
    judged: list[Findings] = []
    try:
        code = _checked(chosen, spark, judged)
    except Exception:
        stop_signals.check()
        # Python would end with 1, which is the code of a finding.
        traceback.print_exc()
        code = UNDECIDED
    if chosen.textfile is None or chosen.live:
        return code
    try:
        textfile.write(
            chosen.textfile,
            log=chosen.name,
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
    """Audit if possible; the findings are added to `judged`."""
    missing = what_is_missing() or page.what_is_missing()
    if missing:
        return _undecided(missing)
    if isinstance(chosen.log, Path) and not chosen.log.is_dir():
        return _undecided(f"There is no directory {chosen.log}.")
    try:
        chosen.report_folder.mkdir(parents=True, exist_ok=True)
        with _alone(chosen.report_folder), scratch.opened(_shared(chosen, spark)) as folder:
            written.remove(chosen.report_folder)
            return _run(_Run(chosen, spark, folder, judged))
    except OSError as error:
        stop_signals.check()
        if disk.is_full(error):
            return _undecided(_no_space(error, chosen, Path(tempfile.gettempdir())))
        return _undecided(f"The audit could not read its log or write its report: {error}")


def _run(run: _Run) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    chosen, log = run.chosen, run.chosen.report_folder / "spark.log"
    try:
        if chosen.live:
            return _run_live(run)
        return _run_once(run)
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        stop_signals.check()
        shown = _with_text(error)
        # Without space, a JVM may end at once: Hadoop raises an Error, which is fatal.
        is_gone = isinstance(shown, ConnectionError | Py4JError)
        if disk.is_full(shown) or (is_gone and disk.tells_of_full(log)):
            return _undecided(_no_space(shown, chosen, run.scratch))
        if isinstance(shown, OSError) and not is_gone:
            raise
        # The first line of an error from Java only says which method was called.
        told = " ".join(str(shown).strip().split("\n")[:2])
        return _undecided(f"Spark failed, see {log}: {told}")
    finally:
        run.progress.end()


def _with_text(error: Exception) -> Exception:
    """An error that can be shown: Py4J asks Java for the text of its own, and Java may be gone."""
    try:
        str(error)
    except OSError as gone:
        return gone
    return error


def _run_live(run: _Run) -> int:
    run.progress.stage("starting Spark")
    with _session(run, run.given) as spark:
        live.run(spark, run.chosen, run.progress, run.scratch)
    return CLEAN


def _run_once(run: _Run) -> int:
    chosen, begun = run.chosen, time.monotonic()
    days: list[day_audit.Judged] = []
    with _listed(run) as (spark, listing):
        if spark is None:
            unread = "".join(f"\nNot read: {markdown.code(name)}" for name in listing.unread)
            for file, why in listing.damaged.items():
                unread += f"\nNot read: {markdown.code(file)} ({why})"
            return _undecided(
                f"There is no segment date=YYYY-MM-DD/*.jsonl in {chosen.name}.{unread}"
            )
        out = storage.at(spark, chosen.out)
        tables: Folder = run.scratch
        if isinstance(out, storage.Remote):
            tables = out / "scratch"
            storage.remove(out / written.SUMMARY)  # it says that the tables are whole
        if chosen.day is None:
            run.judged.append(_judge(spark, listing, run, out, tables))
            run.progress.end()
            _tell(run.judged[-1])
        else:
            stage = run.progress.stage
            for judged_day in day_audit.judge(spark, chosen, chosen.day, listing, tables, stage):
                run.progress.end()
                # At once: this judgement is kept, even if those of later days fail.
                _tell_day(judged_day, is_first=not days)
                days.append(judged_day)
        run.judged.extend(judged_day.findings for judged_day in days)
        shown = day_audit.shown(days) if days else run.judged[-1]
        nights, duration_s = written.kept(Results(out)), time.monotonic() - begun
        report = written.write(shown, chosen.report_folder, nights, duration_s)
        if isinstance(out, storage.Remote):
            storage.remove(tables)
            summary = report.with_name(written.SUMMARY).read_text(encoding="utf-8")
            storage.write_text(out, written.SUMMARY, summary)
    print(f"Report: {report}")
    codes = {findings.exit_code for findings in run.judged}
    return VIOLATED if VIOLATED in codes else max(codes)


@contextmanager
def _listed(run: _Run) -> "Iterator[tuple[SparkSession | None, Listing]]":
    """List the log, and start Spark; no Spark is there if there is nothing to judge."""
    chosen, log = run.chosen, run.chosen.log
    # How much there is decides how Spark is set, but only Spark can tell how much is elsewhere.
    if isinstance(log, str):
        run.progress.stage("starting Spark")
        with _session(run, run.given) as spark:
            run.progress.stage("listing segments")
            listing = segments.list_remote(spark, log)
            yield spark if _has_something(listing, chosen) else None, listing
        return
    listing = segments.list_segments(log, chosen.report_folder)
    if not _has_something(listing, chosen):
        yield None, listing
        return
    run.progress.stage("starting Spark")
    dates = () if chosen.day is None else (str(chosen.day.before), str(chosen.day))
    with _session(run, run.given, listing.plain_size(dates)) as spark:
        yield spark, listing


def _has_something(listing: Listing, chosen: Options) -> bool:
    """Whether there is anything to judge: all segments of a day may be in the store already."""
    return bool(listing.closed or listing.live or chosen.day)


def _shared(chosen: Options, given: "SparkSession | None") -> Path | None:
    """A directory for temporary files that other machines see; None if none of them must."""
    if isinstance(chosen.out, str) or (given is None and is_local(chosen.master)):
        return None
    return chosen.out


@contextmanager
def _session(
    run: _Run, given: "SparkSession | None", size: int | None = None
) -> Iterator["SparkSession"]:
    """The session that judges; if the audit has started it, it is stopped afterwards."""
    if given is not None:
        own = archive.shipped(given.newSession())
        for name, value in SQL_SETTINGS.items():
            own.conf.set(name, value)
        yield own
        return
    temporary = run.scratch / "spark"
    temporary.mkdir()
    spark = start_spark(run.chosen.report_folder / "spark.log", run.chosen.master, temporary, size)
    try:
        yield spark
    finally:
        spark.stop()


def _judge(
    spark: "SparkSession", listing: Listing, run: _Run, out: Folder, tables: Folder
) -> Findings:
    """Judge all that the log holds."""
    from spark_jobs.records import take

    chosen = run.chosen
    run.progress.stage("reading lines")
    lines = take.all_in(spark, [*listing.closed, *listing.live], storage.fresh(tables, "parsed"))
    damaged = {**lines.damaged, **listing.damaged}
    log = Log(
        name=chosen.name,
        lines=lines,
        scratch=tables,
        complete=sum(segment.file not in damaged for segment in listing.closed),
        live=len(listing.live),
        unread=listing.unread,
        unknown=listing.unknown,
        damaged=damaged,
        binlogs=chosen.binlogs,
    )
    replaced = disk.replaced(out) if isinstance(out, Path) else nullcontext(out)
    with replaced as staged:
        return audit.judge(
            spark, log, staged, chosen.clock_error_us, chosen.min_coverage, run.progress.stage
        )


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Make sure that no other audit writes to the same directory.

    Raises:
        OSError: another audit does.
    """
    with (out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(f"another audit is writing to {out}") from error
        yield


def _tell(findings: Findings) -> None:
    shown = [description for _, description in incidents.shown(findings)]
    for description in shown:
        for example in description.examples:
            print(example, end="\n\n")
    if findings.binlogs is not None:
        for row in findings.binlogs.first_contradicted[:_CONTRADICTED]:
            print(contradiction(row), end="\n\n")
        for row in findings.binlogs.first_dependent[:_CONTRADICTED]:
            print(dependence(row), end="\n\n")
    print(findings.verdict, findings.explanation)
    for description in shown:
        facts = (*description.facts, f"Next: {description.next_step}")
        print("", description.title, *facts, sep="\n")
    for sentence in filter(None, (incidents.beyond(findings), *findings.remarks)):
        print("", sentence, sep="\n")


def _tell_day(judged: day_audit.Judged, *, is_first: bool) -> None:
    if not is_first:
        print()
    _tell(judged.findings)
    for sentence in judged.told:
        print(sentence)
    print(f"Kept: {judged.folder}")


def _no_space(error: Exception, chosen: Options, temporary: Path) -> str:
    """Say which disk is full, and what to do."""
    out = chosen.report_folder
    where, what, how = out, "the results", "--report" if chosen.report else "--out"
    if disk.full_folder(error, [out, temporary]) == temporary and out not in temporary.parents:
        where, what, how = Path(tempfile.gettempdir()), "temporary files", "TMPDIR"
    return (
        f"There is no space left in {where}, which takes {what}: make room there, or name another "
        f"directory with {how}. Then run the same command again; nothing half-written was kept."
    )


def _undecided(why: str) -> int:
    print(why, file=sys.stderr)
    return UNDECIDED


if __name__ == "__main__":
    sys.exit(main())
