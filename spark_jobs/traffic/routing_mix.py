"""Counts where statements went, and why."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.tables.report_schema import PINNED
from spark_jobs.tables.schema import ERRORS, FALLBACKS, MIX
from spark_jobs.traffic.quantiles import quantiles

DIMENSIONS: Final = ("level", "class", "role", "server", "reason", "proof")

KEPT: Final = ("session", "transaction", "prepared", "cursor", "pinned", "unknown_required")
"""Reasons for which a read goes to the primary, whatever the replicas have."""

_WORST: Final = 20


def mix(statements: DataFrame) -> DataFrame:
    """Count statements by the values of each dimension.

    Args:
        statements: RECORD.

    Returns:
        MIX: dimension by dimension, in each the most frequent value first.
    """
    names = list(DIMENSIONS)
    ordinal = fn.array_position(fn.lit(names), fn.col("dimension"))
    dimension = fn.coalesce(
        *(fn.when(fn.grouping(name) == 0, fn.lit(name)) for name in names)
    ).alias("dimension")
    of_dimension = Window.partitionBy("dimension")
    return (
        statements.select(
            *(fn.coalesce(name, fn.lit("none")).alias(name) for name in names),
            "outcome",
            (fn.col("ended_us") - fn.col("arrived_us")).alias("latency_us"),
        )
        .groupingSets([[name] for name in names], *names)
        .agg(
            dimension,
            fn.coalesce(*names).alias("value"),
            fn.count("*").alias("statements"),
            fn.count_if(fn.col("outcome") == "error").alias("errors"),
            fn.count_if(fn.col("outcome") == "lost").alias("lost"),
            *quantiles("latency_us", "{}_us"),
        )
        .withColumn("share", fn.col("statements") / fn.sum("statements").over(of_dimension))
        .orderBy(ordinal, fn.desc("statements"), "value")
        .select(MIX.names)
    )


def fallbacks(statements: DataFrame) -> DataFrame:
    """Count the servers that were tried before another one answered.

    Args:
        statements: RECORD.

    Returns:
        FALLBACKS: the most frequent first.
    """
    return (
        attempts(statements)
        .groupBy("server", "reason")
        .agg(fn.count("*").alias("statements"))
        .orderBy(fn.desc("statements"), "server", "reason")
        .select(FALLBACKS.names)
    )


def attempts(statements: DataFrame) -> DataFrame:
    """Find each failed attempt.

    Args:
        statements: RECORD.

    Returns:
        ``server`` and ``reason`` of each attempt, and the statement's ``class``.
    """
    attempt = fn.explode(fn.split("fallbacks", ",")).alias("attempt")
    # The server's name contains a colon, too.
    reason = fn.substring_index("attempt", ":", -1)
    server = fn.regexp_replace("attempt", ":[^:]*$", "")
    return (
        statements.where("fallbacks != ''")
        .select("class", attempt)
        .select("class", server.alias("server"), reason.alias("reason"))
    )


def errors(statements: DataFrame) -> DataFrame:
    """Count statements that did not end well.

    Args:
        statements: RECORD.

    Returns:
        ERRORS: the most frequent first.
    """
    keys = ("outcome", "error_code", "role")
    return (
        statements.where("outcome != 'ok'")
        .withColumn("role", fn.coalesce("role", fn.lit("none")))
        .groupBy(*keys)
        .agg(fn.count("*").alias("statements"))
        .orderBy(fn.desc("statements"), *keys)
        .select(ERRORS.names)
    )


def pinned(statements: DataFrame, *by: str) -> DataFrame:
    """Find the reads that are most often kept on the primary or fall back.

    Args:
        statements: RECORD.
        by: ``digest`` and ``user``, or ``user`` alone.

    Returns:
        PINNED: twenty rows at most; ``digest`` is null by ``user`` alone.
    """
    on_primary = fn.col("role").eqNullSafe("primary")
    kept = on_primary & fn.col("reason").isin(*KEPT)
    counts = {
        "reads": fn.count("*"),
        "on_primary": fn.count_if(on_primary),
        "kept": fn.count_if(kept),
        "fell_back": fn.count_if(fn.col("fallbacks") != ""),
        "total_us": fn.sum(fn.col("ended_us") - fn.col("arrived_us")),
    }
    sums = [fn.sum(name).alias(name) for name in counts]
    # Of equally frequent reasons, the first by name.
    frequency = fn.when(fn.col("on_primary") > 0, fn.struct(-fn.col("on_primary"), "reason"))
    return (
        statements.where("class = 'read'")
        .groupBy(*by, "reason")
        .agg(*(count.alias(name) for name, count in counts.items()))
        .groupBy(*by)
        .agg(*sums, fn.min_by("reason", frequency).alias("reason"))
        .where("kept + fell_back > 0")
        .orderBy(fn.desc(fn.col("kept") + fn.col("fell_back")), *by)
        .limit(_WORST)
        .withColumn("digest", fn.col("digest") if "digest" in by else fn.lit(None).cast("string"))
        .select(PINNED.names)
    )
