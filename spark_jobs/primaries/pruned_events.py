"""Leaves out the events of quiet clusters that do not matter for the primaries' history.

The primary of a quiet cluster never changed, and never lacked acknowledged writes. So its writes do
not matter. Of its whole sets, two kinds matter: the first one that was asked for after something
was left open, which bounds that; and those that were asked for before that first one was answered,
which may lower the bound.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame

from spark_jobs.primaries.primary_snapshots import GAP, OPEN, TIDE
from spark_jobs.sql import among
from spark_jobs.tables.schema import EVENTS


def prune(events: DataFrame, quiet: Collection[str]) -> DataFrame:
    """Leave out the events that do not matter.

    Args:
        events: `primary_snapshots.Event`, without REIGN.
        quiet: the quiet clusters.

    Returns:
        The same columns.
    """
    is_open = f"what in ({OPEN}, {GAP})"
    calm = among("cluster", (*quiet, ""))
    before = (
        "over (partition by cluster order by at_us, what "
        "rows between unbounded preceding and 1 preceding)"
    )
    opened_us = f"max(if({is_open}, at_us, null)) {before}"
    told_us = f"max(if(what = {TIDE}, at_us, null)) {before}"
    first = f"what = {TIDE} and coalesce({opened_us} >= coalesce({told_us}, 0), false)"
    bounding = (
        events.where(f"{calm} and ({is_open} or what = {TIDE})")
        .selectExpr("*", f"{first} as first")
        .selectExpr("*", f"max(if(first, ended_us, null)) {before} as until_us")
        .where(f"{is_open} or first or at_us <= until_us")
    )
    return events.where(f"not {calm}").unionAll(bounding.selectExpr(*EVENTS.names))
