"""Where the fields of an OK packet stand (facts 1.1 to 1.4).

Every write brings one, so it is not taken apart field by field: these tell where things are, and
who needs one cuts it out.
"""

from typing import Final

from protocol.errors import MalformedPacketError
from protocol.wire import Reader

_LONGER: Final = 0xFB  # a length-encoded integer that begins below this is that one byte


class OkHead:
    """What begins an OK packet, for a client with CLIENT_PROTOCOL_41.

    Attributes:
        affected: rows.
        status: flags of the server's status.
        warnings: how many.
        place: where the status stands, two bytes; two of warnings follow.
        end: where all that ends.
    """

    def __init__(self, affected: int, status: int, warnings: int, place: int, end: int) -> None:
        self.affected: Final = affected
        self.status: Final = status
        self.warnings: Final = warnings
        self.place: Final = place
        self.end: Final = end


def head(payload: bytes) -> OkHead:
    """What begins a payload, whose first byte is that of an OK packet.

    Raises:
        MalformedPacketError: it ends before that.
    """
    affected, at = integer(payload, 1)
    _, place = integer(payload, at)
    end = place + 4
    if end > len(payload):
        raise MalformedPacketError("an OK packet ends before its warnings")
    status = payload[place] | payload[place + 1] << 8
    return OkHead(affected, status, payload[place + 2] | payload[place + 3] << 8, place, end)


def string(payload: bytes, at: int) -> tuple[int, int]:
    """Where the string behind a length-encoded length at `at` begins and ends.

    Raises:
        MalformedPacketError: it goes beyond the end.
    """
    length, begin = integer(payload, at)
    left = len(payload) - begin
    if length > left:
        raise MalformedPacketError(f"{length} bytes are needed where {left} are left")
    return begin, begin + length


def integer(payload: bytes, at: int) -> tuple[int, int]:
    """The length-encoded integer at `at`, and where it ends.

    Raises:
        MalformedPacketError: it goes beyond the end, or is none.
    """
    if at < len(payload) and payload[at] < _LONGER:
        return payload[at], at + 1
    reader = Reader(payload[at : at + 9])
    before = reader.remaining
    value = reader.lenenc_int()
    return value, at + before - reader.remaining
