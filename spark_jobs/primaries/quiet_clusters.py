"""Finds clusters in which a primary's whole set lacked acknowledged writes, by comparison."""

from pyspark.sql import DataFrame

from spark_jobs.gtid_columns import Bounds
from spark_jobs.running import Kind, Order, running
from spark_jobs.sql import any_of


def lacking(
    records: DataFrame, bounds: Bounds, error_us: int, since_us: int, bucket: str | None = None
) -> frozenset[str]:
    """Find the clusters; this runs a job. A set that is odd counts as one that lacks something.

    Args:
        records: NUMBERED with `cluster` and bounds, as `plain_reads.bounded` makes them.
        bounds: the sources of each cluster.
        error_us: by how much clocks may differ, µs.
        since_us: sets that were asked for earlier were checked by the audit of that time.
        bucket: SQL that rises with `at`; None to go through each cluster in one task.
    """
    writes = records.where("kind = 'statement' and named != '' and role = 'primary'").selectExpr(
        "cluster",
        f"ended_us + {error_us} as at",
        "0 as turn",
        "named_odd as odd",
        *(f"named_top_{k} as wrote_{k}" for k in bounds.numbers),
    )
    wholes = records.where("whole is not null").selectExpr(
        "cluster",
        "dispatched_us as at",
        "1 as turn",
        "whole_odd as odd",
        *(f"{bounds.prefix('whole', k)} as whole_{k}" for k in bounds.numbers),
    )
    order = Order(["cluster"], ("at", "turn"), including=True, bucket=bucket)
    values: dict[str, tuple[Kind, str]] = {
        f"top_{k}": ("max", f"wrote_{k}") for k in bounds.numbers
    }
    found = running(writes.unionByName(wholes, allowMissingColumns=True), order, values)
    lacks = any_of(f"coalesce(top_{k}, 0) > whole_{k}" for k in bounds.numbers)
    lacking_ = found.where(f"odd or turn = 1 and at >= {since_us} and {lacks}")
    return frozenset(row.cluster for row in lacking_.select("cluster").distinct().collect())
