"""Reduces the facts of sessions and runs that are over, so that a state does not grow forever."""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Flags, Numbers, alike
from spark_jobs.columns.survey import Run
from spark_jobs.day import DAY_US
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


def folded(found: pa.Table, over: Collection[Run], begin_us: int, idle_us: int) -> pa.Table:
    """Detach facts from sessions that are over.

    They still count for the sessions' users, applications and proxies.

    Args:
        found: FACT, merged.
        over: runs that have been replaced by others.
        begin_us: the day's begin. An earlier incarnation of a server that said nothing on the day
            is over.
        idle_us: sessions that have been silent since then are over.

    Returns:
        FACT, merged.
    """
    what, session = facts.number(found, "what"), facts.number(found, "session")
    run, _ = alike(*facts.codes(found, RUN))
    one = np.unique(run, return_index=True)[1]
    keys = found.select(RUN).take(pa.array(one)).to_pylist()
    is_over = np.array([(it["proxy"], it["worker"], it["run"]) in over for it in keys], bool)[run]
    whose, count = alike(run, session)
    silent = np.zeros(count, bool)
    spoke = what == SPOKE
    silent[whose[spoke]] = facts.number(found, "ended_us")[spoke] < idle_us
    dead: Flags = is_over | (silent[whose] & np.isin(what, (*_OF_SESSIONS, SPOKE, SKIPPED)))
    dropped = dead & np.isin(what, (RAN, SPOKE, HAD, REIGNED, SKIPPED))
    past = _of_past_incarnations(found, run, what) & (facts.number(found, "ended_us") < begin_us)
    dropped |= past & (what == HAD)
    nobodys = (dead | past) & (what == SHOWED)
    loose = dead & np.isin(what, (*_OF_SESSIONS, MISSED, ASKED))
    columns = {name: found.column(name).combine_chunks() for name in FACT.names}
    columns["what"] = pa.array(np.where(nobodys, SAW, what))
    for names, where, value in (
        (("role", "server_uuid"), nobodys, None),
        (("run",), loose, ""),
        (("worker", "session", "ordinal", "seq"), loose, 0),
        (("incarnation",), nobodys | loose, None),
    ):
        for name in names:
            scalar = pa.scalar(value, FACT.field(name).type)
            columns[name] = pc.if_else(pa.array(where), scalar, columns[name])
    aged = pa.table(columns, schema=FACT).filter(pa.array(~dropped))
    return facts.merged(aged)


def _of_past_incarnations(found: pa.Table, run: Numbers, what: Numbers) -> Flags:
    """Whether a fact is of an incarnation of a server that is not its newest."""
    server, count = alike(run, *facts.codes(found, ["server_uuid"]))
    incarnation = facts.number(found, "incarnation")
    newest = np.zeros(count, np.int64)
    np.maximum.at(newest, server[what == HAD], incarnation[what == HAD])
    flags: Flags = np.isin(what, (HAD, SHOWED)) & (incarnation < newest[server])
    return flags
