"""What servers showed, by running maxima over it: which claims that does not back, or belies.

Of evidence only the beginning of a set counts here, 1..n of each source. That is less than was
shown, so a claim within it is backed. The rest is weighed by `spark_jobs.evidence`, and, where a
server may have lost what it claimed, by `run_procedure`.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import clusters
from spark_jobs.columns import gtid_columns, running
from spark_jobs.columns.facts import Facts
from spark_jobs.schema import RUN

SHOWN, CLAIMED, ASKED = range(3)
"""A server showed a set; a read relied on one; a replica was asked for all that it has."""


def weighed(records: DataFrame, known: Mapping[str, str], facts: Facts) -> DataFrame:
    """Find what does not plainly agree with what was shown before.

    Args:
        records: NUMBERED without repeats.
        known: cluster of each proxy.
        facts: of the same records.

    Returns:
        RUN, `seq`, `server` and `what`. CLAIMED: a read to be judged, with proof `known`, whose
        claim goes beyond the evidence. ASKED: an answer of a replica that may lack what it had
        shown.
    """
    slots = range(facts.slots)
    rows = gtid_columns.split(_told(records, known), "gtids", facts.sources, facts.slots)
    what, odd = fn.col("what"), fn.col("gtids_odd")
    showed, asked = what == SHOWN, what == ASKED
    tops = [fn.col(f"gtids_top{slot}") for slot in slots]
    begins = [gtid_columns.prefix("gtids", slot) for slot in slots]
    rows = rows.select(
        *(*RUN, "seq", "server", "at_us", "what"),
        (asked & (odd | ~fn.col("named"))).alias("odd"),
        fn.when(showed & odd, 1).alias("rough"),
        *(
            column
            for slot in slots
            for column in (
                fn.when(asked, begins[slot]).when(~showed, tops[slot]).alias(f"its{slot}"),
                fn.when(showed, begins[slot]).alias(f"shown{slot}"),
                fn.when(showed, tops[slot]).alias(f"had{slot}"),
            )
        ),
    )
    zero = fn.lit(0)
    beyond = (fn.col(f"its{slot}") > fn.coalesce(f"shown{slot}", zero) for slot in slots)
    short = (fn.col(f"its{slot}") < fn.coalesce(f"had{slot}", zero) for slot in slots)
    belied = reduce(or_, short, fn.col("odd") | fn.col("rough").isNotNull())
    names = ["rough", *(f"{name}{slot}" for name in ("shown", "had") for slot in slots)]
    return (
        running.before(rows, "server", names)
        .where(((what == CLAIMED) & reduce(or_, beyond)) | (asked & belied))
        .select(*RUN, "seq", "server", "what")
    )


def found(weighed: DataFrame | None, what: int) -> DataFrame:
    """What was found of one kind.

    Raises:
        ValueError: nothing was looked for.
    """
    if weighed is None:
        raise ValueError("the history was not learned for columns")
    return weighed.where(fn.col("what") == what)


def server() -> Column:
    """A number for an incarnation of a server, as a run counts them."""
    return fn.xxhash64(*RUN, "server_uuid", "incarnation")


def _told(records: DataFrame, known: Mapping[str, str]) -> DataFrame:
    """What servers showed, and what was claimed and asked of them, each at its time."""
    statement, proof = fn.col("kind") == "statement", fn.col("proof")
    ended, dispatched = fn.col("ended_us"), fn.col("dispatched_us")
    replica, named = fn.col("role").eqNullSafe("replica"), fn.col("server_uuid").isNotNull()
    proof_set, observed = fn.col("proof_set"), fn.col("observed")
    probed = (fn.col("kind") == "proof") & (proof == "probed")
    reported = statement & (observed != "")

    def telling(what: int, at: Column, gtids: Column) -> Column:
        return fn.struct(fn.lit(what).alias("what"), at.alias("at_us"), gtids.alias("gtids"))

    # Of a server without a name nobody shows anything.
    tellings = (
        (named & (fn.col("kind") == "proof"), telling(SHOWN, ended, proof_set)),
        (
            named & statement & (proof == "waited"),
            telling(SHOWN, dispatched + fn.col("wait_us"), proof_set),
        ),
        (named & reported, telling(SHOWN, ended, observed)),
        (
            fn.col("is_judged") & replica & (proof == "known"),
            telling(CLAIMED, dispatched, proof_set),
        ),
        (
            replica & ((probed & proof_set.isNotNull()) | reported),
            telling(
                ASKED, fn.least(dispatched, ended), fn.when(probed, proof_set).otherwise(observed)
            ),
        ),
    )
    return (
        records.where(reduce(or_, (where for where, _ in tellings)))
        .select(
            *(*RUN, "seq"),
            clusters.column(known).alias("cluster"),
            server().alias("server"),
            named.alias("named"),
            fn.explode(
                fn.array_compact(fn.array(*(fn.when(*telling) for telling in tellings)))
            ).alias("told"),
        )
        .select(*RUN, "seq", "cluster", "server", "named", "told.*")
    )
