"""Values bound to a statement: query attributes and parameters of prepared statements.

Both have the same form: a NULL bitmap, types, and values in the binary protocol. Values are kept as
they came; only their ends must be found.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from protocol.constants import FieldType
from protocol.errors import MalformedPacketError
from protocol.wire import Reader, decode_text, encode_text, lenenc_bytes

UNSIGNED: Final = 0x8000
"""Flag in a parameter's type."""

_FIXED_SIZES: Final[dict[int, int]] = {
    FieldType.MYSQL_TYPE_NULL: 0,
    FieldType.MYSQL_TYPE_TINY: 1,
    FieldType.MYSQL_TYPE_SHORT: 2,
    FieldType.MYSQL_TYPE_YEAR: 2,
    FieldType.MYSQL_TYPE_LONG: 4,
    FieldType.MYSQL_TYPE_INT24: 4,
    FieldType.MYSQL_TYPE_FLOAT: 4,
    FieldType.MYSQL_TYPE_LONGLONG: 8,
    FieldType.MYSQL_TYPE_DOUBLE: 8,
}
_INTEGERS: Final = frozenset(
    {
        FieldType.MYSQL_TYPE_TINY,
        FieldType.MYSQL_TYPE_SHORT,
        FieldType.MYSQL_TYPE_YEAR,
        FieldType.MYSQL_TYPE_LONG,
        FieldType.MYSQL_TYPE_INT24,
        FieldType.MYSQL_TYPE_LONGLONG,
    }
)
_TEMPORAL: Final = frozenset(
    {
        FieldType.MYSQL_TYPE_DATE,
        FieldType.MYSQL_TYPE_TIME,
        FieldType.MYSQL_TYPE_DATETIME,
        FieldType.MYSQL_TYPE_TIMESTAMP,
    }
)
_LONGEST_TEMPORAL: Final = 13  # a DATETIME with microseconds and time zone
_STRINGS: Final = frozenset(
    {
        FieldType.MYSQL_TYPE_DECIMAL,
        FieldType.MYSQL_TYPE_NEWDECIMAL,
        FieldType.MYSQL_TYPE_VARCHAR,
        FieldType.MYSQL_TYPE_BIT,
        FieldType.MYSQL_TYPE_VECTOR,
        FieldType.MYSQL_TYPE_JSON,
        FieldType.MYSQL_TYPE_ENUM,
        FieldType.MYSQL_TYPE_SET,
        FieldType.MYSQL_TYPE_TINY_BLOB,
        FieldType.MYSQL_TYPE_MEDIUM_BLOB,
        FieldType.MYSQL_TYPE_LONG_BLOB,
        FieldType.MYSQL_TYPE_BLOB,
        FieldType.MYSQL_TYPE_VAR_STRING,
        FieldType.MYSQL_TYPE_STRING,
        FieldType.MYSQL_TYPE_GEOMETRY,
    }
)


@dataclass(frozen=True, slots=True)
class ParameterType:
    """A parameter's type as a client declares it.

    Attributes:
        type: a `FieldType`, plus `UNSIGNED`.
        name: of a query attribute; empty for a parameter of the statement itself.
    """

    type: int
    name: str = ""

    @property
    def field_type(self) -> int:
        """The `FieldType` without the flag."""
        return self.type & 0xFF

    @classmethod
    def read(cls, reader: Reader, named: bool) -> Self:
        """Take a type off a packet; under CLIENT_QUERY_ATTRIBUTES it has a name."""
        declared = reader.u16()
        return cls(declared, decode_text(reader.lenenc_bytes()) if named else "")

    def serialise(self, named: bool) -> bytes:
        """Write it."""
        payload = self.type.to_bytes(2, "little")
        return payload + lenenc_bytes(encode_text(self.name)) if named else payload


@dataclass(frozen=True, slots=True)
class QueryAttribute:
    """A query attribute, or a prepared statement's parameter, which has no name.

    Attributes:
        type: a `FieldType`, plus `UNSIGNED`.
        value: None is NULL; else the binary protocol's bytes, without their length.
    """

    name: str
    type: int
    value: bytes | None

    @property
    def text(self) -> str | None:
        """The value as text: strings as they are, numbers in decimal; None for everything else."""
        value = self.value
        kind = self.type & 0xFF
        if value is None:
            return None
        if kind in _INTEGERS:
            return str(int.from_bytes(value, "little", signed=not self.type & UNSIGNED))
        if kind == FieldType.MYSQL_TYPE_DOUBLE:
            return repr(struct.unpack("<d", value)[0])
        if kind == FieldType.MYSQL_TYPE_FLOAT:
            return repr(struct.unpack("<f", value)[0])
        return decode_text(value) if kind in _STRINGS else None


def read_value(reader: Reader, field_type: int) -> bytes:
    """Take a value that is not NULL off a packet; return its bytes without their length.

    Raises:
        MalformedPacketError: it is cut off, or a parameter cannot have that type.
    """
    size = _FIXED_SIZES.get(field_type)
    if size is not None:
        return reader.take(size)
    if field_type in _TEMPORAL:
        length = reader.u8()
        if length > _LONGEST_TEMPORAL:
            raise MalformedPacketError(f"a date or time of {length} bytes")
        return reader.take(length)
    if field_type in _STRINGS:
        return reader.lenenc_bytes()
    raise MalformedPacketError(f"{field_type} is no type of a parameter")


def write_value(value: bytes, field_type: int) -> bytes:
    """The inverse of `read_value`."""
    return value if field_type in _FIXED_SIZES else lenenc_bytes(value)


def read_values(
    reader: Reader, types: Sequence[ParameterType], nulls: bytes, long_data: frozenset[int]
) -> tuple[QueryAttribute, ...]:
    """Take the values of all parameters off a packet.

    Args:
        reader: positioned at the first value.
        types: of all parameters.
        nulls: bitmap, one bit per parameter; its size was checked.
        long_data: positions whose values are not in the packet, since COM_STMT_SEND_LONG_DATA
            brought them; they are left out.

    Raises:
        MalformedPacketError: a value is cut off, or its type is unknown.
    """
    values: list[QueryAttribute] = []
    for position, declared in enumerate(types):
        value: bytes | None = None
        if position in long_data:
            continue
        if not nulls[position >> 3] & 1 << (position & 7):
            value = read_value(reader, declared.field_type)
        values.append(QueryAttribute(declared.name, declared.type, value))
    return tuple(values)


def null_bitmap(values: Sequence[QueryAttribute]) -> bytes:
    """One bit per value, set for NULL."""
    bits = sum(1 << position for position, value in enumerate(values) if value.value is None)
    return bits.to_bytes((len(values) + 7) // 8, "little")
