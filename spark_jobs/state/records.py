"""Turns facts into records that stand for many, with all columns of a record, for the judges.

Their `seq` is below that of any record of the log, in the order of their times.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField

from spark_jobs.records import statement
from spark_jobs.state.facts import (
    ASKED,
    HAD,
    KEY,
    MISSED,
    RAN,
    REIGNED,
    SAW,
    SHOWED,
    SKIPPED,
    SPOKE,
    TIMES,
    UNNAMED,
    UNREAD,
    WROTE,
    is_of,
)
from spark_jobs.tables.schema import NUMBERED, RECORD, RECORD_VERSION, RUN

NO_SET: Final = "-"
"""Replaces any text that is no well-formed set."""

_NULL: Final = ("file", "repeat")


def transform(facts: DataFrame) -> DataFrame:
    """Make records of facts; none of them is judged.

    Args:
        facts: FACT, merged.

    Returns:
        NUMBERED.
    """
    # From the last one back: the newest fact has the greatest number below 0.
    back = ", ".join(f"{name} desc" for name in ("ended_us", "what", *KEY[1:], "dispatched_us"))
    columns = {
        "v": f"{RECORD_VERSION}",
        "seq": f"-row_number() over (order by {back})",
        "kind": f"""case when {is_of(REIGNED, HAD, ASKED)} then 'proof'
            when {is_of(MISSED)} then 'gap' else 'statement' end""",
        "arrived_us": "dispatched_us",
        "may_write": is_of(WROTE, UNREAD, UNNAMED),
        "own_known": f"not {is_of(UNNAMED)}",
        # With "lost", it does not count as an answer of its primary.
        "outcome": f"if({is_of(UNNAMED)}, 'lost', 'ok')",
        "proof": f"""case when {is_of(ASKED)} then 'probed'
            when {is_of(SHOWED)} then 'waited' else '' end""",
        "own_gtids": f"""case when {is_of(WROTE)} then gtids
            when {is_of(UNREAD)} then '{NO_SET}' else '' end""",
        "observed": f"if({is_of(SAW)}, gtids, '')",
        "proof_set": f"if({is_of(SHOWED, HAD, ASKED)}, gtids, null)",
        "missing": f"if({is_of(MISSED)}, 1, 0)",
        "hole": is_of(SKIPPED),
    }
    given = {name: name for name in (*KEY[1:], "ordinal", *TIMES)} | columns
    every = [*RECORD, *(NUMBERED[name] for name in ("missing", "hole", "since_us"))]
    records = facts.where(f"not {is_of(RAN, SPOKE)}").selectExpr(
        *(
            f"cast({given.get(field.name, _nothing(field))} as {field.dataType.simpleString()})"
            f" as {field.name}"
            for field in every
        )
    )
    nulls = (f"cast(null as {NUMBERED[name].dataType.simpleString()}) as {name}" for name in _NULL)
    return (
        records.selectExpr("*", *nulls, "0L as declared")
        .withColumns(statement.facts())
        .withColumn("is_judged", fn.lit(False))
        .select(NUMBERED.names)
    )


def _nothing(field: StructField) -> str:
    """SQL for the value of a field that facts do not have."""
    if field.nullable:
        return "null"
    return "''" if isinstance(field.dataType, StringType) else "0"


def numbers(facts: DataFrame) -> DataFrame:
    """The last known numbers, in the form that `numbering.strange` takes.

    Args:
        facts: FACT, merged.

    Returns:
        RUN, `seq`, `ended_us`, `session` and `ordinal`. The rows of sessions have the `ended_us` of
        their run: which of two rows with the same number comes first does not matter then.
    """
    ended = f"max(if({is_of(SPOKE)}, null, ended_us)) over (partition by {', '.join(RUN)})"
    own = (f"if({is_of(SPOKE)}, {name}, null) as {name}" for name in ("session", "ordinal"))
    return facts.where(is_of(RAN, SPOKE)).selectExpr(*RUN, "seq", f"{ended} as ended_us", *own)
