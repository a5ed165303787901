"""Reduces the facts of sessions and runs that are over, so that a state does not grow forever."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.day import DAY_US
from spark_jobs.records.survey import Run
from spark_jobs.state import facts
from spark_jobs.state.facts import (
    ASKED,
    FACT,
    HAD,
    MISSED,
    RAN,
    REIGNED,
    SAW,
    SHOWED,
    SKIPPED,
    SPOKE,
    UNNAMED,
    UNREAD,
    WROTE,
)
from spark_jobs.tables.schema import RUN

IDLE_US: Final = 3 * DAY_US
"""A session that has been silent for longer counts as over."""

_OF_SESSIONS: Final = (WROTE, SAW, SHOWED, UNNAMED, UNREAD)
_RUNS: Final = "proxy string, worker bigint, run string"


def transform(found: DataFrame, live: Collection[Run], begin_us: int, idle_us: int) -> DataFrame:
    """Detach facts from sessions that are over.

    They still count for the sessions' users, applications and proxies.

    Args:
        found: FACT, merged.
        live: the runs that have records of this day. A run whose worker has another one is over.
        begin_us: the day's begin. An earlier incarnation of a server that said nothing on the day
            is over.
        idle_us: sessions that have been silent since then are over.

    Returns:
        FACT, not merged.
    """
    what, ended, no = fn.col("what"), fn.col("ended_us"), fn.lit(False)
    runs = found.sparkSession.createDataFrame(list(live), _RUNS)
    places = runs.select("proxy", "worker").distinct().withColumn("is_replaced", fn.lit(True))
    in_session = Window.partitionBy(*RUN, "session")
    of_server = Window.partitionBy(*RUN, "server_uuid")
    newest = fn.max(fn.when(what == HAD, fn.col("incarnation"))).over(of_server)
    spoke_us = fn.max(fn.when(what == SPOKE, ended)).over(in_session)
    marked = (
        found.join(fn.broadcast(runs.withColumn("is_live", fn.lit(True))), [*RUN], "left")
        .join(fn.broadcast(places), ["proxy", "worker"], "left")
        .withColumns({"newest": newest, "spoke_us": spoke_us})
    )
    is_over = (fn.col("run") != "") & fn.isnull("is_live") & fn.isnotnull("is_replaced")
    silent = fn.coalesce(fn.col("spoke_us") < idle_us, no)
    dead = is_over | (silent & what.isin(*_OF_SESSIONS, SPOKE, SKIPPED))
    past = what.isin(HAD, SHOWED) & (ended < begin_us)
    past &= fn.coalesce(fn.coalesce("incarnation", fn.lit(0)) < fn.col("newest"), no)
    marked = marked.withColumns({"dead": dead, "past": past})
    dropped = fn.col("dead") & what.isin(RAN, SPOKE, HAD, REIGNED, SKIPPED)
    dropped |= fn.col("past") & (what == HAD)
    nobodys = (fn.col("dead") | fn.col("past")) & (what == SHOWED)
    loose = fn.col("dead") & what.isin(*_OF_SESSIONS, MISSED, ASKED)
    marked = marked.where(~dropped).withColumns({"nobodys": nobodys, "loose": loose})
    cleared = {name: fn.col("nobodys") for name in ("role", "server_uuid")}
    cleared |= {name: fn.col("loose") for name in ("run", "worker", "session", "ordinal", "seq")}
    cleared["incarnation"] = fn.col("nobodys") | fn.col("loose")
    aged = {
        name: fn.when(where, facts.nothing(name)).otherwise(fn.col(name))
        for name, where in cleared.items()
    }
    aged["what"] = fn.when(fn.col("nobodys"), fn.lit(SAW).cast("bigint")).otherwise(what)
    return marked.withColumns(aged).select(FACT.names)
