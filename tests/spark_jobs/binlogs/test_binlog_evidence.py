"""Binary logs against a routing log."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import DAY_US, UUID, Clock, Run, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

P = UUID["primary"]
AHEAD_US = 7_000
LAG_US = 2_000

Transaction = tuple[str, int, str | None, int, int, str | None]
"""Place (folder), number, tag, original, immediate, fault."""


def numbered(spark: "SparkSession", tmp_path: Path, *runs: Run) -> "DataFrame":
    from spark_jobs.records import ingest

    save(tmp_path / "log", *runs)
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    rows = ingest.number(parsed.where("fault is null"))
    return spark.createDataFrame(rows.collect(), rows.schema)  # so that plans stay small


def table(spark: "SparkSession", transactions: Sequence[Transaction]) -> "DataFrame":
    from spark_jobs.binlogs.binlog_source import TRANSACTION

    rows = []
    for place, number, tag, original, immediate, fault in transactions:
        tsid = f"{P}:{tag}" if tag else P
        said = (f"{tsid}:{number}", P, tag or "", number, original, immediate, 300, 1, None, True)
        rows.append(
            (f"{place}/binlog.000001", 4 + number, *(said if not fault else [None] * 10), fault)
        )
    return spark.createDataFrame(rows, TRANSACTION)


def test_writes_that_nobody_reported(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.binlogs import binlog_evidence

    run = Run()
    run.write(7, f"{P}:2")
    run.write(7, f"{P}:4-6:9:web:1")
    run.statement(8, own_gtids="nonsense")
    run.write(
        8, "", observed=f"{P}:1-9:20", level="READ_ALL_WRITES", outcome="lost", own_known=False
    )
    run.records[-1]["role"] = "replica"  # so that it names nothing
    run.probe("r1", f"{P}:1-99")
    at = DAY_US + 2_000
    transactions = table(
        spark,
        [
            *(("db", number, None, at, at, None) for number in range(1, 11)),
            *(("r1", number, None, at, at + 9, None) for number in range(1, 11)),
            *(("db", number, "web", at, at, None) for number in (1, 2)),
            ("db", 11, None, DAY_US - 1, at, None),
            ("db", 12, None, DAY_US + 5_000, at, None),
            ("db", 13, None, at, at, "at 17: cut short"),
        ],
    )
    records = numbered(spark, tmp_path, run)
    found = binlog_evidence.unreported(records, transactions, 0).collect()
    assert {(row.gtid, row.file) for row in found} == {
        *((f"{P}:{number}", "db/binlog.000001") for number in (1, 3, 7, 8, 10)),
        (f"{P}:web:2", "db/binlog.000001"),
    }
    assert len(found) == 6
    assert binlog_evidence.summary(transactions).collect() == [(24, 2, 1)]
    assert binlog_evidence.faults(transactions).collect() == [
        ("db/binlog.000001", 17, "at 17: cut short")
    ]


def test_a_wait_that_lied(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.binlogs import binlog_evidence

    clock = Clock()
    run, other = Run(clock=clock), Run("b2", clock=clock)
    transactions: list[Transaction] = []

    def write(number: int, **late_us: int) -> None:
        sent = int(str(run.write(7, f"{P}:{number}")["dispatched_us"]))
        for server in ("r1", "r2"):
            place = UUID["r1"] if server == "r1" else "r2:3306"
            stamp = sent + AHEAD_US + late_us.get(server, LAG_US)
            transactions.append((f"/logs/{place}", number, None, sent, stamp, None))

    for number in range(1, 6):
        write(number)
        # Honest ones: each answer comes when the last of them has been applied.
        run.waited(7, "r1", f"{P}:1-{number}", wait_us=LAG_US)
        run.waited(7, "r2", f"{P}:{number}", wait_us=LAG_US)
    write(6, r1=50_000, r2=50_000)
    lie = run.waited(7, "r1", f"{P}:1-3:5-6", wait_us=300)
    run.waited(8, "r1", f"{P}:1-5:7", wait_us=300)  # without it
    run.waited(7, "r2", f"{P}:6", wait_us=300)
    run.known(7, "r1", f"{P}:1-6")
    clock.now += 5_000_000
    run.known(7, "r1", f"{P}:1-6")
    run.known(7, "r2", f"{P}:1-6", incarnation=2)  # what it did before cannot be told
    other.known(8, "r2", f"{P}:1-6")
    records = numbered(spark, tmp_path, run, other)
    told = table(spark, transactions)
    found = binlog_evidence.contradicted(records, told, 0).collect()
    sent = transactions[-2][3]
    assert [row.asDict() for row in found] == [
        {
            "proxy": "gate",
            "worker": 0,
            "run": "a1",
            "seq": lie["seq"],
            "session": 7,
            "server": "r1:3306",
            "claimed_us": int(str(lie["dispatched_us"])) + 300,
            "gtid": f"{P}:6",
            "applied_us": sent + 50_000 - LAG_US,
            "stamp_us": sent + AHEAD_US + 50_000,
            "file": f"/logs/{UUID['r1']}/binlog.000001",
            "position": 10,
            "claims": 1,
        }
    ]
    # Perhaps another proxy's clock says when it was sent.
    assert binlog_evidence.contradicted(records, told, 47_000).collect() == []
    # An operator who vouches for the clocks is believed where that says more.
    (row,) = binlog_evidence.contradicted(records, told, 0, AHEAD_US).collect()
    assert row.applied_us == sent + 50_000


def test_a_replica_that_is_always_as_late_may_have_another_clock(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from spark_jobs.binlogs import binlog_evidence

    run = Run()
    transactions: list[Transaction] = []
    for number in range(1, 4):
        sent = int(str(run.write(7, f"{P}:{number}")["dispatched_us"]))
        transactions.append((f"/logs/{UUID['r1']}", number, None, sent, sent + 90_000, None))
        run.waited(7, "r1", f"{P}:{number}")
    run.clock.now += 5_000_000
    run.known(7, "r1", f"{P}:1-3")
    records = numbered(spark, tmp_path, run)
    told = table(spark, transactions)
    assert binlog_evidence.contradicted(records, told, 0).collect() == []
    assert len(binlog_evidence.contradicted(records, told, 0, 50_000).collect()) == 3
