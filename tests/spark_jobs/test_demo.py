"""The stale read that the demo plants in its log: the audit finds that one, and no other fault."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy import demo_audit
from spark_jobs import nightly
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]


def demo_log(folder: Path) -> Path:
    run = Run()
    run.probe("r1", f"{P}:1-5")
    for session in (7, 8):
        own = f"{P}:{session - 1}"
        run.write(session, own)
        run.waited(session, "r1", own, required=own)
        run.known(session, "r1", f"{P}:1-{session - 1}", required=own)
    save(folder, run)
    return folder


def records(log: Path) -> list[dict[str, object]]:
    (path,) = log.glob("date=*/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_read_is_changed_and_the_log_stays(tmp_path: Path) -> None:
    log, copy = demo_log(tmp_path / "log"), tmp_path / "copy"
    before = records(log)
    demo_audit.plant(log, copy, "gate")
    assert records(log) == before
    changed = [
        {name: new[name] for name in new if new[name] != old[name]}
        for old, new in zip(before, records(copy), strict=True)
        if old != new
    ]
    assert changed == [{"required": "", "proof_set": ""}]


@pytest.mark.deep  # test_day_audit.py and test_nightly.py run audits
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_audit_finds_it(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(nightly, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    log, copy = demo_log(tmp_path / "log"), tmp_path / "copy"
    demo_audit.plant(log, copy, "gate")
    assert nightly.run(log, None) == demo_audit.CLEAN
    assert nightly.run(copy, None) == demo_audit.VIOLATED
    told = capsys.readouterr().out
    assert "finding   known set too small" in told
    assert f"missing   {P}:7" in told
    assert "1 read may have been stale. Of 4 reads with a promise, 1 met" in told
    assert "Not judged" not in told


# What the demo makes of the audits' verdicts.

SAID = {
    "log": demo_audit.Verdict(demo_audit.CLEAN, "Clean."),
    "one-stale-read": demo_audit.Verdict(
        demo_audit.VIOLATED, "  read\n1 read may have been stale."
    ),
}


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch, **others: demo_audit.Verdict) -> None:
    said = SAID | {name.replace("_", "-"): verdict for name, verdict in others.items()}

    async def audit(log: Path) -> demo_audit.Verdict:
        (log / "_audit").mkdir(parents=True)
        (log / "_audit" / "report.html").write_text(f"of {log.name}")
        return said[log.name]

    monkeypatch.setattr(demo_audit, "_audit", audit)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    asyncio.run(demo_audit.show(demo_log(folder / "log"), "gate"))


def test_both_verdicts_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(tmp_path, monkeypatch)
    told = capsys.readouterr().out
    assert "\n    Clean.\n" in told
    assert "\n      read\n    1 read may have been stale.\n" in told
    page = told.rstrip().rpartition(" ")[2]
    assert Path(page).read_text() == "of one-stale-read"
    assert Path(page).suffix == ".html"


def test_what_the_audit_lacks_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = demo_audit.Verdict(demo_audit.UNDECIDED, "PySpark is not installed.")
    shown(tmp_path, monkeypatch, log=lacking, one_stale_read=lacking)
    assert capsys.readouterr().out.count("PySpark is not installed.") == 1


def test_an_audit_that_says_otherwise_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(demo_audit.AuditError, match="at fault"):
        shown(tmp_path / "a", monkeypatch, log=SAID["one-stale-read"])
    with pytest.raises(demo_audit.AuditError, match="did not notice"):
        shown(tmp_path / "b", monkeypatch, one_stale_read=SAID["log"])
