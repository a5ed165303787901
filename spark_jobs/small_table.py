"""Small tables, written by the driver alone."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
)

_TYPES: Final = (
    (LongType(), pa.int64()),
    (StringType(), pa.string()),
    (BooleanType(), pa.bool_()),
    (DoubleType(), pa.float64()),
)


def to_arrow_type(kind: DataType) -> pa.DataType:
    """How Arrow calls a type of a table.

    Raises:
        TypeError: no table has it.
    """
    for its, found in _TYPES:
        if kind == its:
            return found
    if isinstance(kind, ArrayType):
        return pa.list_(to_arrow_type(kind.elementType))
    if isinstance(kind, StructType):
        return pa.struct([(it.name, to_arrow_type(it.dataType)) for it in kind])
    raise TypeError(f"no table has {kind}")


def to_arrow(schema: StructType) -> pa.Schema:
    """A table's schema as Arrow has it."""
    return pa.schema([(it.name, to_arrow_type(it.dataType)) for it in schema])


def write(rows: Sequence[Mapping[str, object]], schema: StructType, folder: Path) -> None:
    """Write a table as Parquet, in a directory as Spark does; what is there is replaced.

    Args:
        rows: by the names of columns.
        schema: of the table.
        folder: where to.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), to_arrow(schema)), folder / "part-0.parquet")
