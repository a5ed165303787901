"""What one worker asks another: which thread of the primary's is this connection id's?

Both go over a stream that carries nothing else: a length in two bytes and an inquiry of as many
bytes, and back an answer of `ANSWER_SIZE` bytes. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from protocol.errors import MalformedPacketError

MOST_ID: Final = 0xFFFF_FFFF
"""No client was told more: a greeting has four bytes for its id."""
GONE: Final = 0
"""In place of a thread: there was such a session, and it has ended. No server's thread is 0."""

LENGTH: Final = struct.Struct(">H")
MOST_BYTES: Final = 1024
"""Of an inquiry: MySQL's accounts have names of 32 characters, and hosts of 255 bytes."""

_IDS: Final = struct.Struct(">IH")  # the connection id, and how long the account's name is
_ANSWER: Final = struct.Struct(">?I")
ANSWER_SIZE: Final = _ANSWER.size


def parse_length(data: bytes) -> int:
    """How long the inquiry is that follows, bytes.

    Raises:
        MalformedPacketError: none is so long.
    """
    length = int(LENGTH.unpack(data)[0])
    if length > MOST_BYTES:
        raise MalformedPacketError(f"an inquiry of {length} bytes")
    return length


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Somebody wants to KILL.

    Attributes:
        connection_id: what a client was told for its own.
        username: of who kills; what runs on a replica is ended for the same user only.
        primary: HOST:PORT of the server that will be told the thread.
    """

    connection_id: int
    username: str
    primary: str

    def serialise(self) -> bytes:
        """With the length in front.

        Raises:
            ValueError: there is no such id, or a name is too long.
        """
        username = self.username.encode("utf-8", "surrogateescape")
        primary = self.primary.encode("utf-8", "surrogateescape")
        size = _IDS.size + len(username) + len(primary)
        if not 0 <= self.connection_id <= MOST_ID or size > MOST_BYTES:
            raise ValueError(f"no inquiry: id {self.connection_id}, {size} bytes")
        ids = _IDS.pack(self.connection_id, len(username))
        return LENGTH.pack(size) + ids + username + primary

    @classmethod
    def parse(cls, data: bytes) -> Inquiry:
        """From the bytes behind the length.

        Raises:
            MalformedPacketError: they are none.
        """
        if not _IDS.size <= len(data) <= MOST_BYTES:
            raise MalformedPacketError(f"an inquiry of {len(data)} bytes")
        connection_id, length = _IDS.unpack_from(data)
        end = _IDS.size + length
        if end > len(data):
            raise MalformedPacketError("an inquiry's name is longer than itself")
        username = data[_IDS.size : end].decode("utf-8", "surrogateescape")
        return cls(connection_id, username, data[end:].decode("utf-8", "surrogateescape"))


def serialise_answer(thread_id: int | None) -> bytes:
    """The primary's id of the thread, or `GONE`; None: no session here was told that id."""
    return _ANSWER.pack(thread_id is not None, thread_id or 0)


def parse_answer(data: bytes) -> int | None:
    """What `serialise_answer` was given.

    Raises:
        MalformedPacketError: it is no answer.
    """
    if len(data) != _ANSWER.size or data[0] > 1:
        raise MalformedPacketError(f"an answer of {len(data)} bytes: {data[:8].hex()}")
    known, thread_id = _ANSWER.unpack(data)
    if not known and thread_id:
        raise MalformedPacketError("a thread that is not known")
    return int(thread_id) if known else None
