"""What of the log can be relied on: torn and damaged lines, gaps, repeats."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.schema import FAULTS, NUMBERED, RUN, RUNS


def faults(parsed: DataFrame) -> DataFrame:
    """Count the lines that are no record, by file.

    Args:
        parsed: `ingest.parse`'s.

    Returns:
        FAULTS.
    """
    return (
        parsed.select("file", "fault")
        .where(fn.col("fault").isNotNull())
        .groupBy("file", "fault")
        .agg(fn.count("*").alias("lines"))
        .orderBy("file", "fault")
        .select(FAULTS.names)
    )


def runs(numbered: DataFrame) -> DataFrame:
    """Sum up each run.

    Args:
        numbered: NUMBERED.

    Returns:
        RUNS.
    """
    kept = fn.col("repeat").isNull()

    def count(kind: str) -> Column:
        return fn.count_if(kept & (fn.col("kind") == kind)).alias(f"{kind}s")

    return (
        numbered.select(NUMBERED.names)
        .groupBy(*RUN)
        .agg(
            count("statement"),
            count("proof"),
            count("gap"),
            fn.min("seq").alias("first_seq"),
            fn.max("seq").alias("last_seq"),
            fn.sum("missing").alias("missing"),
            fn.sum("declared").alias("declared"),
            fn.count_if(fn.col("repeat") == "same").alias("repeated"),
            fn.count_if(fn.col("repeat") == "other").alias("conflicting"),
            fn.min("arrived_us").alias("from_us"),
            fn.max("ended_us").alias("to_us"),
        )
        .orderBy("from_us", *RUN)
        .select(RUNS.names)
    )
