"""A log that was gone through for the first time."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.audit.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.audit.deduplication import Deduplicated
    from spark_jobs.day import Period
    from spark_jobs.records.take import Kept


def look(
    spark: "SparkSession", lines: "Kept", scratch: Path, period: "Period | None" = None
) -> "Deduplicated":
    """Look at all records, or at those around a period."""
    from spark_jobs.audit import deduplication

    log = Log(name="log", lines=lines, scratch=scratch, complete=1, live=0, period=period)
    return deduplication.look(spark, log, [])


def same(one: "DataFrame", other: "DataFrame") -> bool:
    """Whether two tables have the same rows, in whatever order."""
    return Counter(map(repr, one.collect())) == Counter(map(repr, other.collect()))
