"""Chooses up to where the records of a day are condensed."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.day import DAY_US, HOUR_US
from spark_jobs.primaries.primary_history import Term
from spark_jobs.tables.schema import RUN

TAIL_US: Final = HOUR_US
"""At least the records of so long before a day's end are not condensed."""

_MARGIN_US: Final = 10_000_000
"""Before a change of the primary on the day, the records of so long are not condensed."""


def until(
    begin_us: int,
    end_us: int,
    terms: Iterable[Term],
    bound_us: int,
    since_us: int,
    tail_us: int = TAIL_US,
) -> int:
    """Choose the moment by which everything that is condensed must have ended.

    Changes of the primary on this day are left to the tail, since answers of the earlier primary
    may still arrive.

    Args:
        begin_us: the day's begin.
        end_us: the day's end.
        terms: the terms of primaries.
        bound_us: the largest bound of the day's reads at BOUNDED_STALENESS.
        since_us: the same moment of the state before: what is older is condensed already.
        tail_us: the least length of the tail.
    """
    young = (term.until_us for term in terms if term.until_us >= begin_us)
    margin_us = min(tail_us, _MARGIN_US)
    moment = min([end_us - tail_us - bound_us, *(us - margin_us for us in young)])
    return max(moment, begin_us - tail_us, since_us)


def late(records: DataFrame, until_us: int, end_us: int) -> DataFrame:
    """Find the first record of each run that ended after a moment.

    Args:
        records: NUMBERED.
        until_us: the moment.
        end_us: the day's end. Records that ended a day after it had a wrong clock; they do not
            count.

    Returns:
        RUN and `late_from`: from which `seq` on a run's records stay in the tail.
    """
    is_late = (fn.col("ended_us") > until_us) & (fn.col("ended_us") <= end_us + DAY_US)
    return records.where(is_late).groupBy(*RUN).agg(fn.min("seq").alias("late_from"))


def marked(records: DataFrame, late: DataFrame) -> DataFrame:
    """Add `is_late`: whether a record stays in the tail.

    Args:
        records: NUMBERED.
        late: the result of `late`.
    """
    is_late = fn.coalesce(fn.col("seq") >= fn.col("late_from"), fn.lit(False))
    return records.join(fn.broadcast(late), [*RUN], "left").withColumn("is_late", is_late)
