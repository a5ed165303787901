"""Replication lag by commit timestamps (WL#7319), from what the monitors have logged."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_jobs.lag_analysis import quantiles
from spark_jobs.schema import RECORD_VERSION, REPLICATED, REPLICATION, WAITING

_KEY = ("server", "channel", "source")
_LINE = StructType(
    [
        StructField("v", LongType()),
        StructField("kind", StringType()),
        StructField("server", StringType()),
        StructField(
            "lag",
            StructType(
                [
                    StructField("applied", ArrayType(REPLICATED)),
                    StructField("waits", ArrayType(WAITING)),
                ]
            ),
        ),
    ]
)


def transform(lines: DataFrame) -> DataFrame:
    """Sum up the transactions by server, channel and source.

    A transaction that several proxies, workers or copied segments tell of counts once. What a
    transaction took is corrected by the clocks, as the proxy knew them; `upstream`, from the
    original to the immediate commit, is as the servers' clocks have it.

    Args:
        lines: ``line``, as `ingest.read` gives them.

    Returns:
        REPLICATION.
    """
    told = (
        lines.select(fn.from_json("line", _LINE).alias("record"))
        .select("record.*")
        .where((fn.col("v") == RECORD_VERSION) & (fn.col("kind") == "proof"))
        .where("lag is not null")
    )
    applied = (
        told.select("server", fn.explode("lag.applied").alias("one"))
        .select("server", "one.*")
        .dropDuplicates(["server", "channel", "gtid", "ended_us"])
        .withColumn("source", fn.substring_index("gtid", ":", 1))
        .withColumn("upstream_us", fn.col("immediate_us") - fn.col("original_us"))
        .withColumn("apply_us", fn.col("ended_us") - fn.col("began_us"))
        .groupBy(*_KEY)
        .agg(
            fn.count("*").alias("transactions"),
            *quantiles("end_to_end_us", "end_to_end_{}_us"),
            *quantiles("last_hop_us", "last_hop_{}_us"),
            *quantiles("upstream_us", "upstream_{}_us"),
            *quantiles("apply_us", "apply_{}_us"),
            fn.count_if(fn.col("upstream_us") < 0).alias("disordered"),
        )
    )
    waits = (
        told.select("server", fn.explode("lag.waits").alias("one"))
        .select("server", "one.*")
        .groupBy(*_KEY)
        .agg(fn.max("waits_us").alias("waits_max_us"))
    )
    zero = fn.lit(0).cast("long")
    return (
        applied.join(waits, list(_KEY), "full")
        .withColumn("transactions", fn.coalesce("transactions", zero))
        .withColumn("disordered", fn.coalesce("disordered", zero))
        .orderBy(*_KEY)
        .select(REPLICATION.names)
    )
