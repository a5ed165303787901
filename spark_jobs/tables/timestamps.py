"""Points in time in the tables that people query: TIMESTAMP in UTC, in columns named ``…_at``.

The audit computes with whole microseconds since the epoch, in columns named ``…_us``. Its tables
are converted where they are written, and back where the audit reads them again. Lengths of time
stay whole microseconds, and keep their names.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, DataType, StructField, StructType, TimestampType

_POINTS: Final = frozenset(
    f"{name}_us"
    for name in (
        *("arrived", "dispatched", "ended", "asked", "from", "to", "hour", "minute"),
        *("original", "immediate", "claimed", "applied", "stamp"),
    )
)
"""The columns of the audit's tables that hold points in time."""


def published_name(name: str) -> str:
    """The name of a column in a table that people query."""
    return f"{name.removesuffix('_us')}_at" if name in _POINTS else name


def published_schema(schema: StructType) -> StructType:
    """The columns of a table as people query them, given those that the audit computes with."""
    return StructType(
        [
            StructField(
                published_name(field.name),
                TimestampType() if field.name in _POINTS else _published_type(field.dataType),
                field.nullable,
            )
            for field in schema
        ]
    )


def _published_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return published_schema(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_published_type(kind.elementType), kind.containsNull)
    return kind


def published(table: DataFrame) -> DataFrame:
    """Convert a table that the audit has computed to one that people query."""
    return table.select(
        *(_converted(fn.col(field.name), field, back=False) for field in table.schema)
    )


def computed(table: DataFrame, schema: StructType) -> DataFrame:
    """Convert a table that people query back to one that the audit computes with.

    Args:
        table: columns of `published_schema` of the schema.
        schema: the columns of the result.
    """
    return table.select(
        *(_converted(fn.col(published_name(field.name)), field, back=True) for field in schema)
    )


def _converted(column: Column, field: StructField, *, back: bool) -> Column:
    """Convert a column of the audit's table, or convert it back; `field` is that of the audit."""
    name = field.name if back else published_name(field.name)
    if field.name in _POINTS:
        column = fn.unix_micros(column) if back else fn.timestamp_micros(column)
    elif isinstance(field.dataType, ArrayType) and isinstance(
        items := field.dataType.elementType, StructType
    ):
        column = fn.transform(column, lambda item: _struct(item, items, back=back))
    return column.alias(name)


def _struct(value: Column, schema: StructType, *, back: bool) -> Column:
    names = (published_name(field.name) if back else field.name for field in schema)
    return fn.struct(
        *(
            _converted(value[name], field, back=back)
            for name, field in zip(names, schema, strict=True)
        )
    )


def published_row(row: Mapping[str, object]) -> dict[str, object]:
    """Rename the columns of a row that is to be written in `published_schema`.

    The values stay whole microseconds, which Arrow takes for timestamps.
    """
    return {published_name(name): _published_value(value) for name, value in row.items()}


def _published_value(value: object) -> object:
    if isinstance(value, Mapping):
        return published_row(value)
    if isinstance(value, list | tuple):
        return [_published_value(item) for item in value]
    return value
