"""The few things about a log that decide which columns its audit needs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.columns import gtid_columns
from spark_jobs.promise import SEEN_LEVELS

_MOST: Final = 5000
"""Rows of facts; a log with more is left to the judge."""


@dataclass(frozen=True)
class Facts:
    """What one look at all records tells.

    Attributes:
        sources: of each cluster, by slot.
        slots: the most that a cluster has, at least 1.
        crowded: clusters with more sources than there are slots.
        wanted: the kinds of groups that reads to be judged are owed something in; whether also what
            was seen.
        writers: the servers that acknowledged or may have committed something, by cluster.
        primaries: the incarnations of servers that answered as the primary, by cluster.
    """

    sources: Mapping[str, Sequence[str]]
    slots: int
    crowded: frozenset[str]
    wanted: Mapping[str, bool]
    writers: Mapping[str, frozenset[str | None]]
    primaries: Mapping[str, frozenset[tuple[str | None, int | None]]]


def learn(records: DataFrame, clusters: Mapping[str, str]) -> Facts | None:
    """Look at all records; this runs a job.

    Args:
        records: NUMBERED without repeats.
        clusters: cluster of each proxy.

    Returns:
        None if the log is too strange for columns.
    """
    named, is_judged = fn.col("named") != "", fn.col("is_judged")
    unnamed = fn.col("is_unnamed") & fn.col("server_uuid").isNotNull()
    primary = fn.col("role").eqNullSafe("primary")
    text = fn.when(fn.col("kind") == "proof", fn.col("proof_set")).when(named, fn.col("named"))
    rows = (
        records.select(
            "proxy",
            fn.when(is_judged, fn.col("owed_in")).alias("owed_in"),
            (is_judged & fn.col("level").isin(*SEEN_LEVELS)).alias("seen"),
            (named | unnamed).alias("wrote"),
            fn.when(named | unnamed, fn.col("server_uuid")).alias("writer"),
            gtid_columns.skeleton(text).alias("skeleton"),
            fn.when(primary, fn.struct("server_uuid", "incarnation")).alias("primary"),
        )
        .distinct()
        .limit(_MOST)
        .collect()
    )
    if len(rows) == _MOST:
        return None
    sources: defaultdict[str, set[str]] = defaultdict(set)
    writers: defaultdict[str, set[str | None]] = defaultdict(set)
    primaries: defaultdict[str, set[tuple[str | None, int | None]]] = defaultdict(set)
    wanted: dict[str, bool] = {}
    for row in rows:
        cluster = clusters[row.proxy]
        if row.skeleton is not None:
            sources[cluster] |= gtid_columns.sources(row.skeleton)
        if row.wrote:
            writers[cluster].add(row.writer)
        if row.primary is not None:
            primaries[cluster].add((row.primary.server_uuid, row.primary.incarnation))
        if row.owed_in is not None:
            wanted[row.owed_in] = wanted.get(row.owed_in, False) or row.seen
    few = {name: sorted(its) for name, its in sources.items() if len(its) <= gtid_columns.MOST}
    return Facts(
        sources=few,
        slots=max((len(its) for its in few.values()), default=0) or 1,
        crowded=frozenset(sources.keys() - few.keys()),
        wanted=wanted,
        writers={name: frozenset(its) for name, its in writers.items()},
        primaries={name: frozenset(its) for name, its in primaries.items()},
    )
