"""A table's columns as TABLE_MAP has them: types, their metadata, and optional details."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from protocol.errors import MalformedPacketError
from protocol.wire import Reader

BINARY: Final = 63
"""The collation of bytes that are not text."""


class ColumnType(IntEnum):
    """Types in a log; TABLE_MAP gives ENUM and SET as STRING, with the type in the metadata."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


NUMERIC: Final = frozenset({
    ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG,
    ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.NEWDECIMAL,
})  # fmt: skip
CHARACTER: Final = frozenset(
    {ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.BLOB}
)
WORDS: Final = frozenset({ColumnType.ENUM, ColumnType.SET})

_ONE_BYTE: Final = frozenset({
    ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.BLOB, ColumnType.JSON, ColumnType.GEOMETRY,
    ColumnType.VECTOR, ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIME2,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        type: its type.
        length: of a string, the most bytes that it may have; of a blob, the bytes of its length
            field; of ENUM and SET, the bytes of a value; of a time, its decimals; of a DECIMAL, its
            precision; of BIT, its bits.
        scale: decimals of a DECIMAL.
        nullable: whether it may be NULL.
        unsigned: None if the log does not say.
        charset: number of its collation, None if the log does not say.
        name: "" unless binlog_row_metadata is FULL.
        words: those of an ENUM or SET; empty if the log does not give them.
    """

    type: ColumnType
    length: int = 0
    scale: int = 0
    nullable: bool = True
    unsigned: bool | None = None
    charset: int | None = None
    name: str = ""
    words: tuple[str, ...] = ()


def parse_type(code: int, metadata: Reader, *, nullable: bool) -> Column:
    """A column by its type's code; takes the column's part of the metadata.

    Raises:
        MalformedPacketError: the type is not known.
    """
    try:
        kind = ColumnType(code)
    except ValueError as error:
        raise MalformedPacketError(f"type {code} of a column is not known") from error
    length = scale = 0
    if kind in _ONE_BYTE:
        length = metadata.u8()
    elif kind in (ColumnType.VARCHAR, ColumnType.VAR_STRING):
        length = metadata.u16()
    elif kind == ColumnType.BIT:
        bits = metadata.u8()
        length = bits + 8 * metadata.u8()
    elif kind == ColumnType.NEWDECIMAL:
        length, scale = metadata.u8(), metadata.u8()
        if scale > length or length > 65:
            raise MalformedPacketError(f"DECIMAL({length},{scale}) does not exist")
    elif kind == ColumnType.STRING:
        real, length = metadata.u8(), metadata.u8()
        if real in (ColumnType.ENUM, ColumnType.SET):
            kind = ColumnType(real)
        else:
            # A CHAR of more than 255 bytes: two bits of its length are in its type, inverted.
            length |= ((real & 0x30) ^ 0x30) << 4
    return Column(kind, length, scale, nullable)
