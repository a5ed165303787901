"""Leaves out the events of quiet clusters that do not matter for the primaries' history.

The primary of a quiet cluster never changed, and never lacked acknowledged writes. So its writes do
not matter. Of its whole sets, two kinds matter: the first one that was asked for after something
was left open, which bounds that; and those that were asked for before that first one was answered,
which may lower the bound.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.primaries.primary_snapshots import GAP, OPEN, TIDE
from spark_jobs.tables.schema import EVENTS

_ORDER: Final = ("at_us", "what")


def prune(events: DataFrame, quiet: Collection[str]) -> DataFrame:
    """Leave out the events that do not matter.

    Args:
        events: `primary_snapshots.Event`, without REIGN.
        quiet: the quiet clusters.

    Returns:
        The same columns.
    """
    what, calm = fn.col("what"), fn.col("cluster").isin(*quiet, "")
    is_open = what.isin(OPEN, GAP)
    before = (
        Window.partitionBy("cluster")
        .orderBy(*_ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    opened_us = fn.max(fn.when(is_open, fn.col("at_us"))).over(before)
    told_us = fn.max(fn.when(what == TIDE, fn.col("at_us"))).over(before)
    first = fn.coalesce(opened_us >= fn.coalesce(told_us, fn.lit(0)), fn.lit(False))
    until_us = fn.max(fn.when(fn.col("first"), fn.col("ended_us"))).over(before)
    bounding = (
        events.where(calm & (is_open | (what == TIDE)))
        .withColumn("first", (what == TIDE) & first)
        .withColumn("until_us", until_us)
        .where(is_open | fn.col("first") | (fn.col("at_us") <= fn.col("until_us")))
    )
    return events.where(~calm).unionAll(bounding.select(EVENTS.names))
