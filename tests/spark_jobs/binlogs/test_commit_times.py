"""Parquet has what JSON Lines has."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy import cli
from spark_jobs.binlogs.commit_times import write_table
from tests.support import binlogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_parquet_has_what_json_lines_has(spark: "SparkSession", tmp_path: Path) -> None:
    lines, table = tmp_path / "lines.jsonl", tmp_path / "table"
    log = str(binlogs.DIRECTORY / "transactions.binlog")
    assert cli.main(["binlog", "--format", "json", "--output", str(lines), log]) == 0
    write_table(spark, lines, table)
    wanted = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row.asDict() for row in spark.read.parquet(str(table)).collect()] == wanted
