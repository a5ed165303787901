"""Reaches the verdicts on a log: plain ones by whole columns, the rest by the judge."""

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.clocks.clocks import Clocks
from spark_jobs.columns.passes import Passes
from spark_jobs.columns.series import SeriesError
from spark_jobs.columns.settle import Settled
from spark_jobs.columns.tellings import Told
from spark_jobs.primaries import clusters, primary_history
from spark_jobs.primaries.primary_history import History
from spark_jobs.procedure import false_proofs, procedure
from spark_jobs.procedure.procedure import Suspects
from spark_jobs.reads import consistency_audit
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import JUDGED, PROCEDURE
from spark_jobs.tables.timestamps import published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.audit.deduplication import Deduplicated


@dataclass(frozen=True)
class Judgement:
    """The verdicts, and what they follow from.

    Attributes:
        timed: NUMBERED, in corrected times.
        told: what the records told of writes.
        history: the history of the primaries.
        reads: JUDGED.
        lapsed: PROCEDURE.
        lapses: the number of rows in `lapsed`.
        laid: the folder of the series; None if none were written.
    """

    timed: "DataFrame"
    told: Told
    history: History
    reads: "DataFrame"
    lapsed: "DataFrame"
    lapses: int
    laid: str | None


def reach(
    log: "Deduplicated",
    found: Clocks,
    error_us: int,
    out: Path,
    stage: Callable[[str], None],
    persisted: list["DataFrame"],
) -> Judgement:
    """Judge every read that is to be judged, and the procedure; this runs jobs.

    Args:
        log: its records without repeats, and what is known of the time before.
        found: what was found out about the clocks.
        error_us: by how much clocks may differ, µs.
        out: takes the tables ``reads`` and ``procedure``.
        stage: is called with the name of each stage that begins.
        persisted: tables that are persisted here are added to it, for the caller to unpersist.
    """
    stage("reading what primaries said")
    passes, before = log.passes, log.before
    survey = passes.found
    known, unplaced = clusters.group(survey.named)
    timed = found.corrected(log.records)
    if before is not None:
        timed = timed.unionByName(before.records)
    ahead = found.ahead
    plainly = ahead is not None
    if ahead is not None:
        passes.correct(ahead, error_us)
    told = passes.tell(known, plainly=plainly)
    laid = _laid(passes) if plainly else None
    learned = None if laid is None else passes.known(timed, known, unplaced, told, laid)
    since_us = 0 if before is None else before.until_us
    history = primary_history.learn(timed, error_us, learned, since_us)
    persisted.append(history.past)

    stage("judging reads")
    folder = out / "reads"
    shutil.rmtree(folder, ignore_errors=True)
    if laid is None:
        reads = consistency_audit.write(timed, history, folder, error_us, found.unsteady)
        suspects = None
    else:
        settled = passes.settle(told, laid, history, folder)
        suspects = _suspects(passes, settled)
        if settled.left:
            reads = consistency_audit.write(
                timed, history, folder, error_us, found.unsteady, passes.left
            )
        else:
            if not settled.reads:
                small_table.write([], JUDGED, folder)
            reads = consistency_audit.kept(timed.sparkSession, folder)
    lapsed, lapses = timed.sparkSession.createDataFrame([], PROCEDURE), 0
    if suspects is None or suspects:
        lapsed = procedure.transform(timed, error_us, found.unsteady, suspects, persisted, since_us)
        lapsed = passes.during(lapsed, "arrived_us").persist()
        persisted.append(lapsed)
        lapses = lapsed.count()
    if lapses:
        published(lapsed).write.mode("overwrite").parquet(str(out / "procedure"))
    else:
        small_table.write([], PROCEDURE, out / "procedure")
    return Judgement(
        timed=timed,
        told=told,
        history=history,
        reads=reads,
        lapsed=lapsed,
        lapses=lapses,
        laid=laid,
    )


def _laid(passes: Passes) -> str | None:
    """Write the series; None if some time is so wrong that the series have no room for it."""
    try:
        return passes.lay()
    except SeriesError:
        return None


def _suspects(passes: Passes, settled: Settled) -> Suspects:
    incarnations: defaultdict[tuple[str, int, str, str], set[int]] = defaultdict(set)
    for run, (uuid, incarnation), role in passes.found.servers:
        if role == "replica" and uuid is not None and incarnation is not None:
            incarnations[*run, uuid].add(incarnation)
    return Suspects(
        reads=passes.suspects if settled.suspects else None,
        liars=sorted(settled.liars, key=repr),
        changed=[
            server
            for server, numbers in sorted(incarnations.items())
            if max(numbers) - min(numbers) >= false_proofs.OFTEN
        ],
    )
