"""FORMAT_DESCRIPTION: the first event of a file says how to read the others."""

from dataclasses import dataclass
from typing import Final

from protocol.binlog.event import CHECKSUM_BYTES, HEADER_BYTES
from protocol.errors import MalformedPacketError
from protocol.wire import Reader

_VERSION: Final = 4
_NAME_BYTES: Final = 50
_NO_CHECKSUM: Final = 0
_CRC32: Final = 1

# Lengths of the fixed parts of types 1 to 42, as MySQL 9.7 writes them.
_POST_HEADERS: Final = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """How a log is written.

    Attributes:
        server_version: such as ``9.7.4``.
        created: seconds since the epoch if the file is the first after a server's start, else 0.
        checksum: whether events end with a CRC32.
        post_headers: length of the fixed part of each type, from type 1 on.
    """

    server_version: str
    created: int = 0
    checksum: bool = True
    post_headers: bytes = _POST_HEADERS

    @classmethod
    def parse(cls, body: bytes) -> "FormatDescription":
        """Reads the body.

        Args:
            body: with the four bytes of this event's checksum, which the event always has, even in
                a log without checksums.

        Raises:
            MalformedPacketError: another version of binary logs, or an unknown checksum.
        """
        if len(body) < 5:
            raise MalformedPacketError("a format description is too short")
        reader = Reader(body[:-CHECKSUM_BYTES])
        version = reader.u16()
        if version != _VERSION:
            raise MalformedPacketError(f"version {version} of binary logs is not known")
        name = reader.take(_NAME_BYTES).rstrip(b"\0").decode("ascii", "replace")
        created = reader.u32()
        if (length := reader.u8()) != HEADER_BYTES:
            raise MalformedPacketError(f"event headers of {length} bytes are not known")
        rest = reader.rest()
        if not rest or rest[-1] not in (_NO_CHECKSUM, _CRC32):
            raise MalformedPacketError("the checksum's algorithm is not known")
        return cls(name, created, rest[-1] == _CRC32, rest[:-1])

    def serialise(self) -> bytes:
        """The body, without the checksum after it."""
        return b"".join(
            (
                _VERSION.to_bytes(2, "little"),
                self.server_version.encode("ascii")[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
                self.created.to_bytes(4, "little"),
                bytes((HEADER_BYTES,)),
                self.post_headers,
                bytes((_CRC32 if self.checksum else _NO_CHECKSUM,)),
            )
        )
