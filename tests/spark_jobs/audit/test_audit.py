"""What one audit writes into its tables."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import nightly
from spark_jobs.options import Options
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_fallbacks_of_any_statement_count_and_damaged_lines_do_not(
    spark: "SparkSession", tmp_path: Path
) -> None:
    run = Run()
    run.statement(7, **{"class": "diagnostic", "fallbacks": "r1:3306:replica_lost"})
    applied = {
        "channel": "",
        "gtid": f"{P}:9",
        "original_us": 1_000,
        "immediate_us": 1_050,
        "began_us": 1_090,
        "ended_us": 1_100,
        "end_to_end_us": 100,
        "last_hop_us": 50,
        "error_us": None,
    }
    run.probe("r1", f"{P}:1-9", lag={"applied": [applied], "waits": []})
    again = dict(run.probe("r1", f"{P}:1-9", lag={"applied": [applied | {"gtid": f"{P}:10"}]}))
    log = tmp_path / "log"
    run.records.pop()
    save(log, run)
    (segment,) = log.rglob("*.jsonl")
    with segment.open("a") as file:
        file.write(json.dumps(again) + '{"another": "object"}\n')
    nightly.run_with(Options(log=log, out=tmp_path / "out"), spark)

    def rows(table: str) -> list[dict[str, object]]:
        found = spark.read.parquet(str(tmp_path / "out" / table)).collect()
        return [row.asDict() for row in found]

    assert rows("fallbacks") == [{"server": "r1:3306", "reason": "replica_lost", "statements": 1}]
    assert [row["fault"] for row in rows("faults")] == ["damaged"]
    assert [row["transactions"] for row in rows("replication")] == [1]
