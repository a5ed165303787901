"""Nights: each judges a day, and leaves to the next one what that has to know of the past."""

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.audit_queries import answers
from spark_jobs import nightly
from spark_jobs.day import HOUR_US, Day
from spark_jobs.store.store import Store
from tests.spark_jobs.audit_tables import columns, documented
from tests.spark_jobs.binary_log import binary_log
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Clock, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]
DAY = Day.parse("2026-10-05")


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the audit use the tests' Spark, and leave it running."""
    monkeypatch.setattr(nightly, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def segment(log: Path, run: Run, day: Day, number: int) -> list[Record]:
    """Write what a run has recorded since the last one as its next segment."""
    (path,) = save(log, run, day=str(day), suffix=f".{number}")
    path.rename(path.with_name(f"gate-0-{run.name}-{number}.jsonl"))
    records, run.records = run.records, []
    return records


def night(log: Path, day: Day, *options: str) -> int:
    return nightly.main(["--log", str(log), "--date", str(day), *options])


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("shared")
def test_a_night(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tests.spark_jobs.test_simulation import said_of
    from tests.spark_jobs.without_spark import audit

    monkeypatch.setattr("spark_jobs.store.store.BATCH_BYTES", 1)  # a take for each segment
    log, out = tmp_path / "log", tmp_path / "log" / "_audit"
    run = Run(clock=Clock(DAY.begin_us - HOUR_US))
    run.probe("r1", f"{P}:1-5")
    committed = [(3, run.clock.now + 5, run.clock.now + 5)]  # nobody names it, on the day before

    def write(number: int, late_us: int) -> None:
        sent = int(str(run.write(7, f"{P}:{number}")["dispatched_us"]))
        committed.append((number, sent + 300, sent + late_us))

    write(6, 2_000)
    run.known(7, "r1", f"{P}:1-5")  # a violation, of the day before
    write(7, 90_000)
    run.waited(7, "r1", f"{P}:7")  # before it was applied there: of the day before
    run.clock.now = DAY.begin_us - 200
    write(8, 2_000)  # arrived the day before, committed on the day
    records = segment(log, run, DAY.before, 1)
    run.clock.now = DAY.begin_us + HOUR_US
    run.waited(7, "r1", f"{P}:6-8")
    run.waited(7, "r1", f"{P}:6")  # what was written the day before is still owed
    write(9, 2_000)
    write(10, 90_000)
    committed.append((11, run.clock.now, run.clock.now))  # nobody names it
    run.waited(7, "r1", f"{P}:6-10")  # before it was applied there
    run.clock.now += 5_000_000
    run.waited(7, "r1", f"{P}:6-10")
    records += segment(log, run, DAY, 2)
    place = tmp_path / "binlogs" / UUID["r1"]
    place.mkdir(parents=True)
    (place / "binlog.000001").write_bytes(binary_log(committed))
    assert night(log, DAY, "--binlogs", str(place.parent)) == 1
    kept = out / "days" / f"date={DAY}" / "judgement=1"
    told = capsys.readouterr()
    assert told.err == ""
    assert f"missing   {P}:7-8\n" in told.out
    assert told.out.count("  applied ") == 1
    assert f"  applied   {P}:10, at least" in told.out
    assert (
        "\n\n1 read may have been stale. The replicas' binary logs contradict 1 WAIT of the "
        "routing log. Of 4 reads with a promise, 1 met a server not shown to have what it had to "
        "see. 1 WAIT ended before the replica had applied the transactions that were waited for."
        "\n\n"
        "r1:3306 answered reads after a WAIT for fewer transactions than they had to see.\n"
        f"1 read may have been stale, at {DAY} "
    ) in told.out
    assert told.out.endswith(
        "\n\nBinary logs: 4 transactions in 1 file. No record names 1 transaction of these.\n"
        f"Kept: {kept}\nReport: {out}/report.html\n"
    )
    report = (kept / "report.md").read_text()
    newest = (out / "report.md").read_text()
    assert newest == report.replace(f"`{kept}/report.html`", f"`{out}/report.html`")
    assert (kept / "report.html").read_text().startswith("<!doctype html>")
    assert f"{DAY.before} was read as a warm-up, and not judged." in report
    assert "6 statements in 1 run" in report
    assert len(list((out / "store" / "records").glob("take=*"))) == 2
    assert spark.read.parquet(str(kept / "reads")).count() == 4
    for table in sorted(folder.name for folder in kept.iterdir() if folder.is_dir()):
        assert documented(table) == columns(spark.read.parquet(str(kept / table))), table
    answered = {question: answer.collect() for question, answer in answers(spark, out)}
    assert len(answered) == 6
    (broken,) = answered["Which reads broke a promise, and which statement's write did they miss?"]
    assert (broken.missing, broken.server) == (f"{P}:7-8", "r1:3306")
    assert broken.arrived_at.date() == DAY.date
    promised = answered["Was every promise kept, day by day?"]
    assert sum(row.reads for row in promised) == 4
    assert sum(row.broken for row in promised) == 1

    # All that the night after has to know of the past is in the state.
    Store(out / "store").prune(DAY.end_us)
    run.clock.now = DAY.after.begin_us + HOUR_US
    run.known(7, "r1", f"{P}:1-10")  # shown by a WAIT of the day before
    run.known(7, "r1", f"{P}:1-9")
    run.known(7, "r1", f"{P}:1-11")
    records += segment(log, run, DAY.after, 3)
    assert night(log, DAY.after) == 1
    printed = capsys.readouterr().out
    assert f"missing   {P}:10\n" in printed
    assert "acknowledged 86,400 s earlier by statements (before the day)\n" in printed
    kept = out / "days" / f"date={DAY.after}" / "judgement=1"
    page = (kept / "report.html").read_text()
    assert "r1:3306 says for the last time before the read that it has" in page
    began = f"The judgement began with the state at the end of {DAY}."
    assert began in (kept / "report.md").read_text()
    assert began not in report
    found = said_of(spark.read.parquet(str(kept / "reads")).collect())
    assert found == audit(records, 0, (DAY.after.begin_us, DAY.after.end_us)).reads


def test_two_audits_do_not_write_to_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: pytest.fail("Spark was started"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.md").write_text("of the other one")
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert nightly.run(tmp_path, out) == 2
    assert f"another audit is writing to {out}" in capsys.readouterr().err
    assert (out / "report.md").read_text() == "of the other one"
