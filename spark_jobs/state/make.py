"""Makes the state at a day's end from what an audit of the day has found out."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import alike
from spark_jobs.columns.survey import Reign, Run, Server
from spark_jobs.gtid import GtidSet, parse
from spark_jobs.primaries.primary_history import Term
from spark_jobs.state import ageing, events, facts
from spark_jobs.state.facts import FACT, HAD, RAN, SAW, SHOWED, SPOKE, UNREAD, WROTE
from spark_jobs.state.turns import Turns
from spark_jobs.tables.schema import RUN

_LASTING: Final = (RAN, SPOKE, WROTE, SAW, SHOWED, HAD, UNREAD)
"""Facts of the state before that are kept; the others are found anew in the records made of it."""

Reigns = Mapping[tuple[Run, Server], Reign]
Unbacked = Mapping[tuple[str, int, str, int], str | None]
"""By RUN and `seq` of a read: the part of its claim that was not shown (`schema.BACKING`)."""


class Learned(Protocol):
    """The part of `primary_history.History` that is needed here."""

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each proxy."""

    @property
    def terms(self) -> Mapping[str, Sequence[Term]]:
        """The terms of primaries, by cluster."""

    @property
    def successions(self) -> Mapping[tuple[object, ...], int]:
        """When a run first sent a statement to a primary that was not its first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Where the parts of a state are.

    Attributes:
        folder: has the tables ``facts``, ``unproved``, ``opened`` and ``tides`` of the passes.
        strange: the table of `numbering.of_stretches`.
        late: by run, the `seq` from which on its records stay in the tail.
        until_us: everything that is condensed had ended by then.
        begin_us: begin of the day.
        idle_us: sessions that have been silent since then are over.
    """

    folder: Path
    strange: Path
    late: Mapping[Run, int]
    until_us: int
    begin_us: int
    idle_us: int


def turns(history: Learned, reigns: Reigns, live: Collection[Run], until_us: int) -> Turns:
    """The changes of primaries that are over.

    Args:
        history: the history of the primaries.
        reigns: the reigns in all runs.
        live: runs that have records of this day.
        until_us: everything that is condensed had ended by then.
    """
    over = {
        cluster: sorted((it for it in its if it.until_us <= until_us), key=lambda it: it.until_us)
        for cluster, its in history.terms.items()
    }
    over = {cluster: its for cluster, its in over.items() if its}
    last: dict[Run, tuple[int, Server]] = {}
    for (run, server), reign in reigns.items():
        if reign.from_us <= until_us:
            its = reign.from_us, server
            last[run] = max(last.get(run, its), its, key=lambda it: it[0])
    presiding: dict[Run, Server] = {}
    for run, (_, (uuid, incarnation)) in last.items():
        its_terms = over.get(history.clusters[run[0]])
        if its_terms:
            newest = its_terms[-1].server_uuid
            if uuid == newest:
                presiding[run] = uuid, incarnation
            elif run not in live:
                presiding[run] = newest, None
    return Turns(over, history.successions, presiding)


def make(
    made: Made,
    before: pa.Table | None,
    changes: Turns,
    clusters: Mapping[str, str],
    reigns: Reigns,
    live: Collection[Run],
    unbacked: Unbacked,
) -> pa.Table:
    """Put a state together.

    Args:
        made: where its parts are.
        before: FACT of the state before; None if there is none.
        changes: the changes of primaries that are over.
        clusters: the cluster of each proxy.
        reigns: the reigns in all runs.
        live: runs that have records of this day.
        unbacked: what was not shown of the claims in ``unproved``.

    Returns:
        FACT.
    """
    parts = [_read(made.folder / "facts")]
    if before is not None:
        lasting = before.filter(pa.array(np.isin(facts.number(before, "what"), _LASTING)))
        parts.append(changes.cut(lasting, changes.code_of(lasting, clusters), clusters))
    shown = _shown(_read(made.folder / "unproved"), unbacked)
    parts.append(changes.cut(shown, changes.code_of(shown, clusters), clusters))
    opened = changes.renamed(events.opened(made.folder / "opened", made.strange, made.late))
    opened = facts.merged(opened)
    since = events.open_since(opened)
    asked = events.asked(made.folder / "tides", since, made.late, changes)
    parts += [opened, changes.cut(asked, changes.code_of(asked, clusters), clusters)]
    parts.append(events.reigned(reigns, made.until_us))
    every = facts.merged(changes.renamed(pa.concat_tables(parts)))
    over = _over(every, live)
    return ageing.folded(every, over, made.begin_us, made.idle_us)


def _read(folder: Path) -> pa.Table:
    tables = [pq.read_table(it, schema=FACT) for it in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(tables) if tables else FACT.empty_table()


def _shown(unproved: pa.Table, unbacked: Unbacked) -> pa.Table:
    """FACT of the parts of reads' claims that were shown."""
    texts = []
    rows: Iterable[Mapping[str, object]] = unproved.select([*RUN, "seq", "gtids"]).to_pylist()
    for it in rows:
        claim = str(it["gtids"])
        key = str(it["proxy"]), int(str(it["worker"])), str(it["run"]), int(str(it["seq"]))
        rest = unbacked.get(key)
        # A claim that was not weighed counts as not shown.
        shown = GtidSet() if rest is None else parse(claim).minus(parse(rest))
        texts.append(shown.text())
    named = pa.array(texts, pa.string())
    shown_ = unproved.set_column(FACT.get_field_index("gtids"), "gtids", named)
    return shown_.filter(pa.array([bool(text) for text in texts], pa.bool_()))


def _over(found: pa.Table, live: Collection[Run]) -> set[Run]:
    """Runs that have been replaced by others: their worker has another run now."""
    places: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for proxy, worker, run in live:
        places[proxy, worker].add(run)
    one = np.unique(alike(*facts.codes(found, RUN))[0], return_index=True)[1]
    keys = found.select(RUN).take(pa.array(one)).to_pylist()
    runs = {(it["proxy"], it["worker"], it["run"]) for it in keys if it["run"]}
    return {run for run in runs if run not in live and places.get(run[:2])}
