"""Counts how often each verdict was given."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.verdict import Verdict

_KEYS = ("level", "scope", "verdict", "finding")


def transform(reads: DataFrame) -> DataFrame:
    """Count the verdicts by level, scope and finding.

    Args:
        reads: JUDGED.

    Returns:
        VERDICTS, the most frequent first, and ``understated``: how many of the reads are ok
        although the proxy required less than they had to see.
    """
    ok = fn.col("verdict") == Verdict.OK.value
    return (
        reads.groupBy(*_KEYS)
        .agg(
            fn.count("*").alias("reads"),
            fn.count_if(ok & fn.col("understated")).alias("understated"),
        )
        .orderBy(fn.desc("reads"), *_KEYS)
    )
