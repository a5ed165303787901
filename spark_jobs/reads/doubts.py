"""What was left open before reads, and what bounds it, as columns that reads are compared with.

A statement may have committed GTIDs that no record names, and records may be missing. The next
whole set of the primary bounds them: a tide mark (`primary_history`). A server has caught up once
it was asked after the mark and has all that the mark holds.
"""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries.primary_history import History
from spark_jobs.records.survey import NEVER
from spark_jobs.sql import all_of
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import RUN

_STEPS: Final = 32
"""How many steps of a history of gaps are compared at most."""

_STEP: Final = (
    StructType()
    .add("whose", StringType())
    .add("name", StringType())
    .add("cluster", StringType())
    .add("from_us", LongType())
    .add("until_us", LongType())
    .add("unbounded", BooleanType())
    .add("mark", LongType())
)
"""From when to when the newest mark of some gaps is this one, or one of them is unbounded."""


def _marks(history: History, bounds: Bounds) -> DataFrame:
    """The marks of each cluster: all up to each one, as `asked_us` and ``mark_top_k``."""
    upto = "over (partition by cluster order by mark rows unbounded preceding)"
    rows = history.past.where("what = 'mark'").select("cluster", "mark", "at_us", "gtids")
    return bounds.of(rows, "gtids").selectExpr(
        "cluster",
        "mark",
        f"max(if(gtids_odd, {NEVER}, at_us)) {upto} as asked_us",
        *(f"max(gtids_top_{k}) {upto} as mark_top_{k}" for k in bounds.numbers),
    )


def opened(records: DataFrame, history: History, bounds: Bounds) -> DataFrame:
    """Add what bounds that which each record leaves open.

    Args:
        records: NUMBERED and `cluster`.
        history: the history of the primaries.
        bounds: the sources of each cluster.

    Returns:
        The records with `asked_us` (when the mark was asked for; NEVER if there is none; null where
        nothing was left open) and ``mark_top_k``.
    """
    tops = (f"max(mark_top_{k}) as mark_top_{k}" for k in bounds.numbers)
    bound = (
        history.past.where("what = 'bound'")
        .select("cluster", *RUN, "seq", "mark")
        .join(_marks(history, bounds), ["cluster", "mark"], "left")
        .groupBy("cluster", *RUN, "seq")
        .agg(fn.expr("max(asked_us) as asked_us"), *map(fn.expr, tops))
    )
    joined = records.join(fn.broadcast(bound), ["cluster", *RUN, "seq"], "left")
    asked = f"if(is_unnamed or hole, coalesce(asked_us, {NEVER}), null)"
    return joined.withColumn("asked_us", fn.expr(asked))


def _steps(history: History) -> Iterator[dict[str, object]]:
    for (whose, name), gaps in history.gaps.items():
        steps = gaps.steps(_STEPS)
        ends = [*(from_us for from_us, *_ in steps[1:]), NEVER]
        cluster = history.clusters.get(name) if whose == "proxy" else name
        for (from_us, unbounded, mark), until_us in zip(steps, ends, strict=True):
            values = (whose, name, cluster, from_us, until_us, unbounded, mark or None)
            yield dict(zip(_STEP.names, values, strict=True))


def gaps(reads: DataFrame, history: History, bounds: Bounds) -> DataFrame:
    """Add what bounds the records that are missing before each read's moment.

    Args:
        reads: `moment` (µs), `owed_in`, `proxy` and `cluster`.
        history: the history of the primaries.
        bounds: the sources of each cluster.

    Returns:
        The reads with `gap_asked_us` (NEVER if nothing bounds them; null if nothing is missing)
        and ``gap_top_k``. A session's own numbers show what it lacks.
    """
    steps = small_table.local(reads.sparkSession, list(_steps(history)), _STEP)
    endless = "unbounded or mark is not null and asked_us is null"
    table = steps.join(_marks(history, bounds), ["cluster", "mark"], "left").selectExpr(
        "whose",
        "name",
        "from_us",
        "until_us",
        f"if({endless}, {NEVER}, asked_us) as gap_asked_us",
        *(f"mark_top_{k} as gap_top_{k}" for k in bounds.numbers),
    )
    named = reads.selectExpr(
        "*",
        """case owed_in when 'cluster' then 'cluster' when 'connection' then null
            else 'proxy' end as read_whose""",
        "if(owed_in = 'cluster', cluster, proxy) as read_name",
    )
    same = "whose = read_whose and name = read_name and from_us <= moment and moment < until_us"
    joined = named.join(fn.broadcast(table), fn.expr(same), "left")
    return joined.drop("whose", "name", "from_us", "until_us", "read_whose", "read_name")


HAS_CLAIM: Final = "(proof in ('known', 'waited') and proof_set is not null)"
"""SQL: whether a read claims that its server has ``proof_set``."""


def has_reached(asked: str, top: str, bounds: Bounds) -> str:
    """SQL: whether a read's server had reached a mark, or there is none.

    Args:
        asked: the column that tells when the mark was asked for.
        top: the prefix of the columns of its bounds.
        bounds: the sources of each cluster.
    """
    answered = "dispatched_us + if(proof = 'waited', wait_us, 0)"
    covered = (
        f"if({HAS_CLAIM}, {bounds.prefix('proof_set', k)}, 0) >= coalesce({top}_{k}, 0)"
        for k in bounds.numbers
    )
    reached = ("server_uuid is not null", f"{asked} <= {answered}", *covered)
    return f"({asked} is null or {all_of(reached)})"
