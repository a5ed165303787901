"""What one worker asks another: which thread of the primary belongs to this connection id?

The question and its answer go over a stream of their own: a length in two bytes and an inquiry of
that many bytes, and back an answer of `ANSWER_SIZE` bytes. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from protocol.errors import MalformedPacketError

MOST_ID: Final = 0xFFFF_FFFF
"""The highest id that a client can be told: a greeting has four bytes for it."""
GONE: Final = 0
"""In place of a thread: the session is known, but has no thread that a KILL could end, most likely
since it is ending. No server's thread is 0."""

LENGTH: Final = struct.Struct(">H")
MOST_BYTES: Final = 1024
"""The longest inquiry: names of MySQL's accounts have 32 characters, those of hosts 255 bytes."""

_IDS: Final = struct.Struct(">IH")  # the connection id, and the length of the account's name
_ANSWER: Final = struct.Struct(">?I")
ANSWER_SIZE: Final = _ANSWER.size


def parse_length(data: bytes) -> int:
    """The length of the inquiry that follows, bytes.

    Raises:
        MalformedPacketError: no inquiry is that long.
    """
    length = int(LENGTH.unpack(data)[0])
    if length > MOST_BYTES:
        raise MalformedPacketError(f"an inquiry of {length} bytes")
    return length


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question about the session that a KILL names.

    Attributes:
        connection_id: the id that the KILL names, as the session's client was told it.
        username: the user who sends the KILL; a statement on a replica is ended only if it is the
            same user's.
        primary: HOST:PORT of the server that will get the KILL.
    """

    connection_id: int
    username: str
    primary: str

    def serialise(self) -> bytes:
        """The inquiry's bytes, with their length in front.

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
        """Read an inquiry from the bytes after the length.

        Raises:
            MalformedPacketError: they are no inquiry.
        """
        if not _IDS.size <= len(data) <= MOST_BYTES:
            raise MalformedPacketError(f"an inquiry of {len(data)} bytes")
        connection_id, length = _IDS.unpack_from(data)
        end = _IDS.size + length
        if end > len(data):
            raise MalformedPacketError("an inquiry's user name is longer than the inquiry")
        username = data[_IDS.size : end].decode("utf-8", "surrogateescape")
        return cls(connection_id, username, data[end:].decode("utf-8", "surrogateescape"))


def serialise_answer(thread_id: int | None) -> bytes:
    """The bytes of an answer: the primary's thread, or `GONE`; None: no session has that id."""
    return _ANSWER.pack(thread_id is not None, thread_id or 0)


def parse_answer(data: bytes) -> int | None:
    """Read what `serialise_answer` was given.

    Raises:
        MalformedPacketError: it is no answer.
    """
    if len(data) != _ANSWER.size or data[0] > 1:
        raise MalformedPacketError(f"an answer of {len(data)} bytes: {data[:8].hex()}")
    known, thread_id = _ANSWER.unpack(data)
    if not known and thread_id:
        raise MalformedPacketError("an answer with a thread, but without a session")
    return int(thread_id) if known else None
