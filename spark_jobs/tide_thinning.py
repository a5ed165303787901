"""Which of a quiet cluster's events tell something: what was left open, and what bounds that.

Its primary never changed, and never lacked what had been acknowledged. So nothing follows from its
writes, and of its whole sets only from the first that was asked for behind something left open, and
from those asked for before that one was there, which may lower it.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.schema import EVENTS
from spark_jobs.tides import GAP, OPEN, TIDE

_ORDER: Final = ("at_us", "what")


def thin(events: DataFrame, quiet: Collection[str]) -> DataFrame:
    """Leave out what tells nothing.

    Args:
        events: `tides.Event`, but for those of reigns.
        quiet: clusters.

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
