"""The text of gtid_owned, as a server of 9.7.4 writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedGtidSetError
from protocol.gtid import GtidSet
from protocol.gtid_owned import parse_owned

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "11111111-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (f"{A}:9#12", f"{A}:9"),
        (f"{A}:9#12:5#11{A}:my_tag:3#13{B}:1#14", f"{A}:5:9:my_tag:3,{B}:1"),
        (f"{A}:9#1{B}:5#11", f"{A}:9,{B}:5"),  # a UUID of digits behind a thread's number
        (f"{A}:9#111111111{B}:5#1", f"{A}:9,{B}:5"),
    ],
)
def test_what_a_server_writes(text: str, expected: str) -> None:
    assert parse_owned(text) == GtidSet.parse(expected)


@pytest.mark.parametrize(
    "text", ["x", A, f"{A}:", f"{A}:9", f"{A}:9#", f"{A}:9#1,{B}:1#1", f" {A}:9#1"]
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(MalformedGtidSetError):
        parse_owned(text)


uuids = st.uuids().map(str)
groups = st.lists(
    st.tuples(uuids, st.lists(st.tuples(st.integers(1, 99), st.integers(1, 10**9)), min_size=1)),
    max_size=4,
    unique_by=lambda group: group[0],
)


@given(groups)
def test_any_owned(owned: list[tuple[str, list[tuple[int, int]]]]) -> None:
    text = "".join(uuid + "".join(f":{n}#{thread}" for n, thread in ones) for uuid, ones in owned)
    expected = ",".join(f"{uuid}:{n}" for uuid, ones in owned for n, _ in ones)
    assert parse_owned(text) == GtidSet.parse(expected)


@given(st.text(alphabet=A + B + "#:,-", max_size=90))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        parse_owned(text)
    except MalformedGtidSetError:
        return
