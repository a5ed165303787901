"""Which proxies of a log stand before the same servers."""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn


def find(records: DataFrame) -> dict[str, str]:
    """Name the cluster of each proxy, by the name of one of its proxies.

    Proxies are of one cluster if they name one server. If there is a proxy that names no primary,
    nobody can tell them apart, and all are of one. This runs a job.

    Args:
        records: NUMBERED.
    """
    rows = records.select("proxy", "server_uuid", "role").distinct().orderBy("proxy").collect()
    clusters: dict[str, str] = {row.proxy: row.proxy for row in rows}
    told = {row.proxy for row in rows if row.role == "primary" and row.server_uuid is not None}
    if len(told) < len(clusters):
        return dict.fromkeys(clusters, min(clusters))
    first: dict[str, str] = {}
    for row in rows:
        if row.server_uuid is None:
            continue
        both = {clusters[first.setdefault(row.server_uuid, row.proxy)], clusters[row.proxy]}
        for proxy, cluster in clusters.items():
            if cluster in both:
                clusters[proxy] = min(both)
    return clusters


def column(clusters: Mapping[str, str]) -> Column:
    """The cluster of a record."""
    if not clusters:
        return fn.col("proxy")
    names = fn.create_map(*(fn.lit(name) for name in chain.from_iterable(clusters.items())))
    return names[fn.col("proxy")]
