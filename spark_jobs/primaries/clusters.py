"""Finds out which proxies of a log serve the same cluster."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import sql


def find(records: DataFrame) -> tuple[dict[str, str], frozenset[str]]:
    """`group` the proxies of a log. This runs a job.

    Args:
        records: NUMBERED.
    """
    rows = records.select("proxy", "server_uuid", "role").distinct().collect()
    return group((row.proxy, row.server_uuid, row.role) for row in rows)


def group(
    named: Iterable[tuple[str, str | None, str | None]],
) -> tuple[dict[str, str], frozenset[str]]:
    """Find the cluster of each proxy. A cluster is called by the name of one of its proxies.

    Proxies belong to one cluster if they name the same server.

    Args:
        named: proxy, server_uuid and role, as records name them.

    Returns:
        The cluster of each proxy, and the clusters that name no primary while others do: their
        proxies may belong to any of the clusters.
    """
    rows = sorted(named, key=lambda row: row[0])
    clusters = {proxy: proxy for proxy, _, _ in rows}
    first: dict[str, str] = {}
    for proxy, uuid, _ in rows:
        if uuid is None:
            continue
        both = {clusters[first.setdefault(uuid, proxy)], clusters[proxy]}
        for other, cluster in clusters.items():
            if cluster in both:
                clusters[other] = min(both)
    told = {clusters[proxy] for proxy, uuid, role in rows if role == "primary" and uuid is not None}
    return clusters, frozenset(clusters.values()) - told if told else frozenset()


def column(clusters: Mapping[str, str]) -> Column:
    """The cluster of a record."""
    return fn.expr(of_record(clusters))


def of_record(clusters: Mapping[str, str]) -> str:
    """SQL for the cluster of a record."""
    if not clusters:
        return "proxy"
    names = ", ".join(map(sql.literal, chain.from_iterable(clusters.items())))
    return f"map({names})[proxy]"


def concerned(clusters: Mapping[str, str], unplaced: Collection[str], doubtful: str) -> str:
    """SQL for the clusters that a record may concern: its own; all, if it is doubtful and unplaced.

    Args:
        clusters: the cluster of each proxy.
        unplaced: clusters without a primary, which may be part of any other.
        doubtful: whether the record leaves open what was committed.
    """
    own = of_record(clusters)
    every = ", ".join(map(sql.literal, sorted(set(clusters.values()))))
    return f"if({sql.among(own, unplaced)} and {doubtful}, array({every}), array({own}))"
