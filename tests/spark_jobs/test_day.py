"""A day by UTC, as an operator names it."""

from datetime import UTC, date, datetime, timedelta

import pytest

from spark_jobs.day import DAY_US, Day
from tests.spark_jobs import routing_log


def test_a_day_has_a_begin_an_end_and_neighbours() -> None:
    day = Day.parse("2026-11-30")
    assert str(day) == "2026-11-30"
    assert (day.begin_us, day.end_us) == (routing_log.DAY_US, routing_log.DAY_US + DAY_US)
    assert (str(day.before), str(day.after)) == ("2026-11-29", "2026-12-01")
    assert Day.of(day.begin_us) == Day.of(day.end_us - 1) == day
    assert Day.of(day.end_us) == day.after
    assert Day.of(-1) == Day(date(1969, 12, 31))


def test_days_have_names() -> None:
    # Midnight may pass between two looks at the clock.
    before = datetime.now(UTC).date()
    day = Day.parse("yesterday")
    assert day.date in (before - timedelta(1), before)
    assert Day.parse("today") in (day.after, day.after.after)


@pytest.mark.parametrize("text", ["", "20261130", "2026-11-31", "2026-W48-1", "tomorrow", "-1"])
def test_what_is_no_day_is_an_error_that_says_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="want YYYY-MM-DD, yesterday or today"):
        Day.parse(text)
