"""Small tables are part of a query's plan, and are counted without being read."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.tables import small_table
from spark_jobs.tables.schema import LOST

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(300)]

WRITE = {"how": "wrote", "run": "a1", "session": 7, "seq": 2, "ended_us": 5, "digest": None}
ROW: dict[str, object] = {
    "proxy": "gate",
    "worker": 0,
    "run": "a1",
    "seq": 3,
    "asked_us": 9,
    "server_uuid": "it's \\ one",
    "gtids": "",
    "writes": [{**WRITE, "gtids": "u:1"}],
}


@pytest.mark.parametrize("rows", [[], [ROW, {**ROW, "writes": None}]])
def test_a_table_in_a_plan(spark: "SparkSession", rows: list[dict[str, object]]) -> None:
    table = small_table.local(spark, rows, LOST)
    assert table.schema == LOST
    assert [row.asDict(recursive=True) for row in table.collect()] == rows
    assert "LocalRelation" in table._jdf.queryExecution().analyzed().toString()


@pytest.mark.parametrize("number", [0, 3])
def test_rows_are_counted(tmp_path: "Path", number: int) -> None:
    small_table.write([ROW] * number, LOST, tmp_path / "lost")
    assert small_table.count(tmp_path / "lost") == number
