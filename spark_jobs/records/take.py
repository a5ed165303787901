"""Converts segments to Parquet, so that no line of theirs is parsed as JSON again.

Python workers read pieces of segments, block by block. A block of plain records becomes columns as
a whole (`lines`), and does not pass through Java. Blocks with any other line are set aside, and
Spark parses their lines one by one (`ingest.parse`). For a segment with a torn line at its end,
that is one block.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_jobs.day import DAY_US, HOUR_US, Day
from spark_jobs.markdown import explained
from spark_jobs.records import ingest, lines
from spark_jobs.records.segments import DamagedError, opened
from spark_jobs.tables.schema import PARSED

_BLOCK: Final = 4 << 20
"""About how many bytes are read at once."""

_TASK: Final = 128 << 20
"""How many bytes a task reads at most, except that a compressed segment is not cut."""

_LEAST: Final = 32 << 20
"""How many bytes a task reads at least: as long as that takes, a worker takes to start."""

_ROWS: Final = 1 << 17
"""How many records are written at once."""

_END: Final = 2**63 - 1

_ASIDE: Final = pa.schema([("file", pa.string()), ("line", pa.binary())])


@dataclass(frozen=True)
class Kept:
    """Lines that were read, as Parquet.

    Attributes:
        parsed: PARSED.
        files: the files that hold them; they may hold other lines, too.
        live: those of these files whose segments were still being written, or are damaged.
        damaged: why files could not be read to their ends, by `file` of PARSED.
    """

    parsed: DataFrame
    files: Sequence[str]
    live: Sequence[str] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)


class Part(NamedTuple):
    """Lines that are counted together.

    Attributes:
        file: `file` of PARSED.
        hour: the hour in which the records arrived, ``YYYY-MM-DDTHH``; None for other lines.
        fault: `fault` of PARSED.
    """

    file: str
    hour: str | None
    fault: str | None


def all_in(spark: SparkSession, paths: Sequence[Path], folder: Path) -> Kept:
    """Convert files, with their lines that are no record.

    Args:
        spark: a session.
        paths: the files, which `segments.readable` returned.
        folder: takes the Parquet files; it must not exist.

    Raises:
        OSError: `folder` cannot be written.
    """
    damaged = _take(spark, paths, folder, is_by_hour=False).damaged
    # The folder holds only files of this call, so Spark need not discover partitions.
    kept = spark.read.schema(PARSED).parquet(*ingest.names([folder]))
    return Kept(kept, sorted(map(str, folder.glob("*.parquet"))), damaged=damaged)


def by_hour(spark: SparkSession, paths: Sequence[Path], folder: Path) -> Counter[Part]:
    """Convert the records of files, into ``date=…/hour=…`` of their arrival.

    Args:
        spark: a session.
        paths: the files, which `segments.readable` returned.
        folder: takes the Parquet files; it must not exist.

    Returns:
        The counts of all lines; lines that are no record are counted, but not written.

    Raises:
        OSError: one cannot be read to its end, and the message names it; or `folder` cannot be
            written.
    """
    taken = _take(spark, paths, folder, is_by_hour=True)
    if taken.damaged:
        raise OSError(f"these files changed while they were read: {explained(taken.damaged)}")
    return taken.counts


def _take(spark: SparkSession, paths: Sequence[Path], folder: Path, *, is_by_hour: bool) -> "_Done":
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="aside-", dir=folder.parent) as name:
        taken, aside = _Done(Counter(), {}), Path(name)
        all_tasks = _tasks(paths, spark.sparkContext.defaultParallelism, taken.damaged)
        work = partial(_read, folder=folder, aside=aside, is_by_hour=is_by_hour)
        for done in _each(spark, list(enumerate(all_tasks)), work):
            if done.error is not None:
                raise OSError(done.error)
            taken.counts.update(done.counts)
            taken.damaged.update(done.damaged)
        if any(aside.iterdir()):
            taken.counts.update(_take_one_by_one(spark, aside, folder, is_by_hour=is_by_hour))
    return taken


def _each(
    spark: SparkSession, items: Sequence["_Task"], work: "Callable[[_Task], _Done]"
) -> list["_Done"]:
    """Do each piece of work in a task of its own, in Spark's Python workers."""
    if not items:
        return []
    results: list[_Done] = spark.sparkContext.parallelize(items, len(items)).map(work).collect()
    return results


def _take_one_by_one(
    spark: SparkSession, aside: Path, folder: Path, *, is_by_hour: bool
) -> Counter[Part]:
    """Convert the lines that were set aside."""
    found = spark.read.parquet(*ingest.names([aside]))
    moment = fn.when(fn.isnull("fault"), fn.col("arrived_us"))
    rows = (
        ingest.parse(found.select("file", fn.col("line").cast("string").alias("line")))
        .withColumn("date", fn.date_from_unix_date(fn.floor(moment / DAY_US).cast("int")))
        .withColumn("hour", fn.floor(moment / HOUR_US).cast("int") % 24)
        .persist()
    )
    try:
        if is_by_hour:
            placed = rows.where(fn.isnull("fault")).write.partitionBy("date", "hour")
        else:
            placed = rows.select(PARSED.names).write
        placed.mode("append").parquet(str(folder), compression="zstd")
        counts: Counter[Part] = Counter()
        for row in rows.groupBy("file", "date", "hour", "fault").count().collect():
            hour = None if row.date is None else f"{row.date}T{row.hour:02}"
            counts[Part(row.file, hour, row.fault)] = row["count"]
        return counts
    finally:
        rows.unpersist()


