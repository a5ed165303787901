"""Which events tell something of a cluster whose primary never changed and never lost anything.

There every whole set of the primary holds what had been acknowledged before it was asked for. So
nothing follows from the writes, and of the sets only from those that bound something left open.
"""

from collections.abc import Collection
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.columns import gtid_columns, running
from spark_jobs.columns.facts import Facts
from spark_jobs.tides import GAP, OPEN, TIDE, WROTE


def find(events: DataFrame, facts: Facts) -> frozenset[str]:
    """Name the clusters that were calm; this runs a job.

    Args:
        events: of `tides.Tides`, but for those of reigns.
        facts: of the same records.
    """
    one = [name for name, its in facts.primaries.items() if len(its) == 1]
    slots = range(facts.slots)
    what = fn.col("what")
    told = events.where(fn.col("cluster").isin(one) & what.isin(WROTE, TIDE)).select(
        "cluster", "at_us", "what", "gtids"
    )
    told = gtid_columns.split(told, "gtids", facts.sources, facts.slots)
    wrote = {f"wrote{slot}": fn.when(what == WROTE, fn.col(f"gtids_top{slot}")) for slot in slots}
    told = told.select(
        *("cluster", "at_us", "what", "gtids_odd"),
        *(it.alias(name) for name, it in wrote.items()),
        *(gtid_columns.prefix("gtids", slot).alias(f"whole{slot}") for slot in slots),
    )
    lacks = reduce(or_, (fn.col(f"wrote{slot}") > fn.col(f"whole{slot}") for slot in slots))
    rough = (
        running.before(told, "cluster", list(wrote))
        .where(fn.col("gtids_odd") | ((what == TIDE) & lacks))
        .select("cluster")
        .distinct()
        .collect()
    )
    return frozenset(one) - {row.cluster for row in rough}


def thin(events: DataFrame, calm: Collection[str]) -> DataFrame:
    """Leave out what tells nothing.

    Args:
        events: of `tides.Tides`, but for those of reigns.
        calm: clusters.

    Returns:
        Of these clusters what was left open, the first set that was asked for after it, and others
        asked for before that one was there.
    """
    what, quiet = fn.col("what"), fn.col("cluster").isin(*calm, "")
    is_open = what.isin(OPEN, GAP)
    opened = events.where(quiet & is_open)
    if opened.isEmpty():
        return events.where(~quiet)
    told = events.where(quiet & (is_open | (what == TIDE))).withColumns(
        {
            "open_us": fn.when(is_open, fn.col("at_us")),
            "tide_us": fn.when(what == TIDE, fn.col("at_us")),
        }
    )
    asked = running.before(told, "cluster", ["open_us", "tide_us"]).where(what == TIDE)
    first = fn.col("open_us") >= fn.coalesce("tide_us", fn.lit(0))
    bounding = running.before(
        asked.withColumns({"first": first, "until_us": fn.when(first, fn.col("ended_us"))}),
        "cluster",
        ["until_us"],
    ).where(fn.col("first") | (fn.col("at_us") <= fn.col("until_us")))
    return events.where(~quiet).unionAll(opened).unionAll(bounding.select(events.columns))
