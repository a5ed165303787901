"""How long reads waited for the tide, when, and what that saved them from."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.promise import PROMISES
from spark_jobs.report_schema import FOREGONE, HOURS, MINUTES, WAITS
from spark_jobs.schema import JUDGED, LAG, RECORD

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000

_WORST = 10
_WRITTEN = 3


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
        .where(_waited())
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


def waits(records: DataFrame) -> DataFrame:
    """Sum up by level what reads waited, and what they lost by going to another server.

    Args:
        records: RECORD.

    Returns:
        WAITS.
    """
    return (
        _reads(records)
        .groupBy("level")
        .agg(
            *_losses(),
            *quantiles("waited_us", "wait_{}_us"),
            *quantiles("fallback_us", "fallback_{}_us"),
        )
        .orderBy(fn.desc("wait_total_us"), "level")
        .select(WAITS.names)
    )


def hours(judged: DataFrame) -> DataFrame:
    """Sum up the waits by hour and server.

    Args:
        judged: JUDGED.

    Returns:
        HOURS.
    """
    return (
        judged.select(JUDGED.names)
        .where("server is not null")
        .withColumn("waited_us", fn.when(_waited(), fn.col("wait_us")))
        .groupBy(begin_of(HOUR_US, "arrived_us").alias("hour_us"), "server")
        .agg(
            fn.count("*").alias("reads"),
            fn.count("waited_us").alias("waited"),
            *quantiles("waited_us", "wait_{}_us"),
            *quantiles("since_write_us", "since_write_{}_us"),
        )
        .orderBy("hour_us", "server")
        .select(HOURS.names)
    )


def minutes(records: DataFrame) -> DataFrame:
    """Find the minutes in which reads lost most time, and what was written then.

    Args:
        records: RECORD.

    Returns:
        MINUTES: ten at most.
    """
    minute = begin_of(MINUTE_US, "arrived_us").alias("minute_us")
    worst = (
        _reads(records)
        .groupBy(minute)
        .agg(*_losses(), fn.max("waited_us").alias("wait_max_us"))
        .where("wait_total_us + fallback_total_us > 0")
        .orderBy(fn.desc(fn.expr("wait_total_us + fallback_total_us")), "minute_us")
        .limit(_WORST)
    )
    # Negative, so that the most frequent come first.
    many = fn.struct(-fn.count("*"), *(fn.col(name) for name in ("digest", "schema", "user")))
    written = (
        records.select(RECORD.names)
        .where("kind = 'statement' and class = 'write' and outcome = 'ok'")
        .select(minute, fn.coalesce("digest", fn.lit("")).alias("digest"), "schema", "user")
        .join(fn.broadcast(worst.select("minute_us")), "minute_us")
        .groupBy("minute_us", "digest", "schema", "user")
        .agg(many.alias("one"))
        .groupBy("minute_us")
        .agg(
            fn.sum(-fn.col("one.col1")).alias("writes"),
            fn.slice(fn.sort_array(fn.collect_list("one")), 1, _WRITTEN).alias("first"),
        )
        .withColumn(
            "written",
            fn.transform(
                "first",
                lambda one: fn.struct(
                    (-one["col1"]).alias("writes"), one["digest"], one["schema"], one["user"]
                ),
            ),
        )
    )
    return (
        worst.join(fn.broadcast(written), "minute_us", "left")
        .withColumn("writes", fn.coalesce("writes", fn.lit(0).cast("long")))
        .withColumn("written", fn.coalesce("written", fn.array().cast(MINUTES["written"].dataType)))
        .orderBy(fn.desc(fn.expr("wait_total_us + fallback_total_us")), "minute_us")
        .select(MINUTES.names)
    )


def foregone(judged: DataFrame, records: DataFrame, replication: DataFrame) -> DataFrame:
    """Estimate what BEST_EFFORT would have shown, and what STRONG would have cost.

    At BEST_EFFORT a read would not have waited. One that did may have been sent before its server
    had what it waited for, so `exposed` is an upper bound; one whose wait ran out certainly was, so
    `late` is a lower one. At STRONG a read waits until the primary was asked after its arrival, and
    then, while something is being written, until its server has that.

    Args:
        judged: JUDGED.
        records: RECORD.
        replication: `schema.REPLICATION`.

    Returns:
        FOREGONE.
    """
    exposed = (fn.col("proof") == "waited") & fn.col("since_write_us").isNotNull()
    age = fn.when(exposed, fn.greatest(fn.lit(0), fn.col("since_write_us") - fn.col("wait_us")))
    shown = (
        judged.select(JUDGED.names)
        .where((fn.col("role") == "replica") & fn.col("level").isin(*PROMISES))
        .where("level != 'STRONG'")
        .withColumn("age_us", age)
        .groupBy("server")
        .agg(
            fn.count("*").alias("reads"),
            fn.count("age_us").alias("exposed"),
            *quantiles("age_us", "age_{}_us"),
        )
    )
    late = (
        _reads(records)
        .select(fn.explode(fn.split("fallbacks", ",")).alias("attempt"))
        .where(fn.col("attempt").endswith(":wait_timeout"))
        .groupBy(fn.regexp_replace("attempt", ":[^:]*$", "").alias("server"))
        .agg(fn.count("*").alias("late"))
    )
    probes = (
        records.select(RECORD.names)
        .where("kind = 'proof' and proof = 'probed' and role = 'primary'")
        .withColumn("probe_us", fn.col("ended_us") - fn.col("dispatched_us"))
        .agg(*quantiles("probe_us", "probe_{}_us"))
        .select("probe_p50_us", "probe_p99_us")
    )
    lags = replication.groupBy("server").agg(
        fn.max("end_to_end_p50_us").alias("lag_p50_us"),
        fn.max("end_to_end_p99_us").alias("lag_p99_us"),
    )
    zero = fn.lit(0).cast("long")
    return (
        shown.join(late, "server", "full")
        .join(lags, "server", "left")
        .crossJoin(fn.broadcast(probes))
        .withColumns(
            {name: fn.coalesce(name, zero) for name in ("reads", "exposed", "late")}
            | {
                f"strong_{which}_us": fn.col(f"probe_{which}_us")
                + fn.coalesce(f"lag_{which}_us", zero)
                for which in ("p50", "p99")
            }
        )
        .orderBy("server")
        .select(FOREGONE.names)
    )


def quantiles(column: str, name: str) -> list[Column]:
    """p50, p95, p99 and max of a column of microseconds; `name` has a place for which."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    # One digest for all of them: Spark makes it once, as the expression is the same.
    found = fn.percentile_approx(column, list(shares.values()))
    return [
        *(
            found[place].cast("long").alias(name.format(which))
            for place, which in enumerate(shares)
        ),
        fn.max(column).alias(name.format("max")),
    ]


def begin_of(span_us: int, column: str) -> Column:
    """The begin of the hour, minute, … that a time is in."""
    return fn.col(column) - fn.pmod(fn.col(column), fn.lit(span_us))


def _waited() -> Column:
    return (fn.col("proof") == "waited") | (fn.col("wait_us") > 0)


def _reads(records: DataFrame) -> DataFrame:
    """Reads, with what each waited and lost by fallbacks; null if it did not."""
    lost = fn.greatest(fn.lit(0), fn.col("dispatched_us") - fn.col("arrived_us"))
    return (
        records.select(RECORD.names)
        .where("kind = 'statement' and class = 'read'")
        .withColumn("waited_us", fn.when(_waited(), fn.col("wait_us")))
        .withColumn("fallback_us", fn.when(fn.col("fallbacks") != "", lost))
    )


def _losses() -> list[Column]:
    zero = fn.lit(0).cast("long")
    return [
        fn.count("*").alias("reads"),
        fn.count("waited_us").alias("waited"),
        fn.coalesce(fn.sum("waited_us"), zero).alias("wait_total_us"),
        fn.count("fallback_us").alias("fell_back"),
        fn.coalesce(fn.sum("fallback_us"), zero).alias("fallback_total_us"),
    ]
