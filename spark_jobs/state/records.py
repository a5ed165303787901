"""Turns facts into records that stand for many, with all columns of a record, for the judges.

Their `seq` is below that of any record of the log, in the order of their times.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField

from spark_jobs.records import statement
from spark_jobs.state.facts import (
    ASKED,
    HAD,
    KEY,
    MISSED,
    RAN,
    REIGNED,
    SAW,
    SHOWED,
    SKIPPED,
    SPOKE,
    TIMES,
    UNNAMED,
    UNREAD,
    WROTE,
)
from spark_jobs.tables.schema import NUMBERED, RECORD, RECORD_VERSION, RUN

NO_SET: Final = "-"
"""Replaces any text that is no well-formed set."""

_NULL: Final = ("file", "repeat")


def transform(facts: DataFrame) -> DataFrame:
    """Make records of facts; none of them is judged.

    Args:
        facts: FACT, merged.

    Returns:
        NUMBERED.
    """
    what, gtids, sent = fn.col("what"), fn.col("gtids"), fn.col("dispatched_us")
    # From the last one back: the newest fact has the greatest number below 0.
    back = Window.orderBy(*(fn.desc(name) for name in ("ended_us", "what", *KEY[1:], sent)))

    def of(*kinds: int) -> Column:
        return fn.when(what.isin(*kinds), gtids)

    columns = {
        "v": fn.lit(RECORD_VERSION),
        "seq": -fn.row_number().over(back),
        "kind": fn.when(what.isin(REIGNED, HAD, ASKED), "proof")
        .when(what == MISSED, "gap")
        .otherwise("statement"),
        "arrived_us": sent,
        "may_write": what.isin(WROTE, UNREAD, UNNAMED),
        "own_known": what != UNNAMED,
        # With "lost", it does not count as an answer of its primary.
        "outcome": fn.when(what == UNNAMED, "lost").otherwise("ok"),
        "proof": fn.when(what == ASKED, "probed").when(what == SHOWED, "waited").otherwise(""),
        "own_gtids": of(WROTE).when(what == UNREAD, NO_SET).otherwise(""),
        "observed": of(SAW).otherwise(""),
        "proof_set": of(SHOWED, HAD, ASKED),
        "missing": fn.when(what == MISSED, 1).otherwise(0),
        "hole": what == SKIPPED,
    }
    taken = (*KEY[1:], "ordinal", *TIMES)
    given = {name: fn.col(name) for name in taken} | columns
    every = [*RECORD, *(NUMBERED[name] for name in ("missing", "hole", "since_us"))]
    records = facts.where(~what.isin(RAN, SPOKE)).select(
        *(
            given.get(field.name, _nothing(field)).cast(field.dataType).alias(field.name)
            for field in every
        )
    )
    rest = {
        field.name: fn.lit(None).cast(field.dataType) for field in NUMBERED if field.name in _NULL
    }
    rest |= statement.facts() | {"declared": fn.lit(0).cast("bigint"), "is_judged": fn.lit(False)}
    return records.select("*", *(value.alias(name) for name, value in rest.items())).select(
        NUMBERED.names
    )


def _nothing(field: StructField) -> Column:
    """The value of a field that facts do not have."""
    if field.nullable:
        return fn.lit(None)
    return fn.lit("" if isinstance(field.dataType, StringType) else 0)


def numbers(facts: DataFrame) -> DataFrame:
    """The last known numbers, in the form that `numbering.strange` takes.

    Args:
        facts: FACT, merged.

    Returns:
        RUN, `seq`, `ended_us`, `session` and `ordinal`. The rows of sessions have the `ended_us` of
        their run: which of two rows with the same number comes first does not matter then.
    """
    spoke = fn.col("what") == SPOKE
    ended = fn.max(fn.when(~spoke, fn.col("ended_us"))).over(Window.partitionBy(*RUN))
    own = {name: fn.when(spoke, fn.col(name)) for name in ("session", "ordinal")}
    return facts.where(fn.col("what").isin(RAN, SPOKE)).select(
        *RUN, "seq", ended.alias("ended_us"), *(value.alias(name) for name, value in own.items())
    )
