"""The commands of prepared statements (fact 7.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from protocol.constants import Command
from protocol.errors import MalformedPacketError
from protocol.parameter import (
    ParameterType,
    QueryAttribute,
    null_bitmap,
    read_values,
    write_value,
)
from protocol.wire import Reader, lenenc_int

CURSOR_TYPE_READ_ONLY: Final = 0x01
PARAMETER_COUNT_AVAILABLE: Final = 0x08
"""Flag of COM_STMT_EXECUTE: query attributes follow the statement's own parameters."""


def command_reader(payload: bytes, command: Command) -> Reader:
    """A reader positioned after the command byte.

    Raises:
        MalformedPacketError: the payload is that of another command.
    """
    reader = Reader(payload)
    if reader.u8() != command:
        raise MalformedPacketError(f"not a {command.name}")
    return reader


@dataclass(frozen=True, slots=True)
class ComStmtPrepare:
    """COM_STMT_PREPARE."""

    sql: bytes

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        return cls(command_reader(payload, Command.COM_STMT_PREPARE).rest())

    def serialise(self) -> bytes:
        """Write it."""
        return bytes((Command.COM_STMT_PREPARE,)) + self.sql


@dataclass(frozen=True, slots=True)
class ComStmtExecute:
    """COM_STMT_EXECUTE.

    The values stay undecoded: to execute the statement on another server, only its id has to be
    replaced, and its types filled in where the client left them out.

    Attributes:
        flags: cursor type, and `PARAMETER_COUNT_AVAILABLE`.
        parameters: how many values there are, query attributes included.
        nulls: bitmap, one bit per parameter.
        types: of all parameters; None if those of the last execution still apply.
        values: of the parameters that are neither NULL nor sent by COM_STMT_SEND_LONG_DATA.
    """

    statement_id: int
    flags: int = 0
    parameters: int = 0
    nulls: bytes = b""
    types: tuple[ParameterType, ...] | None = None
    values: bytes = b""

    @classmethod
    def of(
        cls, statement_id: int, values: Sequence[QueryAttribute], flags: int = 0
    ) -> "ComStmtExecute":
        """An execution with these values."""
        present = [(v.value, v.type & 0xFF) for v in values if v.value is not None]
        return cls(
            statement_id=statement_id,
            flags=flags,
            parameters=len(values),
            nulls=null_bitmap(values),
            types=tuple(ParameterType(v.type, v.name) for v in values),
            values=b"".join([write_value(value, kind) for value, kind in present]),
        )

    @classmethod
    def parse(cls, payload: bytes, parameters: int, query_attributes: bool) -> Self:
        """Read it.

        Args:
            payload: of the packet.
            parameters: how many the statement has, from the answer to its COM_STMT_PREPARE.
            query_attributes: CLIENT_QUERY_ATTRIBUTES is negotiated, so that the client counts its
                values itself.

        Raises:
            MalformedPacketError: not such a packet.
        """
        reader = command_reader(payload, Command.COM_STMT_EXECUTE)
        statement_id = reader.u32()
        flags = reader.u8()
        reader.u32()  # an iteration count, always 1
        if query_attributes and (parameters or flags & PARAMETER_COUNT_AVAILABLE):
            sent_count = reader.lenenc_int()
            if sent_count < parameters:
                raise MalformedPacketError(f"{sent_count} values for {parameters} parameters")
            parameters = sent_count
        if not parameters:
            return cls(statement_id, flags)
        nulls = reader.take((parameters + 7) // 8)
        types: tuple[ParameterType, ...] | None = None
        if reader.u8():
            types = tuple([ParameterType.read(reader, query_attributes) for _ in range(parameters)])
        return cls(statement_id, flags, parameters, nulls, types, reader.rest())

    def serialise(self, query_attributes: bool) -> bytes:
        """Write it for a server connection with, or without, CLIENT_QUERY_ATTRIBUTES."""
        payload = (
            bytes((Command.COM_STMT_EXECUTE,))
            + self.statement_id.to_bytes(4, "little")
            + self.flags.to_bytes(1, "little")
            + b"\x01\x00\x00\x00"
        )
        counted = query_attributes and (self.parameters or self.flags & PARAMETER_COUNT_AVAILABLE)
        if counted:
            payload += lenenc_int(self.parameters)
        if not self.parameters:
            return payload
        payload += self.nulls
        if self.types is None:
            return payload + b"\x00" + self.values
        types = b"".join([declared.serialise(query_attributes) for declared in self.types])
        return payload + b"\x01" + types + self.values

    def decode(
        self,
        types: Sequence[ParameterType] | None = None,
        long_data: frozenset[int] = frozenset(),
    ) -> tuple[QueryAttribute, ...]:
        """The values, without those of the parameters in `long_data`.

        Args:
            types: those of the last execution, for a packet that declares none.
            long_data: positions of the parameters that COM_STMT_SEND_LONG_DATA has brought.

        Raises:
            MalformedPacketError: types are missing, or values are malformed.
        """
        declared = types if self.types is None else self.types
        if declared is None or len(declared) != self.parameters:
            if not self.parameters:
                return ()
            raise MalformedPacketError("the types of a prepared statement's values are unknown")
        reader = Reader(self.values)
        values = read_values(reader, declared, self.nulls, long_data)
        reader.expect_end()
        return values


@dataclass(frozen=True, slots=True)
class ComStmtSendLongData:
    """COM_STMT_SEND_LONG_DATA: a piece of a parameter's value; there is no answer."""

    statement_id: int
    parameter: int
    data: bytes

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_STMT_SEND_LONG_DATA)
        return cls(reader.u32(), reader.u16(), reader.rest())

    def serialise(self) -> bytes:
        """Write it."""
        return (
            bytes((Command.COM_STMT_SEND_LONG_DATA,))
            + self.statement_id.to_bytes(4, "little")
            + self.parameter.to_bytes(2, "little")
            + self.data
        )


@dataclass(frozen=True, slots=True)
class ComStmtClose:
    """COM_STMT_CLOSE; there is no answer."""

    statement_id: int

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_STMT_CLOSE)
        statement_id = reader.u32()
        reader.expect_end()
        return cls(statement_id)

    def serialise(self) -> bytes:
        """Write it."""
        return bytes((Command.COM_STMT_CLOSE,)) + self.statement_id.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class ComStmtReset:
    """COM_STMT_RESET: forget long data, close the cursor."""

    statement_id: int

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_STMT_RESET)
        statement_id = reader.u32()
        reader.expect_end()
        return cls(statement_id)

    def serialise(self) -> bytes:
        """Write it."""
        return bytes((Command.COM_STMT_RESET,)) + self.statement_id.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class ComStmtFetch:
    """COM_STMT_FETCH: the next `rows` rows of a cursor."""

    statement_id: int
    rows: int

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_STMT_FETCH)
        statement_id = reader.u32()
        rows = reader.u32()
        reader.expect_end()
        return cls(statement_id, rows)

    def serialise(self) -> bytes:
        """Write it."""
        return (
            bytes((Command.COM_STMT_FETCH,))
            + self.statement_id.to_bytes(4, "little")
            + self.rows.to_bytes(4, "little")
        )
