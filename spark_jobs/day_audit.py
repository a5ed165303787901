"""One night: take what is new of the log, judge a day, and anew those whose segments came late."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import audit
from spark_jobs.day import Day
from spark_jobs.findings import Findings
from spark_jobs.log import Log
from spark_jobs.markdown import code, moment, named
from spark_jobs.options import Options
from spark_jobs.report import written
from spark_jobs.results import Results, summarize, told_changes
from spark_jobs.store.store import Span, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.segments import Listing


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement that was kept.

    Attributes:
        day: of this day.
        findings: all that was found.
        folder: where it is.
        told: sentences on what came late and what that changed.
    """

    day: Day
    findings: Findings
    folder: Path
    told: Sequence[str]


def judge(
    spark: "SparkSession",
    chosen: Options,
    day: Day,
    listing: "Listing",
    scratch: Path,
    stage: Callable[[str], None],
) -> Iterator[Judged]:
    """Judge the days whose segments came late, and then the day that was asked for.

    Args:
        spark: a session.
        chosen: what was asked for.
        day: which day.
        listing: the log.
        scratch: the listing's scratch directory.
        stage: is told the name of each stage that begins.

    Raises:
        OSError: a segment cannot be read, or changed after it was taken, or records of the day
            were deleted; the message names them.
    """
    from spark_jobs.store import parquet

    store, results = Store(chosen.out / "store"), Results(chosen.out)
    stage("taking segments")
    store.take(listing.closed, scratch, partial(parquet.stage, spark))
    if gone := store.deleted(Span(day)):
        raise OSError(f"the store no longer has its records of {', '.join(gone)}")
    told = []
    for earlier in results.days():
        before = results.newest(earlier)
        if earlier == day or before is None:
            continue
        late = store.late(earlier, before.take)
        if late and store.deleted(Span(earlier)):
            told.append(
                f"Came after {earlier} was judged: {named(late)}. The day is not judged anew: the "
                "store no longer has all of its records."
            )
        elif late:
            yield _judge(spark, chosen, earlier, listing, scratch, store, results, stage)
    yield _judge(spark, chosen, day, listing, scratch, store, results, stage, told)


def _judge(
    spark: "SparkSession",
    chosen: Options,
    day: Day,
    listing: "Listing",
    scratch: Path,
    store: Store,
    results: Results,
    stage: Callable[[str], None],
    others: Sequence[str] = (),
) -> Judged:
    """Judge a day, and keep it; `others` are sentences for its report on other days."""
    from spark_jobs.store import parquet

    begun_us, begun = time.time_ns() // 1000, time.monotonic()
    before, number = results.newest(day), results.next_number(day)
    late = store.late(day, before.take) if before else []
    told = [*others]
    if late:
        told.append(f"Came after {day} was judged: {named(late)}.")
    span = Span(day)
    log = Log(
        name=chosen.name,
        lines=parquet.read(spark, store, span, listing.live, scratch),
        scratch=scratch,
        span=span,
        complete=store.segments(day),
        live=len(listing.live),
        unread=listing.unread,
        unknown=listing.unknown,
        period=day,
        binlogs=chosen.binlogs,
    )
    staged = results.stage()
    findings = audit.judge(
        spark,
        log,
        staged,
        chosen.clock_error_us,
        chosen.min_coverage,
        lambda name: stage(f"{day}: {name}"),
    )
    summary = summarize(
        findings,
        day=day,
        judgement=number,
        judged_us=begun_us,
        duration_s=time.monotonic() - begun,
        take=store.manifest.newest,
    )
    if before is not None:
        told.append(told_changes(summary, before))
    notes = (*_notes(day, number, begun_us, warm=bool(store.segments(day.before))), *told)
    findings = replace(findings, notes=(*notes, *findings.notes))
    nights = [night for night in written.kept(chosen.out) if night.date != summary.date]
    place = results.place(day, number)
    written.write(findings, staged, [*nights, summary], summary.duration_s, place)
    return Judged(day, findings, results.keep(staged, day, summary), told)


def _notes(day: Day, number: int, begun_us: int, *, warm: bool) -> Iterator[str]:
    """Sentences on what was judged, and when."""
    yield (
        f"Judged: reads that arrived on {day} (UTC). This is judgement {number} of the day, begun "
        f"at {moment(begun_us)[:19]} UTC."
    )
    if begun_us < day.end_us:
        yield "The day was not over."
    if warm:
        yield f"{day.before} was read as a warm-up, and not judged."
    else:
        yield (
            f"Nothing of {day.before} has been taken, so there was no warm-up: what was written "
            "before the day is not known."
        )


def shown(judged: Sequence[Judged]) -> Findings:
    """What the newest report tells: the day that was asked for, and which were judged anew."""
    *others, asked = judged
    anew = (
        f"Judged anew: {' '.join(one.told)} {one.findings.verdict} {code(str(one.folder))}"
        for one in others
    )
    return replace(asked.findings, notes=(*asked.findings.notes, *anew))