# In the workers


class _Piece(NamedTuple):
    """The lines of a file that begin at `begin` or later, and before `end`."""

    path: Path
    begin: int
    end: int


_Task = tuple[int, list[_Piece]]
"""The number of a task, and what it reads."""


class _Done(NamedTuple):
    """What was read.

    Attributes:
        counts: the lines.
        damaged: why files could not be read to their ends, by `file` of PARSED.
        error: why nothing could be written; None if all was.
    """

    counts: Counter[Part]
    damaged: dict[str, str]
    error: str | None = None


def _tasks(paths: Sequence[Path], cores: int, damaged: dict[str, str]) -> Iterator[list[_Piece]]:
    """Divide files into the pieces that each task reads; those that are gone become `damaged`."""
    sizes = []
    for path in paths:
        try:
            sizes.append((path, path.stat().st_size))
        except OSError as error:
            damaged[_file(path)] = error.strerror or str(error)
    most = max(_LEAST, min(_TASK, sum(size for _, size in sizes) // (2 * cores)))
    pieces: list[_Piece] = []
    waiting = 0
    for path, size in sizes:
        step = size if path.suffix == ".gz" else most
        for begin in range(0, size, step):
            end = min(begin + step, size)
            pieces.append(_Piece(path, begin, _END if path.suffix == ".gz" else end))
            waiting += end - begin
            if waiting >= most:
                yield pieces
                pieces, waiting = [], 0
    if pieces:
        yield pieces


def _read(task: _Task, folder: Path, aside: Path, *, is_by_hour: bool) -> _Done:
    number, pieces = task
    done = _Done(Counter(), {})
    taken, others = _Files(folder, number, lines.SCHEMA), _Files(aside, number, _ASIDE)
    try:
        for block, file in _all_blocks(pieces, done.damaged):
            read = lines.plain(block, file)
            if read is None:
                others.add(_one_by_one(block, file))
                continue
            for hour, records in _hours(read):
                date = Day.of(hour * HOUR_US)
                done.counts[Part(file, f"{date}T{hour % 24:02}", None)] += len(records)
                taken.add(records, f"date={date}/hour={hour % 24}" if is_by_hour else ".")
        taken.end()
        others.end()
    except OSError as error:
        return done._replace(error=f"{error} ({folder})")
    return done


def _all_blocks(pieces: list[_Piece], damaged: dict[str, str]) -> Iterator[tuple[bytes, str]]:
    """Read the blocks of pieces, and of which file each is."""
    for piece in pieces:
        file = _file(piece.path)
        try:
            for block in _blocks(piece):
                yield block, file
        except DamagedError as error:
            # This was not so when the file was checked, a moment ago.
            damaged[file] = f"{error}, while it was read; its records before that count"


def _file(path: Path) -> str:
    """`file` of PARSED."""
    return "/".join(path.parts[-2:])


def _blocks(piece: _Piece) -> Iterator[bytes]:
    """Read whole lines, a block at a time.

    Raises:
        DamagedError: the file cannot be read to its end.
    """
    with opened(piece.path) as file:
        if piece.begin:
            file.seek(piece.begin - 1)
            file.readline()  # the rest of a line that begins earlier
        while (at := file.tell()) < piece.end:
            block = file.read(min(_BLOCK, piece.end - at))
            if not block:
                break
            yield block if block.endswith(b"\n") else block + file.readline()


def _one_by_one(block: bytes, file: str) -> pa.Table:
    texts = block.removesuffix(b"\n").split(b"\n")
    return pa.table([pa.repeat(pa.scalar(file), len(texts)), pa.array(texts)], schema=_ASIDE)


def _hours(read: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Split records by the hour of their arrival, in hours since the epoch."""
    hours = read.column("arrived_us").to_numpy() // HOUR_US
    met = np.unique(hours)
    for hour in met:
        yield int(hour), read if len(met) == 1 else read.filter(pa.array(hours == hour))


class _Files:
    """Parquet files of one task."""

    def __init__(self, folder: Path, number: int, schema: pa.Schema) -> None:
        self._folder, self._name, self._schema = folder, f"take-{number}.parquet", schema
        self._waiting: defaultdict[str, list[pa.Table]] = defaultdict(list)
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, table: pa.Table, place: str = ".") -> None:
        """Add rows to the file in a folder below this one."""
        waiting = self._waiting[place]
        waiting.append(table)
        if sum(map(len, waiting)) >= _ROWS:
            self._write(place)

    def end(self) -> None:
        """Write the remaining rows, and close the files."""
        for place in list(self._waiting):
            self._write(place)
        for writer in self._writers.values():
            writer.close()

    def _write(self, place: str) -> None:
        if place not in self._writers:
            path = self._folder / place / self._name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writers[place] = pq.ParquetWriter(path, self._schema, compression="zstd")
        table = pa.concat_tables(self._waiting.pop(place))
        self._writers[place].write_table(table, row_group_size=_ROWS)
