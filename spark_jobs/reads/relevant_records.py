"""Finds the records that decide the verdicts on some reads: those of the reads' groups."""

from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import SEEN_LEVELS
from spark_jobs.tables.schema import NUMBERED, SESSION

_KEYS = {
    "user": ("proxy", "user"),
    "application": ("proxy", "application"),
    "proxy": ("proxy",),
    "cluster": ("cluster",),
}
"""The columns that identify a wider group; a read's session is looked at in any case."""


class RelevantRecords(NamedTuple):
    """The records that concern some reads.

    Attributes:
        records: NUMBERED of all that count in the groups.
        claims: NUMBERED of those reads among them whose claims must be backed.
    """

    records: DataFrame
    claims: DataFrame


def find(records: DataFrame, reads: DataFrame, history: History) -> RelevantRecords:
    """Find the records that concern some reads; this runs a job.

    Args:
        records: NUMBERED without repeats.
        reads: `plain_reads.LEFT`, few compared with the records.
        history: the primary's, of the same records.
    """
    kinds = {row.owed_in for row in reads.select("owed_in").distinct().collect()}
    marked = records.withColumn("cluster", clusters.column(history.clusters))
    sessions = reads.select(*SESSION).distinct().withColumn("in_session", fn.lit(True))
    marked = marked.join(fn.broadcast(sessions), [*SESSION], "left")
    deep = fn.bool_or(fn.col("level").isin(*SEEN_LEVELS))
    counts, claims = [fn.col("in_session")], [fn.col("in_session")]
    tells = fn.col("is_unnamed") | (fn.col("named") != "") | fn.col("whole").isNotNull()
    for kind in kinds & _KEYS.keys():
        # Whether some read of the group remembers what was seen; null in other groups.
        whose = reads.where(fn.col("owed_in") == kind).groupBy(*_KEYS[kind])
        marked = marked.join(
            fn.broadcast(whose.agg(deep.alias(f"of_{kind}"))), [*_KEYS[kind]], "left"
        )
        remembers = fn.col(f"of_{kind}")
        counts.append(remembers.isNotNull() & (remembers | tells))
        claims.append(remembers)
    no = fn.lit(False)
    found = marked.where(reduce(or_, (fn.coalesce(flag, no) for flag in counts)))
    backed = found.where(
        fn.col("is_read") & reduce(or_, (fn.coalesce(flag, no) for flag in claims))
    )
    return RelevantRecords(found.select(NUMBERED.names), backed.select(NUMBERED.names))
