"""Series of numbers that only grow: what was known of one source at each moment.

A telling is one row of such a series: a moment and its values. Spark sorts the tellings of all
pieces; then they are written as a few long arrays, in files that all workers map into memory. For
each telling, these hold the greatest values so far, so the last telling before a moment has all
that was known then. Tellings that raise no value are left out.

A series' number and a moment form one key of 63 bits: series are renumbered in their order, and
times are counted from the log's beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import Flags, Numbers, starts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN, SEEN, SHOWN, WROTE, TOLD, MET, DOUBT = range(7)
"""Kinds of series, and their values x, y, z.

OWN: writes of a group, one by one: the negative of an interval's low end, its high end, and when
it was acknowledged. SEEN: the greatest number that was seen, whether that is certain (1), and when
something was acknowledged last. SHOWN: for what a server has shown, the n of the interval 1..n at
its beginning, and its greatest number. WROTE: the greatest number that a cluster's primaries
acknowledged. TOLD: for each whole set that a proxy's primary told, when it was received, the
greatest number of the primary's own source, and its form (`tellings.Form`). MET: of the hashes of
the servers that answered in a group, the greatest, and the negative of the least. DOUBT: for the
tide mark that bounds something left open, when it was asked for, or the greatest number of one of
its sources.
"""

_TABLES: Final = 8

TELLING: Final = pa.schema([(name, pa.int64()) for name in ("series", "at", "x", "y", "z")])

_VALUES: Final = ("x", "y", "z")


class SeriesError(ValueError):
    """The tellings cannot be written: keys have no room for so many series or so long a time."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Some tellings of one kind, in any order.

    Attributes:
        about: the kind: OWN, SEEN, …
        series: hashes of series (`places.series`).
        at: the moments: µs since the log's beginning, or a record's number in its run.
        x, y, z: the values.
    """

    about: int
    series: Numbers
    at: Numbers
    x: Numbers
    y: Numbers
    z: Numbers

    def table(self) -> pa.Table:
        """The tellings as a table: TELLING."""
        return pa.table([number(self.about, self.series), self.at, self.x, self.y, self.z],
                        schema=TELLING)  # fmt: skip


def number(about: int, series: Numbers) -> Numbers:
    """The number of a series, which includes its kind."""
    return (series & ~np.int64(_TABLES - 1)) | about


def thinned(telling: Telling) -> list[Telling]:
    """Keep the tellings that raise a value; an empty list if there are none."""
    if not len(telling.series):
        return []
    order = np.lexsort((telling.at, telling.series))
    series = telling.series[order]
    first = starts(series)
    raises = first.copy()
    for values in (telling.x, telling.y, telling.z):
        its = values[order]
        most = greatest_so_far(its, first)
        raises[1:] |= its[1:] > most[:-1]
    kept = order[raises]
    columns = (telling.series, telling.at, telling.x, telling.y, telling.z)
    return [Telling(telling.about, *(it[kept] for it in columns))]


def greatest_so_far(values: Numbers, first: Flags) -> Numbers:
    """The greatest value so far in each series of sorted rows."""
    if not len(values):
        return values
    # Shift each series above all before it: then one running maximum serves all series.
    rank = np.cumsum(first) - 1
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if width > 2**62 // (int(rank[-1]) + 1):
        return _most_of_each(values, first)
    raised = np.maximum.accumulate(values - low + rank * width)
    most: Numbers = raised - rank * width + low
    return most


def _most_of_each(values: Numbers, first: Flags) -> Numbers:
    """The same by doubling steps, where the numbers are too large to be shifted."""
    most, rank = values.copy(), np.cumsum(first)
    step = 1
    while step < len(values):
        same = rank[step:] == rank[:-step]
        if not same.any():
            break
        most[step:] = np.where(same, np.maximum(most[step:], most[:-step]), most[step:])
        step *= 2
    return most


def sort(spark: "SparkSession", tellings: Path, folder: Path, parts: int) -> None:
    """Sort tellings into parts by range, and within each part.

    Args:
        spark: a session.
        tellings: a directory of TELLING, as Parquet.
        folder: takes the sorted parts, as Parquet.
        parts: how many parts at most.
    """
    from spark_jobs.records.ingest import names

    rows: DataFrame = spark.read.parquet(names([tellings])[0])
    # With "y", several intervals that one record wrote are in order, too.
    order = ("series", "at", "y")
    (
        rows.repartitionByRange(parts, *order)
        .sortWithinPartitions(*order)
        .write.parquet(str(folder), compression="none")
    )


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the sorted tellings.

    Attributes:
        path: its file.
        rows: how many rows it has.
        distinct: how many series it has.
        first: the number of its first series, and how many rows of that it has.
        last: the number of its last series, and the greatest values of that in this part.
        earliest: the earliest moment.
        latest: the latest moment.
        falls: how many tellings are not above the one before them (`_falls`).
    """

    path: str
    rows: int
    distinct: int
    first: tuple[int, int]
    last: tuple[int, tuple[int, ...]]
    earliest: int
    latest: int
    falls: int


