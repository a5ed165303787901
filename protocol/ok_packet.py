"""Finds the fields of an OK packet (facts 1.1 to 1.4).

Every write is answered by one, so it is not decoded field by field: these functions tell where the
fields are, and a caller slices out those that it needs.
"""

from typing import Final

from protocol.errors import MalformedPacketError
from protocol.wire import LONGER, Reader


class OkHead:
    """The first fields of an OK packet, for a client with CLIENT_PROTOCOL_41.

    Attributes:
        affected: how many rows were affected.
        status: flags of the server's status.
        warnings: how many warnings there are.
        status_offset: offset of the status, which is two bytes; two bytes of warnings follow.
        end: offset of what follows the warnings.
    """

    def __init__(
        self, affected: int, status: int, warnings: int, status_offset: int, end: int
    ) -> None:
        self.affected: Final = affected
        self.status: Final = status
        self.warnings: Final = warnings
        self.status_offset: Final = status_offset
        self.end: Final = end


def head(payload: bytes) -> OkHead:
    """Read the first fields of an OK packet's payload, whose first byte the caller has checked.

    Raises:
        MalformedPacketError: the payload ends before the warnings do.
    """
    affected, at = integer(payload, 1)
    _, status_offset = integer(payload, at)
    end = status_offset + 4
    if end > len(payload):
        raise MalformedPacketError("an OK packet ends before its warnings")
    status = payload[status_offset] | payload[status_offset + 1] << 8
    return OkHead(
        affected,
        status,
        payload[status_offset + 2] | payload[status_offset + 3] << 8,
        status_offset,
        end,
    )


def with_warnings(data: bytes, warnings: int) -> bytes:
    """A framed OK or EOF packet with another count of warnings.

    Raises:
        MalformedPacketError: it ends before its warnings do.
    """
    is_eof = data[4] == 0xFE and len(data) == 4 + 5
    offset = 4 + (1 if is_eof else head(data[4:]).status_offset + 2)
    return data[:offset] + warnings.to_bytes(2, "little") + data[offset + 2 :]


def string(payload: bytes, at: int) -> tuple[int, int]:
    """Where a string begins and ends whose length-encoded length is at `at`.

    Raises:
        MalformedPacketError: the string goes beyond the payload's end.
    """
    length, begin = integer(payload, at)
    left = len(payload) - begin
    if length > left:
        raise MalformedPacketError(f"{length} bytes are needed where {left} are left")
    return begin, begin + length


def integer(payload: bytes, at: int) -> tuple[int, int]:
    """The length-encoded integer at `at`, and where it ends.

    Raises:
        MalformedPacketError: it goes beyond the payload's end, or none starts with that byte.
    """
    if at < len(payload) and payload[at] < LONGER:
        return payload[at], at + 1
    reader = Reader(payload[at : at + 9])
    before = reader.remaining
    value = reader.lenenc_int()
    return value, at + before - reader.remaining
