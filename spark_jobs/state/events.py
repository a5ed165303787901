"""Facts about what records left open and what bounds that: few, each with its own time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from spark_jobs.arrays import NEVER, Flags, Numbers, alike
from spark_jobs.columns import hashes
from spark_jobs.columns.survey import Reign, Run, Server
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.state import facts
from spark_jobs.state.facts import ASKED, MISSED, REIGNED, SKIPPED, UNNAMED
from spark_jobs.state.turns import Turns
from spark_jobs.tables.schema import RUN

_OPENED: Final = (
    *(*RUN, "seq", "session", "user", "application", "role", "server_uuid", "incarnation"),
    *("arrived_us", "dispatched_us", "ended_us", "is_unnamed"),
)
_ASKED: Final = (*RUN, "seq", "server_uuid", "incarnation", "dispatched_us", "ended_us")


def opened(folder: Path, strange: Path, late: Mapping[Run, int]) -> pa.Table:
    """What was left open: FACT of UNNAMED, SKIPPED and MISSED, the newest of each.

    Args:
        folder: the table ``opened`` of `columns.tellings`; it need not exist.
        strange: the table of `numbering.of_stretches`.
        late: by run, the `seq` from which on its records stay in the tail.
    """
    odd = pads.dataset(strange, format="parquet")
    gaps = odd.to_table([*RUN, "seq", "since_us", "ended_us"], filter=pads.field("missing") > 0)
    gaps = gaps.filter(pa.array(_before(gaps, late)))
    found = [facts.table(MISSED, _columns(gaps), gaps.num_rows)]
    if folder.exists():
        its = pads.dataset(folder, format="parquet").to_table(list(_OPENED))
        its = its.filter(pa.array(_before(its, late)))
        unnamed = its.filter(its.column("is_unnamed"))
        found.append(facts.table(UNNAMED, _columns(unnamed), unnamed.num_rows))
        holes = odd.to_table([*RUN, "seq"], filter=pads.field("hole"))
        behind = its.filter(pa.array(np.isin(_key(its), _key(holes))))
        when = behind.column("arrived_us").combine_chunks()
        skipped = _columns(behind.select([*RUN, "session"]))
        times = {"dispatched_us": when, "ended_us": when}
        found.append(facts.table(SKIPPED, skipped | times, behind.num_rows))
    return facts.merged(pa.concat_tables(found))


def reigned(reigns: Mapping[tuple[Run, Server], Reign], until_us: int) -> pa.Table:
    """When primaries were first and last sent a statement: FACT of REIGNED.

    Args:
        reigns: the reigns in all runs.
        until_us: the moment of the state; the tail shows later times itself.
    """
    found = []
    for (run, (uuid, incarnation)), its in reigns.items():
        if its.from_us <= min(until_us, its.to_us):
            for us in {its.from_us, min(its.to_us, until_us)}:
                whose = dict(zip(RUN, run, strict=True)) | {"role": "primary"}
                server = {"server_uuid": uuid, "incarnation": incarnation}
                found.append({**whose, **server, "dispatched_us": us, "ended_us": us})
    names = (*RUN, "role", "server_uuid", "incarnation", "dispatched_us", "ended_us")
    columns = {
        name: pa.array([it[name] for it in found], facts.FACT.field(name).type) for name in names
    }
    return facts.table(REIGNED, columns, len(found))


def asked(folder: Path, open_us: Numbers, late: Mapping[Run, int], turns: Turns) -> pa.Table:
    """The whole sets of primaries that bound something, and the last ones: FACT of ASKED.

    Of each primary, the first set after each time at which something was left open counts, and the
    sets that were asked for before that one was received, which may lower the bound
    (`primary_snapshots`).

    Args:
        folder: the table ``tides`` of `columns.tellings`; it need not exist.
        open_us: the times since which something was open.
        late: by run, the `seq` from which on its records stay in the tail.
        turns: the changes of primaries that are over.
    """
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return facts.FACT.empty_table()
    every = pads.dataset(list(map(str, files)), format="parquet")
    its = every.to_table(list(_ASKED))
    before = np.flatnonzero(_before(its, late))
    its = its.take(pa.array(before))
    columns = _columns(its) | {"role": pa.array(["primary"] * len(before), pa.string())}
    told = turns.renamed(facts.table(ASKED, columns, len(before)))
    (uuid,) = facts.codes(told, ["server_uuid"])
    sent, ended = facts.number(told, "dispatched_us"), facts.number(told, "ended_us")
    kept = np.zeros(len(before), bool)
    for number in np.unique(uuid):
        mine = np.flatnonzero(uuid == number)
        mine = mine[np.argsort(sent[mine], kind="stable")]
        kept[mine] |= _bounding(sent[mine], ended[mine], open_us)
    whose, count = alike(*facts.codes(told, (*RUN, "server_uuid", "incarnation")))
    last = np.zeros(count, np.int64)
    np.maximum.at(last, whose, sent)
    kept |= ended >= last[whose]
    rows = np.flatnonzero(kept)
    texts = every.take(pa.array(before[rows]), columns=["whole"]).column("whole").to_pylist()
    good = np.array([_is_set(text) for text in texts], bool)
    told = told.take(pa.array(rows[good]))
    named = pa.array(
        [text for text, is_set in zip(texts, good, strict=True) if is_set], pa.string()
    )
    return told.set_column(facts.FACT.get_field_index("gtids"), "gtids", named)


def _bounding(sent: Numbers, ended: Numbers, open_us: Numbers) -> Flags:
    """Whether each set of one primary, sorted by `sent`, bounds something or lowers a bound."""
    first = np.unique(np.searchsorted(sent, open_us))
    first = first[first < len(sent)]
    until = np.searchsorted(sent, ended[first], "right")
    steps = np.zeros(len(sent) + 1, np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, until, -1)
    flags: Flags = np.cumsum(steps[:-1]) > 0
    return flags


def open_since(found: pa.Table) -> Numbers:
    """The times since which something was open, from the FACT of it."""
    return np.unique(facts.number(found, "ended_us"))


def _is_set(text: str) -> bool:
    try:
        parse(text)
    except MalformedGtidSetError:
        return False
    return True


def _before(its: pa.Table, late: Mapping[Run, int]) -> Flags:
    run, _ = alike(*facts.codes(its, RUN))
    first = np.unique(run, return_index=True)[1]
    keys: Iterable[Mapping[str, object]] = its.select(RUN).take(pa.array(first)).to_pylist()
    since = [late.get((str(it["proxy"]), int(str(it["worker"])), str(it["run"])), NEVER)
             for it in keys]  # fmt: skip
    flags: Flags = facts.number(its, "seq") < np.array(since, np.int64)[run]
    return flags


def _key(its: pa.Table) -> Numbers:
    proxy, run = (hashes.of_column(its.column(name)) for name in ("proxy", "run"))
    runs = hashes.mixed(proxy, its.column("worker").to_numpy(), run)
    return hashes.mixed(runs, its.column("seq").to_numpy())


def _columns(its: pa.Table) -> dict[str, pa.Array | Numbers]:
    """The columns of a table that FACT has, except `seq`."""
    names: Iterator[str] = (it for it in its.column_names if it in facts.FACT.names and it != "seq")
    return {name: its.column(name).combine_chunks() for name in names}
