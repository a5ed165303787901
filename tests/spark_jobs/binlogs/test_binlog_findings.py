"""What an audit and its reports say of binary logs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import nightly
from spark_jobs.binlogs.binlog_findings import BinlogFindings
from spark_jobs.options import Options
from spark_jobs.report import binlogs as report
from spark_jobs.report import summary
from spark_jobs.report.table import Table
from spark_jobs.tables.row import Row
from tests.spark_jobs.binary_log import binary_log
from tests.spark_jobs.found import findings
from tests.spark_jobs.routing_log import DAY_US, UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]

QUIET = BinlogFindings(
    transactions=1,
    files=1,
    faults=0,
    first_faults=[],
    unreported=0,
    first_unreported=[],
    contradicted=0,
    first_contradicted=[],
)
CONTRADICTION = {
    "proxy": "gate",
    "worker": 0,
    "run": "a1",
    "seq": 6,
    "session": 7,
    "server": "r1:3306",
    "claimed_us": DAY_US,
    "gtid": f"{P}:6",
    "applied_us": DAY_US + 48_000,
    "stamp_us": DAY_US + 50_000,
    "file": "/logs/r1/binlog.000001",
    "position": 157,
    "claims": 1,
}


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_binary_logs_that_agree_change_nothing() -> None:
    told = findings(binlogs=QUIET)
    assert (told.exit_code, told.verdict) == (0, "Clean.")
    assert told.explanation.endswith("what it had to see.")
    assert told.remarks == ["Binary logs: 1 transaction in 1 file."]
    section = report.section(QUIET)
    assert (section.title, section.notes, section.filled) == (
        "Binary logs",
        ("Binary logs: 1 transaction in 1 file.",),
        [],
    )


def test_a_contradiction_is_a_finding() -> None:
    binlogs = replace(QUIET, contradicted=2, first_contradicted=[Row(CONTRADICTION)])
    told = findings(binlogs=binlogs)
    assert told.exit_code == 1
    assert told.verdict == "The replicas' binary logs contradict 2 WAITs of the routing log."
    assert "2 WAITs ended before the replica had applied the transactions" in told.explanation
    (table,) = report.section(binlogs).filled
    assert table.note.endswith(" (the first 1 of 2; the table contradicted has all):")
    assert texts(table) == [
        [
            *("2026-11-30 00:00:00.000000", "r1:3306", "gate", "a1", "6", f"{P}:6", "48.0 ms"),
            *("2026-11-30 00:00:00.050000", "/logs/r1/binlog.000001", "157"),
        ]
    ]


def test_a_summary_tells_the_first_contradiction() -> None:
    rows = [Row(CONTRADICTION), Row(CONTRADICTION | {"seq": 7})]
    binlogs = replace(QUIET, contradicted=1234, first_contradicted=rows)
    assert (
        "The first of 1,234, contradicted by a binary log:\n"
        "\n"
        "```text\n"
        "2026-11-30 00:00:00.000000  session 7, a WAIT on r1:3306 has ended\n"
        '  log       proxy gate, worker 0: "run":"a1","seq":6,\n'
        f"  applied   {P}:6, at least 48.0 ms later\n"
        "  stamped   2026-11-30 00:00:00.050000, by the replica's clock\n"
        "  found     /logs/r1/binlog.000001 at 157\n"
        "```\n"
    ) in summary.render(findings(binlogs=binlogs), "report.html")
    assert "contradicted" not in summary.render(findings(binlogs=QUIET), "report.html")


def test_what_nobody_reported_and_what_cannot_be_read_is_told() -> None:
    place = {"file": "/logs/db/binlog.000001", "position": 157}
    binlogs = replace(
        QUIET,
        unreported=3,
        first_unreported=[Row({"gtid": f"{P}:9", "original_us": DAY_US, **place})],
        faults=1,
        first_faults=[Row({**place, "fault": "at 157: the file ends after 3 bytes of a header"})],
    )
    told = findings(binlogs=binlogs)
    assert (told.exit_code, told.verdict) == (0, "Clean.")
    assert told.remarks == [
        "Binary logs: 1 transaction in 1 file. Not read to the end: 1 file. No record names 3 "
        "transactions of these."
    ]
    unreported, faults = report.section(binlogs).filled
    assert "(the first 1 of 3; the table unreported has all)" in unreported.note
    assert texts(unreported) == [
        ["2026-11-30 00:00:00.000000", f"{P}:9", "/logs/db/binlog.000001", "157"]
    ]
    assert faults.note == "Not read to the end:"
    assert texts(faults) == [
        ["/logs/db/binlog.000001", "at 157: the file ends after 3 bytes of a header"]
    ]


@pytest.mark.deep  # what it finds is tested part by part
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_audit_with_binary_logs(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    run = Run()
    other = Run("b2", proxy="gate2", clock=run.clock)
    transactions = []
    for number, late_us in ((1, 2_000), (2, 90_000)):
        other.probe("primary", f"{P}:1" if number == 2 else "")
        write = run.write(7, f"{P}:{number}")
        other.probe("primary", f"{P}:1-{number}")
        sent = int(str(write["dispatched_us"]))
        transactions.append((number, sent, sent + late_us))
        run.waited(7, "r1", f"{P}:{number}", wait_us=300 if number == 2 else 2_000)
    transactions.append((3, sent + 1, sent + 100_000))
    run.clock.now += 200_000
    other.waited(9, "r1", f"{P}:2")
    run.clock.now += 5_000_000
    run.known(7, "r1", f"{P}:1-2")
    other.known(9, "r1", f"{P}:1-2")
    for one in (run, other):  # clocks are compared as long as both speak of the primary
        one.probe("primary", f"{P}:1-2")
    # Its WAIT was true; only by its own clock was it early.
    for record in other.records:
        for name in ("arrived_us", "dispatched_us", "ended_us"):
            record[name] = int(str(record[name])) - 1_000_000
    save(tmp_path / "log", run, other)
    folder = tmp_path / "logs" / UUID["r1"]
    folder.mkdir(parents=True)
    (folder / "binlog.000001").write_bytes(binary_log(transactions) + b"torn")
    chosen = Options(log=tmp_path / "log", out=tmp_path / "out", binlogs=tmp_path / "logs")
    assert nightly.run_with(chosen, spark) == 1
    told = capsys.readouterr().out
    assert "The replicas' binary logs contradict 1 WAIT of the routing log." in told
    assert f"  applied   {P}:2, at least" in told
    assert "Binary logs: 3 transactions in 1 file. Not read to the end: 1 file." in told
    assert "No record names 1 transaction of these. 1 WAIT ended before" in told
    assert f"  applied   {P}:2, at least" in (tmp_path / "out" / "report.md").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section id="binary-logs">' in page
    assert f"<td>{P}:2</td>" in page
    assert f"<td>{P}:3</td>" in page
