"""Bounds how far clocks are ahead of each other, by what one primary told runs on several clocks.

Sets are compared source by source, by the numbers alone: a set lacks whatever is above its highest
number, and has whatever its first interval has, if that begins at 1. Numbers between the first
interval and the highest number are not used.
"""

from collections import defaultdict
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from spark_jobs.sql import literal
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
    has_set = "kind = 'statement' and own_gtids != '' or whole is not null"
    # A record that began before a step and ended after it has times of two clocks.
    is_of_one_clock = "dispatched_us <= ended_us"
    tells = records.where(
        f"role = 'primary' and server_uuid is not null and {is_of_one_clock} and ({has_set})"
    )
    seat = ("clock", *RUN, "server_uuid", "incarnation")
    spans = ("min(dispatched_us) as from_us", "max(ended_us) as to_us", "count(*) as records")
    seats = (
        tells.groupBy(*seat)
        .agg(*map(fn.expr, spans))
        .orderBy(fn.desc("records"), *seat)
        .limit(_SEATS)
        .collect()
    )
    if len({row.clock for row in seats}) < 2:
        return {}
    return _between(seats, _compare(_numbers(tells, seats), len(seats)))


def _numbers(tells: DataFrame, seats: list[Row]) -> DataFrame:
    """``source`` (server and TSID), ``number``, ``what``, ``seat``, ``us``."""
    cases = " ".join(f"when {_is_of(row)} then {number}" for number, row in enumerate(seats))
    sets = (
        ("kind = 'statement' and own_gtids != ''", "own_gtids", "false"),
        ("whole is not null", "whole", "true"),
    )
    shown = ", ".join(
        f"if({where}, struct({gtids} as gtids, {is_whole} as is_whole), null)"
        for where, gtids, is_whole in sets
    )
    happened = (
        ("is_whole", "last + 1", _ASKED, "dispatched_us"),
        ("is_whole and low = 1", "high + 1", _ANSWERED, "ended_us"),
        ("true", "last", _TOLD, "ended_us"),
        ("not is_whole", "low", _SENT, "dispatched_us"),
    )
    events = ", ".join(
        f"if({where} and {number} is not null, "
        f"struct({number} as number, {what} as what, {us} as us), null)"
        for where, number, what, us in happened
    )
    times = ("seat", "server_uuid", "dispatched_us", "ended_us", "is_whole")
    source = (
        "concat_ws('/', server_uuid, substring_index(item, ':', 1), substring_index(part, ':', 1))"
    )
    numbers = {
        "last": "regexp_extract(part, '([0-9]+)$', 1)",
        "low": "substring_index(span, '-', 1)",
        "high": "substring_index(span, '-', -1)",
    }
    return (
        tells.selectExpr("*", f"case {cases} end as seat")
        .where("seat is not null")
        .selectExpr(*times[:-1], f"inline(array_compact(array({shown})))")
        .selectExpr(*times, f"explode({items('gtids')}) as item")
        .selectExpr("*", f"explode({parts('item')}) as part")
        .selectExpr("*", "regexp_extract(part, ':([0-9]+(?:-[0-9]+)?)', 1) as span")
        .where("span != ''")
        .selectExpr(
            *times,
            f"{source} as source",
            *(f"try_cast({text} as bigint) as {name}" for name, text in numbers.items()),
        )
        .selectExpr("source", "seat", f"inline(array_compact(array({events})))")
    )


def _is_of(seat: Row) -> str:
    """SQL: whether a record is of a seat."""
    incarnation = "null" if seat.incarnation is None else seat.incarnation
    return (
        f"clock = {seat.clock} and server_uuid = {literal(seat.server_uuid)} "
        f"and incarnation <=> {incarnation} and run = {literal(seat.run)} "
        f"and worker = {seat.worker} and proxy = {literal(seat.proxy)}"
    )


def items(gtids: str) -> str:
    """SQL that splits a set into one text per UUID."""
    return rf"split(lower(regexp_replace({gtids}, '\\s', '')), ',')"


def parts(item: str) -> str:
    """SQL that splits an item into one text per tag: the tag, and its intervals after colons."""
    untagged = f"regexp_replace({item}, '^[^:]+', '')"
    return f"split(regexp_replace({untagged}, ':([a-z_])', '|$1'), '[|]')"


def _compare(numbers: DataFrame, seats: int) -> list[Row]:
    """Of each seat, the least time by which it was told something after each seat had acted.

    TOLD is compared with the latest ASKED so far, ANSWERED with the latest SENT. The time is
    negative where the clocks differ by more than what really lay between.
    """
    at = ("source", "number", "what", "seat")
    latest = f"what in ({_ASKED}, {_SENT})"
    narrow = numbers.groupBy(*at).agg(fn.expr(f"if({latest}, max(us), min(us)) as us"))
    so_far = "over (partition by source order by number, what rows unbounded preceding)"
    newest = (
        f"max(if(what = {kind} and seat = {seat}, us, null)) {so_far} as {name}_{seat}"
        for seat in range(seats)
        for name, kind in (("asked", _ASKED), ("sent", _SENT))
    )
    behind = (
        f"min(us - case what when {_TOLD} then asked_{seat} when {_ANSWERED} then sent_{seat} end) "
        f"as behind_{seat}"
        for seat in range(seats)
    )
    return (
        narrow.selectExpr(*at, "us", *newest).groupBy("seat").agg(*map(fn.expr, behind)).collect()
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
