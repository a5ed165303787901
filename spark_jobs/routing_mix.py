"""Where statements went, and why."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.lag_analysis import quantiles
from spark_jobs.schema import ERRORS, FALLBACKS, MIX, RECORD

DIMENSIONS = ("level", "class", "role", "server", "reason", "proof")


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


def _statements(records: DataFrame) -> DataFrame:
    return records.select(RECORD.names).where(fn.col("kind") == "statement")
