"""Reads that are independent by the proxy's word, against binary logs: each premise, broken."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.verdict import Dependence, Finding, Verdict
from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import DAY_US, UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

P, R1, R2 = UUID["primary"], UUID["r1"], UUID["r2"]
T, U = "`app`.`t`", "`app`.`u,``u`"


def reads(spark: "SparkSession", tmp_path: Path, run: Run) -> "tuple[DataFrame, DataFrame]":
    """The judged reads and the records of a log."""
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest

    save(tmp_path / "log", run)
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    records = ingest.number(parsed.where("fault is null")).persist()
    return consistency_audit.transform(records, primary_history.learn(records)), records


def known_rows(table: "DataFrame") -> "DataFrame":
    """The same rows without the plan behind them, which each query would be planned with again."""
    return table.sparkSession.createDataFrame(table.collect(), table.schema)


def log(folder: str, *transactions: tuple[int, Sequence[str] | None]) -> list[tuple[object, ...]]:
    """Rows of one server's log, in their order: numbers, and the tables that they changed."""
    return [
        (f"/logs/{folder}/binlog.000001", 4 + place, f"{P}:{number}", P, "", number,
         DAY_US, DAY_US, 300, 1, None if tables is None else list(tables), True, None)
        for place, (number, tables) in enumerate(transactions)
    ]  # fmt: skip


def compared(
    spark: "SparkSession", claims: "DataFrame", *rows: tuple[object, ...]
) -> tuple[dict[int, tuple[str, str, str]], set[int]]:
    """By `seq`, why reads were dependent; and the reads of which everything is in the logs."""
    from spark_jobs.binlogs import independence
    from spark_jobs.binlogs.binlog_source import TRANSACTION

    transactions = spark.createDataFrame([*rows], TRANSACTION)
    found = independence.dependent(claims, transactions).collect()
    known = independence.confirmed(claims, transactions).collect()
    why = {row["seq"]: (row["why"], row["table"], row["gtid"]) for row in found}
    return why, {row["seq"] for row in known}


