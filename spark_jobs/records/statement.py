"""Derives from one record alone whether it is a read, what it wrote, and who may depend on it."""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from spark_jobs.day import Period
from spark_jobs.promise import CLUSTER_LEVELS, OWN_LEVELS, SCOPES, SEEN_LEVELS


def facts() -> dict[str, Column]:
    """Columns of NUMBERED that follow from a record alone.

    is_read: the record is a read. Whatever a replica answered counts as a read, since the class is
    the proxy's conclusion. Only diagnostics are left out: they ask about the previous statement,
    wherever it ran.

    is_judged: the read is to be judged; true for all reads until `judged_in` narrows it.

    named: a GTID set that holds all that the statement is known to have committed; "" if that is
    nothing. Where a session tracks ALL_GTIDS, the server does not report a statement's own GTIDs,
    but its whole set at the statement's end, which includes them.

    is_unnamed: the statement may have committed GTIDs that `named` does not hold.

    whole: a primary's whole ``gtid_executed``, if the record holds one.

    owed_in: see `owed_in`.

    moment_us: a read must see what there was at this moment, and nothing newer: its arrival, or, if
    it shares an earlier read's snapshot, the arrival of that read. Records without `snapshot_us`
    (in older logs, too) have their own arrival.
    """
    kind = fn.col("kind")
    own, observed = fn.col("own_gtids"), fn.col("observed")
    statement, may_write, outcome = kind == "statement", fn.col("may_write"), fn.col("outcome")
    primary, replica = (fn.col("role").eqNullSafe(role) for role in ("primary", "replica"))

    told = fn.col("own_known") | ((observed != "") & (outcome == "ok"))
    probe = (kind == "proof") & (fn.col("proof") == "probed")
    is_read = (
        statement & (fn.col("class") != "diagnostic") & ((fn.col("class") == "read") | replica)
    )
    return {
        "is_read": is_read,
        "is_judged": is_read,
        "is_unnamed": statement & (~told | (may_write & (outcome == "lost"))),
        "named": fn.when(own != "", own).when(may_write & primary, observed).otherwise(""),
        "whole": fn.when(primary & probe, fn.col("proof_set")).when(
            primary & statement & (observed != ""), observed
        ),
        "owed_in": owed_in(),
        "moment_us": fn.coalesce("snapshot_us", "arrived_us"),
    }


def judged_in(period: Period) -> Column:
    """`is_judged` where only reads that arrived in a period are judged.

    Other records count only for what they say about these reads.
    """
    arrived = fn.col("arrived_us")
    return fn.col("is_read") & (arrived >= period.begin_us) & (arrived < period.end_us)


def owed_in() -> Column:
    """The kind of group by which a read is judged (`groups`).

    A read in scope `application` that names no application is judged by its connection.
    """
    level, scope = fn.col("level"), fn.col("scope")
    keyed = (scope != "application") | fn.coalesce(fn.col("application") != "", fn.lit(False))
    return (
        fn.when(level.isin(*CLUSTER_LEVELS), "cluster")
        .when(level.isin(*OWN_LEVELS, *SEEN_LEVELS) & scope.isin(*SCOPES) & keyed, scope)
        .otherwise("connection")
    )
