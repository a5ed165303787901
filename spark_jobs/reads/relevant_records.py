"""Finds the records that decide the verdicts on some reads: those of the reads' groups."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import SEEN_LEVELS
from spark_jobs.sql import among, any_of
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
    sessions = reads.selectExpr(*SESSION, "true as in_session").distinct()
    marked = marked.join(fn.broadcast(sessions), [*SESSION], "left")
    counts, claims = ["in_session"], ["in_session"]
    tells = "(is_unnamed or named != '' or whole is not null)"
    for kind in kinds & _KEYS.keys():
        # Whether some read of the group remembers what was seen; null in other groups.
        deep = fn.expr(f"bool_or({among('level', SEEN_LEVELS)}) as of_{kind}")
        whose = reads.where(f"owed_in = '{kind}'").groupBy(*_KEYS[kind]).agg(deep)
        marked = marked.join(fn.broadcast(whose), [*_KEYS[kind]], "left")
        counts.append(f"of_{kind} is not null and (of_{kind} or {tells})")
        claims.append(f"of_{kind}")
    found = marked.where(any_of(f"coalesce({flag}, false)" for flag in counts))
    claimed = any_of(f"coalesce({flag}, false)" for flag in claims)
    backed = found.where(f"is_read and {claimed}")
    return RelevantRecords(found.selectExpr(*NUMBERED.names), backed.selectExpr(*NUMBERED.names))
