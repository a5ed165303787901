"""A GTID set as rows: inserting rows one by one gives the rows of the united set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedGtidSetError
from protocol.gtid import EMPTY, GtidSet
from routing.consistency.gtid_rows import GtidRow, from_rows, rows

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
LAST = (1 << 63) - 2


@st.composite
def some_rows(draw: st.DrawFn) -> GtidRow:
    uuid = draw(st.sampled_from([U, V]))
    tag = draw(st.sampled_from(["", "blue", "green_2"]))
    start = draw(st.integers(1, 30) | st.integers(LAST - 3, LAST))
    return uuid, tag, start, draw(st.integers(start, min(start + 5, LAST)))


MANY = st.lists(some_rows(), max_size=30)


def test_the_shape_of_the_servers_table() -> None:
    gtids = GtidSet.parse(f"{U}:1-3:7:blue:5-6,{V}:9")
    assert rows(gtids) == [(U, "", 1, 3), (U, "", 7, 7), (U, "blue", 5, 6), (V, "", 9, 9)]
    assert rows(EMPTY) == []
    assert from_rows([]) == EMPTY


@given(MANY)
def test_rows_are_the_numbers_that_they_name(found: list[GtidRow]) -> None:
    one_by_one = EMPTY
    for uuid, tag, start, end in found:
        for number in range(start, end + 1):
            one_by_one |= GtidSet.parse(f"{uuid}:{tag + ':' if tag else ''}{number}")
    assert from_rows(found) == one_by_one


@given(MANY)
def test_as_few_rows_as_there_can_be(found: list[GtidRow]) -> None:
    gtids = from_rows(found)
    few = rows(gtids)
    assert from_rows(few) == gtids
    assert len(few) == gtids.interval_count
    assert few == sorted(few)
    assert len({row[:3] for row in few}) == len(few)  # the table's primary key


@given(MANY, MANY)
def test_what_is_new_has_rows_of_its_own(before: list[GtidRow], after: list[GtidRow]) -> None:
    """So new rows can be inserted beside existing ones."""
    had = from_rows(before)
    has = had | from_rows(after)
    inserted = rows(has - had)
    assert from_rows([*before, *inserted]) == has
    assert not {row[:3] for row in inserted} & {row[:3] for row in before}


@pytest.mark.parametrize("row", [(U, "", 0, 1), (U, "", 3, 2), (U, "", 1, LAST + 1)])
def test_rows_that_no_server_would_take(row: GtidRow) -> None:
    with pytest.raises(MalformedGtidSetError):
        from_rows([row])


@pytest.mark.parametrize("row", [("x", "", 1, 1), (U, "1", 1, 1), (U, "a b", 1, 1)])
def test_names_that_no_server_would_take(row: GtidRow) -> None:
    with pytest.raises(MalformedGtidSetError):
        from_rows([row])
