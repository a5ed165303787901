"""A figure by hour and server."""

from spark_jobs.report import heat
from spark_jobs.tables.row import Row
from tests.spark_jobs.routing_log import DAY_US

HOUR_US = 3_600_000_000


def row(server: str, hour: int, lag_us: int | None, reads: int = 100) -> Row:
    hour_us = DAY_US + hour * HOUR_US
    return Row({"server": server, "hour_us": hour_us, "lag_us": lag_us, "reads": reads})


def grid(title: str, rows: list[Row]) -> heat.Heat:
    return heat.grid(title, rows, "lag_us", "reads")


def test_hours_stand_beside_each_other() -> None:
    rows = [row("r2", 0, 1_000), row("r1", 2, 9), row("r1", 0, 99), row("r1", 0, 12)]
    lag = grid("Lag:", rows)
    assert lag.hours == ["00", "02"]
    first, second = lag.rows
    assert first[0] == "r1"
    assert [tuple(cell) for cell in first[2]] == [
        ("99 µs", 50, "r1, 2026-11-30 00:00: 99 µs, of 100"),
        ("9 µs", 0, "r1, 2026-11-30 02:00: 9 µs, of 100"),
    ]
    assert [tuple(cell) for cell in second[2]] == [
        ("1.00 ms", 100, "r2, 2026-11-30 00:00: 1.00 ms, of 100"),
        ("", -1, ""),
    ]


def test_days_are_told_apart() -> None:
    assert grid("", [row("r1", 0, 1), row("r1", 24, 1)]).hours == [*("11-30 00", "12-01 00")]


def test_nothing_is_nothing() -> None:
    assert grid("", [row("r1", 0, None)]).rows == []
    assert grid("", [row("r1", 0, 5)]).rows[0][2][0].warmth == 0


def test_few_reads_are_no_alarm() -> None:
    lag = grid("Lag", [row("r1", 0, 900_000, reads=3), row("r2", 0, 10), row("r2", 1, 1_000)])
    (r1, _, (few, _)), (r2, _, many) = lag.rows
    assert (r1, few.text, few.warmth) == ("r1", "900 ms", -1)
    assert few.told.endswith("900 ms, of 3")
    assert (r2, [cell.warmth for cell in many]) == ("r2", [0, 100])
    assert lag.title == "Lag (no colour: fewer than 100 cases):"
