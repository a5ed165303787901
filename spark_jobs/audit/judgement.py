"""Reaches the verdicts on a log: plain ones by comparison, the rest by the judge."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from spark_jobs.clocks.clocks import Clocks
from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries import clusters, primary_history, quiet_clusters
from spark_jobs.primaries.primary_history import History, Reign
from spark_jobs.procedure import false_proofs, procedure
from spark_jobs.procedure import suspects as procedure_suspects
from spark_jobs.reads import consistency_audit, plain_reads
from spark_jobs.reads.plain_reads import Known
from spark_jobs.records.survey import Server, Survey
from spark_jobs.scratch import rewritten
from spark_jobs.sql import among
from spark_jobs.storage import Folder
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import JUDGED, PROCEDURE, RUN, TELLING
from spark_jobs.tables.timestamps import published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.audit.deduplication import Deduplicated


@dataclass(frozen=True)
class Judgement:
    """The verdicts, and what they follow from.

    Attributes:
        timed: NUMBERED, in corrected times.
        history: the history of the primaries.
        bounds: the sources of GTIDs of each cluster.
        reads: JUDGED.
        left: `plain_reads.LEFT` of the reads that were left to the judge.
        lapsed: PROCEDURE.
        lapses: the number of rows in `lapsed`.
    """

    timed: "DataFrame"
    history: History
    bounds: Bounds
    reads: "DataFrame"
    left: "DataFrame"
    lapsed: "DataFrame"
    lapses: int


def reach(
    log: "Deduplicated",
    found: Clocks,
    error_us: int,
    out: Folder,
    scratch: Folder,
    stage: Callable[[str], None],
    persisted: list["DataFrame"],
) -> Judgement:
    """Judge every read that is to be judged, and the procedure; this runs jobs.

    Args:
        log: its records without repeats, and what is known of the time before.
        found: what was found out about the clocks.
        error_us: by how much clocks may differ, µs.
        out: takes the tables ``reads`` and ``procedure``.
        scratch: takes a table that is needed only meanwhile; all workers see it.
        stage: is called with the name of each stage that begins.
        persisted: tables that are persisted here are added to it, for the caller to unpersist.
    """
    stage("reading what primaries said")
    timed, known = prepared(log, found, error_us, scratch, persisted)
    history = known.history
    stage("judging reads")
    folder = out / "reads"
    unsteady = found.unsteady
    suspects = None
    if found.ahead is None:  # some clock was set back: no comparison of times holds
        left = timed.where("is_judged").withColumn("cluster", clusters.column(history.clusters))
        left = left.selectExpr(*plain_reads.LEFT)
        small_table.write([], JUDGED, folder)
        reads = consistency_audit.write(timed, history, folder, error_us, unsteady)
    else:
        reads, left = _plain(timed, known, folder, scratch)
        if not left.isEmpty():
            reads = consistency_audit.write(timed, history, folder, error_us, unsteady, left)
        suspects = procedure_suspects.find(timed, known, _changed(log.survey), scratch)
    lapsed, lapses = small_table.local(timed.sparkSession, [], PROCEDURE), 0
    if suspects is None or suspects:
        lapsed = procedure.transform(timed, scratch, error_us, unsteady, suspects, history.since_us)
        if log.period is not None:
            lapsed = lapsed.where(
                fn.col("arrived_us").between(log.period.begin_us, log.period.end_us - 1)
            )
        lapsed = lapsed.persist()
        persisted.append(lapsed)
        lapses = lapsed.count()
    if lapses:
        published(lapsed).write.mode("overwrite").parquet(str(out / "procedure"))
    else:
        small_table.write([], PROCEDURE, out / "procedure")
    return Judgement(
        timed=timed,
        history=history,
        bounds=known.bounds,
        reads=reads,
        left=left,
        lapsed=lapsed,
        lapses=lapses,
    )


def _plain(
    timed: "DataFrame", known: Known, folder: Folder, scratch: Folder
) -> tuple["DataFrame", "DataFrame"]:
    """Write the verdicts on plain reads; return these, and `plain_reads.LEFT` of all others."""
    if known.survey.wanted:
        unbacked = rewritten(plain_reads.unbacked(timed, known), scratch / "unbacked")
        has_unbacked = small_table.count(scratch / "unbacked") > 0
        settled = plain_reads.settle(timed, known, unbacked if has_unbacked else None)
        plain = settled.where("verdict is not null")
        published(plain).write.mode("overwrite").parquet(str(folder))
    else:
        small_table.write([], JUDGED, folder)
    reads = consistency_audit.kept(timed.sparkSession, folder)
    left = timed.where("is_judged").selectExpr(*plain_reads.LEFT)
    if small_table.count(folder) == known.survey.judged:
        return reads, left.where("false")
    left = left.join(reads.select(*RUN, "seq"), [*RUN, "seq"], "left_anti")
    return reads, rewritten(left.select(*plain_reads.LEFT), scratch / "left")


def prepared(
    log: "Deduplicated",
    found: Clocks,
    error_us: int,
    scratch: Folder,
    persisted: list["DataFrame"],
) -> tuple["DataFrame", Known]:
    """Bring together what verdicts rest on; this runs jobs. For the parameters see `reach`.

    Returns:
        NUMBERED in corrected times, with those that stand for the time before, and what is known of
        them. Unless a clock was set back, also the columns of `plain_reads.bounded`.
    """
    survey, before = log.survey, log.before
    timed = found.corrected(log.records)
    if before is not None:
        timed = timed.unionByName(before.records)
    since_us = 0 if before is None else before.until_us
    known_clusters, _ = clusters.group(survey.named)
    bounds = Bounds(survey.sources_of(known_clusters))
    learned = None
    if found.ahead is not None:
        bounded = plain_reads.bounded(timed, clusters.column(known_clusters), bounds)
        timed = rewritten(bounded, scratch / "bounded")
        learned = _learned(timed, log, found, bounds, error_us, since_us)
    history = primary_history.learn(timed, error_us, learned, since_us)
    if learned is None or learned.has_events:
        persisted.append(history.past)
        history = replace(history, past=rewritten(history.past, scratch / "past"))
    has_open = bool(survey.unnamed or log.counts.holes or before is not None)
    return timed, Known(
        survey=survey, history=history, bounds=bounds, has_open=has_open, error_us=error_us
    )


def _learned(
    timed: "DataFrame",
    log: "Deduplicated",
    found: Clocks,
    bounds: Bounds,
    error_us: int,
    since_us: int,
) -> primary_history.Known:
    """What is known of the primaries already."""
    survey = log.survey
    known, unplaced = clusters.group(survey.named)
    primaries: defaultdict[str, set[Server]] = defaultdict(set)
    for run, server, role in survey.servers:
        if role == "primary":
            primaries[known[run[0]]].add(server)
    rough: frozenset[str] = frozenset()
    if survey.wholes:
        rough = quiet_clusters.lacking(timed, bounds, error_us, since_us)
    quiet = {name for name, servers in primaries.items() if len(servers) == 1} - rough
    loud = set(primaries) - quiet
    ahead = dict(found.ahead or ())
    reigns = [
        Reign(*run, *server, span.from_us - ahead.get(run, 0), span.to_us - ahead.get(run, 0))
        for (run, server), span in sorted(survey.reigns.items(), key=repr)
        if span.from_us <= span.to_us
    ]
    is_open = bool(survey.unnamed or log.counts.holes or log.counts.missing or log.before)
    telling = None
    if is_open or loud:
        loudly = among(clusters.of_record(known), loud)
        wrote = f"kind = 'statement' and named != '' and role = 'primary' and {loudly}"
        tells = f"hole or is_unnamed or missing > 0 or whole is not null or {wrote}"
        telling = timed.where(tells).selectExpr(*TELLING.names)
    return primary_history.Known(known, unplaced, reigns, frozenset(quiet), telling)


def _changed(survey: Survey) -> list[tuple[str, int, str, str]]:
    """Servers of which a run counted so many new incarnations that their losses are suspect."""
    incarnations: defaultdict[tuple[str, int, str, str], set[int]] = defaultdict(set)
    for run, (uuid, incarnation), role in survey.servers:
        if role == "replica" and uuid is not None and incarnation is not None:
            incarnations[*run, uuid].add(incarnation)
    return [
        server
        for server, numbers in sorted(incarnations.items())
        if max(numbers) - min(numbers) >= false_proofs.OFTEN
    ]
