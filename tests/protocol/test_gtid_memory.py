"""What sets take in memory: states of one server share what they have in common."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import gtid_text
from protocol.gtid import GtidSet
from tests.support.gtid_sets import GTID_SETS

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
V = "9b1a2f00-0000-4000-8000-0123456789ab"


def gaps(count: int, until: int = 0) -> str:
    """Text of so many intervals with gaps between them; the last may end later."""
    last = 3 * count
    body = ":".join(f"{3 * k}-{3 * k + 1}" for k in range(1, count))
    return f"{body}:{last}-{max(until, last + 1)}"


def allocated(make: Callable[[], object]) -> int:
    """How many bytes are still in use for what a function returns."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        after = tracemalloc.get_traced_memory()[0]
        assert made is not None
    finally:
        tracemalloc.stop()
    return after - before


SHAPES: dict[str, Callable[[int, int], str]] = {
    "the last interval grows": lambda count, k: f"{U}:{gaps(count, 3 * count + 1 + k)}",
    "two sources grow": lambda count, k: (
        f"{U}:{gaps(count // 2, 3 * count + k)},{V}:{gaps(count // 2, 3 * count + k)}"
    ),
    "a tag grows": lambda count, k: f"{U}:{gaps(count // 2)}:tag:{gaps(count // 2, 3 * count + k)}",
    "a gap is closed": lambda count, k: f"{U}:1-{k + 1}:{gaps(count).partition(':')[2]}",
    "another source is new": lambda count, k: f"{U}:{gaps(count)},{V}:{k + 1}",
}


@pytest.mark.parametrize("count", [10_000, 100_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_state_shares_the_numbers_of_the_one_before(shape: str, count: int) -> None:
    text = SHAPES[shape]
    near = GtidSet.parse(text(count, 1))
    next_text = text(count, 2).encode()
    took = allocated(lambda: GtidSet.parse(next_text, near))
    # Eight bytes for each boundary, and the text; a number by itself would take 32 more.
    assert took < 8 * 2 * count + len(next_text) + 10_000


@given(GTID_SETS, GTID_SETS)
def test_a_comparison_reads_what_a_reading_does(near: GtidSet, other: GtidSet) -> None:
    for gtids in filter(None, (other, near | other, near - other)):
        boundaries, _ = gtid_text.parse(gtids.text)
        near_boundaries, _ = gtid_text.parse(near.text)
        found = gtid_text.parse_changed(gtids.text, near_boundaries, near.text)
        assert found == boundaries
        assert list(found) == list(boundaries)


@given(st.lists(st.integers(1, 40), unique=True), st.lists(st.integers(1, 40), unique=True))
def test_any_gap_may_open_or_close(own: list[int], others: list[int]) -> None:
    near = GtidSet({U: [(n, n + 1) for n in own], f"{U}:tag": [(n, n + 1) for n in others]})
    gtids = GtidSet({U: [(n, n + 1) for n in others], f"{U}:tag": [(n, n + 1) for n in own]})
    boundaries, _ = gtid_text.parse(gtids.text)
    near_boundaries, _ = gtid_text.parse(near.text)
    if gtids:
        assert gtid_text.parse_changed(gtids.text, near_boundaries, near.text) == boundaries
