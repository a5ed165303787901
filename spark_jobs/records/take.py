"""Converts segments to Parquet, so that no line of theirs is parsed as JSON again.

Theory of operation
===================

Spark's executors give each segment to a Python worker (`_Convert`). The worker opens a file that is
in a directory of its machine. From elsewhere, such as an object store, Spark fetches the file whole
(a proxy's segment has 64 MiB at most). The worker reads the segment twice. The first time, it
measures the content (`content.measure`): its size, its checksum, and how much of it can be trusted.
The second time, it makes rows of that much. A block of plain records becomes columns as a whole
(`lines`). Of a block with any other line, each line becomes a row of its own, with its number, and
Spark parses these lines afterwards (`ingest.parse`), which tells what is wrong with them. In a last
row, the worker says what it found in the segment (`Content`).

Spark writes all rows as Parquet, in three parts: ``records``, ``lines`` and ``segments``. So
executors need no more in common than the log and the folder that is written.

The proxy may rename or compress a segment while it is being taken. Then the executors do not find
it, it has no row among the segments, and what it has become is taken instead.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.table_arg import TableArg
from pyspark.sql.types import (
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_jobs.day import DAY_US, HOUR_US, Day
from spark_jobs.paths import escape
from spark_jobs.records import content, ingest, lines
from spark_jobs.records.content import QUARANTINE, RECORDS, Content, Contents, Measured
from spark_jobs.records.segments import FORMS, Segment, name_of
from spark_jobs.storage import Folder, exists
from spark_jobs.tables.schema import PARSED

_BLOCK: Final = 4 << 20
"""About how many bytes become columns at once."""

_TASK: Final = 32 << 20
"""About how many bytes of lines a task reads at least: as long as that takes, a worker takes to
start."""

_RECORDS, _LINES, _SEGMENTS = RECORDS.removeprefix("part="), "lines", "segments"

_PLACE: Final = StructType(
    [
        StructField("number", LongType()),  # of a line in its segment, from 1 on
        StructField("part", StringType()),
        StructField("date", DateType()),  # when a record arrived, like `hour`, by UTC
        StructField("hour", IntegerType()),
    ]
)
_FILES: Final = StructType(
    [
        StructField("path", StringType()),
        StructField("content", BinaryType()),  # null where Python can open the file
    ]
)
_LINE: Final = StructType([PARSED["line"]])
_ROW: Final = StructType([*PARSED, *_PLACE])
_PART: Final = StructType([*PARSED, _PLACE["number"]])
_ARROW: Final = pa.schema(
    [
        *(pa.field(field.name, field.type) for field in lines.SCHEMA),
        ("number", pa.int64()),
        ("part", pa.string()),
        ("date", pa.date32()),
        ("hour", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Kept:
    """Lines that were read, as Parquet.

    Attributes:
        parsed: PARSED.
        live: those of them that are of segments which were still being written, or are damaged;
            None if there are no such segments.
        damaged: why files could not be read to their ends, by `file` of PARSED.
    """

    parsed: DataFrame
    live: DataFrame | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)


def all_in(spark: SparkSession, segments: Sequence[Segment], folder: Folder) -> Kept:
    """Convert segments as far as they can be read, with their lines that are no record.

    Args:
        spark: a session.
        segments: the segments.
        folder: takes the Parquet files; it has none yet.
    """
    found = _convert(spark, segments, folder, by_hour=False)
    parsed = _part(spark, folder, _RECORDS)
    others = _parsed(spark, folder)
    if parsed is None or others is not None:
        others = spark.createDataFrame([], _PART) if others is None else others
        others.write.parquet(str(folder / "parsed"), compression="zstd")
        others = spark.read.schema(_PART).parquet(*escape([folder / "parsed"]))
        parsed = others if parsed is None else parsed.unionByName(others)
    parsed = parsed.select(PARSED.names)
    damaged = {
        here.file: here.measured.damage
        for here in found.values()
        if here.measured.damage is not None
    }
    return Kept(parsed, damaged=damaged | content.lacking(segments, found))


def by_hour(spark: SparkSession, segments: Sequence[Segment], folder: Folder) -> Contents:
    """Convert whole segments: their records to `RECORDS`, other lines to `QUARANTINE`.

    Args:
        spark: a session.
        segments: the segments; nothing is taken of those that are damaged.
        folder: takes ``part=records/date=…/hour=…``, by arrival, and ``part=quarantine``, PARSED
            with the ``number`` of each line, if there is any; and other parts on the way to these.

    Returns:
        What is in them.
    """
    found = _convert(spark, segments, folder, by_hour=True)
    others = _parsed(spark, folder)
    if others is not None:
        moment = fn.when(fn.isnull("fault"), fn.col("arrived_us"))
        rows = (
            others.withColumn("date", fn.date_from_unix_date(fn.floor(moment / DAY_US).cast("int")))
            .withColumn("hour", fn.floor(moment / HOUR_US).cast("int") % 24)
            .persist()
        )
        try:
            placed = rows.where("fault is null").drop("number").write.partitionBy("date", "hour")
            placed.mode("append").parquet(str(folder / RECORDS), compression="zstd")
            faulty = rows.where("fault is not null").select(*PARSED.names, "number")
            if not faulty.isEmpty():
                in_order = faulty.coalesce(1).sortWithinPartitions("file", "number")
                in_order.write.parquet(str(folder / QUARANTINE), compression="zstd")
            for row in rows.groupBy("file", "date", "hour", "fault").count().collect():
                here = found[name_of(row.file)]
                if row.fault is None:
                    hour = f"{row.date}T{row.hour:02}"
                    here.hours[hour] = here.hours.get(hour, 0) + row["count"]
                else:
                    here.faults[row.fault] = row["count"]
        finally:
            rows.unpersist()
    return found


def measure(spark: SparkSession, segments: Sequence[Segment]) -> dict[str, Measured]:
    """Read segments, and take nothing of them.

    Returns:
        What is in them, by their names; those that cannot be read are not there.
    """
    files = _files(spark, segments)
    if files is None:
        return {}
    rows = _eval(files, _Measure, _LINE).collect()
    return {name: here.measured for name, here in _contents(rows).items()}


def _convert(
    spark: SparkSession, segments: Sequence[Segment], folder: Folder, *, by_hour: bool
) -> Contents:
    """Write the rows of segments, in parts; return what is in the segments."""
    upto = {segment.name: segment.size for segment in segments if segment.is_live}
    handler = type("_ConvertThese", (_Convert,), {"upto": upto, "only_whole": by_hour})
    parts = ("part", "date", "hour") if by_hour else ("part",)
    found: Contents = {}
    for form in range(FORMS):
        files = _files(spark, [segment for segment in segments if segment.name not in found], form)
        if files is None:
            continue
        placed = _eval(files, handler, _ROW).write.mode("append").partitionBy(*parts)
        placed.parquet(str(folder), compression="zstd")
        rows = _part(spark, folder, _SEGMENTS)
        if rows is not None:
            found = _contents(rows.select("line").collect())
    return found


def _files(spark: SparkSession, segments: Sequence[Segment], form: int = 0) -> DataFrame | None:
    """Make a row of each segment that is there: `_FILES`; None if there is none.

    Args:
        spark: a session.
        segments: the segments, all here or all elsewhere.
        form: under which of its names each is looked for (`Segment.forms`).
    """
    there = [(segment.forms[form], None) for segment in segments if segment.is_here]
    there = [row for row in there if Path(row[0]).exists()]
    if there:
        size = sum(segment.plain_size for segment in segments)
        tasks = min(len(there), size // _TASK)
        files = spark.createDataFrame(there, _FILES)
        return files.repartition(tasks) if tasks > 1 else files.coalesce(1)
    wanted = [segment for segment in segments if not (segment.is_here or segment.is_too_large)]
    return _fetched(spark, [segment.forms[form] for segment in wanted])


def _fetched(spark: SparkSession, paths: Sequence[str]) -> DataFrame | None:
    """Let Spark read files from elsewhere: `_FILES`; None if none is there."""
    files = spark.read.format("binaryFile")
    files = files.options(ignoreMissingFiles=True, ignoreCorruptFiles=True)
    left = list(paths)
    while left:
        try:
            return files.load(escape(left)).select(_FILES.names)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            gone = (error.getMessageParameters() or {}).get("path", "")
            there = [path for path in left if not gone.endswith(escape([path])[0])]
            if there == left:
                raise
            left = there
    return None


def _eval(files: DataFrame, handler: type, result: StructType) -> DataFrame:
    """Let Python workers go through files, as tables of Arrow."""
    run = cast("Callable[[TableArg], DataFrame]", arrow_udtf(handler, returnType=result))
    return run(files.asTable())


def _part(spark: SparkSession, folder: Folder, part: str) -> DataFrame | None:
    """Read a part of what was written: `_ROW` without what its folders say; None if it is empty."""
    place = folder / f"part={part}"
    if not exists(place):
        return None
    return spark.read.schema(_PART).parquet(*escape([place]))


def _parsed(spark: SparkSession, folder: Folder) -> DataFrame | None:
    """Parse the lines that workers did not make columns of: PARSED and `number`; None if none."""
    found = _part(spark, folder, _LINES)
    return None if found is None else ingest.parse(found.select("file", "line", "number"), "number")


def _contents(rows: Iterable[Row]) -> Contents:
    found = (json.loads(row.line) for row in rows)
    return {
        name_of(here["file"]): Content(here["file"], Measured(**here["measured"]), here["hours"])
        for here in found
    }


# In the workers


class _Measure:
    """Measures files; each gives a row."""

    def eval(self, files: pa.RecordBatch) -> Iterator[pa.Table]:
        for file, _, measured in _opened(files, {}):
            yield pa.table({"line": [_content_line(file, measured, {})]})


class _Convert:
    """Makes rows of files: `_ROW`.

    Attributes:
        upto: how many bytes of a segment's content count, by its name; all of those not named.
        only_whole: whether no line of a damaged segment is wanted.
    """

    upto: Mapping[str, int]
    only_whole: bool

    def eval(self, files: pa.RecordBatch) -> Iterator[pa.Table]:
        for file, data, measured in _opened(files, self.upto):
            number, hours = 1, Counter[str]()
            if measured.damage is None or not self.only_whole:
                data.seek(0)
                pieces = content.unpacked(data, _suffix(file))
                for block in _blocks(pieces, measured.certain):
                    read = lines.plain(block, file)
                    if read is None:
                        yield _one_by_one(block, file, number)
                    else:
                        yield _placed(read, hours)
                    number += block.count(b"\n")
            yield _filled({"line": [_content_line(file, measured, hours)]}, 1, _SEGMENTS)


def _opened(
    files: pa.RecordBatch, upto: Mapping[str, int]
) -> Iterator[tuple[str, BinaryIO, Measured]]:
    """Open and measure files, which are named as the log names them; those that are gone are not.

    Args:
        files: `_FILES`.
        upto: how many bytes of a segment's content count, by its name; all of those not named.
    """
    for path, fetched in zip(files.column("path"), files.column("content"), strict=True):
        file = "/".join(path.as_py().split("/")[-2:])
        try:
            data = _open(path.as_py(), fetched)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield file, BytesIO(), content.unreadable(error)
            continue
        with data:
            yield file, data, content.measure(data, _suffix(file), upto.get(name_of(file)))


def _open(path: str, fetched: pa.BinaryScalar) -> BinaryIO:
    """Open a file, or what Spark has read of it.

    Raises:
        FileNotFoundError: it is gone.
        OSError: it cannot be opened.
    """
    if fetched.is_valid:
        return cast("BinaryIO", pa.BufferReader(fetched.as_buffer()))
    return Path(path).open("rb")


def _suffix(file: str) -> str:
    return file[len(name_of(file)) :]


def _content_line(file: str, measured: Measured, hours: Mapping[str, int]) -> str:
    """What `_contents` reads."""
    return json.dumps({"file": file, "measured": measured._asdict(), "hours": hours})


def _blocks(pieces: Iterator[bytes], certain: int) -> Iterator[bytes]:
    """Cut the first bytes of a content into blocks of whole lines; the last may lack its end."""
    waiting = bytearray()
    for piece in pieces if certain else ():
        data = piece[:certain]
        certain -= len(data)
        waiting += data
        end = waiting.rfind(b"\n") + 1 if certain else len(waiting)
        if end >= _BLOCK or not certain:
            yield bytes(waiting[:end])
            del waiting[:end]
        if not certain:
            return
    if certain:
        raise OSError("a segment became shorter while it was read")


def _placed(read: pa.Table, hours: Counter[str]) -> pa.Table:
    """Give records their place, and count them by hour."""
    hour = read.column("arrived_us").to_numpy() // HOUR_US
    for found, records in zip(*np.unique(hour, return_counts=True), strict=True):
        hours[f"{Day.of(int(found) * HOUR_US)}T{found % 24:02}"] += int(records)
    date = pa.array((hour // 24).astype(np.int32)).view(pa.date32())
    made = {name: read.column(name) for name in read.column_names}
    made |= {"date": date, "hour": pa.array((hour % 24).astype(np.int32))}
    return _filled(made, len(read), _RECORDS)


def _one_by_one(block: bytes, file: str, number: int) -> pa.Table:
    """Make a row of each line of a block; its first line has the number that is given."""
    texts = block.removesuffix(b"\n").split(b"\n")
    numbers = range(number, number + len(texts))
    # Bytes that are no UTF-8 stay as they are, for Spark to find.
    line = pa.array(texts, pa.binary()).view(pa.string())
    made = {"file": pa.repeat(file, len(texts)), "line": line, "number": pa.array(numbers)}
    return _filled(made, len(texts), _LINES)


def _filled(columns: Mapping[str, pa.Array | list[str]], count: int, part: str) -> pa.Table:
    """Make rows of a part; columns that are not given are null."""
    made = {"part": pa.repeat(part, count), **columns}
    arrays = [made.get(field.name, pa.nulls(count, field.type)) for field in _ARROW]
    return pa.table(arrays, schema=_ARROW)
