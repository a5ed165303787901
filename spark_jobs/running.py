"""Running aggregates over groups of any size.

A window of Spark goes through a group in one task. A large group is divided into buckets, mostly
of time: each bucket is gone through by itself, what the buckets before it amount to is aggregated
over the buckets' few rows, and both are put together.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

Kind = Literal["max", "min", "sum", "xor"]

_AGGREGATES: Final[Mapping[Kind, str]] = {
    "max": "max",
    "min": "min",
    "sum": "sum",
    "xor": "bit_xor",
}

_TOGETHER: Final[Mapping[Kind, str]] = {
    "max": "greatest({0}, {1})",
    "min": "least({0}, {1})",
    "sum": "coalesce({0} + {1}, {0}, {1})",
    "xor": "coalesce({0} ^ {1}, {0}, {1})",
}
"""How two parts of a group are put together."""


class Order(NamedTuple):
    """How rows are gone through.

    Attributes:
        keys: columns without nulls; rows that agree in them form a group.
        by: SQL by which each group is sorted.
        including: whether a row counts for itself.
        bucket: SQL that rises with the first of `by`; None to go through each group in one task.
    """

    keys: Sequence[str]
    by: Sequence[str]
    including: bool
    bucket: str | None = None


def running(rows: DataFrame, order: Order, values: Mapping[str, tuple[Kind, str]]) -> DataFrame:
    """Add what the rows up to each row amount to.

    Args:
        rows: the rows.
        order: how they are gone through.
        values: by the name of the column that is added, an aggregate and SQL for its values; nulls
            do not count. The result is null where no value counts.
    """
    sums = {name: f"{_AGGREGATES[kind]}({value})" for name, (kind, value) in values.items()}
    if order.bucket is None:
        keys = ", ".join(f"`{key}`" for key in order.keys)
        last = "current row" if order.including else "1 preceding"
        upto = f"rows between unbounded preceding and {last}"
        over = f"over (partition by {keys} order by {', '.join(order.by)} {upto})"
        return rows.selectExpr("*", *(f"{value} {over} as {name}" for name, value in sums.items()))
    keys_of_bucket = [*order.keys, "bucket"]
    bucketed = rows.selectExpr("*", f"{order.bucket} as bucket")
    parts = {f"{name}_part": value for name, value in sums.items()}
    whole = bucketed.groupBy(*keys_of_bucket).agg(
        *(fn.expr(f"{value} as {name}") for name, value in parts.items())
    )
    carried = {f"{name}_carried": (kind, f"{name}_part") for name, (kind, _) in values.items()}
    before = running(whole, Order(order.keys, ["bucket"], including=False), carried).drop(*parts)
    within = running(bucketed, Order(keys_of_bucket, order.by, order.including), values)
    both = (
        f"{_TOGETHER[kind].format(name, f'{name}_carried')} as {name}"
        for name, (kind, _) in values.items()
    )
    return within.join(before, keys_of_bucket, "left").selectExpr(
        *(f"`{name}`" for name in rows.columns), *both
    )
