"""TRANSACTION_PAYLOAD: a transaction's events after its GTID event, compressed with zstd."""

from dataclasses import dataclass
from typing import Final

import zstandard

from protocol import wire
from protocol.binlog.event import HEADER_BYTES, Event, Header
from protocol.errors import MalformedPacketError

MAX_PAYLOAD_BYTES: Final = 2**30
"""The most bytes that the events of one payload may have."""

_PIECE_BYTES: Final = 2**20

ZSTD: Final = 0
NONE: Final = 255

_END, _SIZE, _ALGORITHM, _UNCOMPRESSED = range(4)


@dataclass(frozen=True, slots=True)
class TransactionPayload:
    """Compressed events.

    Attributes:
        data: as it is in the log.
        algorithm: `ZSTD` or `NONE`.
        size: bytes of the events when they are not compressed.
    """

    data: bytes
    algorithm: int
    size: int

    @classmethod
    def parse(cls, body: bytes) -> "TransactionPayload":
        """Reads the body; the events stay compressed.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        reader = wire.Reader(body)
        fields: dict[int, int] = {}
        while (field := reader.lenenc_int()) != _END:
            value = wire.Reader(reader.lenenc_bytes())
            fields[field] = value.lenenc_int() if value.remaining else 0
        data = reader.rest()
        if fields.get(_SIZE) != len(data):
            raise MalformedPacketError(
                f"{fields.get(_SIZE)} compressed bytes are announced, {len(data)} are there"
            )
        size = fields.get(_UNCOMPRESSED, len(data))
        return cls(data, fields.get(_ALGORITHM, NONE), size)

    def serialise(self) -> bytes:
        """The body."""
        parts = []
        for field, value in (
            (_ALGORITHM, self.algorithm), (_UNCOMPRESSED, self.size), (_SIZE, len(self.data)),
        ):  # fmt: skip
            parts.append(wire.lenenc_int(field) + wire.lenenc_bytes(wire.lenenc_int(value)))
        return b"".join(parts) + b"\0" + self.data

    def events(self, position: int) -> list[Event]:
        """The events, which have no checksums.

        Args:
            position: of this event: the events inside have none of their own.

        Raises:
            MalformedPacketError: the data are damaged, or do not hold whole events.
        """
        data = self._decompress()
        events = []
        at = 0
        while at < len(data):
            if len(data) - at < HEADER_BYTES:
                raise MalformedPacketError("a compressed transaction ends within a header")
            header = Header.parse(data[at : at + HEADER_BYTES])
            if not HEADER_BYTES <= header.length <= len(data) - at:
                raise MalformedPacketError(f"a compressed event claims {header.length} bytes")
            events.append(Event(position, header, data[at + HEADER_BYTES : at + header.length]))
            at += header.length
        return events

    def _decompress(self) -> bytes:
        if self.algorithm == NONE:
            return self.data
        if self.algorithm != ZSTD:
            raise MalformedPacketError(f"compression {self.algorithm} is not known")
        if self.size > MAX_PAYLOAD_BYTES:
            raise MalformedPacketError(f"a transaction claims {self.size} bytes")
        data = bytearray()
        try:
            with zstandard.ZstdDecompressor().stream_reader(self.data) as reader:
                # In pieces: the announced size is neither allocated at once nor exceeded by much.
                while len(data) <= self.size and (piece := reader.read(_PIECE_BYTES)):
                    data += piece
        except zstandard.ZstdError as error:
            raise MalformedPacketError(f"a compressed transaction is damaged: {error}") from error
        if len(data) != self.size:
            raise MalformedPacketError(
                f"a transaction decompresses to {len(data)} bytes, not to {self.size}"
            )
        return bytes(data)
