"""Reads the hours of a log that an audit looks at: what the store has, and what it cannot have."""

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, IntegerType, StructField, StructType

from spark_jobs.day import HOUR_US
from spark_jobs.paths import escape
from spark_jobs.records import take
from spark_jobs.records.segments import Segment
from spark_jobs.records.take import Kept
from spark_jobs.storage import Folder, fresh
from spark_jobs.store.store import Reader, Span, Store
from spark_jobs.tables.schema import PARSED


def reader(spark: SparkSession) -> Reader:
    """What reads segments for the store."""
    return Reader(partial(take.measure, spark), partial(take.by_hour, spark))


def read(
    spark: SparkSession, store: Store, span: Span, live: Sequence[Segment], scratch: Folder
) -> Kept:
    """Read the hours of a log that an audit looks at.

    Args:
        spark: a session.
        store: the store.
        span: the hours.
        live: segments that have not been taken, since they are still being written or damaged. They
            are read once, now.
        scratch: folder for the lines of `live`; it must exist as long as the result is used.
    """
    records, others = store.folders(span)
    dated = fn.substring("file", len("date=") + 1, len("YYYY-MM-DD")).between(*span.dates)
    parsed = spark.createDataFrame([], PARSED)
    still: DataFrame | None = None
    damaged: Mapping[str, str] = {}
    if records:
        # These columns are partitions, so files of other hours are not opened.
        hour = fn.unix_date("date") * 24 + fn.col("hour")
        within = hour.between(span.begin_us // HOUR_US, (span.end_us - 1) // HOUR_US)
        placed = _placed(spark, store.records, records).where(within)
        parsed = parsed.unionByName(placed.select(PARSED.names))
    if others:
        faults = spark.read.schema(PARSED).parquet(*escape(others))
        parsed = parsed.unionByName(faults.where(dated))
    if live:
        kept = take.all_in(spark, live, fresh(scratch, "live"))
        parsed = parsed.unionByName(kept.parsed)
        still, damaged = kept.parsed, kept.damaged
    during = (fn.col("arrived_us") >= span.begin_us) & (fn.col("arrived_us") < span.end_us)
    whole = fn.col("fault").isNull()
    within_span = parsed.where((whole & during) | (~whole & dated))
    return Kept(within_span, still, damaged)


def _placed(spark: SparkSession, base: Folder, folders: Sequence[str]) -> DataFrame:
    """Records in folders below a base: PARSED, `date` and `hour`."""
    placed = StructType(
        [*PARSED, StructField("date", DateType()), StructField("hour", IntegerType())]
    )
    reader = spark.read.schema(placed).option("basePath", str(base))
    return reader.parquet(*escape(folders))
