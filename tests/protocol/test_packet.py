"""Frames, their sequence ids and the split at 16 MiB."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import PacketOutOfOrderError, PacketTooLargeError
from protocol.packet import frame
from tests.support.packet_reader import PacketReader


def frames(data: bytes) -> list[tuple[int, int]]:
    """(length, sequence id) of each frame."""
    found = []
    while data:
        length = int.from_bytes(data[:3], "little")
        found.append((length, data[3]))
        assert len(data) >= 4 + length
        data = data[4 + length :]
    return found


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, [(0, 255)]),
        (1, [(1, 255)]),
        (MAX_PACKET_PAYLOAD - 1, [(MAX_PACKET_PAYLOAD - 1, 255)]),
        (MAX_PACKET_PAYLOAD, [(MAX_PACKET_PAYLOAD, 255), (0, 0)]),
        (MAX_PACKET_PAYLOAD + 20, [(MAX_PACKET_PAYLOAD, 255), (20, 0)]),
        (
            2 * MAX_PACKET_PAYLOAD,
            [(MAX_PACKET_PAYLOAD, 255), (MAX_PACKET_PAYLOAD, 0), (0, 1)],
        ),
    ],
)
def test_a_payload_is_split_and_joined(size: int, expected: list[tuple[int, int]]) -> None:
    payload = bytes(size // 2) + b"\xfe" * (size - size // 2)
    data = frame(payload, 255)
    assert frames(data) == expected
    reader = PacketReader(max_payload=size, sequence_id=255)
    half = len(data) // 2
    reader.receive_data(data[:half])
    first = reader.next_packet()
    reader.receive_data(data[half:] + b"next")
    assert (first if first is not None else reader.next_packet()) == payload
    assert reader.sequence_id == (255 + len(expected)) & 0xFF
    assert reader.take_rest() == b"next"


def test_a_sequence_id_wraps() -> None:
    assert frame(b"", 256) == b"\0\0\0\0"
    reader = PacketReader(max_payload=8, sequence_id=255)
    reader.receive_data(frame(b"a", 255) + frame(b"b", 256))
    assert reader.next_packet() == b"a"
    assert reader.next_packet() == b"b"
    assert reader.sequence_id == 1


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_packets_come_out_however_they_are_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(payload, i) for i, payload in enumerate(payloads))
    reader = PacketReader(max_payload=20)
    found = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        reader.receive_data(stream[:size])
        stream = stream[size:]
        while (payload := reader.next_packet()) is not None:
            found.append(payload)
    assert found == payloads


def test_a_wrong_sequence_id_is_refused_at_once_and_for_ever() -> None:
    reader = PacketReader(max_payload=100)
    reader.receive_data(b"\x05\x00\x00\x01")
    for _ in range(2):
        with pytest.raises(PacketOutOfOrderError):
            reader.next_packet()


def test_a_wrong_sequence_id_within_a_packet_is_refused() -> None:
    data = bytearray(frame(bytes(MAX_PACKET_PAYLOAD), 0))
    data[-1] = 2
    reader = PacketReader(max_payload=MAX_PACKET_PAYLOAD)
    reader.receive_data(bytes(data))
    with pytest.raises(PacketOutOfOrderError):
        reader.next_packet()


def test_a_packet_that_is_too_large_is_refused_by_its_header() -> None:
    reader = PacketReader(max_payload=4)
    reader.receive_data(frame(b"four", 0) + b"\x05\x00\x00\x01")
    assert reader.next_packet() == b"four"
    with pytest.raises(PacketTooLargeError):
        reader.next_packet()


def test_frames_of_one_packet_count_together() -> None:
    reader = PacketReader(max_payload=MAX_PACKET_PAYLOAD)
    reader.receive_data(b"\xff\xff\xff\x00" + bytes(MAX_PACKET_PAYLOAD) + b"\x01\x00\x00\x01")
    with pytest.raises(PacketTooLargeError):
        reader.next_packet()


def test_the_rest_holds_every_byte_not_yet_returned() -> None:
    reader = PacketReader(max_payload=1 << 25)
    begun = frame(bytes(MAX_PACKET_PAYLOAD), 1)[:-4]  # its first frame is there, its last is not
    reader.receive_data(frame(b"a", 0) + begun)
    assert reader.next_packet() == b"a"
    assert reader.next_packet() is None
    assert reader.take_rest() == begun
    assert reader.take_rest() == b""
    reader.receive_data(frame(b"b", 1))
    assert reader.next_packet() == b"b"


def test_a_new_command_begins_at_zero() -> None:
    reader = PacketReader(max_payload=10)
    reader.receive_data(frame(b"a", 0) + frame(b"b", 0))
    assert reader.next_packet() == b"a"
    reader.sequence_id = 0
    assert reader.next_packet() == b"b"
