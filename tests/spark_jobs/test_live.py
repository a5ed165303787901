"""The live view: what it says is what an audit would say."""

import os
import signal
import urllib.request
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scripts.ports import reserve_port
from spark_jobs import live, nightly
from spark_jobs.audit import audit
from spark_jobs.day import HOUR_US, Day, hour_us
from spark_jobs.live import Live
from spark_jobs.options import Options
from spark_jobs.progress import Progress
from spark_jobs.report.metrics import Metrics
from spark_jobs.stop_signals import Stopped, handled
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import findings, incident, verdict
from tests.spark_jobs.nights import Nights
from tests.spark_jobs.routing_log import save
from tests.spark_jobs.simulation import PROMISES, Simulation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.audit.log import Log
    from tests.spark_jobs.without_spark import Key, Said

DAY = Day.parse("2026-11-30")


class View:
    """A view of a log whose segments name hours, by a clock that stands."""

    def __init__(self, folder: Path) -> None:
        self.nights = Nights(folder)
        self.hour = "2026-11-30T06"
        self.periods: list[tuple[int, int]] = []
        self.notes: list[list[str]] = []
        self.open()

    def open(self, window: int = 1) -> None:
        out = self.nights.out / "live"
        out.mkdir(parents=True, exist_ok=True)
        chosen = Options(log=self.nights.log, out=out, live=True, window=window)
        progress = Progress()
        self.live = Live(None, chosen, progress, clock=lambda: hour_us(self.hour) / 1e6)  # type: ignore[arg-type]  # it is not asked

    def judge(self, spark: object, log: "Log", out: Path, *others: object) -> object:
        assert log.period is not None
        self.periods.append((log.period.begin_us, log.period.end_us))
        self.notes.append(list(log.notes))
        return findings(
            verdicts=[verdict(Verdict.OK, Finding.WAITED, log.complete)],
            notes=log.notes,
            damaged=log.damaged,
        )


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> View:
    pytest.importorskip("pyspark")
    from spark_jobs.store import parquet

    its = View(tmp_path)
    monkeypatch.setattr(parquet, "reader", its.nights.reader)
    monkeypatch.setattr(parquet, "read", lambda *_: None)
    monkeypatch.setattr(audit, "judge", its.judge)
    return its


def hours(first: str, count: int = 1) -> tuple[int, int]:
    return hour_us(first), hour_us(first) + count * HOUR_US


def test_the_newest_hours_are_judged_whenever_segments_come(view: View) -> None:
    assert view.live.look() is None
    view.nights.write("a", "2026-11-30T03", "2026-11-30T04")
    first = view.live.look()
    assert first is not None
    assert first.promised == 1
    assert view.live.look() is None  # nothing came
    view.nights.write("b", "2026-11-30T04")
    second = view.live.look()
    assert second is not None
    assert second.promised == 2
    view.nights.write("c", "2026-11-30T05")
    assert view.live.look() is not None
    assert view.periods == [hours(f"2026-11-30T0{hour}") for hour in (4, 4, 5)]
    assert view.notes[-1] == [
        "Judged live: reads that arrived from 2026-11-30 05:00 to 2026-11-30 06:00 (UTC), by the "
        "segments that have come so far."
    ]
    out = view.nights.out / "live"
    assert "Judged live" in (out / "report.md").read_text()
    assert (out / "report.html").exists()


def test_damaged_segments_change_the_verdict(
    view: View, capsys: pytest.CaptureFixture[str]
) -> None:
    view.nights.write("a", "2026-11-30T05")
    view.live.look()
    broken = view.nights.log / "date=2026-11-30" / "b.jsonl.gz"
    broken.write_bytes(b"no gzip")
    assert capsys.readouterr().out.startswith("Clean.")
    found = view.live.look()
    assert found is not None
    assert [*found.damaged] == ["date=2026-11-30/b.jsonl.gz"]
    assert capsys.readouterr().out.startswith("No verdict. No violation was found, but")
    assert view.live.look() is None  # nothing has changed
    broken.unlink()
    view.nights.write("b", "2026-11-30T05")
    found = view.live.look()
    assert found is not None
    assert (found.promised, found.damaged) == (2, {})
    assert view.live.look() is None


