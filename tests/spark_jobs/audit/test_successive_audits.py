"""One audit after the other, in one Spark session and one directory."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.audit.log import Log
from spark_jobs.findings.findings import Findings
from spark_jobs.verdict import Verdict
from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

P = UUID["primary"]


def log_with_write(number: int, claim: str) -> Run:
    """A session that reads behind a write, on a claim."""
    run = Run(f"a{number}", proxy=f"gate{number}")
    run.probe("r1", f"{P}:1-99")
    run.write(7, f"{P}:{number}")
    run.known(7, "r1", f"{P}:{claim}", required=f"{P}:{claim}")
    return run


def judged(spark: "SparkSession", place: Path, run: Run, scratch: Path | None = None) -> Findings:
    from spark_jobs.audit import audit
    from spark_jobs.records import take

    save(place, run)
    (place / "unpacked").mkdir()
    segments = find_segments(place)
    log = Log(
        name="log",
        lines=take.all_in(spark, segments, place / "parsed"),
        scratch=scratch or place / "unpacked",
        complete=1,
        live=0,
    )
    return audit.judge(spark, log, place / "out")


def with_times_that_cannot_be(run: Run) -> Run:
    run.clock.now = 250_000_000_000_000_000
    for session in range(20):
        run.write(session, f"{P}:{100 + session}")
    run.known(3, "r1", f"{P}:1-9", required=f"{P}:1-9")
    return run


def test_neither_times_that_cannot_be_nor_the_log_before_count(
    spark: "SparkSession", tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    runs = [with_times_that_cannot_be(log_with_write(5, "1-9")), log_with_write(20, "1-9")]
    verdicts = []
    for number, run in enumerate(runs):
        found = judged(spark, tmp_path / str(number), run, tmp_path / "scratch")
        verdicts.append(
            [
                (row.text("verdict"), row.text("finding"), row.number("reads"))
                for row in found.verdicts
            ]
        )
    lacks = (Verdict.VIOLATION, "known set too small", 1)
    assert verdicts == [[(Verdict.OK, "known", 1), lacks], [lacks]]
    assert list((tmp_path / "scratch").iterdir()) == []
