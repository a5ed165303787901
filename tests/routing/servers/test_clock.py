from hypothesis import given
from hypothesis import strategies as st

from routing.servers.clock import Clock

moments = st.integers(0, 10**12)
ahead = st.integers(-(10**10), 10**10)
trips = st.integers(0, 10**6)


def test_clocks_that_may_agree_are_not_corrected() -> None:
    clock = Clock.from_answer(server_us=1_000_500, asked_us=0, answered_us=1_000)
    other = Clock.from_answer(server_us=1_000_200, asked_us=0, answered_us=1_000)
    difference = clock.ahead_of(other)
    assert (difference.low, difference.high) == (-700, 1_300)
    assert difference.least == 0
    assert difference.error == 1_300


def test_clocks_that_differ_are_corrected_by_what_is_certain() -> None:
    clock = Clock.from_answer(server_us=61_000_500, asked_us=0, answered_us=1_000)
    other = Clock.from_answer(server_us=1_000_200, asked_us=0, answered_us=1_000)
    difference = clock.ahead_of(other)
    assert difference.least == 60_000_300 - 1_000
    assert difference.error == 2_000
    assert other.ahead_of(clock).least == -difference.least


@given(ahead, ahead, moments, trips, trips, st.floats(0, 1), st.floats(0, 1))
def test_the_real_difference_is_within_the_bounds(
    first: int, second: int, at: int, trip: int, other_trip: int, part: float, other_part: float
) -> None:
    # Each server takes its time somewhere between question and answer.
    clock = Clock.from_answer(at + int(trip * part) + first, at, at + trip)
    other = Clock.from_answer(at + int(other_trip * other_part) + second, at, at + other_trip)
    difference = clock.ahead_of(other)
    assert difference.low <= first - second <= difference.high
    assert abs(first - second - difference.least) <= difference.error


def test_looks_at_different_moments_allow_for_drift() -> None:
    clock = Clock.from_answer(0, asked_us=0, answered_us=0)
    later = Clock.from_answer(10_000_000, asked_us=10_000_000, answered_us=10_000_000)
    assert later.ahead_of(clock).high == 5_000
