"""Tells which reads rely on no more than their servers had been shown to have, by comparison.

This is the question of `evidence`, answered by windows for the usual sets. Evidence is united per
run and per incarnation of a server: of each source, the greatest n so that the server has shown
1..n. A claim whose numbers are no greater is backed. Claims with other sources, or sets that are
not written as servers write them, count as not backed here.
"""

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.gtid_columns import Bounds
from spark_jobs.running import Kind, Order, running
from spark_jobs.tables.schema import RUN

SERVER = "server_of"
"""The column that identifies an incarnation of a server, as its run counts them."""


def server() -> Column:
    """A number for the incarnation of a server; two have the same with probability 2**-64."""
    known = fn.col("incarnation").isNotNull()
    return fn.xxhash64(*RUN, "server_uuid", known, "incarnation")


def shown(records: DataFrame, bounds: Bounds) -> DataFrame:
    """What servers showed that they have.

    Args:
        records: NUMBERED and the bounds of ``proof_set`` and ``observed``.
        bounds: which bounds these are.

    Returns:
        SERVER, `at` (µs), and of each source k ``prefix_k`` and ``top_k``; `odd`.
    """
    statement = fn.col("kind") == "statement"
    ended = fn.col("ended_us")
    parts = (
        (fn.col("kind") == "proof", ended, "proof_set"),
        (
            statement & (fn.col("proof") == "waited"),
            fn.col("dispatched_us") + fn.col("wait_us"),
            "proof_set",
        ),
        (statement, ended, "observed"),
    )
    numbers = bounds.numbers
    events = [
        fn.when(
            where & (fn.col(name) != ""),
            fn.struct(
                at.alias("at"),
                fn.col(f"{name}_odd").alias("odd"),
                *(bounds.prefix(name, k).alias(f"prefix_{k}") for k in numbers),
                *(fn.col(f"{name}_top_{k}").alias(f"top_{k}") for k in numbers),
            ),
        )
        for where, at, name in parts
    ]
    event = fn.explode(fn.array_compact(fn.array(*events))).alias("event")
    return (
        records.where(fn.col("server_uuid").isNotNull())
        .select(server().alias(SERVER), event)
        .select(SERVER, "event.*")
    )


def weigh(records: DataFrame, bounds: Bounds, bucket: Column | None = None) -> DataFrame:
    """Tell of each ``known`` read of a replica whether its server had shown all that it relies on.

    Args:
        records: NUMBERED and the bounds of ``proof_set`` and ``observed``.
        bounds: which bounds these are.
        bucket: a column of `at`, which rises with it; None to go through each server in one task.

    Returns:
        RUN, `seq` and `backed`.
    """
    relies = fn.col("is_read") & (fn.col("role") == "replica") & (fn.col("proof") == "known")
    asked = records.where(relies).select(
        server().alias(SERVER),
        fn.col("dispatched_us").alias("at"),
        fn.lit(1).alias("turn"),
        # A structure, which takes no room where it is null.
        fn.struct(
            *RUN,
            "seq",
            (fn.col("server_uuid").isNotNull() & ~fn.col("proof_set_odd")).alias("is_bounded"),
            *(fn.col(f"proof_set_top_{k}").alias(f"top_{k}") for k in bounds.numbers),
        ).alias("read"),
    )
    evidence = shown(records, bounds).withColumn("turn", fn.lit(0))
    evidence = evidence.drop("odd", *(f"top_{k}" for k in bounds.numbers))
    order = Order([SERVER], ("at", "turn"), including=True, bucket=bucket)
    both = asked.unionByName(evidence, allowMissingColumns=True)
    values: dict[str, tuple[Kind, Column]] = {
        f"shown_{k}": ("max", fn.col(f"prefix_{k}")) for k in bounds.numbers
    }
    covered = [
        fn.col(f"read.top_{k}") <= fn.coalesce(f"shown_{k}", fn.lit(0)) for k in bounds.numbers
    ]
    weighed = running(both, order, values).where(fn.col("turn") == 1)
    is_backed = reduce(and_, covered, fn.col("read.is_bounded")).alias("backed")
    return weighed.select(*(f"read.{name}" for name in (*RUN, "seq")), is_backed)
