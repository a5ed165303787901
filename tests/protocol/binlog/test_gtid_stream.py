"""GTID events out of a stream of packets, however it is cut; the rest is skipped by its length."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.binlog.event import EventType, encode_event
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.gtid_stream import GtidStream
from protocol.errors import MalformedBinlogError, ProtocolError
from protocol.packet import frame
from tests.support import binlogs

NAMES = ("transactions", "compressed", "no_checksum", "kinds", "anonymous")


def packets(data: bytes) -> list[bytes]:
    """A file's events as a server sends them."""
    found, position = [], 4
    while position < len(data):
        length = int.from_bytes(data[position + 9 : position + 13], "little")
        found.append(b"\0" + data[position : position + length])
        position += length
    return found


def stream_of(payloads: list[bytes]) -> bytes:
    return b"".join(frame(payload, number + 1) for number, payload in enumerate(payloads))


def read(data: bytes, sizes: list[int] | None = None) -> tuple[list[GtidEvent], GtidStream]:
    stream, found, offset = GtidStream(), [], 0
    for size in sizes or []:
        found += stream.receive_data(data[offset : offset + size])
        offset += size
    found += stream.receive_data(data[offset:])
    return found, stream


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_what_a_whole_reading_finds(name: str) -> None:
    data = stream_of(packets(binlogs.load(name)))
    whole = binlogs.gtid_events(name)
    assert whole
    assert read(data)[0] == whole
    assert read(data, [1] * len(data))[0] == whole


@given(st.lists(st.integers(1, 300), max_size=200))
def test_it_does_not_matter_how_it_is_cut(sizes: list[int]) -> None:
    data = stream_of(packets(binlogs.load("transactions")))
    assert read(data, sizes)[0] == binlogs.gtid_events("transactions")


@pytest.mark.parametrize("beyond", [-1, 0, 1 << 24])
def test_an_event_of_many_frames_is_passed_by_and_not_kept(beyond: int) -> None:
    events = packets(binlogs.load("transactions"))
    body = bytes((1 << 24) - 2 - 19 - 4 + beyond)
    large = encode_event(EventType.WRITE_ROWS, body, timestamp=1, server_id=1, position=4)
    data = stream_of([*events[:2], b"\0" + large, *events[2:]])
    stream, found = GtidStream(), []
    most = 0
    for offset in range(0, len(data), 1 << 16):
        found += stream.receive_data(data[offset : offset + (1 << 16)])
        most = max(most, len(stream.events._data))
    assert found == binlogs.gtid_events("transactions")
    assert most <= 32 << 10


def test_how_it_ends() -> None:
    events = packets(binlogs.load("transactions"))
    stream = read(stream_of([*events, b"\xfe\0\0\2\0"]))[1].events
    assert (stream.ended, stream.begun, stream.error) == (True, True, None)
    stream = read(stream_of([b"\xff\xcb\x04#42000Access denied"]))[1].events
    assert (stream.ended, stream.begun) == (True, False)
    assert stream.error is not None
    assert (stream.error.code, stream.error.message) == (1227, "Access denied")


def damaged(payloads: list[bytes], index: int, at: int, byte: int) -> list[bytes]:
    bad = bytearray(payloads[index])
    bad[at] ^= byte
    return [*payloads[:index], bytes(bad), *payloads[index + 1 :]]


def test_what_is_damaged_is_no_event() -> None:
    events = packets(binlogs.load("transactions"))
    gtid = next(i for i, payload in enumerate(events) if payload[5] in GtidEvent.TYPES)
    checksum = damaged(events, gtid, -1, 1)
    length = damaged(events, gtid, 1 + 9, 1)
    unread = damaged(events, gtid + 1, 1 + 9, 1)  # also of an event that is not read
    no_format = events[gtid:]
    huge = [*events[:gtid], b"\0" + encode_event(
        EventType.GTID, bytes(20 << 10), timestamp=1, server_id=1, position=4
    )]  # fmt: skip
    begins = [*events[:1], b"\1" + events[1]]
    for bad in (checksum, length, unread, no_format, huge, begins, [b""], [b"\0abc"]):
        with pytest.raises(MalformedBinlogError):
            read(stream_of(bad))


@given(st.binary(max_size=200))
def test_nonsense_raises_nothing_else(nonsense: bytes) -> None:
    events = packets(binlogs.load("transactions"))[:1]
    for data in (stream_of(events) + nonsense, nonsense):
        with suppress(ProtocolError):
            read(data)
