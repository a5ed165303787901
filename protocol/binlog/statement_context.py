"""INTVAR, RAND and USER_VAR: values that the statement in the next QUERY event uses."""

from dataclasses import dataclass
from enum import IntEnum

from protocol import wire


class IntvarKind(IntEnum):
    """What an INTVAR event sets."""

    LAST_INSERT_ID = 1
    INSERT_ID = 2


@dataclass(frozen=True, slots=True)
class IntvarEvent:
    """A number.

    Attributes:
        kind: one of `IntvarKind`, or another.
        value: LAST_INSERT_ID() of the statement, or the first id that it gives out.
    """

    kind: int
    value: int

    @classmethod
    def parse(cls, body: bytes) -> "IntvarEvent":
        """Reads the body.

        Raises:
            MalformedPacketError: it is too short or too long.
        """
        reader = wire.Reader(body)
        parsed = cls(reader.u8(), reader.u64())
        reader.expect_end()
        return parsed

    def serialise(self) -> bytes:
        """The body."""
        return bytes((self.kind,)) + self.value.to_bytes(8, "little")


@dataclass(frozen=True, slots=True)
class RandEvent:
    """The two seeds from which RAND() starts."""

    seed1: int
    seed2: int

    @classmethod
    def parse(cls, body: bytes) -> "RandEvent":
        """Reads the body.

        Raises:
            MalformedPacketError: it is too short or too long.
        """
        reader = wire.Reader(body)
        parsed = cls(reader.u64(), reader.u64())
        reader.expect_end()
        return parsed

    def serialise(self) -> bytes:
        """The body."""
        return self.seed1.to_bytes(8, "little") + self.seed2.to_bytes(8, "little")


class ResultType(IntEnum):
    """The type of a user variable."""

    STRING = 0
    REAL = 1
    INT = 2
    DECIMAL = 4


@dataclass(frozen=True, slots=True)
class UserVariableEvent:
    """A user variable.

    Attributes:
        name: without the @.
        value: raw bytes, in its type's form; None for NULL.
        type: one of `ResultType`.
        charset: number of its collation.
        unsigned: whether an integer is.
    """

    name: str
    value: bytes | None
    type: int = ResultType.STRING
    charset: int = 255
    unsigned: bool = False

    @classmethod
    def parse(cls, body: bytes) -> "UserVariableEvent":
        """Reads the body.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        reader = wire.Reader(body)
        name = wire.decode_text(reader.take(reader.u32()))
        if reader.u8():
            return cls(name, None)
        kind, charset = reader.u8(), reader.u32()
        value = reader.take(reader.u32())
        unsigned = bool(reader.remaining and reader.u8() & 1)
        return cls(name, value, kind, charset, unsigned)

    def serialise(self) -> bytes:
        """The body."""
        name = wire.encode_text(self.name)
        front = len(name).to_bytes(4, "little") + name
        if self.value is None:
            return front + b"\x01"
        return b"".join((
            front, b"\0", bytes((self.type,)), self.charset.to_bytes(4, "little"),
            len(self.value).to_bytes(4, "little"), self.value,
            # Only integers are followed by their signedness.
            bytes((self.unsigned,)) if self.type == ResultType.INT else b"",
        ))  # fmt: skip
