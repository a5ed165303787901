"""HEARTBEAT and HEARTBEAT_V2: a source that has nothing to send tells its position in its log."""

from dataclasses import dataclass

from protocol import wire
from protocol.binlog.event import EventType
from protocol.errors import MalformedPacketError

_FILE, _POSITION = 1, 2


@dataclass(frozen=True, slots=True)
class HeartbeatEvent:
    """The source's position in its log.

    Attributes:
        file: name of its newest file.
        position: where the next event will begin; None in version 1, whose header has it.
    """

    file: str
    position: int | None = None

    @classmethod
    def parse(cls, kind: int, body: bytes) -> "HeartbeatEvent":
        """Reads the body of either version.

        Raises:
            MalformedPacketError: a length is beyond the end, or no file is named.
        """
        if kind == EventType.HEARTBEAT:
            return cls(wire.decode_text(body))
        reader = wire.Reader(body)
        file: str | None = None
        position = 0
        while reader.remaining and (tag := reader.u8()):
            value = wire.Reader(reader.lenenc_bytes())
            if tag == _FILE:
                file = wire.decode_text(value.rest())
            elif tag == _POSITION:
                position = value.lenenc_int()
        if file is None:
            raise MalformedPacketError("a heartbeat names no file")
        return cls(file, position)

    def serialise(self) -> bytes:
        """The body: version 1 without a position, else version 2."""
        file = wire.encode_text(self.file)
        if self.position is None:
            return file
        position = wire.lenenc_bytes(wire.lenenc_int(self.position))
        return b"\x01" + wire.lenenc_bytes(file) + b"\x02" + position + b"\0"
