"""Running aggregates over groups of any size.

A window of Spark goes through a group in one task. A large group is divided into buckets, mostly
of time: each bucket is gone through by itself, what the buckets before it amount to is aggregated
over the buckets' few rows, and both are put together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

Kind = Literal["max", "min", "sum", "xor"]

_AGGREGATES: Final[Mapping[Kind, Callable[[Column], Column]]] = {
    "max": fn.max,
    "min": fn.min,
    "sum": fn.sum,
    "xor": fn.bit_xor,
}


def _put_together(kind: Kind, value: Column, other: Column) -> Column:
    if kind == "max":
        return fn.greatest(value, other)
    if kind == "min":
        return fn.least(value, other)
    both = value + other if kind == "sum" else value.bitwiseXOR(other)
    return fn.coalesce(both, value, other)


class Order(NamedTuple):
    """How rows are gone through.

    Attributes:
        keys: columns without nulls; rows that agree in them form a group.
        by: columns by which each group is sorted.
        including: whether a row counts for itself.
        bucket: rises with the first of `by`; None to go through each group in one task.
    """

    keys: Sequence[str]
    by: Sequence[str | Column]
    including: bool
    bucket: Column | None = None


def running(rows: DataFrame, order: Order, values: Mapping[str, tuple[Kind, Column]]) -> DataFrame:
    """Add what the rows up to each row amount to.

    Args:
        rows: the rows.
        order: how they are gone through.
        values: by the name of the column that is added, an aggregate and its values; nulls do not
            count. The result is null where no value counts.
    """
    keys = list(order.keys)
    last = 0 if order.including else -1
    if order.bucket is None:
        upto = Window.partitionBy(*keys).orderBy(*order.by)
        upto = upto.rowsBetween(Window.unboundedPreceding, last)
        return rows.withColumns(
            {name: _AGGREGATES[kind](value).over(upto) for name, (kind, value) in values.items()}
        )
    bucketed = rows.withColumn("bucket", order.bucket)
    whole = bucketed.groupBy(*keys, "bucket").agg(
        *(_AGGREGATES[kind](value).alias(name) for name, (kind, value) in values.items())
    )
    before = Window.partitionBy(*keys).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    carried = whole.select(
        *keys,
        "bucket",
        *(
            _AGGREGATES[kind](fn.col(name)).over(before).alias(f"{name}_carried")
            for name, (kind, _) in values.items()
        ),
    )
    within = running(bucketed, Order([*keys, "bucket"], order.by, order.including), values)
    return (
        within.join(carried, [*keys, "bucket"], "left")
        .withColumns(
            {
                name: _put_together(kind, fn.col(name), fn.col(f"{name}_carried"))
                for name, (kind, _) in values.items()
            }
        )
        .drop("bucket", *(f"{name}_carried" for name in values))
    )
