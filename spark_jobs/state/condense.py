"""Condenses records into the facts that stand for them."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.state import facts
from spark_jobs.state.facts import FACT, HAD, LATEST, RAN, SAW, SHOWED, SPOKE, WROTE
from spark_jobs.tables.schema import RUN

_WHOSE: Final = ("session", "user", "application")
_SERVER: Final = ("role", "server_uuid", "incarnation")
_OWN: Final = (*_WHOSE, *_SERVER)
_NUMBERS: Final = tuple(name for name in LATEST if name != "since_us")


def transform(records: DataFrame, turned: Column) -> DataFrame:
    """Condense records, except for the claims of reads that relied on what was known.

    Args:
        records: NUMBERED of the records that are condensed.
        turned: `turns.Turns.code`.

    Returns:
        FACT, not merged, and `turned`, which is 0 for facts that reads are not held to.
    """
    col = fn.col
    observed, claim, named = col("observed"), col("proof_set"), col("named")
    statement, proof = col("kind") == "statement", col("proof")
    is_server_known = col("server_uuid").isNotNull()
    of_replica = col("role").eqNullSafe("replica")
    at_replica = of_replica & is_server_known
    waited = statement & (proof == "waited")
    wrote = statement & (named != "")
    answered = waited & col("is_read") & of_replica & (col("outcome") == "ok")
    seen = statement & (observed != "")
    shows_proof = is_server_known & ((col("kind") == "proof") | waited)
    claims = fn.coalesce(claim, fn.lit("")) != ""
    code, none = turned, fn.lit(0).cast("bigint")

    def fact(what: int, names: Sequence[str], gtids: Column, code: Column = none) -> Column:
        values = [col(name) if name in names else facts.nothing(name) for name in _OWN]
        return fn.struct(
            fn.lit(what).cast("bigint").alias("what"),
            *(value.alias(name) for name, value in zip(_OWN, values, strict=True)),
            gtids.alias("gtids"),
            code.alias("turned"),
        )

    server = _SERVER[1:]
    # What a statement wrote and was shown at once is covered by WROTE.
    known = wrote & (named == observed)
    made = (
        fact(RAN, (), fn.lit("")),
        fn.when(statement, fact(SPOKE, ("session",), fn.lit(""))),
        fn.when(shows_proof & claims, fact(HAD, server, claim)),
        fn.when(is_server_known & seen, fact(HAD, server, observed)),
        fn.when(wrote, fact(WROTE, _OWN, named, code)),
        fn.when(seen & ~at_replica & ~known, fact(SAW, _WHOSE, observed, code)),
        fn.when(seen & at_replica, fact(SHOWED, _OWN, observed, code)),
        fn.when(answered & claims & at_replica, fact(SHOWED, _OWN, claim, code)),
        fn.when(answered & claims & ~at_replica, fact(SAW, _WHOSE, claim, code)),
    )
    numbers = [
        fn.lit(0).cast("bigint").alias(name) if name == "since_us" else name for name in LATEST
    ]
    return (
        records.withColumn("fact", fn.explode(fn.array_compact(fn.array(*made))))
        .select(*RUN, "fact.*", *numbers)
        .select(*FACT.names, "turned")
    )


def relying(records: DataFrame) -> DataFrame:
    """The reads of replicas that relied on what was known, and their claims.

    Args:
        records: NUMBERED.

    Returns:
        The columns that `shown` takes, and the claim, `proof_set`.
    """
    relied = fn.col("is_read") & (fn.col("proof") == "known") & (fn.col("outcome") == "ok")
    reads = records.where(relied & (fn.col("role") == "replica") & (fn.col("proof_set") != ""))
    return reads.select(*RUN, *_OWN, *_NUMBERS, "proof_set")


def shown(reads: DataFrame, gtids: Column) -> DataFrame:
    """What replicas showed to such reads.

    Args:
        reads: of `relying`.
        gtids: the part of its claim that a replica was shown to have.

    Returns:
        FACT of SHOWED, not merged.
    """
    return facts.make(SHOWED, reads, (*_OWN, *_NUMBERS), gtids.alias("gtids"))
