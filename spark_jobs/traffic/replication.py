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
        .agg(*_counted(), fn.expr("count_if(upstream_us < 0) as disordered"))
    )
    waits = (
        records.selectExpr("server", "inline(lag.waits)")
        .groupBy(*_KEY)
        .agg(fn.expr("max(waits_us) as waits_max_us"))
    )
    counts = ("transactions", "disordered")
    return (
        applied.join(waits, list(_KEY), "full")
        .orderBy(*_KEY)
        .selectExpr(
            *(
                f"coalesce({name}, 0L) as {name}" if name in counts else name
                for name in REPLICATION.names
            )
        )
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
        .selectExpr("*", f"{begin_of(HOUR_US, 'ended_us')} as hour_us")
        .groupBy("hour_us", *_KEY)
        .agg(*_counted())
        .where("hour_us is not null")
        .orderBy("hour_us", *_KEY)
        .selectExpr(*REPLICATION_HOURS.names)
    )


def told(lines: DataFrame) -> DataFrame:
    """Find the few records with lag. Persist the result if it is used more than once.

    Args:
        lines: ``line``, as in `ingest.read`.

    Returns:
        ``server`` and ``lag`` (`LAG` in `routing/record.py`), beside ``v`` and ``kind``.
    """
    return (
        lines.where("""contains(line, '"lag"')""")
        .select(fn.from_json("line", _LINE).alias("record"))
        .select("record.*")
        .where(f"v = {RECORD_VERSION} and kind = 'proof' and lag is not null")
    )


def _applied(records: DataFrame) -> DataFrame:
    return (
        records.selectExpr("server", "inline(lag.applied)")
        .dropDuplicates(["server", "channel", "gtid", "ended_us"])
        .selectExpr(
            "*",
            "substring_index(gtid, ':', 1) as source",
            "immediate_us - original_us as upstream_us",
            "ended_us - began_us as apply_us",
        )
    )


def _counted() -> list[Column]:
    names = ("end_to_end", "last_hop", "upstream", "apply")
    lags = (lag for name in names for lag in quantiles(f"{name}_us", f"{name}_{{}}_us"))
    return [*map(fn.expr, ("count(*) as transactions", *lags))]
