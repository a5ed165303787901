"""What one record says by itself: whether it read, what it wrote, and in whose name."""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from spark_jobs.day import Period
from spark_jobs.promise import CLUSTER_LEVELS, OWN_LEVELS, SCOPES, SEEN_LEVELS


def facts() -> dict[str, Column]:
    """Columns of NUMBERED that follow from a record alone.

    is_read: it is a read. Whatever a replica answered counts as one, since the class is the
    proxy's conclusion. Only diagnostics are left out: they ask about the previous statement,
    wherever it ran.

    is_judged: it is a read to be judged; all are until `judged_in` says otherwise.

    named: a GTID set that holds all that the statement is known to have committed; "" if that is
    nothing. Where a session tracks ALL_GTIDS, the server tells no statement's own, but its whole
    set at the statement's end, which has them.

    is_unnamed: it may have committed what `named` does not name.

    whole: a primary's whole ``gtid_executed``, if the record holds one.

    owed_in: see there.

    moment_us: from when on it owes nothing more: its arrival, but of a read that shares an earlier
    one's snapshot the arrival of that. Without the field (older logs) it is its own.
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

    Of those beside it nothing else is looked at than what they say of others.
    """
    arrived = fn.col("arrived_us")
    return fn.col("is_read") & (arrived >= period.begin_us) & (arrived < period.end_us)


def owed_in() -> Column:
    """The kind of group in whose history a read must be seen (`groups`).

    A read in scope `application` that names none is at least one of its connection.
    """
    level, scope = fn.col("level"), fn.col("scope")
    keyed = (scope != "application") | fn.coalesce(fn.col("application") != "", fn.lit(False))
    return (
        fn.when(level.isin(*CLUSTER_LEVELS), "cluster")
        .when(level.isin(*OWN_LEVELS, *SEEN_LEVELS) & scope.isin(*SCOPES) & keyed, scope)
        .otherwise("connection")
    )
