"""ROTATE: the name of the next file; artificial ones in a stream name the file that begins."""

from dataclasses import dataclass

from protocol import wire


@dataclass(frozen=True, slots=True)
class RotateEvent:
    """Where the log goes on.

    Attributes:
        file: the file's name without its folder.
        position: of the first event to read in that file.
    """

    file: str
    position: int = 4

    @classmethod
    def parse(cls, body: bytes) -> "RotateEvent":
        """Reads the body.

        Raises:
            MalformedPacketError: it is too short.
        """
        reader = wire.Reader(body)
        position = reader.u64()
        return cls(wire.decode_text(reader.rest()), position)

    def serialise(self) -> bytes:
        """The body."""
        return self.position.to_bytes(8, "little") + wire.encode_text(self.file)
