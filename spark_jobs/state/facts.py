"""Facts: what a state keeps of records. Each fact stands for many records."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.arrays import Numbers, alike, in_order, starts
from spark_jobs.columns import sets
from spark_jobs.state.unions import united
from spark_jobs.tables.schema import RUN

(RAN, SPOKE, REIGNED, MISSED, SKIPPED, UNNAMED, UNREAD, WROTE, SAW, SHOWED, HAD, ASKED) = range(12)
"""Kinds of facts. "At its time" means `ended_us`.

RAN: the records of a run are known up to `seq`. SPOKE: the statements of a session are known up to
`seq` and `ordinal`. REIGNED: a run's primary was sent a statement at its time. MISSED: records of a
run were missing before one that ended at its time; the record before the gap ended at `since_us`.
SKIPPED: statements of a session were missing before one that arrived at its time. UNNAMED: a
statement that ended at its time may have committed GTIDs that no record names. UNREAD: a
statement's own GTIDs are no well-formed set. WROTE: statements of a session wrote `gtids`, or may
have. SAW: statements of a session were shown `gtids`. SHOWED: a replica certainly showed `gtids` to
a session. HAD: a server was shown to have `gtids`. ASKED: a primary was asked for its whole set,
which is `gtids`.
"""

KEY: Final = (
    *("what", *RUN, "session", "user", "application", "role", "server_uuid", "incarnation"),
)
"""Facts that agree in these columns are merged; REIGNED and ASKED must agree in times, too."""

TIMES: Final = ("since_us", "dispatched_us", "ended_us")
LATEST: Final = ("ordinal", "seq", *TIMES)

_TEXTS: Final = ("proxy", "run", "user", "application", "role", "server_uuid", "gtids")
_NULL: Final = ("application", "role", "server_uuid", "incarnation")

FACT: Final = pa.schema(
    (name, pa.string() if name in _TEXTS else pa.int64()) for name in (*KEY, *LATEST, "gtids")
)


def table(what: int, columns: Mapping[str, pa.Array | Numbers], rows: int) -> pa.Table:
    """Make FACT from some columns; the others are empty, 0 or null."""
    found: list[pa.Array] = []
    for field in FACT:
        if field.name == "what":
            its = pa.array(np.full(rows, what))
        elif field.name in columns:
            given = columns[field.name]
            its = given if isinstance(given, pa.Array) else pa.array(given)
        elif field.name in _NULL:
            its = pa.nulls(rows, field.type)
        else:
            its = pa.array(["" if field.type == pa.string() else 0], field.type)
            its = its.take(pa.array(np.zeros(rows, np.int64)))
        found.append(its.cast(field.type))
    return pa.table(found, schema=FACT)


def codes(of: pa.Table, names: Sequence[str]) -> list[Numbers]:
    """Number the values of each column; -1 is null."""
    found: list[Numbers] = []
    for name in names:
        its = of.column(name).combine_chunks().dictionary_encode()
        found.append(its.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
    return found


def number(of: pa.Table, name: str) -> Numbers:
    """A column of numbers; null becomes 0."""
    its: Numbers = of.column(name).fill_null(0).to_numpy()
    return its


def merged(facts: pa.Table, *more: npt.NDArray[np.int64]) -> pa.Table:
    """Merge facts that agree in KEY: the latest times and numbers, and the union of sets, count.

    Args:
        facts: FACT.
        more: further columns in which merged facts must agree.

    Returns:
        FACT.
    """
    if not facts.num_rows:
        return facts
    alone = np.isin(number(facts, "what"), (REIGNED, ASKED))
    when = [np.where(alone, number(facts, name), 0) for name in ("dispatched_us", "ended_us")]
    group, count = alike(*codes(facts, KEY), *when, *more)
    order = in_order(group, count)
    first = np.flatnonzero(starts(group[order]))
    kept = facts.take(pa.array(order[first]))
    for name in LATEST:
        most = np.maximum.reduceat(number(facts, name)[order], first)
        kept = kept.set_column(FACT.get_field_index(name), name, pa.array(most))
    texts = facts.column("gtids").combine_chunks().dictionary_encode()
    read = sets.parse(texts.dictionary)
    named = united(read, texts.dictionary, group, texts.indices.to_numpy().astype(np.int64), count)
    named = named.take(pa.array(group[order[first]]))
    return kept.set_column(FACT.get_field_index("gtids"), "gtids", named)
