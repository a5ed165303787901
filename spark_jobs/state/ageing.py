"""Reduces the facts of sessions and runs that are over, so that a state does not grow forever."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame
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
    is_of,
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
    runs = found.sparkSession.createDataFrame(list(live), _RUNS)
    places = runs.selectExpr("proxy", "worker", "true as is_replaced").distinct()
    run = ", ".join(RUN)
    newest = f"max(if(what = {HAD}, incarnation, null)) over (partition by {run}, server_uuid)"
    spoke_us = f"max(if(what = {SPOKE}, ended_us, null)) over (partition by {run}, session)"
    is_over = "run != '' and is_live is null and is_replaced is not null"
    silent = f"coalesce(spoke_us < {idle_us}, false)"
    before = "coalesce(coalesce(incarnation, 0) < newest, false)"
    marked = (
        found.join(fn.broadcast(runs.selectExpr("*", "true as is_live")), [*RUN], "left")
        .join(fn.broadcast(places), ["proxy", "worker"], "left")
        .selectExpr("*", f"{newest} as newest", f"{spoke_us} as spoke_us")
        .selectExpr(
            "*",
            f"{is_over} or {silent} and {is_of(*_OF_SESSIONS, SPOKE, SKIPPED)} as dead",
            f"{is_of(HAD, SHOWED)} and ended_us < {begin_us} and {before} as past",
        )
        .where(f"not (dead and {is_of(RAN, SPOKE, HAD, REIGNED, SKIPPED)})")
        .where(f"not (past and {is_of(HAD)})")
        .selectExpr(
            "*",
            f"(dead or past) and {is_of(SHOWED)} as nobodys",
            f"dead and {is_of(*_OF_SESSIONS, MISSED, ASKED)} as loose",
        )
    )
    cleared = dict.fromkeys(("role", "server_uuid"), "nobodys")
    cleared |= dict.fromkeys(("run", "worker", "session", "ordinal", "seq"), "loose")
    cleared["incarnation"] = "nobodys or loose"
    aged = {name: f"if({where}, {facts.nothing(name)}, {name})" for name, where in cleared.items()}
    aged["what"] = f"if(nobodys, bigint({SAW}), what)"
    return marked.selectExpr(*(f"{aged.get(name, name)} as {name}" for name in FACT.names))
