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
    understated = f"count_if(verdict = '{Verdict.OK}' and understated) as understated"
    return (
        reads.groupBy(*_KEYS)
        .agg(fn.expr("count(*) as reads"), fn.expr(understated))
        .orderBy(fn.desc("reads"), *_KEYS)
    )
