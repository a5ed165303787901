"""Nights in which segments come late: what is judged anew, and what is said of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import nightly
from spark_jobs.audit import audit
from spark_jobs.day import Day
from spark_jobs.findings.findings import Findings
from tests.spark_jobs.findings.test_results import summary_of
from tests.spark_jobs.nights import Nights, NoSpark

if TYPE_CHECKING:
    from spark_jobs.audit.log import Log

DAY = Day.parse("2026-11-30")


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    pytest.importorskip("pyspark")
    from spark_jobs.store import parquet

    its = Nights(tmp_path)
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(parquet, "reader", its.reader)
    monkeypatch.setattr(parquet, "read", lambda *_: None)
    monkeypatch.setattr(audit, "judge", its.judge)
    return its


def test_a_day_whose_segments_came_late_is_judged_anew(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.write("a", "2026-11-30T04")
    nights.write("b", "2026-11-30T05")
    assert nights.audit(DAY) == 0
    first = nights.out / "days" / f"date={DAY}" / "judgement=1"
    kept = {path: path.read_bytes() for path in first.rglob("*")}
    capsys.readouterr()

    nights.write("c", "2026-11-30T06")
    nights.write("d", "2026-12-01T06")
    assert nights.audit(DAY.after) == 1
    assert nights.judged == [str(DAY), str(DAY.after)]
    second = first.with_name("judgement=2")
    other = nights.out / "days" / f"date={DAY.after}" / "judgement=1"
    came = f"Segments that came after {DAY} was judged: `date=2026-11-30/c.jsonl`."
    changed = (
        f"{DAY} was judged 1 time before: the verdict was “Clean.” and is “3 reads may have "
        "been stale.”; statements: 2, now 3; reads with a promise: 2, now 3; violations: 0, now 3."
    )
    assert capsys.readouterr().out == (
        "3 reads may have been stale. Of 3 reads with a promise, 3 met a server not shown to "
        f"have what it had to see.\n{came}\n{changed}\nKept: {second}\n\n"
        "Clean. Of 1 read with a promise, every one met a server that was shown to have what it "
        f"had to see.\nKept: {other}\nReport: {nights.out}/report.html\n"
    )
    report = (nights.out / "report.md").read_text()
    anew = f"Judged anew: {came} {changed} 3 reads may have been stale. `{second}`\n\n"
    assert anew in report
    place = f"`{other}/report.html`"
    assert report.replace(anew, "").replace(f"`{nights.out}/report.html`", place) == (
        (other / "report.md").read_text()
    )
    page = (nights.out / "report.html").read_text()
    assert f"Judged anew: {came}".replace("`", "") in page.replace("<code>", "").replace(
        "</code>", ""
    )
    told = (second / "report.md").read_text()
    assert f"The whole report: `{second}/report.html`" in told
    assert "A clock is wrong." in told
    assert came in told
    assert changed in told
    assert "This is judgement 2 of the day" in told
    assert {path: path.read_bytes() for path in first.rglob("*")} == kept
    assert (summary_of(first).exit_code, summary_of(second).exit_code) == (0, 1)

    # The trend has the newest judgement of each day, and on a judgement's page itself.
    for trend in (page, (other / "report.html").read_text()):
        assert trend.count("2026-11-30: 3</title>") == 1
        assert trend.count("2026-12-01: 0</title>") == 2  # violations and losses

    # Nothing more came: the day is left as it is, and what was found there does not count again.
    assert nights.audit(DAY.after) == 0
    assert nights.judged == [str(DAY.after)]
    assert "nothing changed" in capsys.readouterr().out


def test_the_day_that_is_asked_for_is_judged_once(nights: Nights) -> None:
    nights.write("a", "2026-11-30T04")
    nights.audit(DAY)
    nights.write("b", "2026-11-30T05")
    nights.audit(DAY)
    assert nights.judged == [str(DAY)]
    assert "Segments that came after 2026-11-30" in (nights.out / "report.md").read_text()
    # One night is no trend: what was said of the day before is not another one.
    for report in nights.out.rglob("report.html"):
        assert "<title>2026-11-30" not in report.read_text()


def test_without_a_warm_up_the_report_says_so(nights: Nights) -> None:
    nights.write("a", "2026-11-30T04", "2026-12-01T04")
    nights.audit(DAY)
    assert "Nothing of 2026-11-29 has been taken" in (nights.out / "report.md").read_text()
    nights.audit(DAY.after)
    assert "2026-11-30 was read as a warm-up" in (nights.out / "report.md").read_text()


def test_what_the_log_says_of_clocks_is_kept(nights: Nights) -> None:
    nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY, "--clock-error", "2") == 0
    kept = nights.out / "days" / f"date={DAY}" / "judgement=1"
    assert summary_of(kept).clock_error_us == 2007


def test_metrics_are_of_the_day_that_was_asked_for(nights: Nights, tmp_path: Path) -> None:
    metrics = tmp_path / "audit.prom"
    nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY, "--textfile", str(metrics)) == 0
    for name, hour in (("b", "2026-11-30T05"), ("c", "2026-11-30T06"), ("d", "2026-12-01T06")):
        nights.write(name, hour)
    assert nights.audit(DAY.after, "--textfile", str(metrics)) == 1
    told = metrics.read_text()
    assert f'tidegate_audit_exit_code{{log="{nights.log}"}} 1.0' in told
    assert f'tidegate_audit_violations{{log="{nights.log}"}} 0.0' in told


def test_a_day_that_was_judged_anew_is_told_whatever_becomes_of_the_next(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY) == 0
    for name in "bc":
        nights.write(name, "2026-11-30T05")
    judge = nights.judge

    def fail(spark: object, log: "Log", *others: Any) -> Findings:
        if log.period != DAY:
            raise RuntimeError("no memory")
        return judge(spark, log, *others)

    monkeypatch.setattr(audit, "judge", fail)
    capsys.readouterr()
    assert nights.audit(DAY.after) == 2
    told = capsys.readouterr()
    assert told.out.startswith("3 reads may have been stale.")
    assert "Spark failed" in told.err


def test_a_day_without_a_record_has_no_verdict(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY.before) == 2
    assert "The log holds no statement." in capsys.readouterr().out


def test_a_finding_outweighs_a_day_without_a_verdict(nights: Nights) -> None:
    nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY) == 0
    nights.write("b", "2026-11-30T05")
    assert nights.audit(DAY.after) == 2
    nights.write("c", "2026-11-30T06")
    assert nights.audit(DAY.after) == 1


def test_a_changed_segment_is_an_error_and_judgements_stay(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    path = nights.write("a", "2026-11-30T04")
    assert nights.audit(DAY) == 0
    path.write_text("2026-11-30T05")
    assert nights.audit(DAY) == 2
    assert f"{path} changed after the audit had taken it" in capsys.readouterr().err
    assert nights.judged == []
    assert not (nights.out / "report.md").exists()
    assert [path.name for path in nights.out.glob("days/*/*")] == ["judgement=1"]


def test_days_whose_records_were_deleted_are_not_judged(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.write("a", "2026-11-30T04")
    nights.write("b", "2026-12-01T04")
    assert nights.audit(DAY) == 0
    (nights.out / "store/records/take=1/date=2026-11-30/hour=4").rmdir()
    nights.write("c", "2026-11-30T06", "2026-12-01T06")
    capsys.readouterr()
    assert nights.audit(DAY.after.after) == 2
    assert nights.judged == [str(DAY.after.after)]
    assert "The day is not judged anew" in capsys.readouterr().out
    assert "The day is not judged anew" in (nights.out / "report.md").read_text()
    assert nights.audit(DAY) == 2
    assert "no longer has its records of 2026-11-30T04" in capsys.readouterr().err


def test_spark_is_started_for_the_size_of_the_day_and_the_day_before(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[object] = []

    def start(_log: Path, _master: str | None, _temporary: Path, size: int | None) -> NoSpark:
        sizes.append(size)
        return NoSpark()

    monkeypatch.setattr(nightly, "start_spark", start)
    size = nights.write("a", "2026-11-30T04").stat().st_size
    for day in (DAY, DAY.after, DAY.after.after):
        nights.audit(day)
    assert sizes == [size, size, 0]
