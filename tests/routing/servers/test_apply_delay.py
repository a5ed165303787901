"""What was met of a replica's delays, and what that says of the next one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.apply_delay import ApplyDelay


@pytest.fixture
def delay() -> ApplyDelay:
    return ApplyDelay()


def test_nothing_is_known_at_first(delay: ApplyDelay) -> None:
    assert (delay.expected(99.0), delay.at_most(99.0), delay.at_least(99.0)) == (0, 0, 0)


def test_a_wait_that_waited_predicts_the_next(delay: ApplyDelay) -> None:
    delay.applied(0.5, 0.4, 100.0)
    assert delay.expected(100.0) == delay.at_most(100.0) == 0.5
    assert delay.at_least(100.0) == 0.25


def test_it_is_known_for_a_while(delay: ApplyDelay) -> None:
    delay.applied(1.5, 0.1, 100.0)
    assert delay.at_most(109.9) == 1.5
    assert delay.at_most(110.1) == delay.expected(110.1) == 0
    delay.applied(0.1, 0.1, 200.0)
    assert delay.at_most(200.0) == 0.1


def test_it_is_known_for_long_where_a_change_would_be_noticed(delay: ApplyDelay) -> None:
    """Replicas that are late mostly stay so, and writes may be few."""
    delay.measured([], 99.0)
    assert not delay.is_known(99.0)
    delay.measured([1.5, 1.2], 100.0)
    assert (delay.at_least(100.0), delay.at_most(699.0)) == (0.6, 1.5)
    assert delay.at_most(701.0) == 0
    delay.measured([1.5], 800.0)
    delay.unmeasured()
    assert delay.is_known(809.0)
    assert not delay.is_known(811.0)


def test_after_a_while_it_may_have_become_shorter(delay: ApplyDelay) -> None:
    delay.applied(1.5, 0.1, 100.0)
    assert delay.at_least(101.9) == 0.75
    assert delay.at_least(102.1) == 0


def test_the_last_ones_count(delay: ApplyDelay) -> None:
    for number in range(8):
        delay.applied(1.0 + number / 10, 0.1, 100.0)
    assert (delay.at_least(100.0), delay.at_most(100.0)) == (0.5, 1.7)
    assert delay.expected(100.0) == pytest.approx(1.35)


def test_one_out_of_the_ordinary_is_forgotten_after_a_few_others(delay: ApplyDelay) -> None:
    delay.applied(60.0, 0.1, 100.0)
    for _ in range(7):
        delay.applied(0.01, 0.01, 100.0)
    assert delay.at_most(100.0) == 60.0
    delay.applied(0.01, 0.01, 100.0)
    assert delay.at_most(100.0) == 0.01


def test_what_was_there_already_was_so_no_later(delay: ApplyDelay) -> None:
    delay.applied(0.4, 0.4, 100.0)
    delay.applied(9.0, 0.0001, 100.1)
    assert delay.at_most(100.1) == 0.4
    delay.applied(0.1, 0.0001, 100.2)
    assert delay.expected(100.2) == pytest.approx(0.25)
    assert delay.at_least(100.2) == 0.05


def test_what_is_missing_takes_longer(delay: ApplyDelay) -> None:
    delay.missing(0.7, 100.0)
    assert delay.expected(100.0) == delay.at_most(100.0) == 0.7
    delay.missing(0.2, 100.1)
    assert delay.at_most(100.1) == 0.7
    delay.applied(0.9, 0.0001, 100.2)  # it is there, and was not when it was last asked
    assert delay.at_most(100.2) == 0.9
    delay.missing(0.2, 200.0)  # all of that is long ago
    assert delay.at_most(200.0) == 0.2


def test_to_miss_what_is_not_due_is_no_news(delay: ApplyDelay) -> None:
    """Else brief WAITs in vain would keep what is known from ever growing old."""
    delay.applied(1.0, 0.1, 100.0)
    for now in range(100, 111):
        delay.missing(0.002, float(now))
    assert delay.at_most(111.0) == 0.002


@given(
    st.lists(
        st.tuples(
            *(st.booleans(), st.floats(0, 99), st.floats(0, 99), st.floats(0, 99)),
        )
    )
)
def test_bounds_are_around_what_is_expected(
    events: list[tuple[bool, float, float, float]],
) -> None:
    delay = ApplyDelay()
    now = 100.0
    for is_there, pause, seconds, waited in events:
        now += pause
        if is_there:
            delay.applied(seconds, waited, now)
        else:
            delay.missing(seconds, now)
            assert delay.at_most(now) >= seconds
        expected = delay.expected(now)
        assert 0 <= delay.at_least(now) <= expected + 1e-9
        assert expected <= delay.at_most(now) + 1e-9
