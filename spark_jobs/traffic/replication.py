"""Sums up replication lag by commit timestamps (WL#7319), as the monitors have logged it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_jobs.day import HOUR_US
from spark_jobs.tables.report_schema import REPLICATION_HOURS
from spark_jobs.tables.schema import RECORD_VERSION, REPLICATED, REPLICATION, WAITING
from spark_jobs.traffic.quantiles import begin_of, quantiles

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


def transform(records: DataFrame) -> DataFrame:
    """Sum up the transactions by server, channel and source.

    A transaction that several proxies, workers or copied segments report counts once. Lags are
    corrected by the clocks' offsets, as the proxy knew them; but `upstream`, from the original to
    the immediate commit, is the plain difference of the servers' timestamps.

    Args:
        records: the result of `told`.

    Returns:
        REPLICATION.
    """
    applied = (
        _applied(records)
        .groupBy(*_KEY)
        .agg(
            fn.count("*").alias("transactions"),
            *_lags(),
            fn.count_if(fn.col("upstream_us") < 0).alias("disordered"),
        )
    )
    waits = (
        records.select("server", fn.explode("lag.waits").alias("one"))
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


def by_hour(records: DataFrame) -> DataFrame:
    """Sum up the transactions by hour, server, channel and source.

    Args:
        records: the result of `told`.

    Returns:
        REPLICATION_HOURS.
    """
    return (
        _applied(records)
        .groupBy(begin_of(HOUR_US, "ended_us").alias("hour_us"), *_KEY)
        .agg(fn.count("*").alias("transactions"), *_lags())
        .where("hour_us is not null")
        .orderBy("hour_us", *_KEY)
        .select(REPLICATION_HOURS.names)
    )


def told(lines: DataFrame) -> DataFrame:
    """Find the few records with lag. Persist the result if it is used more than once.

    Args:
        lines: ``line``, as in `ingest.read`.

    Returns:
        ``server`` and ``lag`` (`LAG` in `routing/record.py`), beside ``v`` and ``kind``.
    """
    return (
        lines.where(fn.col("line").contains('"lag"'))
        .select(fn.from_json("line", _LINE).alias("record"))
        .select("record.*")
        .where((fn.col("v") == RECORD_VERSION) & (fn.col("kind") == "proof"))
        .where("lag is not null")
    )


def _applied(records: DataFrame) -> DataFrame:
    return (
        records.select("server", fn.explode("lag.applied").alias("one"))
        .select("server", "one.*")
        .dropDuplicates(["server", "channel", "gtid", "ended_us"])
        .withColumn("source", fn.substring_index("gtid", ":", 1))
        .withColumn("upstream_us", fn.col("immediate_us") - fn.col("original_us"))
        .withColumn("apply_us", fn.col("ended_us") - fn.col("began_us"))
    )


def _lags() -> list[Column]:
    names = ("end_to_end", "last_hop", "upstream", "apply")
    return [column for name in names for column in quantiles(f"{name}_us", f"{name}_{{}}_us")]
