"""Derives from one record alone whether it is a read, what it wrote, and who may depend on it."""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from spark_jobs.day import Period
from spark_jobs.promise import CLUSTER_LEVELS, OWN_LEVELS, SCOPES, SEEN_LEVELS
from spark_jobs.sql import all_of, among


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

    owed_in: see `_owed_in`.

    moment_us: a read must see what there was at this moment, and nothing newer: its arrival, or, if
    it shares an earlier read's snapshot, the arrival of that read. Records without `snapshot_us`
    (in older logs, too) have their own arrival.
    """
    is_read = (
        "(kind = 'statement' and class != 'diagnostic' and (class = 'read' or role <=> 'replica'))"
    )
    told = "(own_known or observed != '' and outcome = 'ok')"
    facts = {
        "is_read": is_read,
        "is_judged": is_read,
        "is_unnamed": f"kind = 'statement' and (not {told} or may_write and outcome = 'lost')",
        "named": """case when own_gtids != '' then own_gtids
            when may_write and role <=> 'primary' then observed else '' end""",
        "whole": """case when not role <=> 'primary' then null
            when kind = 'proof' and proof = 'probed' then proof_set
            when kind = 'statement' and observed != '' then observed end""",
        "owed_in": _owed_in(),
        "moment_us": "coalesce(snapshot_us, arrived_us)",
    }
    return {name: fn.expr(fact) for name, fact in facts.items()}


def judged_in(period: Period) -> Column:
    """`is_judged` where only reads that arrived in a period are judged.

    Other records count only for what they say about these reads.
    """
    return fn.expr(f"is_read and arrived_us >= {period.begin_us} and arrived_us < {period.end_us}")


def _owed_in() -> str:
    """The kind of group by which a read is judged (`groups`).

    A read in scope `application` that names no application is judged by its connection.
    """
    by_cluster = among("level", CLUSTER_LEVELS)
    by_scope = all_of((among("level", (*OWN_LEVELS, *SEEN_LEVELS)), among("scope", SCOPES)))
    keyed = "(scope != 'application' or coalesce(application != '', false))"
    return (
        f"case when {by_cluster} then 'cluster' when {by_scope} and {keyed} then scope "
        "else 'connection' end"
    )