def look(path: str) -> Part | None:
    """Look at a part; None if it is empty."""
    table = pq.read_table(path, use_threads=False)
    if not table.num_rows:
        return None
    series, at, *values = (table.column(name).to_numpy() for name in TELLING.names)
    first = starts(series)
    begins = np.flatnonzero(first)
    head = int(begins[1]) if len(begins) > 1 else len(series)
    tail = int(begins[-1])
    return Part(
        path=path,
        rows=len(series),
        distinct=len(begins),
        first=(int(series[0]), head),
        last=(int(series[-1]), tuple(int(it[tail:].max()) for it in values)),
        earliest=int(at.min()),
        latest=int(at.max()),
        falls=int(_falls(first, values[0], values[1]).sum()),
    )


def _falls(first: Flags, x: Numbers, y: Numbers) -> Flags:
    """Which writes of a series do not follow the one before; this includes the first one here."""
    falls = first.copy()
    falls[1:] |= -x[1:] <= y[:-1]
    return falls


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part goes in the arrays.

    Attributes:
        part: the part.
        row: the place of its first row.
        rank: the new number of its first series.
        carried: the greatest values so far of its first series, if that began in an earlier part.
        base: the earliest moment of all parts.
        bits: how many bits of a key hold the moment.
        falls: how many falls there are in earlier parts.
        folder: the folder of the arrays.
    """

    part: Part
    row: int
    rank: int
    falls: int
    carried: tuple[int, ...] | None
    base: int
    bits: int
    folder: str


def plan(parts: Sequence[Part], folder: Path) -> list[Place]:
    """Decide where parts go, and create the files of the arrays.

    Args:
        parts: the parts, in order.
        folder: the folder of the arrays.

    Raises:
        SeriesError: there are too many series for the time that they span.
    """
    base = min((it.earliest for it in parts), default=0)
    latest = max((it.latest for it in parts), default=0)
    bits = (latest - base + 2).bit_length()
    row, rank, falls = 0, -1, 0
    places: list[Place] = []
    last: tuple[int, tuple[int, ...]] | None = None
    for part in parts:
        goes_on = last is not None and last[0] == part.first[0]
        carried = last[1] if last is not None and goes_on else None
        begin = rank if goes_on else rank + 1
        places.append(Place(part, row, begin, falls, carried, base, bits, str(folder)))
        most = part.last[1]
        if carried is not None and part.distinct == 1:
            most = tuple(map(max, carried, most))
        last = part.last[0], most
        row, rank, falls = row + part.rows, begin + part.distinct - 1, falls + part.falls
    if bits + (rank + 1).bit_length() > 62:
        raise SeriesError(f"{rank + 1} series of {latest - base} moments are too many for keys")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("key", "falls", *_VALUES, *(f"most_{it}" for it in _VALUES)):
        _room(folder / name, row)
    for name in ("series", "first"):
        _room(folder / name, rank + 1)
    (folder / "clock").write_text(f"{base} {bits}", "ascii")
    return places


def _room(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(8 * size)


def lay(place: Place) -> None:
    """Write a part into the arrays."""
    table = pq.read_table(place.part.path, use_threads=False)
    series, at, *values = (table.column(name).to_numpy() for name in TELLING.names)
    first = starts(series)
    rank = place.rank + np.cumsum(first) - 1
    folder = Path(place.folder)
    rows = slice(place.row, place.row + len(series))
    _write(folder / "key", rows, (rank << place.bits) | (at - place.base + 1))
    falls = np.cumsum(_falls(first, values[0], values[1]))
    _write(folder / "falls", rows, place.falls + falls)
    for place_of, (name, its) in enumerate(zip(_VALUES, values, strict=True)):
        most = greatest_so_far(its, first)
        if place.carried is not None:
            head = slice(0, place.part.first[1])
            most[head] = np.maximum(most[head], place.carried[place_of])
        _write(folder / name, rows, its)
        _write(folder / f"most_{name}", rows, most)
    # A first series that continues from an earlier part was entered with that part.
    begins = np.flatnonzero(first)[int(place.carried is not None) :]
    earliest = place.rank + int(place.carried is not None)
    ranks = slice(earliest, earliest + len(begins))
    _write(folder / "series", ranks, series[begins])
    _write(folder / "first", ranks, place.row + begins)


def _write(path: Path, rows: slice, values: Numbers) -> None:
    if rows.stop > rows.start:
        room = np.memmap(path, np.int64, "r+", 8 * rows.start, (rows.stop - rows.start,))
        room[:] = values
        room.flush()


class Series:
    """Series that have been written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        base, bits = (folder / "clock").read_text("ascii").split()
        self._base, self._bits = int(base), int(bits)

    @classmethod
    def open(cls, folder: str) -> Self:
        """Open the series in a folder, which must not be reused; a worker keeps one folder open."""
        found = _OPEN.get(folder)
        if found is None:
            _OPEN.clear()  # the series before are not used any more
            found = _OPEN[folder] = cls(Path(folder))
        return found  # type: ignore[return-value]  # there is no other class

    def _array(self, name: str) -> Numbers:
        path = self._folder / name
        if not path.stat().st_size:
            return np.zeros(0, np.int64)
        return np.asarray(np.memmap(path, np.int64, "r"))

    @cached_property
    def _series(self) -> Numbers:
        return self._array("series")

    @cached_property
    def _first(self) -> Numbers:
        """For each series, the place of its first telling."""
        return self._array("first")

    @cached_property
    def _key(self) -> Numbers:
        return self._array("key")

    @cached_property
    def x(self) -> Numbers:
        """The value x of each telling."""
        return self._array("x")

    @cached_property
    def y(self) -> Numbers:
        """The value y of each telling."""
        return self._array("y")

    @cached_property
    def z(self) -> Numbers:
        """The value z of each telling."""
        return self._array("z")

    @cached_property
    def falls(self) -> Numbers:
        """How many writes up to each telling do not follow the one before in their series."""
        return self._array("falls")

    @cached_property
    def most_x(self) -> Numbers:
        """The greatest x so far in the series of each telling."""
        return self._array("most_x")

    @cached_property
    def most_y(self) -> Numbers:
        """The greatest y so far in the series of each telling."""
        return self._array("most_y")

    @cached_property
    def most_z(self) -> Numbers:
        """The greatest z so far in the series of each telling."""
        return self._array("most_z")

    def behind(self, about: int, series: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Look up the next tellings.

        Args:
            about: the kind: OWN, SEEN, …
            series: hashes of series.
            at: moments.

        Returns:
            For each, the place of the first telling at the moment or later, and the place of the
            last telling of the series. If there is no such telling, the last is before the first.
        """
        first, last = np.zeros(len(series), np.int64), np.full(len(series), -1)
        its, rank = self._known(about, series)
        if len(its):
            begin = rank << self._bits
            moment = self._moment(at[its], until=False)
            first[its] = np.searchsorted(self._key, begin | moment)
            last[its] = np.searchsorted(self._key, (rank + 1) << self._bits) - 1
        return first, last

    def _known(self, about: int, series: Numbers) -> tuple[Numbers, Numbers]:
        """The places of those series that exist, and their new numbers."""
        wanted = number(about, series)
        rank = np.searchsorted(self._series, wanted)
        there = rank < len(self._series)
        there[there] = self._series[rank[there]] == wanted[there]
        its = np.flatnonzero(there)
        return its, rank[its]

    def _moment(self, at: Numbers, *, until: Flags | bool) -> Numbers:
        return np.clip(at - self._base + 1 + np.asarray(until, np.int64), 0, (1 << self._bits) - 1)

    def find(
        self, about: int, series: Numbers, at: Numbers, *, until: Flags | bool
    ) -> tuple[Numbers, Numbers]:
        """Look up the latest tellings.

        Args:
            about: the kind: OWN, SEEN, …
            series: hashes of series.
            at: moments.
            until: whether tellings at the very moment count; for all, or for each.

        Returns:
            For each, the place of the last telling before the moment, -1 if there is none; and the
            place of the first telling of the series.
        """
        end, first = np.full(len(series), -1), np.zeros(len(series), np.int64)
        its, rank = self._known(about, series)
        if len(its):
            its_until = until if isinstance(until, bool) else until[its]
            moment = self._moment(at[its], until=its_until)
            key = (rank << self._bits) | moment
            # In the order of keys, consecutive searches find their data in the processor's cache.
            order = np.argsort(key)
            found = np.empty(len(its), np.int64)
            found[order] = np.searchsorted(self._key, key[order]) - 1
            begin = self._first[rank]
            before = found >= begin
            end[its[before]], first[its[before]] = found[before], begin[before]
        return end, first


_OPEN: Final[dict[str, Series]] = {}
