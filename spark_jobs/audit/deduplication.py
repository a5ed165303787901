"""Reads the records of a log, each once, numbered."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from spark_jobs.audit import log_integrity
from spark_jobs.columns.chunk import EVERYTHING, Rules
from spark_jobs.columns.passes import Passes, Source
from spark_jobs.columns.survey import Run
from spark_jobs.records import ingest, statement
from spark_jobs.state.before import Before
from spark_jobs.tables.schema import RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.audit.log import Log


@dataclass(frozen=True)
class Deduplicated:
    """The records of a log without repeats.

    Attributes:
        passes: the passes through them.
        records: NUMBERED; `is_judged` only in the judged period.
        repeats: the result of `log_integrity.repeats`.
        before: what is known of the time before; None if nothing is.
    """

    passes: Passes
    records: "DataFrame"
    repeats: Mapping[Run, Counter[str]]
    before: Before | None


def look(
    spark: "SparkSession", log: "Log", scratch: Path, persisted: list["DataFrame"]
) -> Deduplicated:
    """Go through a log for the first time.

    Args:
        spark: a session.
        log: the log.
        scratch: directory for intermediate files.
        persisted: tables that are persisted here are added to it, for the caller to unpersist.
    """
    before = None if log.before is None else Before(spark, log.before, scratch / "before")
    tail = () if before is None else before.tail
    source = Source(
        files=[*log.lines.files, *map(str, tail)],
        rules=_rules(log),
        dates=None if log.span is None else log.span.dates,
        before=None if before is None else before.folder,
    )
    passes = Passes(spark, source, scratch / "first")
    whole = log.lines.parsed.where("fault is null")
    if before is not None and tail:
        whole = whole.unionByName(before.tail_records.select(whole.columns))
    repeats: Mapping[Run, Counter[str]] = {}
    if passes.is_repeated:
        numbers = None if before is None else before.numbers
        numbered = ingest.number(whole, persisted, before=numbers)
        told = (
            numbered
            if log.period is None
            else numbered.where(
                f"arrived_us >= {log.period.begin_us} and arrived_us < {log.period.end_us}"
            )
        )
        repeats = log_integrity.repeats(told)
        numbered = numbered.where("repeat is null")
        passes = _again(spark, passes, source, numbered, scratch)
    else:
        numbered = ingest.number(whole, strange=passes.strange)
    if log.period is not None:
        numbered = numbered.withColumn("is_judged", statement.judged_in(log.period))
    return Deduplicated(passes, numbered, repeats, before)


def _again(
    spark: "SparkSession", before: Passes, source: Source, numbered: "DataFrame", scratch: Path
) -> Passes:
    """Go through the records once more, without repeats."""
    folder = scratch / "once"
    nothing = fn.lit(None).cast("string")
    (
        numbered.select(
            *RECORD.names, "file", nothing.alias("fault"), nothing.alias("line")
        ).write.parquet(str(folder))
    )
    files = sorted(map(str, folder.glob("*.parquet")))
    passes = Passes(spark, replace(source, files=files), scratch / "second")
    passes.found.faults = before.found.faults
    passes.found.lagging = before.found.lagging
    return passes


def _rules(log: "Log") -> Rules:
    span, period = log.span, log.period
    begin_us, end_us = (EVERYTHING.begin_us, EVERYTHING.end_us)
    if span is not None:
        begin_us, end_us = span.begin_us, span.end_us
    if log.before is not None:
        begin_us = EVERYTHING.begin_us  # the state's tail may begin earlier than the span
    if period is None:
        return Rules(begin_us, end_us, EVERYTHING.judge_from_us, EVERYTHING.judge_to_us)
    return Rules(begin_us, end_us, period.begin_us, period.end_us)
