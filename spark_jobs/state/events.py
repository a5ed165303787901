"""Facts about what records left open and what bounds that: few, each with its own time."""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
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
    arrived = dict.fromkeys(_TIMES, "arrived_us")
    statements = events.where("kind = 'statement'")
    found = [
        facts.make(MISSED, events.where("missing > 0"), ("since_us", "ended_us")),
        facts.make(UNNAMED, statements.where("is_unnamed"), (*_SESSION, *_SERVER, *_TIMES)),
        facts.make(SKIPPED, statements.where("hole"), ("session",), arrived),
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
    whole = events.where("whole is not null")
    named = (*RUN, "seq", *_SERVER, "dispatched_us as sent_us", "ended_us", "true as is_tide")
    tides = turns.renamed(whole.selectExpr(*named))
    times = opened.selectExpr("ended_us as sent_us", "false as is_tide").distinct()
    servers = tides.select("server_uuid").distinct()
    every = servers.crossJoin(fn.broadcast(times)).unionByName(tides, allowMissingColumns=True)
    order = f"order by sent_us, is_tide, ended_us, {', '.join(RUN)}, seq rows"
    over = f"over (partition by server_uuid {order}"
    upto = f"{over} unbounded preceding)"
    before = f"{over} between unbounded preceding and 1 preceding)"
    whose = f"over (partition by {', '.join(RUN)}, server_uuid, incarnation)"
    is_first = "is_tide and opened_us > coalesce(told_us, -1)"
    kept = (
        every.selectExpr(
            "*",
            f"max(if(is_tide, null, sent_us)) {upto} as opened_us",
            f"max(if(is_tide, sent_us, null)) {before} as told_us",
        )
        .selectExpr("*", f"max(if({is_first}, ended_us, null)) {upto} as until_us")
        .where("is_tide")
        .selectExpr("*", f"max(sent_us) {whose} as last_us")
        .where("until_us >= sent_us or ended_us >= last_us")
        .select(*RUN, "seq", "server_uuid", "incarnation")
    )
    texts = whole.select(*RUN, "seq", "role", "dispatched_us", "ended_us", "whole")
    bounding = texts.join(fn.broadcast(kept), [*RUN, "seq"])
    return facts.make(ASKED, bounding, (*_SERVER, "dispatched_us", "ended_us"), {"gtids": "whole"})


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
    more = {"role": "'primary'", "dispatched_us": "ended_us"}
    return facts.make(REIGNED, rows, names[3:], more)
