"""Checks the numbers of records: which are missing, which occur twice, and where times go back.

Every run begins at ``seq`` 1 and every session at ``ordinal`` 1. So the first record after a gap
shows how much the log has lost or no longer holds. Most records' numbers show nothing of interest:
only the numbers are sorted, and only strange ones are kept.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.running import Order, running
from spark_jobs.tables.schema import RUN

KEY = ("numbered_in", "seq")
"""The columns that identify a number: `run_of`, and ``seq``."""

_BUCKET: Final = 1 << 17
"""So many numbers of a run are sorted together."""


def run_of() -> Column:
    """A number for a record's run; two runs have the same with a probability of 2**-64."""
    return fn.xxhash64(*RUN)


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
    statement = fn.col("kind") == "statement"
    numbers = records.select(
        run_of().alias(KEY[0]),
        "seq",
        "ended_us",
        "session",
        fn.when(statement, fn.col("ordinal")).alias("ordinal"),
        fn.lit(False).alias("known"),
    )
    if before is not None:
        numbers = numbers.unionByName(
            before.select(
                run_of().alias(KEY[0]),
                "seq",
                "ended_us",
                "session",
                "ordinal",
                fn.lit(True).alias("known"),
            )
        )
    flags, counts = ("repeated", "hole", "unsteady"), ("missing", "since_us")
    nothing = {
        **dict.fromkeys(flags, fn.lit(False)),
        **dict.fromkeys(counts, fn.lit(0).cast("long")),
    }
    both = _of_runs(numbers).unionByName(_of_sessions(numbers), allowMissingColumns=True)
    return (
        both.withColumns({name: fn.coalesce(name, zero) for name, zero in nothing.items()})
        .groupBy(*KEY)
        .agg(
            *(fn.bool_or(name).alias(name) for name in flags),
            *(fn.max(name).alias(name) for name in counts),
        )
    )


def _of_runs(numbers: DataFrame) -> DataFrame:
    """The numbers that are strange in their runs."""
    bucket = fn.floor(fn.col("seq") / _BUCKET)
    last = fn.struct("seq", "ended_us")
    order = Order(KEY[:1], ("seq", ~fn.col("known")), including=False, bucket=bucket)
    found = running(
        numbers, order, {"last": ("max", last), "newest_us": ("max", fn.col("ended_us"))}
    )
    seq, ended = fn.col("seq"), fn.col("ended_us")
    before, since = fn.coalesce("last.seq", fn.lit(0)), fn.coalesce("last.ended_us", fn.lit(0))
    again = seq <= before
    gap, fell = seq > before + 1, ~again & (ended < since)
    unsteady = fn.col("ordinal").isNotNull() & (ended < fn.col("newest_us"))
    return found.where(~fn.col("known") & (again | gap | fell | unsteady)).select(
        *KEY,
        again.alias("repeated"),
        fn.when(gap, seq - 1 - before).alias("missing"),
        fn.when(gap | fell, since).alias("since_us"),
        unsteady.alias("unsteady"),
    )


def _of_sessions(numbers: DataFrame) -> DataFrame:
    """The numbers of statements before which others of their session are missing."""
    whose = (KEY[0], "session")
    ordinal = fn.col("ordinal")
    statements = numbers.where(ordinal.isNotNull()).select(*KEY, "session", "ordinal", "known")
    least, most, size = fn.min(ordinal), fn.max(ordinal), fn.count("*")
    # If some are missing and others occur twice, their sums tell.
    exact = ordinal.cast("double")
    sums = (fn.sum(exact), fn.sum(exact * exact))
    last, first = most.cast("double"), least.cast("double") - 1
    of_all = (
        (last * (last + 1) - first * (first + 1)) / 2,
        (last * (last + 1) * (2 * last + 1) - first * (first + 1) * (2 * first + 1)) / 6,
    )
    whole = (most - least + 1 == size) & ((least == 1) | fn.bool_or("known"))
    whole &= (sums[0] == of_all[0]) & (sums[1] == of_all[1])
    # Most sessions are whole: to count is cheaper than to sort, and only the others are sorted.
    torn = statements.groupBy(*whose).agg(whole.alias("whole")).where("not whole")
    in_order = Window.partitionBy(*whose).orderBy("seq", "ordinal")
    before = fn.struct(fn.lag("ordinal", 1, 0).over(in_order), fn.lag("seq").over(in_order))
    again = fn.coalesce(fn.col("seq") == fn.col("before.col2"), fn.lit(False))
    return (
        statements.join(torn.select(*whose), [*whose], "left_semi")
        .withColumn("before", before)
        .where(~fn.col("known") & ~again & (ordinal != fn.col("before.col1") + 1))
        .select(*KEY, fn.lit(True).alias("hole"))
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
    missing = fn.count_if(fn.col("missing") > 0)
    flags = (fn.count_if("repeated"), missing, fn.count_if("hole"), fn.count_if("unsteady"))
    return Counts(*found.agg(fn.count("*"), *flags).collect()[0])
