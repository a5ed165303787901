"""Finds the reads and servers that may show a lapse of the procedure, and leaves out all others.

A read at STRONG or BOUNDED_STALENESS is no lapse if one of the first sets that the primary was
asked for in the read's time was received before the read was sent, and the read's proof covers that
set. At the levels that remember what was seen, nothing was left unasked if only one server answered
in a group. And a server is not contradicted by a set that holds all that it had shown before.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns import places
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.places import ROUGH, Places
from spark_jobs.columns.plan import Plan
from spark_jobs.columns.series import MET, SHOWN, TOLD, Series
from spark_jobs.columns.tellings import remembering
from spark_jobs.promise import CLUSTER_LEVELS
from spark_jobs.tables.schema import RUN

_FIRST: Final = 4
"""How many sets after a read's moment are tried; `run_procedure` tries at least as many."""

Liar = tuple[str, int, str, str | None, int | None]
"""RUN, server_uuid and incarnation."""


def suspects(chunk: Chunk, its: Places, plan: Plan) -> pa.Table:
    """The reads that may show a lapse: RUN and `seq`."""
    series = Series.open(plan.series)
    found = _unasked(chunk, its, plan, series) | _crossing(chunk, its, series) | _holed(chunk)
    rows = pa.array(np.flatnonzero(found))
    columns = {}
    for name in (*RUN, "seq"):
        column = chunk.column(name).take(rows)
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        columns[name] = plain
    return pa.table(columns)


def _unasked(chunk: Chunk, its: Places, plan: Plan, series: Series) -> Flags:
    """The reads for which the primary may not have been asked in time."""
    level, proof = chunk.text("level"), chunk.text("proof")
    bounded = level.isin("BOUNDED_STALENESS")
    asks = chunk.is_judged & chunk.of_replica & level.isin(*CLUSTER_LEVELS)
    asks &= proof.isin("known", "waited") & ~(bounded & ~chunk.known("bound_us"))
    rows = np.flatnonzero(asks)
    found = np.zeros(len(chunk), bool)
    if not len(rows):
        return found
    bound = np.where(bounded, chunk.number("bound_us"), 0)
    since = chunk.moment_us - bound - plan.since_us
    sent = chunk.number("dispatched_us") - plan.since_us
    claim = chunk.set("proof_set")
    place, last = series.behind(TOLD, its.group("proxy")[rows], since[rows])
    proved = np.zeros(len(rows), bool)
    covers = _Covers(chunk, plan)
    for ahead in range(_FIRST):
        left = np.flatnonzero(~proved & (place + ahead <= last))
        at = place[left] + ahead
        told = series.x[at] <= sent[rows[left]]
        proved[left] = told & covers.each(claim[rows[left]], series.y[at], series.z[at])
    found[rows] = ~proved
    return found


class _Covers:
    """Whether sets of a chunk hold what primaries told."""

    def __init__(self, chunk: Chunk, plan: Plan) -> None:
        self._sets = chunk.sets
        self._forms = plan.forms

    def each(self, which: Numbers, top: Numbers, form: Numbers) -> Flags:
        """Whether each set holds 1 to `top` of a form's main source, and the rest of the form."""
        sets = self._sets
        found = np.zeros(len(which), bool)
        for number in np.unique(form):
            one = self._forms.get(int(number))
            if one is None:
                continue
            mine = np.flatnonzero(form == number)
            held = ~sets.odd[which[mine]]
            if one.main in sets.sources:
                held &= sets.prefixes(sets.sources.index(one.main))[which[mine]] >= top[mine]
            else:
                held &= top[mine] == 0
            for source, low, high in one.rest:
                held &= self._hold(source, low, high)[which[mine]]
            found[mine] = held
        return found

    def _hold(self, source: str, low: int, high: int) -> Flags:
        """Whether each set has an interval that holds this one."""
        sets = self._sets
        held = np.zeros(len(sets.odd), bool)
        if source in sets.sources:
            fits = (sets.source == sets.sources.index(source)) & (sets.low <= low)
            held[sets.owner[fits & (high <= sets.high)]] = True
        return held


def _crossing(chunk: Chunk, its: Places, series: Series) -> Flags:
    """The reads that may have left a server: several servers answered in their group."""
    found = np.zeros(len(chunk), bool)
    reads = remembering(chunk)
    for kind in chunk.owed_in.values:
        rows = np.flatnonzero(reads & chunk.owed_in.isin(kind))
        if not len(rows):
            continue
        group = its.group(kind)[rows]
        most, least = np.full(len(rows), -(2**63)), np.full(len(rows), 2**63 - 1)
        both = np.ones(len(rows), bool)
        for name in ("answered", "read"):
            end, _ = series.find(
                MET, places.series(group, name), np.zeros(len(rows), np.int64), until=True
            )
            both &= end >= 0
            there = np.flatnonzero(end >= 0)
            most[there] = np.maximum(most[there], series.most_x[end[there]])
            least[there] = np.minimum(least[there], -series.most_y[end[there]])
        found[rows] = both & (most != least)
    return found


def _holed(chunk: Chunk) -> Flags:
    """The reads at READ_ALL_WRITES that may have been shown gaps."""
    sets, observed = chunk.sets, chunk.set("observed")
    shown = chunk.is_ok & chunk.text("observed").filled
    every = remembering(chunk) & chunk.text("level").isin("READ_ALL_WRITES") & shown
    gaps = sets.odd.copy()
    if len(sets.low) > 1:
        again = (sets.owner[1:] == sets.owner[:-1]) & (sets.source[1:] == sets.source[:-1])
        gaps[sets.owner[1:][again]] = True
    return every & gaps[observed]


def liars(chunk: Chunk, its: Places, plan: Plan) -> set[Liar]:
    """Servers whose whole set may lack what they had shown before."""
    probed = chunk.is_probed & chunk.text("proof_set").known
    reported = chunk.is_statement & chunk.text("observed").filled
    rows = np.flatnonzero(chunk.of_replica & (probed | reported))
    if not len(rows):
        return set()
    sets, series = chunk.sets, Series.open(plan.series)
    of = np.where(probed, chunk.set("proof_set"), chunk.set("observed"))[rows]
    sent, ended = chunk.number("dispatched_us")[rows], chunk.number("ended_us")[rows]
    at = np.minimum(sent, ended) - plan.since_us
    belied = sets.odd[of] | ~chunk.text("server_uuid").known[rows]
    server = its.server[rows]
    end, _ = series.find(SHOWN, places.series(server, ROUGH), at, until=True)
    belied |= end >= 0
    for source in sorted({it for its_ in plan.shown.values() for it in its_}):
        end, _ = series.find(SHOWN, places.series(server, source), at, until=True)
        there = np.flatnonzero(end >= 0)
        prefix = np.zeros(len(sets.odd), np.int64)
        if source in sets.sources:
            prefix = sets.prefixes(sets.sources.index(source))
        belied[there] |= prefix[of[there]] < series.most_y[end[there]]
    return {_server(chunk, int(row)) for row in rows[belied]}


def _server(chunk: Chunk, row: int) -> Liar:
    known = chunk.known("incarnation")[row]
    return (
        str(chunk.text("proxy").at(row)),
        int(chunk.number("worker")[row]),
        str(chunk.text("run").at(row)),
        chunk.text("server_uuid").at(row),
        int(chunk.number("incarnation")[row]) if known else None,
    )
