"""Makes small tables, and writes them as Parquet, in the driver without Spark's workers."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark_jobs.paths import escape
from spark_jobs.storage import Folder
from spark_jobs.tables.timestamps import published_row, published_schema

_TYPES: Final = (
    (LongType(), pa.int64()),
    (StringType(), pa.string()),
    (BooleanType(), pa.bool_()),
    (DoubleType(), pa.float64()),
    (TimestampType(), pa.timestamp("us", "UTC")),
)


def to_arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type for a Spark type.

    Raises:
        TypeError: the audit's tables have no such type.
    """
    for spark_type, found in _TYPES:
        if kind == spark_type:
            return found
    if isinstance(kind, ArrayType):
        return pa.list_(to_arrow_type(kind.elementType))
    if isinstance(kind, StructType):
        return pa.struct([(field.name, to_arrow_type(field.dataType)) for field in kind])
    raise TypeError(f"no table has {kind}")


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema for a Spark schema."""
    return pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema])


def published_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema for a table as people query it (`timestamps`)."""
    return to_arrow(published_schema(schema))


def local(
    spark: SparkSession, rows: Sequence[Mapping[str, object]], schema: StructType
) -> DataFrame:
    """Make a table that is part of a query's plan; Spark would read one made of rows in a job.

    Args:
        spark: a session.
        rows: values by the names of columns.
        schema: the columns of `rows`.
    """
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), to_arrow(schema)), schema)


def count(folder: Folder) -> int:
    """Count the rows of a folder of Parquet, without reading them."""
    if not isinstance(folder, Path):
        return folder.spark.read.parquet(*escape([folder])).count()
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def write(rows: Sequence[Mapping[str, object]], schema: StructType, folder: Folder) -> None:
    """Write a table to a folder of Parquet, as Spark does; an earlier one is replaced.

    Points in time become timestamps (`timestamps`).

    Args:
        rows: values by the names of columns.
        schema: the columns of `rows`.
        folder: the folder.
    """
    table = pa.Table.from_pylist([published_row(row) for row in rows], published_arrow(schema))
    if not isinstance(folder, Path):
        made = folder.spark.createDataFrame(table, published_schema(schema))
        made.coalesce(1).write.mode("overwrite").parquet(str(folder))
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-0.parquet")
