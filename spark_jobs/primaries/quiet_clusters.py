"""Finds clusters in which a primary's whole set lacked acknowledged writes, by comparison."""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.gtid_columns import Bounds
from spark_jobs.running import Kind, Order, running


def lacking(
    records: DataFrame, bounds: Bounds, error_us: int, since_us: int, bucket: Column | None = None
) -> frozenset[str]:
    """Find the clusters; this runs a job. A set that is odd counts as one that lacks something.

    Args:
        records: NUMBERED with `cluster` and bounds, as `plain_reads.bounded` makes them.
        bounds: the sources of each cluster.
        error_us: by how much clocks may differ, µs.
        since_us: sets that were asked for earlier were checked by the audit of that time.
        bucket: a column of `at`, which rises with it; None to go through each cluster in one task.
    """
    primary = fn.col("role").eqNullSafe("primary")
    wrote = (fn.col("kind") == "statement") & (fn.col("named") != "") & primary
    writes = records.where(wrote).select(
        "cluster",
        (fn.col("ended_us") + error_us).alias("at"),
        fn.lit(0).alias("turn"),
        fn.col("named_odd").alias("odd"),
        *(fn.col(f"named_top_{k}").alias(f"wrote_{k}") for k in bounds.numbers),
    )
    wholes = records.where(fn.col("whole").isNotNull()).select(
        "cluster",
        fn.col("dispatched_us").alias("at"),
        fn.lit(1).alias("turn"),
        fn.col("whole_odd").alias("odd"),
        *(bounds.prefix("whole", k).alias(f"whole_{k}") for k in bounds.numbers),
    )
    order = Order(["cluster"], ("at", "turn"), including=True, bucket=bucket)
    values: dict[str, tuple[Kind, Column]] = {
        f"top_{k}": ("max", fn.col(f"wrote_{k}")) for k in bounds.numbers
    }
    found = running(writes.unionByName(wholes, allowMissingColumns=True), order, values)
    lacks = [fn.coalesce(f"top_{k}", fn.lit(0)) > fn.col(f"whole_{k}") for k in bounds.numbers]
    is_whole = (fn.col("turn") == 1) & (fn.col("at") >= since_us)
    lacking_ = fn.col("odd") | (is_whole & reduce(or_, lacks, fn.lit(False)))
    return frozenset(
        row.cluster for row in found.where(lacking_).select("cluster").distinct().collect()
    )
