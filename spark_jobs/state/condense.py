"""Condenses records into the facts that stand for them."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame

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
    statement, ok = "kind = 'statement'", "outcome = 'ok'"
    of_replica = "role <=> 'replica'"
    at_replica = f"{of_replica} and server_uuid is not null"
    waited = f"{statement} and proof = 'waited'"
    wrote = f"{statement} and named != ''"
    answered = f"{waited} and is_read and {of_replica} and {ok} and coalesce(proof_set, '') != ''"
    seen = f"{statement} and observed != ''"
    shows_proof = f"server_uuid is not null and (kind = 'proof' or {waited})"

    def fact(what: int, names: Sequence[str], gtids: str, code: str = "0L") -> str:
        values = ((name if name in names else facts.nothing(name), name) for name in _OWN)
        own = ", ".join(f"{value} as {name}" for value, name in values)
        return f"struct(bigint({what}) as what, {own}, {gtids} as gtids, {code} as turned)"

    server = _SERVER[1:]
    made = (
        ("true", fact(RAN, (), "''")),
        (statement, fact(SPOKE, ("session",), "''")),
        (f"{shows_proof} and coalesce(proof_set, '') != ''", fact(HAD, server, "proof_set")),
        (f"server_uuid is not null and {seen}", fact(HAD, server, "observed")),
        (wrote, fact(WROTE, _OWN, "named", "turn")),
        # What a statement wrote and was shown at once is covered by WROTE.
        (
            f"{seen} and not ({at_replica}) and not ({wrote} and named = observed)",
            fact(SAW, _WHOSE, "observed", "turn"),
        ),
        (f"{seen} and {at_replica}", fact(SHOWED, _OWN, "observed", "turn")),
        (f"{answered} and {at_replica}", fact(SHOWED, _OWN, "proof_set", "turn")),
        (f"{answered} and not ({at_replica})", fact(SAW, _WHOSE, "proof_set", "turn")),
    )
    events = ", ".join(f"if({where}, {value}, null)" for where, value in made)
    numbers = ("0L as since_us" if name == "since_us" else name for name in LATEST)
    return (
        records.withColumn("turn", turned)
        .selectExpr(*RUN, *numbers, f"inline(array_compact(array({events})))")
        .select(*FACT.names, "turned")
    )


def relying(records: DataFrame) -> DataFrame:
    """The reads of replicas that relied on what was known, and their claims.

    Args:
        records: NUMBERED.

    Returns:
        The columns that `shown` takes, and the claim, `proof_set`.
    """
    relied = "is_read and proof = 'known' and outcome = 'ok' and role = 'replica'"
    reads = records.where(f"{relied} and proof_set != ''")
    return reads.select(*RUN, *_OWN, *_NUMBERS, "proof_set")


def shown(reads: DataFrame, gtids: str) -> DataFrame:
    """What replicas showed to such reads.

    Args:
        reads: of `relying`.
        gtids: the column of the part of its claim that a replica was shown to have.

    Returns:
        FACT of SHOWED, not merged.
    """
    return facts.make(SHOWED, reads, (*_OWN, *_NUMBERS), {"gtids": gtids})
