"""Running figures of how soon a server answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.answer_times import AnswerTimes

times = st.floats(1e-6, 60)


@given(st.lists(st.tuples(times, times), min_size=1))
def test_each_figure_is_between_the_shortest_and_the_longest_time(
    answers: list[tuple[float, float]],
) -> None:
    figures = AnswerTimes()
    for seconds, waited in answers:
        figures.answered(seconds, 0.0)
        figures.answered(seconds + waited, waited)
    shortest, longest = min(seconds for seconds, _ in answers), max(s for s, _ in answers)
    for figure in (figures.alone, figures.behind_wait):
        assert shortest * (1 - 1e-6) - 1e-9 <= figure <= longest * (1 + 1e-6) + 1e-9


@given(st.lists(st.tuples(times, times, st.floats(0, 3))))
def test_a_wait_is_expected_to_take_no_longer_than_the_longest_did(
    waits: list[tuple[float, float, float]],
) -> None:
    figures = AnswerTimes()
    now, longest = 100.0, 0.0
    for before, waited, pause in waits:
        now += pause
        figures.caught_up(before + waited, waited, now)
        longest = max(longest, before + waited)
        remaining = figures.remaining(now, now)
        assert remaining is not None
        assert 0 <= remaining <= longest + 1e-9


def test_a_delay_is_trusted_for_two_seconds() -> None:
    figures = AnswerTimes()
    assert figures.remaining(10.0, 10.0) is None
    figures.caught_up(0.3, 0.25, 10.0)
    assert figures.remaining(11.9, 11.9) == pytest.approx(0.3)
    assert figures.remaining(11.7, 11.9) == pytest.approx(0.1)
    assert figures.remaining(11.0, 11.9) == 0
    assert figures.remaining(12.0, 12.0) is None


def test_a_wait_for_what_was_there_long_ago_makes_nothing_slower() -> None:
    figures = AnswerTimes()
    figures.caught_up(5.0, 0.0001, 10.0)
    assert figures.remaining(10.0, 10.0) == 0
    figures.caught_up(0.0005, 0.0004, 10.1)
    before = figures.remaining(10.1, 10.1)
    figures.caught_up(5.0, 0.0001, 10.2)
    assert figures.remaining(10.2, 10.2) == pytest.approx(before)


def test_a_delay_that_falls_is_believed_sooner() -> None:
    rising, falling = AnswerTimes(), AnswerTimes()
    for figures, first in ((rising, 0.001), (falling, 0.003)):
        figures.caught_up(first, first, 10.0)
        figures.caught_up(0.002, 0.002, 10.0)
    assert rising.remaining(10.0, 10.0) == pytest.approx(0.00125)
    assert falling.remaining(10.0, 10.0) == pytest.approx(0.0025)


def test_one_stall_is_no_lag_and_a_lag_is_noticed_all_the_same() -> None:
    figures = AnswerTimes()
    figures.caught_up(0.0004, 0.0004, 10.0)
    figures.caught_up(0.2, 0.2, 10.0)
    assert figures.remaining(10.0, 10.0) == pytest.approx(0.0005)
    for _ in range(40):
        figures.caught_up(0.2, 0.2, 10.0)
    assert figures.remaining(10.0, 10.0) == pytest.approx(0.2, rel=0.05)


def test_a_wait_that_ran_out_took_longer_than_its_budget() -> None:
    figures = AnswerTimes()
    figures.caught_up(0.001, 0.001, 10.0)
    figures.timed_out(0.25, 10.1)
    assert figures.remaining(10.1, 10.1) == pytest.approx(0.25)
    figures.timed_out(0.1, 10.2)
    assert figures.remaining(10.2, 10.2) == pytest.approx(0.25)
    figures.timed_out(0.1, 20.0)
    assert figures.remaining(20.0, 20.0) == pytest.approx(0.1)


def test_long_statements_hardly_move_the_time_of_an_answer() -> None:
    figures = AnswerTimes()
    for number in range(400):
        figures.answered(0.05 if number % 10 == 0 else 0.0002, 0.0)
    assert 0.0002 <= figures.alone < 0.003


def test_a_read_takes_what_it_takes_behind_a_wait_that_ends_at_once() -> None:
    figures = AnswerTimes()
    figures.answered(0.0002, 0.0)
    figures.answered(0.0005, 0.00045)
    assert figures.expected(0.0) == pytest.approx(0.0002)
    assert figures.expected(0.001) == pytest.approx(0.00105)
