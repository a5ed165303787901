"""Compares a routing log with binary logs: evidence that never passed through the proxy.

**Unreported**: transactions that were committed while the log was written, and that no record
names. Somebody wrote past the proxy, or a server did not tell the GTID.

**Contradicted**: a WAIT claimed that a replica had transactions which, by the replica's own binary
log, it applied later. A server stamps a transaction before it commits it, so a true WAIT never ends
before the stamp. But the WAIT's end and the stamp are times of different clocks. The replica's
clock is ahead of the proxy's by at most the time from when the proxy sent a transaction to the
primary until the replica's stamp of it. The smallest such difference, or what the operator vouches
for if that is less, is subtracted from the stamps. So a lag that never changes cannot be told from
a clock that is ahead: unless the operator vouches for the clocks, a false WAIT is found only if
the replica was further behind than usual.

The name of its folder says which server a binary log is of: the ``server_uuid``, or ``HOST:PORT``
as the proxy names the server.
"""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.tables.schema import RUN

UNREPORTED: Final = ("gtid", "original_us", "file", "position")
CONTRADICTED: Final = (
    *(*RUN, "seq", "session", "server", "claimed_us", "gtid", "applied_us", "stamp_us"),
    *("file", "position", "claims"),
)

_INTERVAL: Final = StructType(
    [
        StructField("source_uuid", StringType()),
        StructField("tag", StringType()),
        StructField("first", LongType()),
        StructField("last", LongType()),
    ]
)
_SOURCE: Final = ("source_uuid", "tag")
_MINUTE_US: Final = 60_000_000
_MARGIN_US: Final = 1_000_000
"""Allowance for a replica's clock that is behind, when the proxy's last contact with the
incarnation is compared with a stamp."""


def summary(transactions: DataFrame) -> DataFrame:
    """Count ``transactions``, ``files`` and ``faults``, in one row."""
    fault = fn.col("fault").isNotNull()
    return transactions.agg(
        fn.count(fn.when(~fault, 1)).alias("transactions"),
        fn.count_distinct("file").alias("files"),
        fn.count(fn.when(fault, 1)).alias("faults"),
    )


def faults(transactions: DataFrame) -> DataFrame:
    """``file``, ``position`` and ``fault`` of each file that could not be read to its end."""
    return transactions.where("fault is not null").select("file", "position", "fault")


def unreported(records: DataFrame, transactions: DataFrame, clock_error_us: int) -> DataFrame:
    """Find the transactions that no record names, each once.

    Args:
        records: NUMBERED.
        transactions: `binlog_source.TRANSACTION`.
        clock_error_us: the log's time is shortened by this at both ends, µs.

    Returns:
        UNREPORTED.
    """
    during = records.agg(
        (fn.min("arrived_us") + clock_error_us).alias("from_us"),
        (fn.max("ended_us") - clock_error_us).alias("to_us"),
    )
    written = (
        transactions.where("gtid is not null")
        .join(
            fn.broadcast(during), fn.col("original_us").between(fn.col("from_us"), fn.col("to_us"))
        )
        .groupBy(*_SOURCE, "number")
        .agg(fn.min_by(fn.struct(*UNREPORTED), "immediate_us").alias("seen"))
    )
    names = _exploded(records.where("named != ''"), "named")
    both = written.select(
        *_SOURCE, "number", fn.lit(None).cast("long").alias("last"), "seen"
    ).unionByName(
        names.select(*_SOURCE, fn.col("first").alias("number"), "last"), allowMissingColumns=True
    )
    # An interval sorts before a transaction with the number that it begins with.
    before = Window.partitionBy(*_SOURCE).orderBy("number", fn.col("last").desc_nulls_last())
    covered = fn.max("last").over(before)
    return (
        both.withColumn("covered", covered)
        .where(
            fn.col("seen").isNotNull()
            & ~fn.coalesce(fn.col("covered") >= fn.col("number"), fn.lit(False))
        )
        .select("seen.*")
    )


