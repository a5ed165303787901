"""Writes commit timestamps of binary logs as a table, for ``tidegate binlog --format parquet``."""

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.spark_session import start_spark, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = """
    file STRING, position LONG, type STRING, gtid STRING, server_id LONG, last_committed LONG,
    sequence_number LONG, original_commit_timestamp LONG, original_commit_time STRING,
    immediate_commit_timestamp LONG, immediate_commit_time STRING, commit_lag_us LONG,
    transaction_length LONG, original_server_version LONG, immediate_server_version LONG
"""


def write_parquet(json_lines: Path, output: Path) -> None:
    """Write the transactions in `json_lines` to the directory `output`, which is replaced.

    Raises:
        RuntimeError: Spark or Java is missing, or failed.
    """
    if missing := what_is_missing():
        raise RuntimeError(missing)
    from pyspark.errors import PySparkException

    try:
        spark = start_spark(json_lines.with_name("spark.log"))
        try:
            write_table(spark, json_lines, output)
        finally:
            spark.stop()
    except PySparkException as error:
        told = str(error).strip().partition("\n")[0]
        raise RuntimeError(f"Spark failed: {told}") from error


def write_table(spark: "SparkSession", json_lines: Path, output: Path) -> None:
    """As `write_parquet`, with an existing session."""
    table = spark.read.schema(_COLUMNS).json(str(json_lines))
    table.coalesce(1).write.mode("overwrite").parquet(str(output))
