"""Packets: a payload in one or more frames, each after three bytes of length and a sequence id."""

from struct import Struct
from typing import Final

from protocol.constants import MAX_PACKET_PAYLOAD

_HEADER: Final = Struct("<I").pack
_MAX: Final = MAX_PACKET_PAYLOAD


def frame(payload: bytes, sequence_id: int) -> bytes:
    """A packet as it is sent; `sequence_id` is its first frame's, modulo 256.

    A payload whose length is a multiple of 16 MiB - 1 bytes ends with an empty frame (fact 7.7).
    """
    size = len(payload)
    if size < _MAX:
        return _HEADER(size | (sequence_id & 0xFF) << 24) + payload
    parts: list[bytes] = []
    for begin in range(0, size + 1, MAX_PACKET_PAYLOAD):
        part = payload[begin : begin + MAX_PACKET_PAYLOAD]
        parts.append(len(part).to_bytes(3, "little") + bytes((sequence_id & 0xFF,)))
        parts.append(part)
        sequence_id += 1
    return b"".join(parts)
