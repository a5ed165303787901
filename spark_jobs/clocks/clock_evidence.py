"""Bounds how far clocks are ahead of each other, by what one primary told runs on several clocks.

Sets are compared source by source, by the numbers alone: a set lacks whatever is above its highest
number, and has whatever its first interval has, if that begins at 1. Numbers between the first
interval and the highest number are not used.
"""

from collections import defaultdict
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from spark_jobs.tables.schema import RUN

_SEATS: Final = 64
"""Pairs of a clock and a primary that are compared at most: those with the most records."""

_ASKED, _ANSWERED, _TOLD, _SENT = range(4)
"""What happened to a transaction number; events of one number sort in this order.

ASKED: a set was asked for that lacks the number and all above. ANSWERED: a set was received that
has all numbers below. TOLD: the number was acknowledged, or shown in a set. SENT: its write was
sent.
"""


def bounds(records: DataFrame) -> dict[tuple[int, int], int]:
    """Compare all clocks. This runs jobs.

    Args:
        records: NUMBERED and ``clock``, the number of the clock that the record's times are of.

    Returns:
        By (a, b): by how many µs clock a is ahead of clock b at most.
    """
    primary = fn.col("role").eqNullSafe("primary") & fn.col("server_uuid").isNotNull()
    wrote = (fn.col("kind") == "statement") & (fn.col("own_gtids") != "")
    # A record that began before a step and ended after it has times of two clocks.
    one_clock = fn.col("dispatched_us") <= fn.col("ended_us")
    tells = records.where(primary & one_clock & (wrote | fn.col("whole").isNotNull()))
    seat = ("clock", *RUN, "server_uuid", "incarnation")
    seats = (
        tells.groupBy(*seat)
        .agg(
            fn.min("dispatched_us").alias("from_us"),
            fn.max("ended_us").alias("to_us"),
            fn.count("*").alias("records"),
        )
        .orderBy(fn.desc("records"), *seat)
        .limit(_SEATS)
        .collect()
    )
    if len({row.clock for row in seats}) < 2:
        return {}
    return _between(seats, _compare(_numbers(tells, seats), len(seats)))


def _numbers(tells: DataFrame, seats: list[Row]) -> DataFrame:
    """``source`` (server and TSID), ``number``, ``what``, ``seat``, ``us``."""
    seat = fn.lit(None).cast("int")
    for number, row in enumerate(seats):
        is_of_seat = (
            (fn.col("clock") == row.clock)
            & (fn.col("server_uuid") == row.server_uuid)
            & fn.col("incarnation").eqNullSafe(fn.lit(row.incarnation))
            & (fn.col("run") == row.run)
            & (fn.col("worker") == row.worker)
            & (fn.col("proxy") == row.proxy)
        )
        seat = fn.when(is_of_seat, number).otherwise(seat)
    text = fn.explode(
        fn.array_compact(
            fn.array(
                _told(fn.col("own_gtids"), fn.col("own_gtids") != "", whole=False),
                _told(fn.col("whole"), fn.col("whole").isNotNull(), whole=True),
            )
        )
    )
    first, last = fn.col("interval"), fn.regexp_extract("part", "([0-9]+)$", 1).try_cast("long")
    low = fn.regexp_extract(first, "^([0-9]+)", 1).try_cast("long")
    high = fn.regexp_extract(first, "([0-9]+)$", 1).try_cast("long")
    whole, sent, ended = fn.col("is_whole"), fn.col("dispatched_us"), fn.col("ended_us")
    happened = fn.array(
        _at(whole, last + 1, _ASKED, sent),
        _at(whole & (low == 1), high + 1, _ANSWERED, ended),
        _at(fn.lit(True), last, _TOLD, ended),
        _at(~whole, low, _SENT, sent),
    )
    uuid = fn.regexp_extract("item", "^([^:]+)", 1)
    return (
        tells.select(seat.alias("seat"), "server_uuid", "dispatched_us", "ended_us", text)
        .where(fn.col("seat").isNotNull())
        .select("seat", "server_uuid", "dispatched_us", "ended_us", "col.*")
        .withColumn("item", fn.explode(items(fn.col("gtids"))))
        .withColumn("part", fn.explode(parts(fn.col("item"))))
        .withColumn("interval", fn.regexp_extract("part", ":([0-9]+(?:-[0-9]+)?)", 1))
        .where(fn.col("interval") != "")
        .withColumn(
            "source", fn.concat_ws("/", "server_uuid", uuid, fn.substring_index("part", ":", 1))
        )
        .withColumn("at", fn.explode(fn.array_compact(happened)))
        .select("source", "at.*", "seat")
    )


