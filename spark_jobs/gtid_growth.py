"""How GTID sets grow and break up over time (WL#6559).

Every WAIT and every question for `gtid_executed` carries a set as text. One without gaps stays as
short as it is, however much is written; each gap that never closes makes it longer for good. A
server without a binary log also keeps one row of `mysql.gtid_executed` per interval.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.lag_analysis import HOUR_US, begin_of
from spark_jobs.report_schema import GROWTH
from spark_jobs.schema import RECORD

_SIZES: Final = ("sources", "tags", "intervals", "bytes")


def transform(records: DataFrame) -> DataFrame:
    """Measure the largest sets of each hour.

    Args:
        records: RECORD.

    Returns:
        GROWTH.
    """
    executed = fn.when(
        (fn.col("kind") == "proof") & (fn.col("proof") == "probed"), fn.col("proof_set")
    ).when((fn.col("kind") == "statement") & (fn.col("outcome") == "ok"), fn.col("observed"))
    required = fn.when(fn.col("kind") == "statement", fn.col("required"))
    empty = fn.lit("")
    told = fn.array(
        fn.struct(
            fn.lit("executed").alias("what"),
            fn.coalesce("server", empty).alias("server"),
            fn.coalesce("role", empty).alias("role"),
            executed.alias("gtids"),
        ),
        fn.struct(
            fn.lit("required").alias("what"),
            empty.alias("server"),
            empty.alias("role"),
            required.alias("gtids"),
        ),
    )
    return (
        records.select(RECORD.names)
        .select(begin_of(HOUR_US, "ended_us").alias("hour_us"), fn.explode(told).alias("one"))
        .select("hour_us", "one.*")
        .where("gtids != ''")
        .withColumns(_sizes())
        .groupBy("hour_us", "what", "server", "role")
        .agg(fn.count("*").alias("sets"), *(fn.max(name).alias(name) for name in _SIZES))
        .orderBy("what", "server", "role", "hour_us")
        .select(GROWTH.names)
    )


def _sizes() -> dict[str, Column]:
    """Of a canonical set: `uuid:1-5:7:tag:1-3,uuid:…`, so every part follows a colon."""
    gtids = fn.col("gtids")

    def count(mark: str) -> Column:
        return fn.length(gtids) - fn.length(fn.replace(gtids, fn.lit(mark), fn.lit("")))

    parts = count(":")
    # Only a tag begins with a letter behind a colon.
    tags = fn.regexp_count(gtids, fn.lit(":[a-zA-Z_]"))
    return {
        "sources": (1 + count(",")).cast("long"),
        "tags": tags.cast("long"),
        "intervals": (parts - tags).cast("long"),
        "bytes": fn.length(gtids).cast("long"),
    }
