"""Tells how complete the log is: torn and damaged lines, gaps, repeats."""

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import DataFrame

from spark_jobs.records.survey import Run, Survey
from spark_jobs.tables.schema import NUMBERED, RUN

_KINDS = ("statement", "proof", "gap")


def faults(found: Survey) -> list[dict[str, object]]:
    """Count the lines that are no record, by file.

    Returns:
        FAULTS.
    """
    return [
        {"file": file, "fault": fault, "lines": lines}
        for (file, fault), lines in sorted(found.faults.items())
    ]


def runs(
    found: Survey, missing: Mapping[Run, tuple[int, int]], repeats: Mapping[Run, Counter[str]]
) -> list[dict[str, object]]:
    """Sum up each run, as far as it is in the judged period.

    Args:
        found: of the log without repeats.
        missing: by run: how many numbers no record has, and how many of these the run's gap records
            declare as dropped.
        repeats: the result of `repeats`.

    Returns:
        RUNS.
    """
    rows = []
    for run, run_survey in found.runs.items():
        if not run_survey.kinds.total():
            continue
        lacks, declared = missing.get(run, (0, 0))
        again = repeats.get(run, Counter())
        rows.append(
            _named(run)
            | {f"{kind}s": run_survey.kinds[kind] for kind in _KINDS}
            | {
                "first_seq": run_survey.first_seq,
                "last_seq": run_survey.last_seq,
                "missing": lacks,
                "declared": declared,
                "repeated": again["same"],
                "conflicting": again["other"],
                "from_us": run_survey.arrived_us,
                "to_us": run_survey.ended_us,
            }
        )
    return sorted(rows, key=lambda row: (row["from_us"], *(row[name] for name in RUN)))


def _named(run: Run) -> dict[str, object]:
    return dict(zip(RUN, run, strict=True))


def repeats(numbered: DataFrame) -> dict[Run, Counter[str]]:
    """Count the repeated records of each run: the "same" record again, or an "other" of its number.

    Args:
        numbered: NUMBERED, of the judged period.
    """
    found: dict[Run, Counter[str]] = {}
    told = numbered.select(NUMBERED.names).where("repeat is not null")
    for row in told.groupBy(*RUN, "repeat").count().collect():
        counts = found.setdefault((row.proxy, row.worker, row.run), Counter())
        counts[row.repeat] += row["count"]
    return found
