"""Logs of a proxy that does what it should, as they are and spoilt; large ones, too."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.routing_log import UUID, Run, save
from tests.spark_jobs.simulation import Simulation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

P = UUID["primary"]


def judge(spark: "SparkSession", log: Path, scratch: Path) -> "DataFrame":
    from spark_jobs import consistency_audit, evidence, ingest

    parsed = ingest.parse(ingest.read(spark, ingest.find_segments(log, scratch)))
    records = ingest.number(parsed).persist()
    return consistency_audit.transform(records, evidence.transform(records)).persist()


def simulate(spark: "SparkSession", tmp_path: Path, seed: int, steps: int, spoilt: int) -> None:
    simulation = Simulation(seed, workers=4, sessions=max(40, steps // 1000))
    for _ in range(steps):
        simulation.step()
    planted = simulation.spoil(spoilt)
    save(tmp_path / "log", *simulation.runs)
    (tmp_path / "scratch").mkdir()
    judged = judge(spark, tmp_path / "log", tmp_path / "scratch")

    found = judged.where("verdict = 'violation'").collect()
    assert {(row.run, row.seq): row.missing for row in found} == planted
    verdicts = Counter(
        {row.verdict: row["count"] for row in judged.groupBy("verdict").count().collect()}
    )
    assert set(verdicts) <= {Verdict.OK, Verdict.NO_PROMISE, Verdict.VIOLATION}
    findings = {row.finding for row in judged.select("finding").distinct().collect()}
    assert findings >= {Finding.KNOWN, Finding.WAITED, Finding.PRIMARY, Finding.NOTHING_WRITTEN}
    assert judged.where("understated").count() == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_exactly_what_was_planted_is_found(
    spark: "SparkSession", tmp_path: Path, seed: int
) -> None:
    simulate(spark, tmp_path, seed, steps=3000, spoilt=20 * (seed - 1))


@pytest.mark.deep
def test_a_night(spark: "SparkSession", tmp_path: Path) -> None:
    simulate(spark, tmp_path, seed=3, steps=200_000, spoilt=100)


@pytest.mark.deep
@pytest.mark.parametrize("backed", [True, False])
def test_a_session_with_many_writes(spark: "SparkSession", tmp_path: Path, backed: bool) -> None:
    # Every other transaction is another session's, so the required set has 50,000 intervals.
    # Judging it anew for each of the 50,000 reads would take days.
    run = Run()
    if backed:
        run.probe("r1", f"{P}:1-100000")
    # Evidence in as many pieces, and a claim that goes beyond it.
    for number in range(1, 20_000, 2):
        run.waited(8, "r1", f"{P}:{number}")
    missing = []
    for number in range(2, 100_001, 2):
        run.write(7, f"{P}:{number}")
        if number % 10_000:
            run.known(7, "r1", f"{P}:1-100000")
        else:
            missing.append(run.known(7, "r1", f"{P}:1-{number - 1}")["seq"])
    save(tmp_path / "log", run)
    (tmp_path / "scratch").mkdir()
    judged = judge(spark, tmp_path / "log", tmp_path / "scratch").where("session = 7")

    counts = {
        (row.verdict, row.finding): row["count"]
        for row in (judged.groupBy("verdict", "finding").count().collect())
    }
    rest = (Verdict.OK, Finding.KNOWN) if backed else (Verdict.NOT_JUDGED, Finding.UNBACKED)
    assert counts == {rest: 49_990, (Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL): 10}
    found = judged.where("verdict = 'violation'").orderBy("seq").collect()
    assert [row.seq for row in found] == missing
    assert [row.missing for row in found] == [f"{P}:{n}" for n in range(10_000, 100_001, 10_000)]
