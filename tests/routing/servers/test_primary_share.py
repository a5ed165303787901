"""A read waits where that is not dearer, and neither side is ever left without a measurement."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.primary_share import LEAST_SHARE, SHORT_S, PrimaryShare, is_worth_waiting

times = st.floats(0, 60)
shares = st.floats(LEAST_SHARE, 1 - LEAST_SHARE)

_FORCED = 200
"""Of so many reads one at least goes each way."""


def parts(on_replica: Callable[[int], float], on_primary: float, reads: int) -> list[bool]:
    """Whether each of some reads went to the primary; `on_replica` tells the time there by read."""
    share = PrimaryShare()
    went = []
    for number in range(reads):
        waits = is_worth_waiting(on_replica(number), on_primary, share.share)
        share.add(not waits)
        went.append(not waits)
    return went


@given(times, times, shares)
def test_a_read_never_waits_where_that_is_dearer(
    on_replica: float, on_primary: float, share: float
) -> None:
    load = on_primary * share / (1 - share)
    waits = is_worth_waiting(on_replica, on_primary, share)
    assert waits or on_replica > on_primary
    spared = share >= 0.5 and on_replica <= SHORT_S
    assert spared or not (waits and on_replica > (on_primary + load) * (1 + 1e-9))


@given(times, times, times, shares, shares)
def test_less_to_wait_and_more_load_never_speak_against_a_wait(
    longer: float, shorter: float, on_primary: float, more: float, less: float
) -> None:
    longer, shorter = max(longer, shorter), min(longer, shorter)
    more, less = max(more, less), min(more, less)
    if is_worth_waiting(longer, on_primary, less):
        assert is_worth_waiting(shorter, on_primary, less)
        assert is_worth_waiting(longer, on_primary, more)


@pytest.mark.parametrize(
    ("on_replica_us", "share"),
    [(200, 0), (220, 1 / 11), (300, 1 / 3), (400, 0.5), (800, 0.5), (1_990, 0.5)],
)
def test_replicas_are_given_reads_by_how_fast_they_answer_and_half_at_least(
    on_replica_us: float, share: float
) -> None:
    went = parts(lambda _: on_replica_us / 1e6, 0.0002, 20_000)[2_000:]
    assert sum(went) / len(went) == pytest.approx(share, abs=0.02)
    assert sum(went) <= len(went) / 2 + 1


@pytest.mark.parametrize(("on_replica_us", "share"), [(2_010, 0.9), (4_000, 0.95), (20_000, 0.99)])
def test_where_a_wait_is_long_most_reads_leave(on_replica_us: float, share: float) -> None:
    went = parts(lambda _: on_replica_us / 1e6, 0.0002, 20_000)[2_000:]
    assert sum(went) / len(went) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("on_replica", "dear"), [(1000.0, False), (0.0, True)])
def test_what_nobody_tries_is_tried_all_the_same_by_less_than_a_hundredth(
    on_replica: float, dear: bool
) -> None:
    went = parts(lambda _: on_replica, 0.0002, 20_000)[2_000:]
    for begin in range(0, len(went) - _FORCED, _FORCED):
        assert dear in went[begin : begin + _FORCED]
    assert 0 < went.count(dear) / len(went) < 0.01


@given(
    st.lists(times, min_size=1, max_size=40),
    st.floats(0, 1),
)
def test_the_share_stays_one(waits: list[float], on_primary: float) -> None:
    share = PrimaryShare()
    for wait in waits * 20:
        share.add(not is_worth_waiting(wait, on_primary, share.share))
        assert 0 < share.share < 1


def test_a_replica_that_has_caught_up_gets_its_reads_back() -> None:
    """What was 1 s late and is not any more is found out by those that wait all the same."""
    went = parts(lambda number: 1.0 if number < 5_000 else 0.0001, 0.0002, 6_000)
    assert sum(went[4_000:5_000]) > 980
    assert sum(went[5_000 + _FORCED : 6_000]) < 400
    assert sum(went[5_800:]) < 10
