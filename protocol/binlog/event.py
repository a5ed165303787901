"""One event: a header of 19 bytes, a body, and a checksum if the log has them.

Source: "Binary log event header" in the server's documentation of ``Log_event_header``. All
integers are little-endian.
"""

import struct
import zlib
from enum import IntEnum
from typing import Final, NamedTuple

HEADER_BYTES: Final = 19
CHECKSUM_BYTES: Final = 4
MAX_EVENT_BYTES: Final = 2**30 + 2**20
"""No server writes a longer one: max_allowed_packet is at most 1 GiB."""

IN_USE: Final = 0x0001
"""In a format description: the server has not closed this file (yet)."""
SUPPRESS_USE: Final = 0x0008
"""In a QUERY event: the statement needs no current schema."""
ARTIFICIAL: Final = 0x0020
"""Made for the stream; it is in no file."""
IGNORABLE: Final = 0x0080
"""A reader that does not know the type may skip the event."""

_header = struct.Struct("<IBIIIH")


class EventType(IntEnum):
    """The types that are read here; others are skipped by their length."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    TABLE_MAP = 19
    HEARTBEAT = 27
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42


class Header(NamedTuple):
    """An event's header.

    Attributes:
        timestamp: seconds since the epoch when its statement began.
        type: a number of `EventType`, or another.
        server_id: of the server that wrote it first.
        length: of the whole event with header and checksum.
        next_position: where the next one begins in the file, in bytes; 0 for `ARTIFICIAL` events.
        flags: `IN_USE` and the others.
    """

    timestamp: int
    type: int
    server_id: int
    length: int
    next_position: int
    flags: int

    @classmethod
    def parse(cls, data: bytes) -> "Header":
        """Reads the first 19 bytes of `data`, which must be there."""
        return cls._make(_header.unpack_from(data))


class Event(NamedTuple):
    """One event, read from a log.

    Attributes:
        position: offset of its first byte in the file.
        header: its header.
        body: without the checksum.
    """

    position: int
    header: Header
    body: bytes

    @property
    def type(self) -> int:
        """A number of `EventType`, or another."""
        return self.header.type

    @property
    def type_name(self) -> str:
        """The type's name, for messages."""
        try:
            return EventType(self.type).name
        except ValueError:
            return f"type {self.type}"


def encode_event(
    kind: int,
    body: bytes,
    *,
    timestamp: int,
    server_id: int,
    position: int,
    flags: int = 0,
    checksum: bool = True,
) -> bytes:
    """A whole event.

    Args:
        kind: its type.
        body: what is between header and checksum.
        timestamp: seconds since the epoch.
        server_id: of the server that writes it.
        position: where it begins in its file; the header names where it ends, modulo 2**32.
        flags: of the header.
        checksum: whether a CRC32 follows the body.
    """
    length = HEADER_BYTES + len(body) + (CHECKSUM_BYTES if checksum else 0)
    end = 0 if flags & ARTIFICIAL else (position + length) % 2**32
    data = _header.pack(timestamp, kind, server_id, length, end, flags) + body
    if not checksum:
        return data
    return data + crc32(data).to_bytes(CHECKSUM_BYTES, "little")


def crc32(data: bytes) -> int:
    """The checksum of an event, given the bytes before it; the flag `IN_USE` counts as unset."""
    if data[4] == EventType.FORMAT_DESCRIPTION and data[17] & IN_USE:
        data = data[:17] + bytes((data[17] & ~IN_USE,)) + data[18:]
    return zlib.crc32(data)
