"""PacketEnd finds where a packet ends, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.packet import frame
from protocol.packet_end import PacketEnd

FULL = MAX_PACKET_PAYLOAD


def walk(data: bytes, sizes: list[int]) -> tuple[PacketEnd, int]:
    """Feed in portions of these sizes, over and over; return where the packet ended."""
    end = PacketEnd()
    position = 0
    current = 0
    while position < len(data) and not end.done:
        size = sizes[current % len(sizes)]
        current += 1
        portion = data[position : position + size]
        taken = end.feed(portion)
        assert taken == len(portion) or end.done
        position += taken
    return end, position


@given(
    st.integers(0, 300), st.lists(st.integers(1, 50), min_size=1, max_size=5), st.binary(max_size=9)
)
def test_the_end_of_one_frame(length: int, sizes: list[int], behind: bytes) -> None:
    packet = frame(bytes(length), 7)
    end, position = walk(packet + behind, sizes)
    assert end.done
    assert position == len(packet)
    assert end.length == length
    assert end.sequence_id == 7


@pytest.mark.parametrize("length", [FULL - 1, FULL, FULL + 1, 2 * FULL, 2 * FULL + 5])
@pytest.mark.parametrize("size", [1 << 30, 1_000_003, FULL, FULL + 4, FULL + 3])
def test_the_end_of_many_frames(length: int, size: int) -> None:
    packet = frame(b"\xff" * length, 254)
    end, position = walk(packet + b"behind", [size])
    assert end.done
    assert position == len(packet)
    assert end.length == length
    assert end.sequence_id == (254 + length // FULL) & 0xFF


@given(st.integers(1, 200), st.data())
def test_no_end_before_the_last_byte(length: int, data: st.DataObject) -> None:
    packet = frame(bytes(length), 0)
    cut = data.draw(st.integers(0, len(packet) - 1))
    end, position = walk(packet[:cut], [data.draw(st.integers(1, 50))])
    assert not end.done
    assert position == cut


def test_the_length_is_known_from_the_header_on() -> None:
    end = PacketEnd()
    end.feed(b"\xff\xff\xff\x00")
    assert (end.length, end.done) == (FULL, False)
    end.feed(bytes(FULL))
    assert (end.length, end.done) == (FULL, False)
    end.feed(b"\xfe\xff\xff\x01")
    assert (end.length, end.done) == (2 * FULL - 1, False)


def test_an_empty_packet_ends_with_its_header() -> None:
    end = PacketEnd()
    assert end.feed(b"\0\0\0\x05more") == 4
    assert end.done
    assert end.length == 0


def test_a_position_to_begin_at_and_one_packet_after_the_other() -> None:
    data = frame(b"one", 0) + frame(b"", 1) + frame(b"three", 2)
    end = PacketEnd()
    position = 0
    ends = []
    while position < len(data):
        end.begin()
        position = end.feed(data, position)
        ends.append((position, end.length, end.done))
    assert ends == [(7, 3, True), (11, 0, True), (20, 5, True)]
    assert end.feed(b"not looked at") == 0