def test_damaged_segments_alone_are_named(view: View, capsys: pytest.CaptureFixture[str]) -> None:
    broken = view.nights.write("b", "2026-11-30T05").rename(
        view.nights.log / "date=2026-11-30" / "b.jsonl.gz"
    )
    assert view.live.look() is not None
    assert view.periods == [hours("2026-11-30T06")]
    assert "`date=2026-11-30/b.jsonl.gz` (damaged" in capsys.readouterr().out
    assert view.live.look() is None
    broken.unlink()
    found = view.live.look()
    assert found is not None
    assert found.damaged == {}


def test_a_judgement_that_fails_leaves_the_tables_of_the_one_before(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = view.nights.out / "live" / "reads"
    reads.mkdir(parents=True)
    (reads / "old").touch()

    def fail(_spark: object, _log: "Log", out: Path, *_: object) -> None:
        (out / "reads").mkdir(exist_ok=True)
        (out / "reads" / "new").touch()
        raise OSError("the disk is full")

    monkeypatch.setattr(audit, "judge", fail)
    view.nights.write("a", "2026-11-30T04")
    with pytest.raises(OSError, match="full"):
        view.live.look()
    assert [it.name for it in reads.iterdir()] == ["old"]
    assert not (view.nights.out / "live" / "_staged").exists()


def test_what_happened_is_printed_when_the_verdict_changes(
    view: View, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = [verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 1)]
    found = findings(verdicts=stale, incidents=[incident()])
    monkeypatch.setattr(audit, "judge", lambda *_: found)
    for hour in ("04", "05"):
        view.nights.write(hour, f"2026-11-30T{hour}")
        view.live.look()
    assert capsys.readouterr().out == (
        "1 read may have been stale. Of 1 read with a promise, 1 met a server not shown to have "
        "what it had to see.\n"
        "r1:3306 answered reads, and was not known to have the transactions that they had to see. "
        "1 read may have been stale, at 1970-01-01 00:00:01 UTC. Users: app (1).\n"
    )


def test_a_view_that_is_opened_again_shows_what_it_had(view: View) -> None:
    view.nights.write("a", "2026-11-30T04")
    view.live.look()
    view.open(window=3)
    found = view.live.look()
    assert found is not None
    assert found.promised == 1
    assert view.periods == [hours("2026-11-30T04"), hours("2026-11-30T02", 3)]


def test_late_segments_are_judged_as_long_as_the_window_has_them(view: View) -> None:
    view.open(window=2)
    view.nights.write("a", "2026-11-30T05")
    view.live.look()
    view.nights.write("b", "2026-11-30T04")
    view.nights.write("c", "2026-11-30T03")
    found = view.live.look()
    assert found is not None
    assert found.promised == 2
    assert view.notes[-1][1:] == [
        "1 segment came with older records only: the nightly audit judges those."
    ]


def test_hours_that_have_not_come_move_no_window(view: View) -> None:
    view.nights.write("a", "2026-11-30T05")
    view.nights.write("wrong clock", "2031-01-01T00")
    view.live.look()
    assert view.periods == [hours("2026-11-30T05")]


def test_what_the_window_has_left_goes_from_the_store(view: View) -> None:
    view.nights.write("a", "2026-11-30T03", "2026-11-30T04", "2026-11-30T05", "2031-01-01T00")
    view.live.look()
    folders = (view.nights.out / "live" / "store" / "records").glob("*/*/*")
    assert {f"{it.parent.name} {it.name}" for it in folders} == {
        "date=2026-11-30 hour=4",
        "date=2026-11-30 hour=5",
        "date=2031-01-01 hour=0",
    }


def test_days_before_the_window_are_not_taken(view: View) -> None:
    old = view.nights.write("old", "2026-11-30T05")
    folder = view.nights.log / "date=2026-11-28"
    folder.mkdir()
    old.rename(folder / "old.jsonl")
    assert view.live.look() is None
    view.nights.write("a", "2026-11-30T05")
    found = view.live.look()
    assert found is not None
    assert found.promised == 1


def served(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.labels == {"log": "/log"}
    }


def test_metrics_are_served(tmp_path: Path) -> None:
    metrics, port = Metrics("/log"), reserve_port()
    with metrics.served(("127.0.0.1", port)):
        assert served(port) == {}
        metrics.tell(findings(), begun_s=1.8e9, duration_s=2.5)
        told = served(port)
        assert told["tidegate_audit_live_violations"] == 0
        broken = [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 3)]
        metrics.tell(findings(verdicts=broken), begun_s=1.8e9 + 9, duration_s=2.5)
        told = served(port)
        with (
            pytest.raises(OSError, match=f"127.0.0.1:{port} cannot serve metrics"),
            Metrics("/log").served(("127.0.0.1", port)),
        ):
            pass
    assert told == {
        "tidegate_audit_live_last_run_timestamp_seconds": 1.8e9 + 9,
        "tidegate_audit_live_duration_seconds": 2.5,
        "tidegate_audit_live_exit_code": 1,
        "tidegate_audit_live_violations": 3,
        "tidegate_audit_live_coverage_ratio": 1,
        "tidegate_audit_live_lost_transactions": 0,
        "tidegate_audit_live_unreported_transactions": 0,
        "tidegate_audit_live_lapses": 0,
        "tidegate_audit_live_newest_record_timestamp_seconds": 86_400 - 1e-6,
    }
    metrics.write(tmp_path / "live.prom")
    assert 'tidegate_audit_live_violations{log="/log"} 3.0' in (tmp_path / "live.prom").read_text()


