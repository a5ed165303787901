"""The segments of a log, and their lines as Spark reads text."""

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.records.segments import Segment, list_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_segments(log: Path) -> list[Segment]:
    """All segments of a log, finished or not."""
    listing = list_segments(log)
    return [*listing.closed, *listing.live]


def lines_of(spark: "SparkSession", log: Path) -> "DataFrame":
    """The lines of a log: ``file`` (the last two components of its path) and ``line``."""
    from pyspark.sql import functions as fn

    from spark_jobs.paths import escape

    paths = escape([segment.path for segment in find_segments(log)])
    return spark.read.text(paths, lineSep="\n").select(
        fn.regexp_extract(fn.col("_metadata.file_path"), "[^/]+/[^/]+$", 0).alias("file"),
        fn.col("value").alias("line"),
    )
