"""Reads the records of a log, each once, numbered."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from spark_jobs.audit import log_integrity
from spark_jobs.records import ingest, numbering, statement, survey
from spark_jobs.records.numbering import Counts
from spark_jobs.records.survey import Run, Survey
from spark_jobs.tables.schema import NUMBERED, RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.audit.log import Log
    from spark_jobs.day import Period
    from spark_jobs.state.before import Before


@dataclass(frozen=True)
class Deduplicated:
    """The records of a log without repeats.

    Attributes:
        survey: what they hold.
        counts: how many of their numbers are strange.
        records: NUMBERED; `is_judged` only in the judged period.
        repeats: the result of `log_integrity.repeats`.
        before: what is known of the time before; None if nothing is.
        period: the judged period; None for all.
    """

    survey: Survey
    counts: Counts
    records: "DataFrame"
    repeats: Mapping[Run, Counter[str]]
    before: "Before | None"
    period: "Period | None"

    @property
    def is_steady(self) -> bool:
        """Whether nothing shows that a clock was set back."""
        return not self.counts.unsteady and not any(run.fallen for run in self.survey.runs.values())

    def missing(self) -> dict[Run, tuple[int, int]]:
        """By run: how many numbers no record has, and how many of these are reported as dropped.

        Only gaps before records of the judged period count. This may run a job.
        """
        if not self.counts.missing:
            return {}
        gaps = self.records.where("missing > 0")
        if self.period is not None:
            gaps = gaps.where(
                fn.col("arrived_us").between(self.period.begin_us, self.period.end_us - 1)
            )
        rows = gaps.groupBy(*RUN).agg(fn.sum("missing"), fn.sum("declared")).collect()
        return {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}


def look(spark: "SparkSession", log: "Log", persisted: list["DataFrame"]) -> Deduplicated:
    """Go through a log for the first time; this runs jobs.

    Args:
        spark: a session.
        log: the log.
        persisted: tables that are persisted here are added to it, for the caller to unpersist.
    """
    from spark_jobs.state.before import Before

    before = None if log.before is None else Before(spark, log.before)
    parsed = log.lines.parsed
    if before is not None:
        parsed = parsed.unionByName(before.tail.select(parsed.columns))
    dates = None if log.span is None else log.span.dates
    whole = parsed.where("fault is null")
    found = survey.look(parsed.withColumns(statement.facts()), log.period, dates)
    numbers = None if before is None else before.numbers
    strange = numbering.strange(whole, numbers).persist()
    persisted.append(strange)
    counts = numbering.count(strange)
    numbered = ingest.number(whole, strange=strange, counts=counts)
    repeats: Mapping[Run, Counter[str]] = {}
    if counts.repeated:
        repeats = log_integrity.repeats(_during(numbered, log))
        numbered = numbered.where("repeat is null").persist()
        persisted.append(numbered)
        faults, lagging = found.faults, found.lagging
        found = survey.look(_as_parsed(numbered), log.period, dates)
        found.faults, found.lagging = faults, lagging
    if before is not None:
        found.add_servers(survey.look(_as_parsed(before.records), None, None))
    if log.period is not None:
        numbered = numbered.withColumn("is_judged", statement.judged_in(log.period))
    records = numbered.selectExpr(*NUMBERED.names)
    return Deduplicated(found, counts, records, repeats, before, log.period)


def _as_parsed(records: "DataFrame") -> "DataFrame":
    nothing = fn.lit(None).cast("string")
    return records.withColumns({"fault": nothing, "line": nothing})


def _during(records: "DataFrame", log: "Log") -> "DataFrame":
    if log.period is None:
        return records
    period = log.period
    return records.where(f"arrived_us >= {period.begin_us} and arrived_us < {period.end_us}")
