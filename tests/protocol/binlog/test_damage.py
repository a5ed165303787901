"""A damaged log is read up to the damage, which is named with its place."""

import pytest

from protocol.binlog.decode import decode
from protocol.binlog.event import Event, EventType, encode_event
from protocol.binlog.log_reader import EventParser, LogReader
from protocol.errors import MalformedBinlogError
from tests.support import binlogs

LOG = binlogs.load("transactions")
EVENTS = binlogs.events(LOG)


def read(data: bytes) -> tuple[list[Event], MalformedBinlogError]:
    reader = LogReader()
    reader.receive_data(data)
    found: list[Event] = []

    def read_all() -> None:
        while (event := reader.next_event()) is not None:
            found.append(event)
        reader.finish()

    with pytest.raises(MalformedBinlogError) as caught:
        read_all()
    return found, caught.value


@pytest.mark.parametrize("index", range(1, len(EVENTS)))
@pytest.mark.parametrize("cut", [1, 18, 20])
def test_a_truncated_file(index: int, cut: int) -> None:
    position = EVENTS[index].position
    found, error = read(LOG[: position + cut])
    assert found == EVENTS[:index]
    assert error.position == position
    assert "the file ends" in str(error)


@pytest.mark.parametrize("index", range(len(EVENTS)))
def test_a_wrong_checksum(index: int) -> None:
    event = EVENTS[index]
    at = event.position + event.header.length - 6
    damaged = LOG[:at] + bytes((LOG[at] ^ 1,)) + LOG[at + 1 :]
    found, error = read(damaged)
    assert found == EVENTS[:index]
    assert error.position == event.position
    assert "checksum" in str(error)


@pytest.mark.parametrize("length", [0, 18, 22, 2**32 - 1])
def test_a_length_that_cannot_be(length: int) -> None:
    position = EVENTS[3].position
    damaged = LOG[: position + 9] + length.to_bytes(4, "little") + LOG[position + 13 :]
    found, error = read(damaged)
    assert found == EVENTS[:3]
    assert error.position == position


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xfdbin" + bytes(508), "encrypted"),
        (b"#!/bin/sh", "not a binary log"),
        (b"", "not a binary log"),
        (b"\xfeb", "not a binary log"),
        (LOG[:4] + LOG[EVENTS[1].position :], "not a format description"),
    ],
)
def test_a_file_that_is_none(data: bytes, message: str) -> None:
    found, error = read(data)
    assert found == []
    assert message in str(error)


def test_an_unknown_type_is_stepped_over() -> None:
    strange = encode_event(99, b"whatever", timestamp=1, server_id=1, position=len(LOG))
    events = binlogs.events(LOG + strange)
    assert decode(events[-1]) is None
    assert events[-1].type_name == "type 99"


def test_a_body_that_contradicts_itself_is_named() -> None:
    event = next(event for event in EVENTS if event.type == EventType.QUERY)
    broken = Event(event.position, event.header, event.body[:20])
    with pytest.raises(MalformedBinlogError, match=f"at {event.position}: QUERY"):
        decode(broken)


def test_a_file_in_use_has_a_checksum_of_a_closed_one() -> None:
    at = 4 + 17
    in_use = LOG[:at] + b"\x01" + LOG[at + 1 :]
    assert binlogs.events(in_use)[1:] == EVENTS[1:]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_events_are_found_however_they_are_cut(step: int) -> None:
    reader = LogReader()
    found = []
    for begin in range(0, len(LOG), step):
        reader.receive_data(LOG[begin : begin + step])
        found += list(iter(reader.next_event, None))
    reader.finish()
    assert found == EVENTS


def test_a_packet_with_half_an_event_is_refused() -> None:
    parser = EventParser()
    parser.parse(LOG[4 : EVENTS[1].position], 4)
    for data in (b"", LOG[127:150], LOG[127:158] + b"x"):
        with pytest.raises(MalformedBinlogError):
            parser.parse(data, 127)
