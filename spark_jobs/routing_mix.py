"""Where statements went, and why."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.lag_analysis import quantiles
from spark_jobs.report_schema import PINNED
from spark_jobs.schema import ERRORS, FALLBACKS, MIX, RECORD

DIMENSIONS = ("level", "class", "role", "server", "reason", "proof")

KEPT = ("session", "transaction", "prepared", "cursor", "pinned", "unknown_required")
"""Reasons for which a read goes to the primary whatever its replicas have."""

_WORST = 20


def transform(records: DataFrame) -> DataFrame:
    """Count statements along each dimension.

    Args:
        records: RECORD.

    Returns:
        MIX.
    """
    statements = _statements(records)
    values = fn.array(
        *(
            fn.struct(
                fn.lit(place).alias("place"),
                fn.lit(name).alias("dimension"),
                fn.coalesce(name, fn.lit("none")).alias("value"),
            )
            for place, name in enumerate(DIMENSIONS)
        )
    )
    total = statements.agg(fn.count("*").alias("total"))
    return (
        statements.withColumn("along", fn.explode(values))
        .withColumn("latency_us", fn.col("ended_us") - fn.col("arrived_us"))
        .groupBy("along")
        .agg(
            fn.count("*").alias("statements"),
            fn.count_if(fn.col("outcome") == "error").alias("errors"),
            fn.count_if(fn.col("outcome") == "lost").alias("lost"),
            *quantiles("latency_us", "{}_us"),
        )
        .crossJoin(fn.broadcast(total))
        .withColumn("share", fn.col("statements") / fn.col("total"))
        .orderBy("along.place", fn.desc("statements"), "along.value")
        .select("along.dimension", "along.value", *MIX.names[2:])
    )


def fallbacks(records: DataFrame) -> DataFrame:
    """Count attempts that ended elsewhere.

    Args:
        records: RECORD.

    Returns:
        FALLBACKS.
    """
    attempt = fn.explode(fn.split("fallbacks", ",")).alias("attempt")
    return (
        _statements(records)
        .where(fn.col("fallbacks") != "")
        .select(attempt)
        # The server's name has a colon of its own.
        .select(
            fn.regexp_replace("attempt", ":[^:]*$", "").alias("server"),
            fn.substring_index("attempt", ":", -1).alias("reason"),
        )
        .groupBy("server", "reason")
        .agg(fn.count("*").alias("statements"))
        .orderBy(fn.desc("statements"), "server", "reason")
        .select(FALLBACKS.names)
    )


def errors(records: DataFrame) -> DataFrame:
    """Count statements that did not end well.

    Args:
        records: RECORD.

    Returns:
        ERRORS.
    """
    return (
        _statements(records)
        .where(fn.col("outcome") != "ok")
        .groupBy("outcome", "error_code", fn.coalesce("role", fn.lit("none")).alias("role"))
        .agg(fn.count("*").alias("statements"))
        .orderBy(fn.desc("statements"), *ERRORS.names[:3])
        .select(ERRORS.names)
    )


def pinned(records: DataFrame) -> DataFrame:
    """Find the reads, by digest and user, that are most often kept on the primary or fall back.

    Args:
        records: RECORD.

    Returns:
        PINNED: twenty at most.
    """
    return _pinned(records, "digest", "user")


def pinned_users(records: DataFrame) -> DataFrame:
    """As `pinned`, by user alone."""
    return (
        _pinned(records, "user")
        .withColumn("digest", fn.lit(None).cast("string"))
        .select(PINNED.names)
    )


def _pinned(records: DataFrame, *by: str) -> DataFrame:
    primary = fn.col("role").eqNullSafe("primary")
    kept, fell_back = primary & fn.col("reason").isin(*KEPT), fn.col("fallbacks") != ""
    return (
        _statements(records)
        .where(fn.col("class") == "read")
        .groupBy(*by)
        .agg(
            fn.count("*").alias("reads"),
            fn.count_if(primary).alias("on_primary"),
            fn.count_if(kept).alias("kept"),
            fn.count_if(fell_back).alias("fell_back"),
            fn.mode(fn.when(primary, fn.col("reason")), deterministic=True).alias("reason"),
            fn.sum(fn.col("ended_us") - fn.col("arrived_us")).alias("total_us"),
        )
        .where("kept + fell_back > 0")
        .orderBy(fn.desc(fn.expr("kept + fell_back")), *by)
        .limit(_WORST)
        .select(*(name for name in PINNED.names if name != "digest" or name in by))
    )


def _statements(records: DataFrame) -> DataFrame:
    return records.select(RECORD.names).where(fn.col("kind") == "statement")
