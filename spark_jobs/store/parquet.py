"""Writes segments as Parquet, records by date and hour and other lines apart, and reads them."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, IntegerType, StructField, StructType

from spark_jobs.day import HOUR_US
from spark_jobs.records import ingest, take
from spark_jobs.records.segments import Segments
from spark_jobs.records.take import Kept
from spark_jobs.store.store import Counts, Span, Store
from spark_jobs.tables.schema import PARSED


def stage(spark: SparkSession, paths: Sequence[Path], folder: Path) -> dict[str, Counts]:
    """Write segments as Parquet: ``records`` and, if some lines are no record, ``quarantine``.

    Args:
        spark: a session.
        paths: the segments, which `segments.readable` returned.
        folder: takes both.

    Returns:
        The counts of each segment that has any line, by its name.
    """
    found: defaultdict[str, Counts] = defaultdict(lambda: Counts({}, {}))
    for (file, hour, fault), lines in take.by_hour(spark, paths, folder / "records").items():
        counts = found[_name(Path(file))]
        if hour is not None:
            counts.hours[hour] = lines
        if fault is not None:
            counts.faults[fault] = lines
    torn = [path for path in paths if found[_name(path)].faults]
    if torn:
        quarantine(spark, torn).coalesce(1).write.parquet(str(folder / "quarantine"))
    return {name: counts for name, counts in found.items() if any(counts)}


def quarantine(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Find the lines that are no record, and their line numbers.

    A scan numbers the lines of all files of a task consecutively. So the number at which a piece of
    a file begins is subtracted, and the lines of earlier pieces of the same file are added.

    Returns:
        PARSED, and `number`, from 1 on in each file.
    """
    piece = fn.col("_metadata.file_block_start").alias("piece")
    place = fn.monotonically_increasing_id().alias("place")
    lines = ingest.read(spark, Segments(tuple(paths), ()), piece, place)
    pieces = (
        lines.groupBy("file", "piece")
        .agg(fn.min("place").alias("first"), fn.count("*").alias("lines"))
        .select("file", "piece", "first", _earlier("lines").alias("earlier"))
    )
    number = fn.col("place") - fn.col("first") + fn.col("earlier") + 1
    # The join comes before the lines are parsed: above so many columns of one expression, it took
    # the planner more memory than it had.
    numbered = lines.join(fn.broadcast(pieces), ["file", "piece"]).select(
        "file", "line", number.alias("number")
    )
    return (
        ingest.parse(numbered, "number")
        .where("fault is not null")
        .select(*PARSED.names, "number")
        .orderBy("file", "number")
    )


def read(
    spark: SparkSession, store: Store, span: Span, live: Sequence[Path], scratch: Path
) -> Kept:
    """Read the hours of a log that an audit looks at.

    Args:
        spark: a session.
        store: the store.
        span: the hours.
        live: segments that have not been taken, since they are still being written or damaged. They
            are read once, now.
        scratch: directory for the content of `live`; it must exist as long as the result is used.
    """
    records, others = store.folders(span)
    dated = fn.substring("file", len("date=") + 1, len("YYYY-MM-DD")).between(*span.dates)
    parsed = spark.createDataFrame([], PARSED)
    files: list[Path] = []
    still: list[str] = []
    damaged: Mapping[str, str] = {}
    if records:
        # These columns are partitions, so files of other hours are not opened.
        hour = fn.unix_date("date") * 24 + fn.col("hour")
        within = hour.between(span.begin_us // HOUR_US, (span.end_us - 1) // HOUR_US)
        placed = _placed(spark, store.records, records).where(within)
        parsed = parsed.unionByName(placed.select(PARSED.names))
        files += (file for folder in records for file in _files(Path(folder), span))
    if others:
        faults = spark.read.schema(PARSED).parquet(*ingest.names(others))
        parsed = parsed.unionByName(faults.where(dated))
        files += (file for folder in others for file in Path(folder).glob("*.parquet"))
    if live:
        folder = Path(tempfile.mkdtemp(prefix="live-", dir=scratch)) / "parsed"
        kept = take.all_in(spark, live, folder)
        parsed = parsed.unionByName(kept.parsed)
        files += map(Path, kept.files)
        still += kept.files
        damaged = kept.damaged
    during = (fn.col("arrived_us") >= span.begin_us) & (fn.col("arrived_us") < span.end_us)
    whole = fn.col("fault").isNull()
    within_span = parsed.where((whole & during) | (~whole & dated))
    return Kept(within_span, sorted(map(str, files)), still, damaged)


def _files(folder: Path, span: Span) -> Iterator[Path]:
    """The files of a take with records of a span."""
    for path in folder.glob("date=*/hour=*/*.parquet"):
        date, hour = (path.parents[up].name.partition("=")[2] for up in (1, 0))
        if span.has(f"{date}T{int(hour):02}"):
            yield path


def _placed(spark: SparkSession, base: Path, folders: Sequence[str]) -> DataFrame:
    """Records in folders below a base: PARSED, `date` and `hour`."""
    placed = StructType(
        [*PARSED, StructField("date", DateType()), StructField("hour", IntegerType())]
    )
    reader = spark.read.schema(placed).option("basePath", str(base))
    return reader.parquet(*ingest.names(folders))


def _earlier(column: str) -> Column:
    """The sum of a column over the earlier pieces of the same file."""
    before = Window.partitionBy("file").orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    return fn.coalesce(fn.sum(column).over(before), fn.lit(0))


def _name(path: Path) -> str:
    """The name of the segment that a file belongs to."""
    return "/".join(path.parts[-2:]).removesuffix(".gz")
