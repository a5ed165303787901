"""The nights as charts."""

import pytest

from spark_jobs.report.losses import count_lost
from spark_jobs.report.trend import charts, share
from tests.spark_jobs.found import GTID, lost, summary


def test_one_night_is_no_trend() -> None:
    assert charts([]) == charts([summary("2026-11-30")]) == []


def test_nights_stand_in_the_order_of_their_dates() -> None:
    nights = [summary("2026-11-30", violations=10), summary("2026-11-29", violations=5)]
    violations, losses, unjudged, duration = charts([*nights, summary("2026-11-28")])
    assert [bar.told for bar in violations.bars] == [
        *("2026-11-28: 0", "2026-11-29: 5", "2026-11-30: 10")
    ]
    assert [bar.height for bar in violations.bars] == [1, 24, 48]
    assert [bar.y + bar.height for bar in violations.bars] == [48] * 3
    assert [bar.is_bad for bar in violations.bars] == [False, True, True]
    assert (violations.newest, violations.most) == ("10", "10")
    assert (losses.newest, unjudged.newest, duration.newest) == ("0", "0%", "60.0 s")
    assert not any(bar.is_bad for chart in (losses, unjudged, duration) for bar in chart.bars)


def test_what_is_not_judged_is_bad_below_what_was_asked_for() -> None:
    nights = [
        summary(f"2026-11-{day}", coverage=share, min_coverage=0.999)
        for day, share in ((28, 1.0), (29, 0.999), (30, 0.998))
    ]
    assert [bar.is_bad for bar in charts(nights)[2].bars] == [False, False, True]


def test_many_nights_fit() -> None:
    nights = [summary(f"2026-{month:02}-{day:02}") for month in (10, 11) for day in range(1, 32)]
    for chart in charts(nights):
        assert len(chart.bars) == 60
        assert chart.bars[0].told.startswith("2026-10-03")
        assert chart.bars[-1].x + chart.bars[-1].width <= chart.width


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.5, "50.0%"),
        (0.9996, "99.96%"),
        (0.99999999, "99.999999%"),
        (0.0000001, "0.00001%"),
        (1e-12, "under 0.000001%"),
        (1 - 1e-12, "over 99.999999%"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(value: float, told: str) -> None:
    assert share(value) == told


def test_what_several_proxies_tell_is_lost_once() -> None:
    sets = (f"{GTID}:7-9", f"{GTID}:9:t:1", f"{GTID}:20-21,…")
    assert count_lost([lost(gtids=gtids) for gtids in sets]) == 6
