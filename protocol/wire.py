"""Integers and strings as packets encode them; all integers are little-endian."""

from typing import Final

from protocol.errors import MalformedPacketError

LONGER: Final = 0xFB
"""A first byte below this is a whole length-encoded integer."""


class Reader:
    """Takes values off the front of a payload.

    Every method raises `MalformedPacketError` if the payload ends before its value does.
    """

    __slots__ = ("_payload", "_position")

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._position = 0

    @property
    def remaining(self) -> int:
        """Bytes not yet taken."""
        return len(self._payload) - self._position

    def take(self, n: int) -> bytes:
        """The next `n` bytes; `n` may come from the network."""
        begin = self._position
        end = begin + n
        if n < 0 or end > len(self._payload):
            raise MalformedPacketError(f"{n} bytes are needed where {self.remaining} are left")
        self._position = end
        return self._payload[begin:end]

    def rest(self) -> bytes:
        """All remaining bytes."""
        begin = self._position
        self._position = len(self._payload)
        return self._payload[begin:]

    def u8(self) -> int:
        """One byte."""
        position = self._position
        if position >= len(self._payload):
            raise MalformedPacketError("one byte is needed where none is left")
        self._position = position + 1
        return self._payload[position]

    def u16(self) -> int:
        """Two bytes."""
        return int.from_bytes(self.take(2), "little")

    def u24(self) -> int:
        """Three bytes."""
        return int.from_bytes(self.take(3), "little")

    def u32(self) -> int:
        """Four bytes."""
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        """Eight bytes."""
        return int.from_bytes(self.take(8), "little")

    def lenenc_int(self) -> int:
        """A length-encoded integer of one to nine bytes."""
        first = self.u8()
        if first < LONGER:
            return first
        if first == 0xFC:
            return self.u16()
        if first == 0xFD:
            return self.u24()
        if first == 0xFE:
            return self.u64()
        raise MalformedPacketError(f"no length-encoded integer starts with 0x{first:02x}")

    def lenenc_bytes(self) -> bytes:
        """A string after its length-encoded length."""
        return self.take(self.lenenc_int())

    def lenenc_bytes_or_null(self) -> bytes | None:
        """As `lenenc_bytes`; None for 0xFB, which is SQL's NULL."""
        position = self._position
        if position < len(self._payload) and self._payload[position] == 0xFB:
            self._position = position + 1
            return None
        return self.lenenc_bytes()

    def null_terminated(self) -> bytes:
        """A string up to a NUL byte, which is taken, too."""
        end = self._payload.find(b"\0", self._position)
        if end < 0:
            raise MalformedPacketError("a string has no NUL byte at its end")
        value = self._payload[self._position : end]
        self._position = end + 1
        return value

    def null_terminated_or_rest(self) -> bytes:
        """As `null_terminated`, but some peers omit the NUL after a payload's last string."""
        if self._payload.find(b"\0", self._position) < 0:
            return self.rest()
        return self.null_terminated()

    def expect_end(self) -> None:
        """Refuse bytes after the last value."""
        if self.remaining:
            raise MalformedPacketError(f"{self.remaining} bytes follow the packet's last field")


def lenenc_int(n: int) -> bytes:
    """A length-encoded integer; `n` is 0 to 2**64 - 1."""
    if n < 0xFB:
        return n.to_bytes(1, "little")
    if n <= 0xFFFF:
        return b"\xfc" + n.to_bytes(2, "little")
    if n <= 0xFFFFFF:
        return b"\xfd" + n.to_bytes(3, "little")
    return b"\xfe" + n.to_bytes(8, "little")


def lenenc_bytes(value: bytes) -> bytes:
    """A string after its length-encoded length."""
    return lenenc_int(len(value)) + value


def null_terminated(value: bytes) -> bytes:
    """A string and a NUL byte.

    Raises:
        MalformedPacketError: the string contains a NUL byte, so a reader would end it there.
    """
    if b"\0" in value:
        raise MalformedPacketError("a name contains a NUL byte")
    return value + b"\0"


def decode_text(value: bytes) -> str:
    """Decode a name or a message; `encode_text` restores bytes that are not UTF-8."""
    return value.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """The inverse of `decode_text`."""
    return text.encode("utf-8", "surrogateescape")
