"""Changes a COM_STMT_EXECUTE, as bytes, so that another server accepts it (fact 7.4).

A statement has a different id on each server. And a client declares the types of its values once,
and leaves them out when it executes the statement again: a server that has not seen them must be
told.
"""

from typing import Final, NamedTuple

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.prepared_statement import PARAMETER_COUNT_AVAILABLE
from protocol.wire import LONGER

_HEADER: Final = 4
_ID: Final = _HEADER + 1
_FLAGS: Final = _ID + 4
_PARAMETERS: Final = _FLAGS + 1 + 4


class BoundTypes(NamedTuple):
    """Where a packet declares types, or leaves them out.

    Attributes:
        values: how many there are.
        flag: position of the byte that says whether types follow.
        types: the types, as they came; empty if they are left out.
    """

    values: int
    flag: int
    types: bytes


def statement_id(packet: bytes) -> int:
    """The id in a framed command about a prepared statement; 0, which is none, if it is cut off."""
    return int.from_bytes(packet[_ID:_FLAGS], "little") if len(packet) >= _FLAGS else 0


def with_statement_id(packet: bytes, number: int) -> bytes:
    """A framed command, or a framed answer to a COM_STMT_PREPARE, with another statement id."""
    return packet[:_ID] + number.to_bytes(4, "little") + packet[_FLAGS:]


def bound_types(packet: bytes, parameters: int, query_attributes: bool) -> BoundTypes | None:
    """Find the types in a framed packet, or in the beginning of one.

    Args:
        packet: header and payload.
        parameters: how many the statement has.
        query_attributes: CLIENT_QUERY_ATTRIBUTES is negotiated.

    Returns:
        None if there are no values, or if the packet is malformed, which the server will report.
    """
    at = _PARAMETERS
    if len(packet) < at:
        return None
    if query_attributes and (parameters or packet[_FLAGS] & PARAMETER_COUNT_AVAILABLE):
        if len(packet) <= at or packet[at] >= LONGER:
            return _many(packet, parameters)
        if packet[at] < parameters:
            return None
        parameters = packet[at]
        at += 1
    return _types_at(packet, at, parameters, query_attributes)


def _many(packet: bytes, parameters: int) -> BoundTypes | None:
    """As `bound_types`, for a count of more than one byte; a statement has at most 65,535."""
    at = _PARAMETERS + 3
    if packet[_PARAMETERS : _PARAMETERS + 1] != b"\xfc" or len(packet) < at:
        return None
    sent_count = packet[at - 2] | packet[at - 1] << 8
    return None if sent_count < parameters else _types_at(packet, at, sent_count, True)


def _types_at(packet: bytes, at: int, count: int, named: bool) -> BoundTypes | None:
    flag = at + (count + 7) // 8
    if not count or len(packet) <= flag:
        return None
    if packet[flag] == 0:
        return BoundTypes(count, flag, b"")
    begin = end = flag + 1
    for _ in range(count):
        end += 2
        if named:
            if end >= len(packet) or packet[end] >= LONGER:
                return None  # no name is that long
            end += 1 + packet[end]
    if end > len(packet):
        return None
    return BoundTypes(count, flag, packet[begin:end])


def with_types(packet: bytes, bound: BoundTypes, types: bytes) -> bytes:
    """The framed packet, or the beginning of one, with the types that it left out.

    A frame that would grow beyond 16 MiB stays as it is, and the server refuses it.
    """
    length = int.from_bytes(packet[:3], "little") + len(types)
    if length >= MAX_PACKET_PAYLOAD:
        return packet
    flag = bound.flag
    return length.to_bytes(3, "little") + packet[3:flag] + b"\x01" + types + packet[flag + 1 :]
