"""Audits one day: takes new segments of the log, and judges the day.

Days whose segments came late are judged again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs import storage
from spark_jobs.audit import audit
from spark_jobs.audit.log import Log
from spark_jobs.day import Day
from spark_jobs.findings.findings import Findings
from spark_jobs.findings.results import Results, summarize, told_changes
from spark_jobs.markdown import code, moment, named
from spark_jobs.options import Options
from spark_jobs.report import written
from spark_jobs.state.states import DeletedError, State, States, choose
from spark_jobs.store.store import Span, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.records.segments import Listing, Segment


class _Kept(NamedTuple):
    """What the audit's directory holds."""

    store: Store
    results: Results
    states: States


class _Run(NamedTuple):
    """What is the same for all days that are judged together, as for `judge`."""

    spark: "SparkSession"
    chosen: Options
    listing: "Listing"
    scratch: storage.Folder
    kept: _Kept
    damaged: "Mapping[Segment, str]"
    stage: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement that was kept.

    Attributes:
        day: the day that was judged.
        findings: all that was found.
        folder: where the judgement is.
        told: sentences on late segments and what they changed.
    """

    day: Day
    findings: Findings
    folder: storage.Folder
    told: Sequence[str]


def judge(
    spark: "SparkSession",
    chosen: Options,
    day: Day,
    listing: "Listing",
    scratch: storage.Folder,
    stage: Callable[[str], None],
) -> Iterator[Judged]:
    """Judge the days whose segments came late, and then the day that was asked for.

    Args:
        spark: a session.
        chosen: the options.
        day: the day.
        listing: the files of the log.
        scratch: a folder for intermediate tables; all workers see it.
        stage: is called with the name of each stage that begins.

    Raises:
        OSError: a segment changed after it was taken, or records of the day were deleted, and the
            message names them; or the disk cannot be written.
    """
    from spark_jobs.store import parquet

    out = storage.at(spark, chosen.out)
    kept = _Kept(Store(out / "store"), Results(out), States(out / "states"))
    stage("taking segments")
    took = kept.store.take(listing.closed, parquet.reader(spark))
    run = _Run(spark, chosen, listing, scratch, kept, took.damaged, stage)
    choose(kept.states, kept.store, day)
    told = []
    for earlier in kept.results.days():
        before = kept.results.newest(earlier)
        if earlier == day or before is None:
            continue
        late = kept.store.late(earlier, before.take)
        if not late:
            continue
        try:
            choose(kept.states, kept.store, earlier)
        except DeletedError:
            told.append(
                f"Segments that came after {earlier} was judged: {named(late)}. The day is not "
                "judged anew: the store no longer has all of its records."
            )
        else:
            yield _judge(run, earlier)
    yield _judge(run, day, told)


def _judge(run: _Run, day: Day, others: Sequence[str] = ()) -> Judged:
    """Judge a day, and keep the judgement; `others` are sentences on other days, for its report."""
    from spark_jobs.store import parquet

    spark, chosen, listing, scratch, kept, broken, stage = run
    store, results, states = kept
    begun_us, begun = time.time_ns() // 1000, time.monotonic()
    before, number = results.newest(day), results.next_number(day)
    late = store.late(day, before.take) if before else []
    told = [*others]
    if late:
        told.append(f"Segments that came after {day} was judged: {named(late)}.")
    state = choose(states, store, day)
    span = Span(day) if state is None else state.span(day)
    not_taken = {segment.file: why for segment, why in broken.items()}
    lacking = store.not_taken({**listing.damaged, **not_taken})
    damaged = {file: why for file, why in lacking.items() if span.may_need(file)}
    parts = [segment for segment in broken if segment.file in damaged]
    # The state at a day's end can only be known once the day is over. And days that began with a
    # state without the records of a damaged segment would not know of what they lack.
    is_known = begun_us >= day.end_us and not damaged
    ends = states.stage(store.manifest.newest) if is_known else None
    log = Log(
        name=chosen.name,
        lines=parquet.read(spark, store, span, [*listing.live, *parts], scratch),
        scratch=scratch,
        span=span,
        complete=store.segments(day),
        live=len(listing.live),
        unread=listing.unread,
        unknown=listing.unknown,
        damaged=damaged,
        period=day,
        binlogs=chosen.binlogs,
        before=state,
        ends=ends,
    )
    staged = results.stage(day)
    try:
        findings = audit.judge(
            spark,
            log,
            staged,
            chosen.clock_error_us,
            chosen.min_coverage,
            lambda name: stage(f"{day}: {name}"),
        )
    except Exception:
        storage.discard(staged)  # the disk may be full
        raise
    if ends is not None:
        states.keep(ends)
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
    notes = (*_notes(day, number, begun_us), *_warm_up(day, state, store), *told)
    findings = replace(findings, notes=(*notes, *findings.notes))
    nights = [night for night in written.kept(results) if night.date != summary.date]
    place = chosen.report_folder / "days" / f"date={day}" / f"judgement={number}"
    pages = staged if isinstance(staged, Path) else place
    written.write(findings, pages, [*nights, summary], summary.duration_s, place)
    return Judged(day, findings, results.keep(staged, day, summary), told)


def _notes(day: Day, number: int, begun_us: int) -> Iterator[str]:
    """Sentences on what was judged, and when."""
    yield (
        f"Judged: reads that arrived on {day} (UTC). This is judgement {number} of the day, begun "
        f"at {moment(begun_us)[:19]} UTC."
    )
    if begun_us < day.end_us:
        yield "The day was not over."


def _warm_up(day: Day, state: State | None, store: Store) -> Iterator[str]:
    """Sentences on what was known of the time before the day."""
    if state is not None:
        yield f"The judgement began with the state at the end of {state.day}."
        if late := state.late(store):
            yield f"Segments that came later, and are not in this state: {named(late)}."
        if state.day < day.before:
            warm_up = f"{state.day.after} to {day.before}"
            if state.day.after == day.before:
                warm_up = str(day.before)
            yield f"{warm_up} was read as a warm-up, and not judged."
    elif store.segments(day.before):
        yield f"{day.before} was read as a warm-up, and not judged."
    else:
        yield (
            f"Nothing of {day.before} has been taken, so there was no warm-up: what was written "
            "before the day is not known."
        )


def shown(judged: Sequence[Judged]) -> Findings:
    """What the newest report tells: the day that was asked for, and which days were judged anew."""
    *others, asked = judged
    anew = (
        f"Judged anew: {' '.join(day.told)} {day.findings.verdict} {code(str(day.folder))}"
        for day in others
    )
    return replace(asked.findings, notes=(*asked.findings.notes, *anew))