class Query:
    """Runs until it is told to stop."""

    def __init__(self) -> None:
        self.is_stopped = False

    def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    def stop(self) -> None:
        self.is_stopped = True


def test_a_signal_ends_it(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    view.nights.write("a", "2026-11-30T05")
    query = Query()
    monkeypatch.setattr(Live, "follow", lambda *_: query)
    chosen = Options(log=view.nights.log, out=view.nights.out / "live", live=True)
    with pytest.raises(Stopped) as told, handled():
        live.run(None, chosen, Progress())  # type: ignore[arg-type]  # it is not asked
    assert told.value.exit_code == 143
    assert not query.is_stopped  # Java is ending, and would not answer


def test_an_error_of_the_log_is_told_as_such(
    view: View, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = view.nights.write("a", "2026-11-30T05")
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: Query())
    monkeypatch.setattr(live, "Live", partial(Live, clock=lambda: hour_us(view.hour) / 1e6))

    def follow(its: Live, _trigger: object) -> Query:
        from pyspark.errors import StreamingQueryException

        class Failing(Query):
            def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
                path.write_text("2026-11-30T04")
                try:
                    its.look()
                except OSError as error:
                    its.error = error
                raise StreamingQueryException("foreachBatch failed")

        return Failing()

    monkeypatch.setattr(Live, "follow", follow)
    assert nightly.main(["--log", str(view.nights.log), "--live"]) == 2
    assert f"{path} changed after the audit had taken it" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_its_verdicts_are_the_audits(spark: "SparkSession", tmp_path: Path) -> None:
    from tests.spark_jobs import without_spark
    from tests.spark_jobs.test_simulation import logged, said_of

    simulation = Simulation(23)
    simulation.run(500, failover=False)
    runs = simulation.finish()
    planted = simulation.spoil(1)
    log, out, waiting = tmp_path / "log", tmp_path / "out", []
    out.mkdir()
    for run in runs:
        records, third = run.records, len(run.records) // 3
        for number in range(3):
            run.records = records[number * third : (number + 1) * third if number < 2 else None]
            (path,) = save(log, run)
            named = path.with_name(f"gate-0-{run.name}-{number}.jsonl")
            path.rename(named)
            # One segment is late, and the others' last ones are not yet there.
            if number == 2 if run is not runs[0] else number == 1:
                waiting.append(named.rename(tmp_path / named.name))
    # `file:` stands in for what only Spark can read.
    chosen = Options(log=f"file:{log}", out=out, live=True)

    def look() -> "dict[Key, Said]":
        its = Live(spark, chosen, Progress(), clock=lambda: (DAY.begin_us + HOUR_US) / 1e6)
        its.follow({"availableNow": True}).awaitTermination()
        return said_of(spark.read.parquet(str(out / "reads")).collect())

    first = look()
    for path in waiting:
        path.rename(log / "date=2026-11-30" / path.name)
    second = look()
    assert second == without_spark.audit(logged(log)).reads
    assert len(planted) == len(PROMISES)
    broken = {key[2:] for key, read in second.items() if read.verdict == Verdict.VIOLATION}
    assert broken == set(planted)
    assert len(first) < len(second)
    assert any(read.verdict == Verdict.NOT_JUDGED for read in first.values())
