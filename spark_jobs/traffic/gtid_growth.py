"""How GTID sets grow and break up over time (WL#6559).

Every WAIT and every answer to a question for `gtid_executed` carries a set as text. A set without
gaps stays as short as it is, however much is written; each gap that never closes makes it longer
for good. A server without a binary log also keeps one row of `mysql.gtid_executed` per interval.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.day import HOUR_US
from spark_jobs.tables.report_schema import GROWTH
from spark_jobs.traffic.quantiles import begin_of


def growth(records: DataFrame) -> DataFrame:
    """List the largest sets of each hour.

    Args:
        records: RECORD.

    Returns:
        GROWTH.
    """
    statement = fn.col("kind") == "statement"
    probed = (fn.col("kind") == "proof") & (fn.col("proof") == "probed")
    observed = fn.when(statement & (fn.col("outcome") == "ok"), fn.col("observed"))
    executed = fn.when(probed, fn.col("proof_set")).otherwise(observed)
    nobody = fn.lit("")
    server, role = fn.coalesce("server", nobody), fn.coalesce("role", nobody)
    measured = fn.array(
        _measured("executed", executed, server, role),
        _measured("required", fn.when(statement, fn.col("required")), nobody, nobody),
    )
    key = ("hour_us", "what", "server", "role")
    sizes = ("sources", "tags", "intervals", "bytes")
    return (
        records.select(begin_of(HOUR_US, "ended_us").alias("hour_us"), fn.inline(measured))
        .where("gtids != ''")
        .select(*key, *_sizes("gtids"))
        .groupBy(*key)
        .agg(fn.count("*").alias("sets"), *(fn.max(name).alias(name) for name in sizes))
        .orderBy("what", "server", "role", "hour_us")
        .select(GROWTH.names)
    )


def _measured(what: str, gtids: Column, server: Column, role: Column) -> Column:
    return fn.struct(
        fn.lit(what).alias("what"),
        server.alias("server"),
        role.alias("role"),
        gtids.alias("gtids"),
    )


def _sizes(gtids: str) -> list[Column]:
    """Measure a canonical set: `uuid:1-5:7:tag:1-3,uuid:…`, so every part follows a colon."""
    # Only a tag has a letter after a colon.
    tags = fn.regexp_count(gtids, fn.lit(":[a-zA-Z_]"))
    colons, commas = (fn.length(gtids) - fn.length(fn.replace(gtids, fn.lit(sign), fn.lit("")))
                      for sign in (":", ","))  # fmt: skip
    found = {
        "sources": commas + 1,
        "tags": tags,
        "intervals": colons - tags,
        "bytes": fn.length(gtids),
    }
    return [size.cast("long").alias(name) for name, size in found.items()]
