"""Facts about what records left open and what bounds that: few, each with its own time."""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from spark_jobs.records.survey import Survey
from spark_jobs.state import facts
from spark_jobs.state.facts import ASKED, FACT, MISSED, REIGNED, SKIPPED, UNNAMED
from spark_jobs.state.turns import Turns
from spark_jobs.tables.schema import RUN

_SESSION: Final = ("session", "user", "application")
_SERVER: Final = ("role", "server_uuid", "incarnation")
_TIMES: Final = ("dispatched_us", "ended_us")


def events(records: DataFrame) -> DataFrame:
    """Select the records that left something open, and those that hold a primary's whole set.

    Args:
        records: NUMBERED of the records that are condensed, and of those that stand for the time
            before.

    Returns:
        The columns that the others take.
    """
    matters = "missing > 0 or hole or is_unnamed or whole is not null"
    whose = (*RUN, "seq", "kind", *_SESSION, *_SERVER, "arrived_us", *_TIMES)
    return records.where(matters).select(
        *whose, "missing", "hole", "since_us", "is_unnamed", "whole"
    )


def opened(events: DataFrame) -> DataFrame:
    """What was left open: FACT of UNNAMED, SKIPPED and MISSED, not merged.

    Args:
        events: the result of `events`.
    """
    arrived = [fn.col("arrived_us").alias(name) for name in _TIMES]
    statements = events.where("kind = 'statement'")
    found = [
        facts.make(MISSED, events.where("missing > 0"), ("since_us", "ended_us")),
        facts.make(UNNAMED, statements.where("is_unnamed"), (*_SESSION, *_SERVER, *_TIMES)),
        facts.make(SKIPPED, statements.where("hole"), ("session",), *arrived),
    ]
    return reduce(DataFrame.unionAll, found)


def asked(events: DataFrame, opened: DataFrame, turns: Turns) -> DataFrame:
    """The whole sets of primaries that bound something, and the last ones: FACT of ASKED.

    Of each primary, the first set after each time at which something was left open counts, and the
    sets that were asked for before that one was received, which may lower the bound
    (`primary_snapshots`).

    Args:
        events: the result of `events`.
        opened: the result of `opened`, merged.
        turns: the changes of primaries that are over.
    """
    sent = fn.col("sent_us")
    named = (*RUN, "seq", *_SERVER, fn.col("dispatched_us").alias("sent_us"), "ended_us")
    whole = events.where("whole is not null")
    tides = turns.renamed(whole.select(*named)).withColumn("is_tide", fn.lit(True))
    times = opened.select(fn.col("ended_us").alias("sent_us")).distinct()
    servers = tides.select("server_uuid").distinct()
    open_ = servers.crossJoin(fn.broadcast(times)).withColumn("is_tide", fn.lit(False))
    every = open_.unionByName(tides, allowMissingColumns=True)
    upto = Window.partitionBy("server_uuid").orderBy("sent_us", "is_tide", "ended_us", *RUN, "seq")
    upto = upto.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = upto.rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    whose = Window.partitionBy(*RUN, "server_uuid", "incarnation")
    is_tide = fn.col("is_tide")
    first = fn.col("opened_us") > fn.coalesce("told_us", fn.lit(-1))
    kept = (
        every.withColumns(
            {
                "opened_us": fn.max(fn.when(~is_tide, sent)).over(upto),
                "told_us": fn.max(fn.when(is_tide, sent)).over(before),
            }
        )
        .withColumn("until_us", fn.max(fn.when(is_tide & first, fn.col("ended_us"))).over(upto))
        .where("is_tide")
        .withColumn("last_us", fn.max("sent_us").over(whose))
        .where("until_us >= sent_us or ended_us >= last_us")
        .select(*RUN, "seq", "server_uuid", "incarnation")
    )
    texts = whole.select(*RUN, "seq", "role", "dispatched_us", "ended_us", "whole")
    return facts.make(
        ASKED,
        texts.join(fn.broadcast(kept), [*RUN, "seq"]),
        (*_SERVER, "dispatched_us", "ended_us"),
        fn.col("whole").alias("gtids"),
    )


def reigned(survey: Survey, until_us: int, of: DataFrame) -> DataFrame:
    """When primaries were first and last sent a statement: FACT of REIGNED.

    Args:
        survey: its `reigns` are those of all runs.
        until_us: the moment of the state; the tail shows later times itself.
        of: a table of the same session.
    """
    found: list[tuple[object, ...]] = []
    for (run, server), reign in survey.reigns.items():
        if reign.from_us <= min(until_us, reign.to_us):
            found += ((*run, *server, us) for us in {reign.from_us, min(reign.to_us, until_us)})
    names = (*RUN, "server_uuid", "incarnation", "ended_us")
    rows = of.sparkSession.createDataFrame(found, StructType([FACT[name] for name in names]))
    when = fn.col("ended_us").alias("dispatched_us")
    return facts.make(REIGNED, rows, names[3:], fn.lit("primary").alias("role"), when)