def _told(gtids: Column, where: Column, *, whole: bool) -> Column:
    gtids_told = fn.struct(gtids.alias("gtids"), fn.lit(whole).alias("is_whole"))
    return fn.when(where, gtids_told)


def items(gtids: Column) -> Column:
    """Split a set into one text per UUID."""
    return fn.split(fn.lower(fn.regexp_replace(gtids, r"\s", "")), ",")


def parts(item: Column) -> Column:
    """Split an item into one text per tag: the tag, and its intervals after colons."""
    untagged = fn.regexp_replace(item, "^[^:]+", "")
    return fn.split(fn.regexp_replace(untagged, ":([a-z_])", "|$1"), r"\|")


def _at(where: Column, number: Column, what: int, us: Column) -> Column:
    return fn.when(
        where & number.isNotNull(),
        fn.struct(number.alias("number"), fn.lit(what).alias("what"), us.alias("us")),
    )


def _compare(numbers: DataFrame, seats: int) -> list[Row]:
    """Of each seat, the least time by which it was told something after each seat had acted.

    TOLD is compared with the latest ASKED so far, ANSWERED with the latest SENT. The time is
    negative where the clocks differ by more than what really lay between.
    """
    us, what = fn.col("us"), fn.col("what")
    at = ("source", "number", "what", "seat")
    narrow = numbers.groupBy(*at).agg(
        fn.when(what.isin(_ASKED, _SENT), fn.max("us")).otherwise(fn.min("us")).alias("us")
    )
    so_far = (
        Window.partitionBy("source")
        .orderBy("number", "what")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    newest = {
        f"{name}_{seat}": fn.max(fn.when((what == kind) & (fn.col("seat") == seat), us)).over(
            so_far
        )
        for seat in range(seats)
        for name, kind in (("asked", _ASKED), ("sent", _SENT))
    }
    behind = [
        fn.min(
            us
            - fn.when(what == _TOLD, fn.col(f"asked_{seat}")).when(
                what == _ANSWERED, fn.col(f"sent_{seat}")
            )
        ).alias(f"behind_{seat}")
        for seat in range(seats)
    ]
    return (
        narrow.select(*at, "us", *(column.alias(name) for name, column in newest.items()))
        .groupBy("seat")
        .agg(*behind)
        .collect()
    )


def _between(seats: list[Row], compared: list[Row]) -> dict[tuple[int, int], int]:
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    # A run keeps its number for an incarnation when its clock is set back.
    spans: dict[tuple[object, ...], tuple[int, int]] = {}
    for seat in seats:
        from_us, to_us = spans.get(_reign(seat), (seat.from_us, seat.to_us))
        spans[_reign(seat)] = min(from_us, seat.from_us), max(to_us, seat.to_us)
    for row in compared:
        seat = seats[row.seat]
        from_us, to_us = spans[_reign(seat)]
        for number, other in enumerate(seats):
            behind = row[f"behind_{number}"]
            # Without an overlap it may not have been the same incarnation of the primary.
            other_from_us, other_to_us = spans[_reign(other)]
            overlap = from_us <= other_to_us and other_from_us <= to_us
            if behind is not None and overlap and seat.clock != other.clock:
                found[seat.clock, other.clock].append(behind)
    return {pair: min(differences) for pair, differences in found.items()}


def _reign(seat: Row) -> tuple[object, ...]:
    """A primary's incarnation as a run knows it."""
    return seat.proxy, seat.worker, seat.run, seat.server_uuid, seat.incarnation