def test_each_premise_is_compared_with_binary_logs(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.binlogs import independence

    run = Run()
    run.probe("r1", f"{P}:1-5")
    run.probe("r2", f"{P}:1-5")
    run.write(7, f"{P}:6")
    run.write(7, f"{P}:8")
    owed = {"required": f"{P}:6:8", "tables": f"{T},{U}"}
    first = run.read(7, "r1", "independent", f"{P}:1-5", **owed)["seq"]
    sent = run.clock.now + 1_020
    times = {"arrived_us": sent - 20, "dispatched_us": sent, "ended_us": sent + 200}
    run.probe("r2", f"{P}:6", proof="waited", **times)  # as a proxy records such a WAIT
    late = run.read(7, "r2", "independent", f"{P}:1-6", wait_us=200, **owed)
    assert late["dispatched_us"] == sent
    waits = late["seq"]
    judged, records = reads(spark, tmp_path, run)
    judged = known_rows(judged)
    verdicts = {row.seq: (row.verdict, row.finding) for row in judged.collect()}
    by_word = (Verdict.BY_WORD.value, Finding.INDEPENDENT.value)
    assert verdicts == {first: by_word, waits: by_word}
    claims = known_rows(independence.by_word(judged, records))

    others = ["`app`.`v`"]
    whole = [(number, others) for number in range(1, 10)]
    both = {first, waits}
    assert compared(spark, claims, *log(R1, *whole), *log("db", *whole)) == ({}, both)
    # 1: the log has all that was left out.
    assert compared(spark, claims, *log("db", *whole[:7])) == ({}, set())
    assert compared(spark, claims, *log("db", *whole[6:])) == ({}, {waits})
    # 2: it changed no table of the read, and did no more than change rows.
    for table in (T, U):
        touching = [*whole[:7], (8, [*others, table]), *whole[8:]]
        why, known = compared(spark, claims, *log("db", *touching))
        assert why == dict.fromkeys(both, (Dependence.CHANGED, table, f"{P}:8"))
        assert known == both
    why, _ = compared(spark, claims, *log("db", *whole[:5], (6, [T]), *whole[6:]))
    assert why == {first: (Dependence.CHANGED, T, f"{P}:6")}
    why, _ = compared(spark, claims, *log("db", *whole[:7], (8, None)))
    assert why == dict.fromkeys(both, (Dependence.OPAQUE, "*", f"{P}:8"))
    # Where one server's log ends within a transaction, another one's may have it.
    cut = [(*row[:-2], None, row[-1]) for row in log(R1, *whole[:7], (8, None))[-1:]]
    assert compared(spark, claims, *log("db", *whole), *cut) == ({}, both)
    assert compared(spark, claims, *log("db", *whole[:7]), *cut) == ({}, set())
    # What changed a table before what was left out, or behind it, does not matter.
    around = [*whole[:4], (5, [T, U]), (6, others), (7, [T]), (8, others), (9, None)]
    assert compared(spark, claims, *log("db", *around)) == ({}, both)
    # 4: the server had what may have changed anything before that.
    why, _ = compared(spark, claims, *log("db", *whole[:6], (7, None), *whole[7:]))
    assert why == dict.fromkeys(both, (Dependence.OPAQUE, "*", f"{P}:7"))
    # 3: the server that answered commits in order.
    disordered = [*whole[:3], (5, others), (4, others), *whole[5:]]
    why, _ = compared(spark, claims, *log(R1, *disordered), *log("db", *whole))
    assert why == {first: (Dependence.DISORDERED, None, f"{P}:4")}
    why, _ = compared(spark, claims, *log("r2:3306", *disordered))
    assert why == {waits: (Dependence.DISORDERED, None, f"{P}:4")}


def test_only_what_the_proxy_itself_required_may_be_left_out(
    spark: "SparkSession", tmp_path: Path
) -> None:
    run = Run()
    run.probe("r1", f"{P}:1-5")
    run.write(7, f"{P}:6")
    fields = {"required": f"{P}:6", "tables": T}
    had = run.read(7, "r1", "independent", f"{P}:1-6", **fields)["seq"]
    run.probe("r1", f"{P}:1-6")
    backed = run.read(7, "r1", "independent", f"{P}:1-6", **fields)["seq"]
    run.write(7, f"{P}:7")
    silent = run.read(7, "r1", "independent", f"{P}:1-6", **fields)["seq"]
    nonsense = run.read(7, "r1", "independent", f"{P}:1-6", required="none", tables=T)["seq"]
    level = {"level": "READ_ALL_WRITES", "required": f"{P}:1-7"}
    seen = run.read(7, "r1", "independent", f"{P}:1-6", tables=T, **level)["seq"]
    judged, _ = reads(spark, tmp_path, run)
    verdicts = {row.seq: (row.verdict, row.finding) for row in judged.collect()}
    violation = (Verdict.VIOLATION.value, Finding.KNOWN_TOO_SMALL.value)
    assert verdicts == {
        had: (Verdict.NOT_JUDGED.value, Finding.UNBACKED.value),
        backed: (Verdict.OK.value, Finding.KNOWN.value),
        silent: violation,
        nonsense: violation,
        seen: violation,
    }


def test_real_logs_name_the_tables_of_each_transaction() -> None:
    from spark_jobs.binlogs import binlog_source
    from tests.support import binlogs

    place = binlog_source.TRANSACTION.names.index("tables")
    changed: set[str] = set()
    opaque = 0
    for name in binlogs.NAMES:
        for row in binlog_source.rows(binlogs.DIRECTORY / f"{name}.binlog"):
            tables = row[place]
            if isinstance(tables, list):
                changed |= set(tables)
            else:
                opaque += tables is None
    assert changed
    assert opaque
    assert all(table.startswith("`") and "`.`" in table for table in changed)
