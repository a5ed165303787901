"""Binary forms of GTID sets: as the server writes them, and everything that is not one."""

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedGtidSetError
from protocol.gtid import EMPTY, GtidSet
from protocol.gtid_binary import uuid_from_bytes, uuid_to_bytes
from tests.support.json_vectors import load

U = "168066ae-e53d-11f1-b607-02fc00000001"
V = "191e1ad2-e53d-11f1-b607-02fc00000001"
LAST = 2**63 - 2

UNTAGGED = 0
TAGGED = 1 << 56 | 1


def u64(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def untagged(*tsids: tuple[str, list[int]]) -> bytes:
    body = [uuid_to_bytes(uuid) + u64(len(n) // 2, *n) for uuid, n in tsids]
    return u64(len(tsids)) + b"".join(body)


def tagged(*tsids: tuple[str, bytes, list[int]]) -> bytes:
    body = [uuid_to_bytes(uuid) + tag + u64(len(n) // 2, *n) for uuid, tag, n in tsids]
    return u64(TAGGED | len(tsids) << 8) + b"".join(body)


@pytest.mark.parametrize("vector", load("gtid_binary"), ids=lambda v: v["set"][:60])
def test_reads_and_writes_what_the_server_wrote(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["binary"])
    gtids = GtidSet.from_binary(data)
    assert str(gtids) == vector["set"]
    assert gtids == GtidSet.parse(vector["set"])
    needs_tags = any(":" in tsid for tsid in gtids.tsids)
    if data[7] == needs_tags:
        assert gtids.to_binary() == data
    else:  # the server has seen a tag elsewhere; the set alone does not tell
        assert gtids.to_binary()[7] == 0
        assert GtidSet.from_binary(gtids.to_binary()) == gtids


@pytest.mark.parametrize("vector", load("gtid_binary"), ids=lambda v: v["set"][:60])
def test_every_part_of_a_binary_set_is_missed(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["binary"])
    for end in range(len(data)):
        with pytest.raises(MalformedGtidSetError):
            GtidSet.from_binary(data[:end])
    with pytest.raises(MalformedGtidSetError):
        GtidSet.from_binary(data + b"\0")


def test_the_example_of_the_tagged_form() -> None:
    data = bytes.fromhex(
        "01 02 00 00 00 00 00 01"
        "168066aee53d11f1b60702fc00000001 00"
        "0200000000000000 0100000000000000 4b00000000000000 f401000000000000 f601000000000000"
        "168066aee53d11f1b60702fc00000001 0c 6d795f746167"
        "0100000000000000 0100000000000000 0200000000000000"
    )
    assert str(GtidSet.from_binary(data)) == f"{U}:1-74:500-501:my_tag:1"
    assert GtidSet.parse(f"{U}:1-74:500-501:my_tag:1").to_binary() == data


def test_empty() -> None:
    assert EMPTY.to_binary() == bytes(8)
    assert GtidSet.from_binary(bytes(8)) == EMPTY
    assert GtidSet.from_binary(u64(TAGGED)) == EMPTY


def test_tsids_may_come_in_any_order_and_twice() -> None:
    data = untagged((V, [1, 3]), (U, [5, 6]), (V, [3, 4, 9, 10]))
    assert str(GtidSet.from_binary(data)) == f"{U}:5,\n{V}:1-3:9"
    mixed = tagged((V, b"\x02b", [1, 2]), (U, b"\x02A", [1, 2]), (U, b"\0", [1, 2]))
    assert str(GtidSet.from_binary(mixed)) == f"{U}:1:a:1,\n{V}:b:1"


def test_uuid() -> None:
    assert uuid_from_bytes(bytes.fromhex(U.replace("-", ""))) == U
    assert uuid_to_bytes(U) == bytes.fromhex(U.replace("-", ""))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(7), id="seven bytes"),
        pytest.param(u64(2 << 56 | 2), id="a form of the future"),
        pytest.param(u64(1 << 56), id="two forms"),
        pytest.param(u64(0xFF << 56 | 0xFF), id="no form"),
        pytest.param(u64(1 << 48), id="more TSIDs than memory"),
        pytest.param(u64((1 << 56) - 1) + bytes(64), id="most TSIDs"),
        pytest.param(u64(TAGGED | ((1 << 48) - 1) << 8) + bytes(64), id="most tagged TSIDs"),
        pytest.param(u64(1) + bytes(16) + u64(2**63) + bytes(64), id="most intervals"),
        pytest.param(u64(1) + bytes(16) + u64(2**60 + 1, 1, 2), id="a count that wraps"),
        pytest.param(untagged((U, [])) + bytes(16), id="no intervals"),
        pytest.param(untagged((U, []), (V, [1, 2, 3, 4])), id="one TSID without intervals"),
        pytest.param(untagged((U, [0, 2])), id="zero"),
        pytest.param(untagged((U, [2, 2])), id="empty interval"),
        pytest.param(untagged((U, [5, 3])), id="reversed interval"),
        pytest.param(untagged((U, [1, 3, 2, 5])), id="overlapping intervals"),
        pytest.param(untagged((U, [1, 3, 3, 5])), id="touching intervals"),
        pytest.param(untagged((U, [7, 9, 1, 2])), id="descending intervals"),
        pytest.param(untagged((U, [1, LAST + 2])), id="beyond the last number"),
        pytest.param(untagged((U, [1, 2**64 - 1])), id="negative, to the server"),
        pytest.param(tagged((U, b"\x42" + b"a" * 33, [1, 2])), id="a long tag"),
        pytest.param(tagged((U, b"\x021", [1, 2])), id="a digit first in a tag"),
        pytest.param(tagged((U, b"\x02-", [1, 2])), id="a dash for a tag"),
        pytest.param(tagged((U, b"\x02:", [1, 2])), id="a colon for a tag"),
        pytest.param(tagged((U, b"\x04\xc3\xa9", [1, 2])), id="a tag that is not ASCII"),
        pytest.param(tagged((U, b"\x05\x00a", [1, 2])), id="a tag's length in two bytes"),
        pytest.param(tagged((U, b"\x03a", [1, 2])), id="a tag's length in three bytes"),
        pytest.param(tagged((U, b"\xff" * 9, [1, 2])), id="a tag's length in nine bytes"),
        pytest.param(tagged((U, b"\x20a", [1, 2])), id="a tag runs into what follows"),
    ],
)
def test_refuses(data: bytes) -> None:
    with pytest.raises(MalformedGtidSetError):
        GtidSet.from_binary(data)


def test_counts_are_held_against_what_is_left_before_they_are_used() -> None:
    with pytest.raises(MalformedGtidSetError, match="TSIDs do not fit into 72 bytes"):
        GtidSet.from_binary(u64((1 << 56) - 1) + bytes(64))
    with pytest.raises(MalformedGtidSetError, match="intervals announced, 16 bytes left"):
        GtidSet.from_binary(u64(1) + bytes(16) + u64(2**60 + 1, 1, 2))


def test_the_largest_number_goes_both_ways() -> None:
    gtids = GtidSet.parse(f"{U}:1-{LAST}")
    assert gtids.to_binary() == untagged((U, [1, LAST + 1]))
    assert GtidSet.from_binary(gtids.to_binary()) == gtids


uuids = st.uuids().map(str)
tags = st.from_regex(r"[a-z_][a-z0-9_]{0,31}", fullmatch=True).map(lambda tag: ":" + tag)
tsids = st.builds(lambda uuid, tag: uuid + tag, st.sampled_from([U, V]) | uuids, st.just("") | tags)
intervals = st.builds(
    lambda start, more: (start, min(start + more, LAST + 1)),
    st.integers(1, 50) | st.integers(1, LAST),
    st.integers(1, 9) | st.integers(1, LAST),
)
sets = st.dictionaries(tsids, st.lists(intervals, min_size=1, max_size=6), max_size=5).map(GtidSet)


@given(sets)
def test_both_ways(gtids: GtidSet) -> None:
    again = GtidSet.from_binary(gtids.to_binary())
    assert again == gtids
    assert str(again) == str(gtids)
    assert GtidSet.parse(str(gtids)) == gtids


@given(st.binary(max_size=80), st.sampled_from([b"", bytes(8), u64(1), u64(TAGGED | 1 << 8)]))
def test_any_bytes_are_read_or_refused(data: bytes, header: bytes) -> None:
    with contextlib.suppress(MalformedGtidSetError):
        GtidSet.from_binary(header + data)


@given(sets, st.data())
def test_changed_bytes_are_read_or_refused(gtids: GtidSet, data: st.DataObject) -> None:
    whole = gtids.to_binary()
    at = data.draw(st.integers(0, len(whole)))
    removed = data.draw(st.integers(0, 9))
    changed = whole[:at] + data.draw(st.binary(max_size=9)) + whole[at + removed :]
    try:
        parsed = GtidSet.from_binary(changed)
    except MalformedGtidSetError:
        return
    assert GtidSet.from_binary(parsed.to_binary()) == parsed
    assert GtidSet.parse(str(parsed)) == parsed
