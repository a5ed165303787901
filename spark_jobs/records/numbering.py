"""Checks the numbers of records: which are missing, which occur twice, and where times go back.

Every run begins at ``seq`` 1 and every session at ``ordinal`` 1. So the first record after a gap
shows how much the log has lost or no longer holds. Most records' numbers show nothing of interest:
only the numbers are sorted, and only strange ones are kept.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.running import Order, running
from spark_jobs.tables.schema import RUN

KEY = ("numbered_in", "seq")
"""The columns that identify a number: `run_of`, and ``seq``."""

_BUCKET: Final = 1 << 17
"""So many numbers of a run are sorted together."""

_RUN_OF: Final = f"xxhash64({', '.join(RUN)})"


def run_of() -> Column:
    """A number for a record's run; two runs have the same with a probability of 2**-64."""
    return fn.expr(_RUN_OF)


def strange(records: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Find the numbers that are strange: repeated, after a gap, or out of the order of time.

    Args:
        records: RECORD.
        before: the last known numbers of the time before: RUN, ``seq`` and ``ended_us`` of runs;
            rows of sessions have ``session`` and ``ordinal``, too. None if nothing is known.

    Returns:
        KEY, and ``repeated`` (several records have this number), ``missing`` (how many numbers
        right before it no record has), ``hole`` (statements of its session right before it are
        missing), ``since_us`` (end of the record before it, if records are missing between them or
        if that record ended later; else 0) and ``unsteady`` (a statement that ended before some
        earlier record did). One row for each number.
    """
    names = (f"{_RUN_OF} as {KEY[0]}", "seq", "ended_us", "session")
    ordinal = "if(kind = 'statement', ordinal, null) as ordinal"
    numbers = records.selectExpr(*names, ordinal, "false as known")
    if before is not None:
        numbers = numbers.unionByName(before.selectExpr(*names, "ordinal", "true as known"))
    both = _of_runs(numbers).unionByName(_of_sessions(numbers), allowMissingColumns=True)
    flags, counts = ("repeated", "hole", "unsteady"), ("missing", "since_us")
    return both.groupBy(*KEY).agg(
        *(fn.expr(f"coalesce(bool_or({name}), false) as {name}") for name in flags),
        *(fn.expr(f"coalesce(max({name}), 0L) as {name}") for name in counts),
    )


def _of_runs(numbers: DataFrame) -> DataFrame:
    """The numbers that are strange in their runs."""
    bucket = f"floor(seq / {_BUCKET})"
    order = Order(KEY[:1], ("seq", "not known"), including=False, bucket=bucket)
    last = "struct(seq, ended_us)"
    found = running(numbers, order, {"last": ("max", last), "newest_us": ("max", "ended_us")})
    before, since = "coalesce(last.seq, 0L)", "coalesce(last.ended_us, 0L)"
    told = found.where("not known").selectExpr(
        *KEY,
        f"seq <= {before} as repeated",
        f"if(seq > {before} + 1, seq - 1 - {before}, null) as missing",
        f"if(seq > {before} + 1 or seq > {before} and ended_us < {since}, {since}, null)"
        " as since_us",
        "ordinal is not null and coalesce(ended_us < newest_us, false) as unsteady",
    )
    return told.where("repeated or missing is not null or since_us is not null or unsteady")


def _of_sessions(numbers: DataFrame) -> DataFrame:
    """The numbers of statements before which others of their session are missing."""
    whose = (KEY[0], "session")
    statements = numbers.where("ordinal is not null").select(*KEY, "session", "ordinal", "known")
    # If some are missing and others occur twice, their sums tell.
    last, first = "double(max(ordinal))", "(double(min(ordinal)) - 1)"
    whole = (
        "max(ordinal) - min(ordinal) + 1 = count(*) and (min(ordinal) = 1 or bool_or(known))"
        f" and sum(double(ordinal)) = ({last} * ({last} + 1) - {first} * ({first} + 1)) / 2"
        " and sum(double(ordinal) * double(ordinal)) ="
        f" ({last} * ({last} + 1) * (2 * {last} + 1)"
        f" - {first} * ({first} + 1) * (2 * {first} + 1)) / 6"
    )
    # Most sessions are whole: to count is cheaper than to sort, and only the others are sorted.
    torn = statements.groupBy(*whose).agg(fn.expr(f"{whole} as whole")).where("not whole")
    in_order = f"over (partition by {', '.join(whose)} order by seq, ordinal)"
    return (
        statements.join(torn.select(*whose), [*whose], "left_semi")
        .selectExpr(
            "*",
            f"lag(ordinal, 1, 0L) {in_order} as before",
            f"lag(seq) {in_order} as before_seq",
        )
        .where("not known and not seq <=> before_seq and ordinal != before + 1")
        .selectExpr(*KEY, "true as hole")
    )


class Counts(NamedTuple):
    """How many numbers are strange.

    Attributes:
        strange: all of them.
        repeated: those that several records have.
        missing: those before which others are missing.
        holes: those before which statements of their session are missing.
        unsteady: those of statements that ended before an earlier record did.
    """

    strange: int
    repeated: int
    missing: int
    holes: int
    unsteady: int


def count(found: DataFrame) -> Counts:
    """Count strange numbers; this runs a job.

    Args:
        found: the result of `strange`.
    """
    flags = ("repeated", "missing > 0", "hole", "unsteady")
    counts = ("count(*)", *(f"count_if({flag})" for flag in flags))
    return Counts(*found.selectExpr(*counts).collect()[0])
