"""How long reads waited for the tide, and how soon after a write it was there."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.schema import JUDGED, LAG


def transform(judged: DataFrame) -> DataFrame:
    """Sum up the waits by server and proof.

    ``since_write`` runs from the session's newest acknowledged write to the WAIT's answer, so it is
    an upper bound of the replication lag that the read saw. A wait that ran out stands with the
    server that answered in the end.

    Args:
        judged: JUDGED.

    Returns:
        LAG: servers whose reads waited.
    """
    return (
        judged.select(JUDGED.names)
        .where((fn.col("proof") == "waited") | (fn.col("wait_us") > 0))
        .groupBy(fn.coalesce("server", fn.lit("none")).alias("server"), "proof")
        .agg(
            fn.count("*").alias("reads"),
            *quantiles("wait_us", "wait_{}_us"),
            fn.count("since_write_us").alias("after_write"),
            *quantiles("since_write_us", "since_write_{}_us"),
        )
        .orderBy("server", "proof")
        .select(LAG.names)
    )


def quantiles(column: str, name: str) -> list[Column]:
    """p50, p95, p99 and max of a column of microseconds; `name` has a place for which."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return [
        *(
            fn.percentile_approx(column, share).cast("long").alias(name.format(which))
            for which, share in shares.items()
        ),
        fn.max(column).alias(name.format("max")),
    ]
