"""A figure by hour and server."""

from spark_jobs.report.heat import grid
from spark_jobs.row import Row
from tests.spark_jobs.routing_log import DAY_US

HOUR_US = 3_600_000_000


def row(server: str, hour: int, lag_us: int | None) -> Row:
    return Row({"server": server, "hour_us": DAY_US + hour * HOUR_US, "lag_us": lag_us})


def test_hours_stand_beside_each_other() -> None:
    rows = [row("r2", 0, 1_000), row("r1", 2, 9), row("r1", 0, 99), row("r1", 0, 12)]
    heat = grid("Lag:", rows, "lag_us")
    assert heat.hours == ["00", "02"]
    first, second = heat.rows
    assert first[0] == "r1"
    assert [tuple(cell) for cell in first[1]] == [
        ("99 µs", 50, "r1, 2026-11-30 00:00: 99 µs"),
        ("9 µs", 0, "r1, 2026-11-30 02:00: 9 µs"),
    ]
    assert [tuple(cell) for cell in second[1]] == [
        ("1.00 ms", 100, "r2, 2026-11-30 00:00: 1.00 ms"),
        ("", 0, ""),
    ]


def test_days_are_told_apart() -> None:
    assert grid("", [row("r1", 0, 1), row("r1", 24, 1)], "lag_us").hours == [
        *("11-30 00", "12-01 00")
    ]


def test_nothing_is_nothing() -> None:
    assert grid("", [row("r1", 0, None)], "lag_us").rows == []
    assert grid("", [row("r1", 0, 5)], "lag_us").rows[0][1][0].warmth == 0
