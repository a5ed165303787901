"""The header of the PROXY protocol, by which a load balancer tells whose connection it passes on.

A balancer sends it as the first bytes of the connection, before the client's. Version 1 is a line
of text, version 2 is binary (*The PROXY protocol, Versions 1 & 2*, HAProxy's doc/
proxy-protocol.txt). A header of version 2 may end with values (TLVs) that are of no use here.
"""

from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from protocol.errors import ProtocolError, ServerErrorCode

BEGIN: Final = 4
"""How many bytes tell which version a header is of, or that it is none."""
_TEXT: Final = b"PROXY "
_LONGEST_TEXT: Final = 107
"""With its end of line (section 2.1)."""
_END: Final = b"\r\n"
_BINARY: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED: Final = 16
_LONGEST_BINARY: Final = 4096
"""Bytes behind the fixed ones; values of vendors take some hundreds."""
_ADDRESSES: Final = {0x11: (4, 12), 0x21: (16, 36)}
"""TCP over IPv4 and IPv6: the bytes of an address, and those of both addresses and ports."""


class MalformedHeaderError(ProtocolError):
    """It begins like a header of the PROXY protocol, and is none."""

    error = ServerErrorCode.ER_HANDSHAKE_ERROR


class Source(NamedTuple):
    """Whose connection it is.

    Attributes:
        host: an IP address, without brackets.
        port: from 0.
    """

    host: str
    port: int


def begins(data: bytes) -> bool:
    """Whether a connection that begins with these `BEGIN` bytes begins with a header."""
    return data in (_TEXT[:BEGIN], _BINARY[:BEGIN])


def missing(data: bytes) -> int:
    """How many bytes more than `data` a header has at least; 0 if it is complete.

    Raises:
        MalformedHeaderError: it is too long, or none.
    """
    if data[:1] == _TEXT[:1]:
        if data.endswith(_END):
            return 0
        if len(data) >= _LONGEST_TEXT:
            raise MalformedHeaderError("a PROXY header of more than 107 bytes")
        # The shortest line is "PROXY UNKNOWN".
        return 1 if len(data) >= len("PROXY UNKNOWN\r\n") else len("PROXY UNKNOWN\r\n") - len(data)
    if len(data) < _FIXED:
        return _FIXED - len(data)
    if data[: len(_BINARY)] != _BINARY:
        raise MalformedHeaderError("a PROXY header with a wrong signature")
    length = int.from_bytes(data[14:16], "big")
    if length > _LONGEST_BINARY:
        raise MalformedHeaderError(f"a PROXY header of more than {_LONGEST_BINARY} bytes")
    return _FIXED + length - len(data)


def parse(data: bytes) -> Source | None:
    """Read a complete header; None if the connection is the balancer's own, or nobody's.

    Raises:
        MalformedHeaderError: it is none.
    """
    return _parse_text(data) if data[:1] == _TEXT[:1] else _parse_binary(data)


def _parse_text(data: bytes) -> Source | None:
    words = data.removesuffix(_END).split(b" ")
    if words[:2] == [b"PROXY", b"UNKNOWN"]:
        return None
    if len(words) != 6 or words[0] != b"PROXY" or words[1] not in (b"TCP4", b"TCP6"):
        raise MalformedHeaderError("a PROXY header that is not understood")
    kind = IPv4Address if words[1] == b"TCP4" else IPv6Address
    try:
        source = kind(words[2].decode("ascii"))
        kind(words[3].decode("ascii"))
        ports = [_port(word) for word in words[4:]]
    except ValueError as error:
        raise MalformedHeaderError("a PROXY header with a wrong address or port") from error
    return Source(str(source), ports[0])


def _port(word: bytes) -> int:
    if not word.isdigit() or int(word) > 0xFFFF:
        raise ValueError("no port")
    return int(word)


def _parse_binary(data: bytes) -> Source | None:
    version, command = data[12] >> 4, data[12] & 0xF
    if version != 2 or command > 1:
        raise MalformedHeaderError(f"a PROXY header of version {version}, command {command}")
    if command == 0:  # LOCAL: such as a check of the balancer's
        return None
    if data[13] not in _ADDRESSES:  # a family of no use, which a receiver is to ignore
        return None
    size, length = _ADDRESSES[data[13]]
    block = data[_FIXED:]
    if len(block) < length:
        raise MalformedHeaderError("a PROXY header that is cut off")
    address = block[:size]
    host = IPv4Address(address) if size == 4 else IPv6Address(address)
    return Source(str(host), int.from_bytes(block[2 * size : 2 * size + 2], "big"))
