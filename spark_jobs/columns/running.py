"""Running maxima over a few long series, each gone through by as many processes as there are."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

_PIECE_US: Final = 10_000_000
"""A series is cut into pieces of so long; each begins with the maxima of all before it."""

_FIRST: Final = -(2**63)
"""When those are told: no record is that early."""


def before(rows: DataFrame, series: str, names: Sequence[str]) -> DataFrame:
    """Replace columns by their greatest value so far.

    Args:
        rows: with the column `series`, `at_us` and `what` (at one microsecond), in the order of
            which they are gone through.
        series: what tells the series apart.
        names: columns of numbers; null tells nothing.

    Returns:
        The rows; in each, the columns of these names hold the greatest value of those before it in
        its series, null if there is none.
    """
    cut = rows.withColumn("piece", fn.expr(f"at_us div {_PIECE_US}"))
    earlier = Window.partitionBy(series).orderBy("piece")
    so_far = Window.partitionBy(series, "piece").orderBy("at_us", "what")
    sums = (
        cut.groupBy(series, "piece")
        .agg(*(fn.max(name).alias(name) for name in names))
        .withColumns(
            {
                name: fn.max(name).over(earlier.rowsBetween(Window.unboundedPreceding, -1))
                for name in names
            }
        )
        .withColumns({"at_us": fn.lit(_FIRST), "what": fn.lit(0)})
    )
    return (
        cut.unionByName(sums, allowMissingColumns=True)
        .withColumns(
            {
                name: fn.max(name).over(so_far.rowsBetween(Window.unboundedPreceding, -1))
                for name in names
            }
        )
        .where(fn.col("at_us") != _FIRST)
        .drop("piece")
    )
