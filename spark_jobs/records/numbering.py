"""Checks the numbers of records: which are missing, which occur twice, and where times go back.

Every run begins at ``seq`` 1 and every session at ``ordinal`` 1. So the first record after a gap
shows how much the log has lost or no longer holds. Most records' numbers show nothing of interest:
only the numbers are sorted, and only strange ones are kept.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.tables.schema import RUN

KEY = ("numbered_in", "seq")
"""The columns that identify a number: `run_of`, and ``seq``."""


def run_of() -> Column:
    """A number for a record's run; two runs have the same with a probability of 2**-64."""
    return fn.xxhash64(*RUN)


def strange(records: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Find the numbers that are strange: repeated, after a gap, or out of the order of time.

    Args:
        records: RECORD, ``fingerprint``.
        before: the last known numbers of the time before: RUN, ``seq`` and ``ended_us`` of runs;
            rows of sessions have ``session`` and ``ordinal``, too. None if nothing is known.

    Returns:
        KEY, and ``repeated`` (several records have this number), ``missing`` (how many numbers
        right before it no record has), ``hole`` (statements of its session right before it are
        missing) and ``since_us`` (end of the record before it, if records are missing between
        them or if that record ended later; else 0).
    """
    in_run = Window.partitionBy("numbered_in").orderBy("seq", "fingerprint")
    # Repeats and records of other kinds do not count in a session.
    in_session = Window.partitionBy("numbered_in", "session", "counts", "again").orderBy("seq")
    zero, first = fn.lit(0), ~fn.col("again")
    gap = first & (fn.col("missing") > 0)
    fell = first & (fn.col("ended_us") < fn.col("since_us"))
    hole = first & fn.col("counts") & (fn.col("ordinal") != fn.col("ordinal_before") + 1)
    numbers = records.select(
        run_of().alias("numbered_in"),
        "seq",
        "fingerprint",
        "ended_us",
        "session",
        "ordinal",
        (fn.col("kind") == "statement").alias("counts"),
        fn.lit(False).alias("known"),
    )
    if before is not None:
        known = before.select(
            run_of().alias("numbered_in"),
            "seq",
            fn.lit(0).cast("bigint").alias("fingerprint"),
            "ended_us",
            "session",
            "ordinal",
            fn.isnotnull("session").alias("counts"),
            fn.lit(True).alias("known"),
        )
        numbers = numbers.unionByName(known)
    return (
        numbers.withColumns(
            {
                "before": fn.lag("seq").over(in_run),
                "since_us": fn.coalesce(fn.lag("ended_us").over(in_run), zero),
            }
        )
        .withColumns(
            {
                "again": ~fn.col("known")
                & fn.coalesce(fn.col("seq") == fn.col("before"), fn.lit(False)),
                "missing": fn.col("seq") - 1 - fn.coalesce("before", zero),
            }
        )
        .withColumn("ordinal_before", fn.coalesce(fn.lag("ordinal").over(in_session), zero))
        .where(~fn.col("known") & (fn.col("again") | gap | fell | hole))
        .groupBy(*KEY)
        .agg(
            fn.bool_or("again").alias("repeated"),
            fn.coalesce(fn.max(fn.when(first, fn.col("missing"))), zero).alias("missing"),
            fn.bool_or(hole).alias("hole"),
            fn.coalesce(fn.max(fn.when(gap | fell, fn.col("since_us"))), zero).alias("since_us"),
        )
    )


def of_records(known: DataFrame) -> DataFrame:
    """Find the strange numbers among the records that stand for the time before.

    These records have the columns `missing`, `hole` and `since_us` already.

    Args:
        known: RUN, `seq`, `arrived_us`, `ended_us`, `dropped`, `missing`, `since_us`, `hole`.

    Returns:
        The columns of `of_stretches`.
    """
    flags = ("repeated", "fell", "unsteady")
    strange_numbers = known.where((fn.col("missing") > 0) | fn.col("hole"))
    return strange_numbers.withColumns({name: fn.lit(False) for name in flags}).withColumn(
        KEY[0], run_of()
    )


def of_stretches(stretches: DataFrame, session_stretches: DataFrame) -> DataFrame:
    """Find the strange numbers from stretches of consecutive records (`columns.numbers`).

    Args:
        stretches: `columns.numbers.STRETCH`.
        session_stretches: `columns.numbers.SESSION_STRETCH`.

    Returns:
        The columns of `strange`, except that ``repeated`` only says that some number near this one
        occurs again. Also RUN, ``fell`` (the record ended before the one before it), ``unsteady``
        (the stretch's first statement ended before some earlier record did), and the record's
        ``arrived_us``, ``ended_us`` and ``dropped``, which are null if it only has a hole.
    """
    in_run = Window.partitionBy(*RUN).orderBy("seq", "last_seq")
    so_far = in_run.rowsBetween(Window.unboundedPreceding, -1)
    in_session = Window.partitionBy(*RUN, "session").orderBy("seq")
    zero, no = fn.lit(0), fn.lit(False)
    before, since = fn.coalesce("before", zero), fn.coalesce("ended_before_us", zero)
    missing, again = fn.col("seq") - 1 - before, fn.col("seq") <= before
    fell = fn.col("ended_us") < since
    unsteady = fn.coalesce(fn.col("statement_us") < fn.col("newest_us"), no)
    gaps = (
        stretches.withColumns(
            {
                "before": fn.max("last_seq").over(so_far),
                "ended_before_us": fn.lag("last_ended_us").over(in_run),
                "newest_us": fn.max("last_ended_us").over(so_far),
            }
        )
        .where(again | (missing > 0) | fell | unsteady)
        .select(
            *RUN,
            "seq",
            "arrived_us",
            "ended_us",
            "dropped",
            again.alias("repeated"),
            fell.alias("fell"),
            unsteady.alias("unsteady"),
            fn.when(again, 0).otherwise(missing).alias("missing"),
            fn.when((missing > 0) | fell, since).otherwise(0).alias("since_us"),
        )
    )
    ordinal_before = fn.coalesce(fn.lag("last_ordinal").over(in_session), zero)
    holes = (
        session_stretches.withColumn("ordinal_before", ordinal_before)
        .where(fn.col("ordinal") != fn.col("ordinal_before") + 1)
        .select(*RUN, "seq")
        .withColumn("hole", fn.lit(True))
    )
    flags = ("repeated", "fell", "unsteady", "hole")
    numbers = ("missing", "since_us")
    return (
        gaps.join(holes, [*RUN, "seq"], "full")
        .withColumns({name: fn.coalesce(name, no) for name in flags})
        .withColumns({name: fn.coalesce(name, zero) for name in numbers})
        .withColumn(KEY[0], run_of())
    )
