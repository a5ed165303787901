"""Which claims no evidence backs, by running maxima over what each server showed.

Of evidence only the beginning of a set counts here, 1..n of each source. That is less than was
shown, so a claim within it is backed. The rest is weighed by `spark_jobs.evidence`.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import clusters
from spark_jobs.columns import gtid_columns, running
from spark_jobs.columns.facts import Facts
from spark_jobs.primary_history import History
from spark_jobs.schema import RUN

_SHOWN, _CLAIMED = range(2)


def unbacked(records: DataFrame, history: History, facts: Facts) -> DataFrame:
    """Find the claims that are not plainly backed.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        facts: of the same records.

    Returns:
        RUN and `seq` of reads with proof `known` whose claim goes beyond the evidence.
    """
    slots = range(facts.slots)
    rows = gtid_columns.split(_told(records, history), "gtids", facts.sources, facts.slots)
    showed = fn.col("what") == _SHOWN
    rows = rows.select(
        *(*RUN, "seq", "server", "at_us", "what"),
        *(fn.when(~showed, fn.col(f"gtids_top{slot}")).alias(f"claim{slot}") for slot in slots),
        *(
            fn.when(showed, gtid_columns.prefix("gtids", slot)).alias(f"shown{slot}")
            for slot in slots
        ),
    )
    beyond = reduce(
        or_, (fn.col(f"claim{slot}") > fn.coalesce(f"shown{slot}", fn.lit(0)) for slot in slots)
    )
    return (
        running.before(rows, "server", [f"shown{slot}" for slot in slots])
        .where((fn.col("what") == _CLAIMED) & beyond)
        .select(*RUN, "seq")
    )


def _told(records: DataFrame, history: History) -> DataFrame:
    """What servers showed, and what was claimed of them, each at its time."""
    statement, proof = fn.col("kind") == "statement", fn.col("proof")
    ended, dispatched = fn.col("ended_us"), fn.col("dispatched_us")
    claims = fn.col("is_read") & fn.col("role").eqNullSafe("replica") & (proof == "known")

    def telling(what: int, at: Column, gtids: Column) -> Column:
        return fn.struct(fn.lit(what).alias("what"), at.alias("at_us"), gtids.alias("gtids"))

    proof_set, observed = fn.col("proof_set"), fn.col("observed")
    tellings = (
        fn.when(fn.col("kind") == "proof", telling(_SHOWN, ended, proof_set)),
        fn.when(
            statement & (proof == "waited"),
            telling(_SHOWN, dispatched + fn.col("wait_us"), proof_set),
        ),
        fn.when(statement & (observed != ""), telling(_SHOWN, ended, observed)),
        fn.when(claims, telling(_CLAIMED, dispatched, proof_set)),
    )
    return (
        records.withColumn("cluster", clusters.column(history.clusters))
        .withColumn("told", fn.explode(fn.array_compact(fn.array(*tellings))))
        .select(
            *(*RUN, "seq", "cluster"),
            # Of a server without a name nobody shows anything.
            fn.xxhash64(*RUN, "server_uuid", "incarnation").alias("server"),
            fn.when(
                fn.col("server_uuid").isNotNull() | (fn.col("told.what") == _CLAIMED),
                fn.col("told"),
            ).alias("told"),
        )
        .where("told is not null")
        .select(*RUN, "seq", "cluster", "server", "told.*")
    )
