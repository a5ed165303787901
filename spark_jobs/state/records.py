"""Turns facts into records that stand for many, with all columns of a record, for the judges.

Their `seq` is below that of any record of the log, in the order of their times.
"""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import Numbers
from spark_jobs.columns.numbers import SESSION_STRETCH, STRETCH
from spark_jobs.state import facts
from spark_jobs.state.facts import (
    ASKED,
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
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import RECORD, RECORD_VERSION, RUN

NO_SET: Final = "-"
"""Replaces any text that is no well-formed set."""

STORED: Final = pa.schema(
    [
        *small_table.to_arrow(RECORD),
        *((name, pa.string()) for name in ("file", "fault", "line")),
        ("missing", pa.int64()),
        ("hole", pa.bool_()),
        ("since_us", pa.int64()),
    ]
)
"""A record in the form that passes read, and what its number would show."""

_KINDS: Final = {REIGNED: "proof", HAD: "proof", ASKED: "proof", MISSED: "gap"}
_SETS: Final = {"own_gtids": (WROTE,), "observed": (SAW,), "proof_set": (SHOWED, HAD, ASKED)}
_PLAIN: Final = {"v": RECORD_VERSION, "own_known": True, "outcome": "ok"}


def of_facts(found: pa.Table) -> pa.Table:
    """Make records of facts.

    Args:
        found: FACT, merged.

    Returns:
        STORED.
    """
    what = facts.number(found, "what")
    kept = np.flatnonzero(~np.isin(what, (RAN, SPOKE)))
    kept = kept[np.lexsort((what[kept], facts.number(found, "ended_us")[kept]))]
    what, found = what[kept], found.take(pa.array(kept))
    rows = len(kept)
    gtids = found.column("gtids").to_pylist()
    columns: dict[str, object] = {
        name: found.column(name)
        for name in (*facts.KEY[1:], "ordinal", "dispatched_us", "ended_us", "since_us")
    }
    columns |= {
        "seq": np.arange(rows) - rows,
        "arrived_us": found.column("dispatched_us"),
        "kind": [_KINDS.get(it, "statement") for it in what],
        "may_write": np.isin(what, (WROTE, UNREAD, UNNAMED)),
        "own_known": what != UNNAMED,
        # With "lost", it does not count as an answer of its primary.
        "outcome": np.where(what == UNNAMED, "lost", "ok").tolist(),
        "proof": ["probed" if it == ASKED else "waited" if it == SHOWED else "" for it in what],
        "missing": (what == MISSED).astype(np.int64),
        "hole": what == SKIPPED,
    }
    for name, its in _SETS.items():
        nothing = None if name == "proof_set" else ""
        columns[name] = [
            text if it in its else nothing for it, text in zip(what, gtids, strict=True)
        ]
    unread = np.flatnonzero(what == UNREAD)
    for row in unread:
        columns["own_gtids"][row] = NO_SET  # type: ignore[index]  # a list, as above
    return pa.table([_column(columns.get(it.name), it, rows) for it in STORED], schema=STORED)


def _column(values: object, field: pa.Field, rows: int) -> pa.Array:
    if values is not None:
        its = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else pa.array(values)
        return its.cast(field.type)
    if field.name in ("file", "fault", "line") or RECORD[field.name].nullable:
        return pa.nulls(rows, field.type)
    nothing = _PLAIN.get(field.name, "" if field.type == pa.string() else 0)
    return pa.array([nothing] * rows, field.type)


def stretches(found: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The numbers that are known, as stretches: STRETCH and SESSION_STRETCH."""
    what = facts.number(found, "what")
    ran, spoke = (found.filter(pa.array(what == it)) for it in (RAN, SPOKE))
    one = np.ones(ran.num_rows, np.int64)
    ended = ran.column("ended_us")
    runs = [*_runs(ran), one, ran.column("seq"), ended, ended, ended, one * 0]
    nothing = pa.nulls(ran.num_rows, pa.int64())
    ones = np.ones(spoke.num_rows, np.int64)
    sessions = [*_runs(spoke), spoke.column("session"), ones, spoke.column("seq"), ones]
    return (
        pa.table([*runs, nothing], schema=STRETCH),
        pa.table([*sessions, spoke.column("ordinal")], schema=SESSION_STRETCH),
    )


def _runs(found: pa.Table) -> list[pa.ChunkedArray | Numbers]:
    return [found.column(name) for name in RUN]


def lay(found: pa.Table, folder: Path) -> None:
    """Write the tables that passes and judges read: ``records``, ``stretches`` and ``sessions``.

    Args:
        found: FACT, merged.
        folder: takes the tables, as Parquet; it must not exist.
    """
    folder.mkdir(parents=True)
    runs, sessions = stretches(found)
    for name, table in (("records", of_facts(found)), ("stretches", runs), ("sessions", sessions)):
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
