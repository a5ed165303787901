"""Sums up how long reads waited, when, and what other levels would have shown or cost."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.day import HOUR_US
from spark_jobs.promise import PROMISES
from spark_jobs.tables.report_schema import HOURS, WAITS, WRITTEN
from spark_jobs.tables.schema import LAG
from spark_jobs.traffic.quantiles import begin_of, quantiles
from spark_jobs.traffic.routing_mix import attempts

MINUTE_US: Final = 60_000_000

_WORST: Final = 10
_WRITTEN: Final = 3

Rows = Sequence[Mapping[str, object]]


def waits(statements: DataFrame) -> DataFrame:
    """Sum up by level how long reads waited, and how much time fallbacks to other servers cost.

    Args:
        statements: RECORD.

    Returns:
        WAITS: the level that cost most first.
    """
    return (
        _costs(statements)
        .groupBy("level")
        .agg(
            *_sums(),
            *quantiles("waited_us", "wait_{}_us"),
            *quantiles("fallback_us", "fallback_{}_us"),
        )
        .orderBy(fn.desc("wait_total_us"), "level")
        .select(WAITS.names)
    )


def minutes(statements: DataFrame) -> DataFrame:
    """Find the minutes in which reads lost most time.

    Args:
        statements: RECORD.

    Returns:
        MINUTES without `writes` and `written`: ten rows at most, the worst first.
    """
    lost = fn.col("wait_total_us") + fn.col("fallback_total_us")
    return (
        _costs(statements)
        .groupBy(begin_of(MINUTE_US, "arrived_us").alias("minute_us"))
        .agg(*_sums(), fn.max("waited_us").alias("wait_max_us"))
        .where(lost > 0)
        .orderBy(lost.desc(), "minute_us")
        .limit(_WORST)
    )


def written(statements: DataFrame, worst: Collection[int]) -> DataFrame:
    """Find out what was written in some minutes.

    Args:
        statements: RECORD.
        worst: the begins of the minutes, µs.

    Returns:
        ``minute_us``, ``writes`` (how many statements wrote) and ``written`` (`MINUTES`).
    """
    minute = begin_of(MINUTE_US, "arrived_us")
    names = ("digest", "schema", "user")
    by_rank = Window.partitionBy("minute_us").orderBy(fn.desc("writes"), *names)
    statement = fn.when(fn.col("rank") <= _WRITTEN, fn.struct("rank", *WRITTEN.names))
    ranked = fn.array_sort(fn.collect_list(statement))
    return (
        statements.where((fn.col("class") == "write") & (fn.col("outcome") == "ok"))
        .withColumn("minute_us", minute)
        .where(fn.col("minute_us").isin(*worst))
        .groupBy("minute_us", fn.coalesce("digest", fn.lit("")).alias("digest"), "schema", "user")
        .agg(fn.count("*").alias("writes"))
        .withColumn("rank", fn.row_number().over(by_rank))
        .groupBy("minute_us")
        .agg(fn.sum("writes").alias("writes"), ranked.alias("ranked"))
        .select(
            "minute_us",
            "writes",
            fn.transform("ranked", lambda row: fn.struct(*(row[name] for name in WRITTEN.names)))
            .cast(f"array<{WRITTEN.simpleString()}>")
            .alias("written"),
        )
    )


def with_written(worst: Rows, found: Rows) -> list[dict[str, object]]:
    """Add to minutes what was written in them.

    Args:
        worst: the rows of `minutes`.
        found: the rows of `written`.

    Returns:
        MINUTES.
    """
    nothing: dict[str, object] = {"writes": 0, "written": []}
    by_minute = {row["minute_us"]: row for row in found}
    return [{**row, **nothing, **by_minute.get(row["minute_us"], {})} for row in worst]


def probes(records: DataFrame) -> DataFrame:
    """Find out how long questions to the primary took.

    Args:
        records: RECORD.

    Returns:
        One row: ``p50``, ``p95``, ``p99`` and ``max``, µs; null if there was no question.
    """
    lasted = fn.col("ended_us") - fn.col("dispatched_us")
    asked = records.where("kind = 'proof' and proof = 'probed' and role = 'primary'")
    return asked.agg(*quantiles(lasted, "{}"))


def late(statements: DataFrame) -> DataFrame:
    """Count the reads that left a server because their WAIT ran out.

    Args:
        statements: RECORD.

    Returns:
        ``server`` and ``late``.
    """
    ran_out = (fn.col("reason") == "wait_timeout") & (fn.col("class") == "read")
    return attempts(statements).where(ran_out).groupBy("server").agg(fn.count("*").alias("late"))


def lag(reads: DataFrame) -> DataFrame:
    """Sum up the waits by server and proof.

    ``since_write`` runs from the newest acknowledged write of the read's group to the WAIT's
    answer, so it is an upper bound of the replication lag that the read saw. A wait that ran out is
    counted for the server that answered in the end.

    Args:
        reads: JUDGED.

    Returns:
        LAG, of the servers whose reads waited.
    """
    return (
        reads.where(_waited())
        .withColumn("server", fn.coalesce("server", fn.lit("none")))
        .groupBy("server", "proof")
        .agg(
            fn.count("*").alias("reads"),
            *quantiles("wait_us", "wait_{}_us"),
            fn.count("since_write_us").alias("after_write"),
            *quantiles("since_write_us", "since_write_{}_us"),
        )
        .orderBy("server", "proof")
        .select(LAG.names)
    )


def hours(reads: DataFrame) -> DataFrame:
    """Sum up the waits by hour and server.

    Args:
        reads: JUDGED.

    Returns:
        HOURS.
    """
    waited_us = fn.when(_waited(), fn.col("wait_us"))
    return (
        reads.where("server is not null")
        .withColumn("waited_us", waited_us)
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


def exposed(reads: DataFrame) -> DataFrame:
    """Find by replica how many reads may have missed a write at BEST_EFFORT, and how old it was.

    Args:
        reads: JUDGED.

    Returns:
        The columns ``server`` to ``age_max_us`` of FOREGONE.
    """
    may_miss = (fn.col("proof") == "waited") & fn.col("since_write_us").isNotNull()
    age = fn.greatest(fn.lit(0), fn.col("since_write_us") - fn.col("wait_us"))
    promised = sorted(set(PROMISES) - {"STRONG"})
    return (
        reads.where((fn.col("role") == "replica") & fn.col("level").isin(*promised))
        .withColumn("age_us", fn.when(may_miss, age))
        .groupBy("server")
        .agg(
            fn.count("*").alias("reads"),
            fn.count("age_us").alias("exposed"),
            *quantiles("age_us", "age_{}_us"),
        )
    )


def foregone(shown: Rows, ran_out: Rows, probe: Mapping[str, object], lags: Rows) -> Rows:
    """Estimate what BEST_EFFORT would have shown, and what STRONG would have cost.

    At BEST_EFFORT a read would not have waited. When a read that waited was sent, its server may
    have lacked what it waited for, so `exposed` is an upper bound of the stale reads. When the wait
    ran out, the server certainly lacked it, so `late` is a lower bound. At STRONG a read waits
    until the primary has been asked after the read's arrival, and then, while something is being
    written, until its server has that.

    Args:
        shown: the rows of `exposed`.
        ran_out: the rows of `late`.
        probe: the row of `probes`.
        lags: rows of `schema.REPLICATION`.

    Returns:
        FOREGONE.
    """
    by_server = {str(row["server"]): row for row in shown}
    too_late = {str(row["server"]): row["late"] for row in ran_out}
    nothing: dict[str, object] = {"reads": 0, "exposed": 0}
    nothing |= dict.fromkeys(f"age_{which}_us" for which in ("p50", "p95", "p99", "max"))
    rows: list[Mapping[str, object]] = []
    for server in sorted({*by_server, *too_late}):
        row = {**nothing, **by_server.get(server, {}), "server": server}
        row["late"] = too_late.get(server, 0)
        for which in ("p50", "p99"):
            took, lagged = probe[which], _greatest(lags, server, which)
            row[f"probe_{which}_us"] = took
            row[f"lag_{which}_us"] = lagged
            row[f"strong_{which}_us"] = took + (lagged or 0) if isinstance(took, int) else None
        rows.append(row)
    return rows


def _greatest(lags: Rows, server: str, which: str) -> int | None:
    found = [row[f"end_to_end_{which}_us"] for row in lags if row["server"] == server]
    return max((lag for lag in found if isinstance(lag, int)), default=None)


def _costs(statements: DataFrame) -> DataFrame:
    """Reads, with the time that each waited and lost by fallbacks; null where it did not."""
    lost = fn.greatest(fn.lit(0), fn.col("dispatched_us") - fn.col("arrived_us"))
    return statements.where("class = 'read'").select(
        "level",
        "arrived_us",
        fn.when(_waited(), fn.col("wait_us")).alias("waited_us"),
        fn.when(fn.col("fallbacks") != "", lost).alias("fallback_us"),
    )


def _sums() -> list[Column]:
    zero = fn.lit(0)
    return [
        fn.count("*").alias("reads"),
        fn.count("waited_us").alias("waited"),
        fn.coalesce(fn.sum("waited_us"), zero).alias("wait_total_us"),
        fn.count("fallback_us").alias("fell_back"),
        fn.coalesce(fn.sum("fallback_us"), zero).alias("fallback_total_us"),
    ]


def _waited() -> Column:
    return (fn.col("proof") == "waited") | (fn.col("wait_us") > 0)
