"""What primaries said to several clocks, as bounds on what these are ahead of each other.

Sets are compared source by source, by the numbers alone: a set lacks whatever is above its highest
number, and has whatever its first interval has, if that begins at 1. What lies in gaps of a set
says nothing.
"""

from collections import defaultdict
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from spark_jobs.schema import RUN

_SEATS: Final = 64
"""Clocks and primaries that are compared, those that were told most."""

_ASKED, _ANSWERED, _TOLD, _SENT = range(4)
"""What happened at a number; at one number in this order.

ASKED: a set was asked for that lacks the number and all above. ANSWERED: a set was told that has
all below. TOLD: the number was acknowledged, or shown in a set. SENT: its write was sent.
"""


def bounds(records: DataFrame) -> dict[tuple[int, int], int]:
    """Compare all clocks. This runs jobs.

    Args:
        records: NUMBERED and ``clock``, a number for whatever has a clock of its own.

    Returns:
        Of (a, b): clock a is at most so many µs ahead of clock b.
    """
    primary = fn.col("role").eqNullSafe("primary") & fn.col("server_uuid").isNotNull()
    wrote = (fn.col("kind") == "statement") & (fn.col("own_gtids") != "")
    # What began before a step and ended behind it has times of two clocks.
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
    place = fn.lit(None).cast("int")
    for number, row in enumerate(seats):
        its = (
            (fn.col("clock") == row.clock)
            & (fn.col("server_uuid") == row.server_uuid)
            & fn.col("incarnation").eqNullSafe(fn.lit(row.incarnation))
            & (fn.col("run") == row.run)
            & (fn.col("worker") == row.worker)
            & (fn.col("proxy") == row.proxy)
        )
        place = fn.when(its, number).otherwise(place)
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
        tells.select(place.alias("seat"), "server_uuid", "dispatched_us", "ended_us", text)
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
    told = fn.struct(gtids.alias("gtids"), fn.lit(whole).alias("is_whole"))
    return fn.when(where, told)


def items(gtids: Column) -> Column:
    """One text per UUID."""
    return fn.split(fn.lower(fn.regexp_replace(gtids, r"\s", "")), ",")


def parts(item: Column) -> Column:
    """One text per tag of an item: the tag, and its intervals behind colons."""
    untagged = fn.regexp_replace(item, "^[^:]+", "")
    return fn.split(fn.regexp_replace(untagged, ":([a-z_])", "|$1"), r"\|")


def _at(where: Column, number: Column, what: int, us: Column) -> Column:
    return fn.when(
        where & number.isNotNull(),
        fn.struct(number.alias("number"), fn.lit(what).alias("what"), us.alias("us")),
    )


def _compare(numbers: DataFrame, seats: int) -> list[Row]:
    """Per seat and kind of row: the least that it came behind what each other seat had been."""
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
    # What a run knows one incarnation by does not change where its clock is set back.
    spans: dict[tuple[object, ...], tuple[int, int]] = {}
    for seat in seats:
        from_us, to_us = spans.get(_reign(seat), (seat.from_us, seat.to_us))
        spans[_reign(seat)] = min(from_us, seat.from_us), max(to_us, seat.to_us)
    for row in compared:
        mine = seats[row.seat]
        from_us, to_us = spans[_reign(mine)]
        for number, other in enumerate(seats):
            behind = row[f"behind_{number}"]
            # Of what did not overlap nobody knows whether the same primary said it.
            its_from_us, its_to_us = spans[_reign(other)]
            overlap = from_us <= its_to_us and its_from_us <= to_us
            if behind is not None and overlap and mine.clock != other.clock:
                found[mine.clock, other.clock].append(behind)
    return {pair: min(its) for pair, its in found.items()}


def _reign(seat: Row) -> tuple[object, ...]:
    """A primary's incarnation as a run knows it."""
    return seat.proxy, seat.worker, seat.run, seat.server_uuid, seat.incarnation
