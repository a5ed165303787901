"""The commands that clients send, except those of prepared statements.

Every `parse` takes a whole payload, including the first byte, and raises `MalformedPacketError` if
that is another packet or a malformed one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from protocol.constants import Capability, Command
from protocol.errors import MalformedPacketError
from protocol.handshake import parse_attributes, serialise_attributes, short_bytes
from protocol.parameter import (
    ParameterType,
    QueryAttribute,
    null_bitmap,
    read_values,
    write_value,
)
from protocol.prepared_statement import (
    ComStmtClose,
    ComStmtExecute,
    ComStmtFetch,
    ComStmtPrepare,
    ComStmtReset,
    ComStmtSendLongData,
    command_reader,
)
from protocol.wire import Reader, decode_text, encode_text, lenenc_int, null_terminated

__all__ = [
    "ComChangeUser",
    "ComFieldList",
    "ComInitDb",
    "ComQuery",
    "ComSetOption",
    "ComStmtClose",
    "ComStmtExecute",
    "ComStmtFetch",
    "ComStmtPrepare",
    "ComStmtReset",
    "ComStmtSendLongData",
    "QueryAttribute",
    "com_query",
    "query_text_offset",
]

_NO_ATTRIBUTES = b"\x00\x01"


def com_query(sql: bytes, query_attributes: bool) -> bytes:
    """A COM_QUERY without attributes; `query_attributes` is the negotiated capability."""
    return b"\x03\x00\x01" + sql if query_attributes else b"\x03" + sql


def query_text_offset(payload: bytes, query_attributes: bool) -> int:
    """Where the SQL begins in a COM_QUERY's payload.

    Raises:
        MalformedPacketError: the attributes are malformed.
    """
    if not query_attributes:
        return 1
    if payload[1:3] == _NO_ATTRIBUTES:
        return 3
    reader = Reader(payload)
    reader.u8()
    _read_attributes(reader)
    return len(payload) - reader.remaining


@dataclass(frozen=True, slots=True)
class ComQuery:
    """COM_QUERY (fact 7.5)."""

    sql: bytes
    attributes: tuple[QueryAttribute, ...] = ()

    @classmethod
    def parse(cls, payload: bytes, query_attributes: bool) -> Self:
        """Read it; under CLIENT_QUERY_ATTRIBUTES it has attributes."""
        reader = command_reader(payload, Command.COM_QUERY)
        attributes = _read_attributes(reader) if query_attributes else ()
        return cls(reader.rest(), attributes)

    def serialise(self, query_attributes: bool) -> bytes:
        """Write it; without the capability the attributes are left out."""
        if not query_attributes or not self.attributes:
            return com_query(self.sql, query_attributes)
        return (
            bytes((Command.COM_QUERY,))
            + lenenc_int(len(self.attributes))
            + b"\x01"
            + _attributes(self.attributes)
            + self.sql
        )


def _read_attributes(reader: Reader) -> tuple[QueryAttribute, ...]:
    count = reader.lenenc_int()
    if reader.lenenc_int() != 1:
        raise MalformedPacketError("a COM_QUERY must have one set of query attributes")
    if count == 0:
        return ()
    nulls = reader.take((count + 7) // 8)
    if reader.u8() != 1:
        raise MalformedPacketError("query attributes come without their types")
    types = [ParameterType.read(reader, named=True) for _ in range(count)]
    return read_values(reader, types, nulls, frozenset())


def _attributes(attributes: Sequence[QueryAttribute]) -> bytes:
    types = [ParameterType(a.type, a.name).serialise(named=True) for a in attributes]
    values = [write_value(a.value, a.type & 0xFF) for a in attributes if a.value is not None]
    return null_bitmap(attributes) + b"\x01" + b"".join(types) + b"".join(values)


@dataclass(frozen=True, slots=True)
class ComInitDb:
    """COM_INIT_DB: USE without SQL."""

    schema: str

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        return cls(decode_text(command_reader(payload, Command.COM_INIT_DB).rest()))

    def serialise(self) -> bytes:
        """Write it."""
        return bytes((Command.COM_INIT_DB,)) + encode_text(self.schema)


@dataclass(frozen=True, slots=True)
class ComFieldList:
    """COM_FIELD_LIST: a table's columns whose names are like `wildcard`."""

    table: str
    wildcard: str = ""

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_FIELD_LIST)
        return cls(decode_text(reader.null_terminated()), decode_text(reader.rest()))

    def serialise(self) -> bytes:
        """Write it."""
        return (
            bytes((Command.COM_FIELD_LIST,))
            + null_terminated(encode_text(self.table))
            + encode_text(self.wildcard)
        )


@dataclass(frozen=True, slots=True)
class ComSetOption:
    """COM_SET_OPTION.

    Attributes:
        option: 0 turns multi-statements on, 1 turns them off.
    """

    option: int

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it."""
        reader = command_reader(payload, Command.COM_SET_OPTION)
        option = reader.u16()
        reader.expect_end()
        return cls(option)

    def serialise(self) -> bytes:
        """Write it."""
        return bytes((Command.COM_SET_OPTION,)) + self.option.to_bytes(2, "little")


@dataclass(frozen=True, slots=True)
class ComChangeUser:
    """COM_CHANGE_USER (fact 6.7): a new login on the same connection.

    Attributes:
        database: empty for none.
        character_set: a collation's id; 0 if the client did not say.
        auth_plugin: None without CLIENT_PLUGIN_AUTH.
        attributes: the connection attributes from now on.
    """

    username: str
    auth_response: bytes = field(repr=False)
    database: str
    character_set: int
    auth_plugin: str | None
    attributes: Mapping[str, str]

    @classmethod
    def parse(cls, payload: bytes, capabilities: Capability) -> Self:
        """Read it; the fields after the database can be missing."""
        reader = command_reader(payload, Command.COM_CHANGE_USER)
        username = decode_text(reader.null_terminated())
        auth_response = reader.take(reader.u8())
        database = decode_text(reader.null_terminated())
        character_set = reader.u16() if reader.remaining else 0
        auth_plugin: str | None = None
        if reader.remaining and capabilities & Capability.CLIENT_PLUGIN_AUTH:
            auth_plugin = decode_text(reader.null_terminated_or_rest())
        attributes: Mapping[str, str] = {}
        if reader.remaining and capabilities & Capability.CLIENT_CONNECT_ATTRS:
            attributes = parse_attributes(reader)
        return cls(
            username=username,
            auth_response=auth_response,
            database=database,
            character_set=character_set,
            auth_plugin=auth_plugin,
            attributes=attributes,
        )

    def serialise(self, capabilities: Capability) -> bytes:
        """Write it for a server connection with these capabilities.

        Raises:
            MalformedPacketError: a name contains a NUL byte, or the auth response is longer than
                255 bytes.
        """
        payload = (
            bytes((Command.COM_CHANGE_USER,))
            + null_terminated(encode_text(self.username))
            + short_bytes(self.auth_response)
            + null_terminated(encode_text(self.database))
            + self.character_set.to_bytes(2, "little")
        )
        if capabilities & Capability.CLIENT_PLUGIN_AUTH:
            payload += null_terminated(encode_text(self.auth_plugin or ""))
            # Attributes can only follow a plugin's name.
            if capabilities & Capability.CLIENT_CONNECT_ATTRS:
                payload += serialise_attributes(self.attributes)
        return payload
