"""JSON documents out of rows."""

import struct

import pytest

from protocol.binlog.json_value import json_text
from protocol.errors import MalformedPacketError

COUNT = 2000


def array(values: list[bytes], kind: int) -> bytes:
    """A large array of values of one kind that stand outside of its head."""
    head = 8 + 5 * len(values)
    entries, at = b"", head
    for value in values:
        entries += bytes((kind,)) + struct.pack("<I", at)
        at += len(value)
    return b"\x03" + struct.pack("<II", len(values), at) + entries + b"".join(values)


def test_a_long_array() -> None:
    texts = [f"{number:06d}".encode() for number in range(COUNT)]
    document = array([bytes((len(text),)) + text for text in texts], 12)
    text = json_text(document)
    assert text.startswith('["000000", "000001", ')
    assert text.count(",") == COUNT - 1


def test_values_that_share_their_bytes_are_not_told_for_ever() -> None:
    inner = array([b"\x01x"] * 100, 12)[1:]
    head = 8 + 5 * COUNT
    entries = b"".join(b"\x03" + struct.pack("<I", head) for _ in range(COUNT))
    size = head + len(inner)
    with pytest.raises(MalformedPacketError, match="contradicts itself"):
        json_text(b"\x03" + struct.pack("<II", COUNT, size) + entries + inner)


@pytest.mark.parametrize("depth", [5, 100, 101])
def test_depth_is_bounded(depth: int) -> None:
    document = b"\x02\x00\x00\x04\x00"
    for _ in range(depth):
        inner = document[1:]
        size = 7 + len(inner)
        document = b"\x02" + struct.pack("<HH", 1, size) + b"\x02\x07\x00" + inner
    if depth <= 100:
        assert json_text(document) == "[" * (depth + 1) + "]" * (depth + 1)
    else:
        with pytest.raises(MalformedPacketError, match="too deep"):
            json_text(document)
