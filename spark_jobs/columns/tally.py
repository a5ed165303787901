"""Counts, sums and the spread of values by a few keys, chunk by chunk.

Values are rounded down to three digits, so that quantiles follow from counts: they are exact up to
999, and less than 1 % too small beyond. The greatest value is kept exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns.text import Text

COUNT: Final = "rows"
"""Column of a tally: how many rows have these keys."""

NONE: Final = -(2**62)
"""Stands for null among numbers."""

_POWERS: Final = 10 ** np.arange(19, dtype=np.int64)
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Key = Text | Numbers


@dataclass(frozen=True, slots=True)
class Tally:
    """A table with one row for each combination of its keys.

    Attributes:
        table: the keys, COUNT, `sums` and `most`.
        sums: columns whose sums are kept.
        most: columns whose greatest values are kept.
    """

    table: pa.Table
    sums: tuple[str, ...] = ()
    most: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        """The names of the keys."""
        return [it for it in self.table.column_names if it not in (COUNT, *self.sums, *self.most)]

    def by(self, *keys: str) -> "Tally":
        """The same tally by fewer keys."""
        return _grouped(self.table, keys, {}, (COUNT, *self.sums), self.most, self.sums)

    def where(self, flags: pa.Array) -> "Tally":
        """The same tally with only some of its rows."""
        return Tally(self.table.filter(flags), self.sums, self.most)

    def numbers(self, name: str) -> Numbers:
        """A column of numbers; null becomes NONE."""
        column = self.table.column(name).combine_chunks().fill_null(NONE)
        numbers: Numbers = column.to_numpy(zero_copy_only=False)
        return numbers

    def rows(self) -> list[dict[str, object]]:
        """The rows as Python dictionaries."""
        rows: list[dict[str, object]] = self.table.to_pylist()
        return rows


def together(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies of the same columns; there must be at least one."""
    every = list(tallies)
    first = every[0]
    table = pa.concat_tables([it.table for it in every])
    return _grouped(table, first.keys, {}, (COUNT, *first.sums), first.most, first.sums)


def tally(
    keys: Mapping[str, Key],
    where: Flags | None = None,
    *,
    sums: Mapping[str, Numbers] | None = None,
    most: Mapping[str, Numbers] | None = None,
) -> Tally:
    """Count rows by their keys.

    Args:
        keys: columns of texts or numbers. NONE counts as null.
        where: whether each row counts; None for all.
        sums: columns whose sums are kept.
        most: columns whose greatest values are kept.
    """
    rows = slice(None) if where is None else np.flatnonzero(where)
    columns: dict[str, object] = {}
    values: dict[str, pa.Array] = {}
    for name, key in keys.items():
        if isinstance(key, Text):
            columns[name], values[name] = key.codes[rows], key.held
        else:
            columns[name] = key[rows]
    columns |= {name: value[rows] for name, value in {**(sums or {}), **(most or {})}.items()}
    found = _grouped(
        pa.table(columns), list(keys), {COUNT: "count"}, tuple(sums or ()), tuple(most or ())
    )
    table = found.table
    for name in keys:
        place = table.schema.get_field_index(name)
        column = table.column(name).combine_chunks()
        if name in values:
            column = Text(column.to_numpy(), values[name]).array().dictionary_decode()
        else:
            column = pc.if_else(pc.equal(column, NONE), None, column)
        table = table.set_column(place, name, column)
    return Tally(table, found.sums, found.most)


def _grouped(
    table: pa.Table,
    keys: Sequence[str],
    counts: Mapping[str, str],
    added: Sequence[str],
    most: Sequence[str],
    sums: Sequence[str] | None = None,
) -> Tally:
    wanted = [
        *(([], "count_all", name) for name in counts),
        *((name, "sum", name) for name in added),
        *((name, "max", name) for name in most),
    ]
    found = table.group_by(list(keys), use_threads=False).aggregate(
        [(column, how) for column, how, _ in wanted]
    )
    named = found.rename_columns([*keys, *(name for *_, name in wanted)])
    return Tally(named, tuple(added if sums is None else sums), tuple(most))


def rounded(values: Numbers) -> Numbers:
    """Keep the first three digits of each value, and replace the others by zeros."""
    digits = np.searchsorted(_POWERS, values, "right")
    unit = _POWERS[np.maximum(digits - 3, 0)]
    return values - values % unit


def spread(found: Tally, value: str, name: str, greatest: int | None) -> dict[str, int | None]:
    """p50, p95, p99 and max of a column of microseconds.

    Args:
        found: a tally that has the column among its keys.
        value: the column.
        name: the keys of the result; it has a placeholder for the quantile's name.
        greatest: the exact greatest value.
    """
    values = found.numbers(value)
    there = values != NONE
    its, counts = values[there], found.numbers(COUNT)[there]
    told = quantiles(its, counts, list(_SHARES.values()))
    shares: dict[str, int | None] = {
        name.format(which): it for which, it in zip(_SHARES, told, strict=True)
    }
    return {**shares, name.format("max"): greatest if len(its) else None}


def quantiles(values: Numbers, counts: Numbers, shares: Sequence[float]) -> list[int | None]:
    """For each share, the least value such that at least this share of all values is no greater.

    Args:
        values: the values, in any order.
        counts: how often each value occurs.
        shares: 0 to 1.

    Returns:
        One value for each share; None if there are no values.
    """
    total = int(counts.sum())
    if not total:
        return [None for _ in shares]
    order = np.argsort(values, kind="stable")
    so_far = np.cumsum(counts[order])
    places = [np.searchsorted(so_far, max(1, -(-share * total // 1))) for share in shares]
    return [int(values[order[place]]) for place in places]