def contradicted(
    records: DataFrame,
    transactions: DataFrame,
    clock_error_us: int,
    vouched_us: int | None = None,
) -> DataFrame:
    """Find WAITs that claimed transactions which were applied later; of each, the latest one.

    Only events within one incarnation of a server are compared: the proxy must have met the same
    incarnation after the late transaction was applied.

    Args:
        records: NUMBERED.
        transactions: `binlog_source.TRANSACTION`.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        vouched_us: how far the replicas' clocks are ahead of the proxies' at most, as the operator
            vouches; None to take what the logs themselves show.

    Returns:
        CONTRADICTED.
    """
    servers = (
        records.where("server is not null and role = 'replica'")
        .select("server", fn.coalesce("server_uuid", fn.lit("")).alias("uuid"))
        .distinct()
    )
    folder = fn.element_at(fn.split("file", "/"), -2)
    stamped = (
        transactions.where("gtid is not null and immediate_us is not null")
        .withColumn("folder", folder)
        .join(
            fn.broadcast(servers),
            (fn.col("folder") == fn.col("uuid")) | (fn.col("folder") == fn.col("server")),
        )
        .select("server", *_SOURCE, "number", "gtid", "immediate_us", "file", "position")
    )
    late = _in_the_proxys_time(stamped, _sent(records), vouched_us)
    answers = records.where("server is not null and role = 'replica'")
    life = (*RUN, "server", "incarnation")
    met = answers.groupBy(*life).agg(fn.max("ended_us").alias("until_us"))
    waits = (
        answers.where("proof = 'waited' and proof_set != ''")
        .join(fn.broadcast(met), list(life))
        .withColumn(
            "claimed_us",
            fn.when(fn.col("kind") == "proof", fn.col("ended_us")).otherwise(
                fn.col("dispatched_us") + fn.col("wait_us")
            ),
        )
    )
    claims = _exploded(
        waits, "proof_set", *RUN, "seq", "session", "server", "claimed_us", "until_us"
    )
    return (
        _possible(claims, late)
        .join(late, ["server", *_SOURCE])
        .where("number between first and last")
        .where(fn.col("applied_us") > fn.col("claimed_us") + clock_error_us)
        .where(fn.col("immediate_us") <= fn.col("until_us") - _MARGIN_US)
        .groupBy(*RUN, "seq", "session", "server", "claimed_us")
        .agg(
            fn.max_by(
                fn.struct(
                    "gtid",
                    "applied_us",
                    fn.col("immediate_us").alias("stamp_us"),
                    "file",
                    "position",
                ),
                "applied_us",
            ).alias("worst"),
            fn.count(fn.lit(1)).alias("claims"),
        )
        .select(*RUN, "seq", "session", "server", "claimed_us", "worst.*", "claims")
        .select(*CONTRADICTED)
    )


def _sent(records: DataFrame) -> DataFrame:
    """When the proxy sent each write to the primary, if its record names exactly one GTID."""
    own = records.where("kind = 'statement' and own_gtids != '' and role = 'primary'")
    return (
        _exploded(own, "own_gtids", "dispatched_us")
        .where("first = last")
        .groupBy(*_SOURCE, fn.col("first").alias("number"))
        .agg(fn.min("dispatched_us").alias("sent_us"))
    )


def _in_the_proxys_time(stamped: DataFrame, sent: DataFrame, vouched_us: int | None) -> DataFrame:
    """Add `applied_us`: by the proxy's clock, a transaction cannot have been applied earlier.

    Rows for which that is unknown are dropped.
    """
    minute = fn.floor(fn.col("immediate_us") / _MINUTE_US).alias("minute")
    ahead = (
        stamped.join(sent, [*_SOURCE, "number"])
        .groupBy("server", minute)
        .agg(fn.min(fn.col("immediate_us") - fn.col("sent_us")).alias("ahead_us"))
        # A clock that was set back within a minute was as far ahead as before for part of it.
        .select(
            "server",
            fn.explode(fn.expr("sequence(minute - 1, minute + 1)")).alias("minute"),
            "ahead_us",
        )
        .groupBy("server", "minute")
        .agg(fn.max("ahead_us").alias("ahead_us"))
    )
    most: Column = fn.col("ahead_us")
    if vouched_us is not None:
        most = fn.least(most, fn.lit(vouched_us))
    return (
        stamped.withColumn("minute", minute)
        .join(ahead, ["server", "minute"], "inner" if vouched_us is None else "left")
        .withColumn("applied_us", fn.col("immediate_us") - most)
        .drop("minute", "ahead_us")
    )


def _possible(claims: DataFrame, late: DataFrame) -> DataFrame:
    """A first filter: claims with any transaction, up to their end, that was applied later.

    Hardly any claims pass it, so the join behind it is small.
    """
    both = claims.withColumn("number", fn.col("last")).unionByName(
        late.select("server", *_SOURCE, "number", "applied_us"), allowMissingColumns=True
    )
    before = Window.partitionBy("server", *_SOURCE).orderBy(
        "number", fn.col("applied_us").desc_nulls_last()
    )
    return (
        both.withColumn("newest_us", fn.max("applied_us").over(before))
        .where("seq is not null and newest_us > claimed_us")
        .drop("newest_us", "applied_us", "number")
    )


def _exploded(records: DataFrame, column: str, *others: str) -> DataFrame:
    """One row per closed interval of a set: ``source_uuid``, ``tag``, ``first``, ``last``."""
    # Without Arrow, which would need pandas.
    intervals = fn.udf(_intervals, ArrayType(_INTERVAL), useArrow=False)
    return records.select(*others, fn.explode(intervals(column)).alias("interval")).select(
        *others, "interval.*"
    )


def _intervals(text: str) -> list[tuple[str, str, int, int]]:
    return list(_closed(text))


def _closed(text: str) -> Iterator[tuple[str, str, int, int]]:
    try:
        for tsid, start, end in parse(text):
            uuid, _, tag = tsid.partition(":")
            yield uuid, tag, start, end - 1
    except MalformedGtidSetError:
        return  # it names nothing; verdicts have a finding of their own for it
