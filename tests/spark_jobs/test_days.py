"""Nights by Spark, each with the state of the one before: as if the whole log were read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from spark_jobs import nightly
from spark_jobs.day import DAY_US, HOUR_US, Day
from spark_jobs.store.store import Store
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.simulation import Simulation
from tests.spark_jobs.without_spark import Audited, _us, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = Day.parse("2026-10-05")
DAYS = (FIRST, FIRST.after, FIRST.after.after)


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the audit use the tests' Spark, and leave it running."""
    monkeypatch.setattr(nightly, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def slowed() -> list[Record]:
    """A simulated log with two failovers and violations that takes three days."""
    simulation = Simulation(3, sessions=9)
    simulation.run(300, failover=True)
    runs = simulation.finish()
    simulation.spoil(2)
    log = [record for run in runs for record in run.records]
    begin = min(_us(it, "arrived_us") for it in log)
    end = max(_us(it, "arrived_us") for it in log)
    times = (3 * DAY_US - 2 * HOUR_US) // (end - begin)
    for it in log:
        for name in ("arrived_us", "dispatched_us", "ended_us"):
            it[name] = FIRST.begin_us + HOUR_US + (_us(it, name) - begin) * times
        for name in ("wait_us", "bound_us"):
            it[name] = _us(it, name) * times if it[name] else it[name]
    return log


def save(log: list[Record], folder: Path, day: Day) -> None:
    """Write what ended on a day, a segment for each run."""
    place = folder / f"date={day}"
    place.mkdir(parents=True)
    for it in log:
        if day.begin_us <= _us(it, "ended_us") < day.end_us:
            path = place / f"{it['proxy']}-{it['worker']}-{it['run']}.jsonl"
            with path.open("a") as file:
                file.write(f"{json.dumps(it)}\n")


def said(folder: Path) -> dict[tuple[object, ...], tuple[object, ...]]:
    rows = [row for it in folder.glob("*.parquet") for row in pq.read_table(it).to_pylist()]
    key = ("proxy", "worker", "run", "seq")
    return {
        tuple(row[name] for name in key): (row["verdict"], row["finding"], row["missing"])
        for row in rows
    }


def whole(log: list[Record], day: Day) -> Audited:
    its = [it for it in log if _us(it, "arrived_us") < day.end_us + HOUR_US]
    return audit(its, 0, (day.begin_us, day.end_us))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("shared")
def test_nights_with_states(tmp_path: Path) -> None:
    log, folder, out = slowed(), tmp_path / "log", tmp_path / "out"
    for day in DAYS:
        save(log, folder, day)
    for day in DAYS:
        nightly.main(["--log", str(folder), "--out", str(out), "--date", str(day)])
        kept = out / "days" / f"date={day}" / "judgement=1"
        expected = whole(log, day)
        assert expected.error_us == 0
        assert said(kept / "reads") == {key: it[:3] for key, it in expected.reads.items()}
        began = f"The judgement began with the state at the end of {day.before}."
        assert (began in (kept / "report.md").read_text()) == (day != FIRST)
        # All that an audit of a later day needs is in the state.
        Store(out / "store").prune(day.end_us)
        state = out / "states" / f"date={day}"
        files = (state / "facts").glob("*.parquet")
        assert sum(pq.read_metadata(it).num_rows for it in files) > 0
