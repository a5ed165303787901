"""A rate is never exceeded, and whoever must wait is told how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.rate_limit import RateLimit


def test_a_seconds_worth_goes_through_at_once() -> None:
    limit = RateLimit(5.0)
    assert [limit.reserve(100.0, 0.0) for _ in range(5)] == [0.0] * 5
    assert limit.reserve(100.0, 0.0) is None
    assert limit.reserve(100.19, 0.0) is None
    assert limit.reserve(100.21, 0.0) == 0.0


def test_a_slow_rate_lets_one_through_at_once() -> None:
    limit = RateLimit(0.1)
    assert limit.reserve(0.0, 0.0) == 0.0
    assert limit.reserve(9.0, 0.0) is None
    assert limit.reserve(10.5, 0.0) == 0.0


def test_who_may_wait_is_told_how_long() -> None:
    limit = RateLimit(10.0)
    for _ in range(10):
        limit.reserve(50.0, 0.0)
    assert [limit.reserve(50.0, 1.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert limit.reserve(50.2, 1.0) == pytest.approx(0.2)  # after those who wait already


def test_a_refusal_costs_nothing() -> None:
    limit = RateLimit(10.0)
    for _ in range(10):
        limit.reserve(50.0, 0.0)
    for _ in range(100):
        assert limit.reserve(50.0, 0.05) is None
    assert limit.reserve(50.0, 0.2) == pytest.approx(0.1)


def test_what_is_not_used_does_not_add_up_beyond_a_second() -> None:
    limit = RateLimit(3.0)
    limit.reserve(0.0, 0.0)
    assert [limit.reserve(1000.0, 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, None]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limit = RateLimit(1.0)
    assert limit.reserve(50.0, 0.0) == 0.0
    assert limit.reserve(40.0, 0.0) is None
    assert limit.reserve(50.5, 0.0) is None
    assert limit.reserve(51.5, 0.0) == 0.0


@given(
    st.sampled_from([0.5, 1.0, 3.0, 20.0]),
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 3.0)), max_size=80),
)
def test_no_stretch_of_time_gets_more_than_the_rate(
    rate: float, steps: list[tuple[float, float]]
) -> None:
    limit = RateLimit(rate)
    now = 100.0
    passed: list[float] = []
    for pause, most in steps:
        now += pause
        delay = limit.reserve(now, most)
        if delay is not None:
            assert 0 <= delay <= most
            passed.append(now + delay)
    passed.sort()
    burst = max(rate, 1.0)
    for begin in range(len(passed)):
        for end in range(begin, len(passed)):
            most_there = burst + rate * (passed[end] - passed[begin])
            assert end - begin + 1 <= most_there + 1e-6
