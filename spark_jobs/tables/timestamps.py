"""Points in time in the tables that people query: TIMESTAMP in UTC, in columns named ``…_at``.

The audit computes with whole microseconds since the epoch, in columns named ``…_us``. Its tables
are converted where they are written, and back where the audit reads them again. Lengths of time
stay whole microseconds, and keep their names.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
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
    return table.selectExpr(*(_converted(field.name, field, back=False) for field in table.schema))


def computed(table: DataFrame, schema: StructType) -> DataFrame:
    """Convert a table that people query back to one that the audit computes with.

    Args:
        table: columns of `published_schema` of the schema.
        schema: the columns of the result.
    """
    return table.selectExpr(
        *(_converted(published_name(field.name), field, back=True) for field in schema)
    )


def _converted(value: str, field: StructField, *, back: bool) -> str:
    """SQL that converts a column of the audit, or converts it back, under its new name."""
    name = field.name if back else published_name(field.name)
    return f"{_value(value, field, back=back)} as `{name}`"


def _value(value: str, field: StructField, *, back: bool) -> str:
    if field.name in _POINTS:
        return f"{'unix_micros' if back else 'timestamp_micros'}({value})"
    if isinstance(field.dataType, ArrayType) and isinstance(
        items := field.dataType.elementType, StructType
    ):
        names = (published_name(item.name) if back else item.name for item in items)
        parts = (
            _converted(f"item.{name}", item, back=back)
            for name, item in zip(names, items, strict=True)
        )
        return f"transform({value}, item -> struct({', '.join(parts)}))"
    return value


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
