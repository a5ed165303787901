"""Result sets in the text protocol: column definitions and rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from protocol.constants import CHARSET_UTF8MB4_0900_AI_CI, Capability, FieldType
from protocol.errors import MalformedPacketError
from protocol.packet import frame
from protocol.response import EOF_HEADER, EofPacket, OkPacket
from protocol.wire import Reader, decode_text, encode_text, lenenc_bytes, lenenc_int

_FIXED_FIELDS: Final = 0x0C
_NULL: Final = b"\xfb"


@dataclass(frozen=True, slots=True)
class ColumnDefinition41:
    """One column of a result set, or one parameter of a prepared statement.

    Attributes:
        character_set: a collation's id.
        column_length: in bytes, of the longest value.
        type: a `FieldType`.
        flags: NOT_NULL_FLAG and the like (mysql_com.h).
        default: what COM_FIELD_LIST adds: the default value after its length, or 0xFB; else
            empty.
    """

    catalog: str = "def"
    schema: str = ""
    table: str = ""
    org_table: str = ""
    name: str = ""
    org_name: str = ""
    character_set: int = CHARSET_UTF8MB4_0900_AI_CI
    column_length: int = 0
    type: int = FieldType.MYSQL_TYPE_VAR_STRING
    flags: int = 0
    decimals: int = 0
    default: bytes = b""

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read a definition.

        Raises:
            MalformedPacketError: not a definition.
        """
        reader = Reader(payload)
        catalog, schema, table, org_table, name, org_name = (
            decode_text(reader.lenenc_bytes()) for _ in range(6)
        )
        if reader.lenenc_int() != _FIXED_FIELDS:
            raise MalformedPacketError("a column definition's fixed fields are not 12 bytes")
        character_set = reader.u16()
        column_length = reader.u32()
        field_type = reader.u8()
        flags = reader.u16()
        decimals = reader.u8()
        reader.take(2)
        default = reader.rest()
        if default:
            reader = Reader(default)
            reader.lenenc_bytes_or_null()
            reader.expect_end()
        return cls(
            catalog=catalog,
            schema=schema,
            table=table,
            org_table=org_table,
            name=name,
            org_name=org_name,
            character_set=character_set,
            column_length=column_length,
            type=field_type,
            flags=flags,
            decimals=decimals,
            default=default,
        )

    def serialise(self) -> bytes:
        """Write it."""
        names = (
            self.catalog,
            self.schema,
            self.table,
            self.org_table,
            self.name,
            self.org_name,
        )
        return (
            b"".join([lenenc_bytes(encode_text(name)) for name in names])
            + bytes((_FIXED_FIELDS,))
            + self.character_set.to_bytes(2, "little")
            + self.column_length.to_bytes(4, "little")
            + self.type.to_bytes(1, "little")
            + self.flags.to_bytes(2, "little")
            + self.decimals.to_bytes(1, "little")
            + b"\0\0"
            + self.default
        )


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """The first packet of a result set.

    Attributes:
        metadata: False if no definitions follow (CLIENT_OPTIONAL_RESULTSET_METADATA, fact 7.6).
    """

    columns: int
    metadata: bool = True

    @classmethod
    def parse(cls, payload: bytes, capabilities: Capability) -> Self:
        """Read it.

        Raises:
            MalformedPacketError: not a column count.
        """
        reader = Reader(payload)
        columns = reader.lenenc_int()
        metadata = True
        if capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA:
            metadata = reader.u8() != 0
        reader.expect_end()
        return cls(columns, metadata)

    def serialise(self, capabilities: Capability) -> bytes:
        """Write it."""
        payload = lenenc_int(self.columns)
        if capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA:
            payload += bytes((self.metadata,))
        return payload


def text_row(values: Sequence[bytes | None]) -> bytes:
    """A row's payload; None is NULL."""
    return b"".join([_NULL if value is None else lenenc_bytes(value) for value in values])


def parse_text_row(payload: bytes, columns: int | None = None) -> list[bytes | None]:
    """The values of a row with `columns` columns; None takes as many as there are.

    Raises:
        MalformedPacketError: the payload has fewer values, or more.
    """
    reader = Reader(payload)
    values: list[bytes | None] = []
    while reader.remaining if columns is None else len(values) < columns:
        values.append(reader.lenenc_bytes_or_null())
    reader.expect_end()
    return values


def text_resultset(
    columns: Sequence[ColumnDefinition41],
    rows: Iterable[Sequence[bytes | None]],
    capabilities: Capability,
    status: int,
    warnings: int = 0,
    sequence_id: int = 1,
    session_state: bytes | None = None,
) -> bytes:
    """A whole result set in frames, for a client with these capabilities.

    `session_state` reaches only clients with CLIENT_DEPRECATE_EOF and CLIENT_SESSION_TRACK: an
    EOF packet has no room for it (fact 1.2).
    """
    deprecate_eof = bool(capabilities & Capability.CLIENT_DEPRECATE_EOF)
    eof = EofPacket(warnings, status).serialise()
    payloads = [ColumnCount(len(columns)).serialise(capabilities)]
    payloads += [column.serialise() for column in columns]
    if not deprecate_eof:
        payloads.append(eof)
    payloads += [text_row(row) for row in rows]
    if deprecate_eof:
        ok = OkPacket(
            status=status, warnings=warnings, session_state=session_state, header=EOF_HEADER
        )
        payloads.append(ok.serialise(capabilities))
    else:
        payloads.append(eof)
    out: list[bytes] = []
    for payload in payloads:
        out.append(frame(payload, sequence_id))
        sequence_id += 1 + len(payload) // 0xFFFFFF
    return b"".join(out)
