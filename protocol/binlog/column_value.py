"""One value in a row's image, by its column's type.

Times are text as the server prints them, TIMESTAMPs in UTC; ENUM is the number of a word, and SET a
number with one bit for each word; JSON is text.
"""

import struct
from decimal import Decimal

from protocol.binlog import decimal_value, temporal_value
from protocol.binlog.column import BINARY, Column, ColumnType
from protocol.binlog.json_value import json_text
from protocol.errors import MalformedPacketError
from protocol.wire import Reader

Value = None | int | float | str | bytes | Decimal

_INTEGERS = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
_TIMES = {ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2, ColumnType.DATE}
_STRINGS = {ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING}
_LATIN1 = frozenset({5, 8, 15, 31, 47, 48, 49, 94})


def parse_value(column: Column, reader: Reader) -> Value:  # noqa: C901, PLR0912 one case per type
    """Takes one value that is not NULL.

    Raises:
        MalformedPacketError: its bytes end too early, or do not fit its type.
    """
    kind = column.type
    if (size := _INTEGERS.get(kind)) is not None:
        return int.from_bytes(reader.take(size), "little", signed=not column.unsigned)
    if kind in _STRINGS:
        length = reader.u16() if column.length > 255 else reader.u8()
        return _text(reader.take(length), column.charset)
    if kind in _TIMES:
        return temporal_value.parse(column, reader)
    match kind:
        case ColumnType.NEWDECIMAL:
            return decimal_value.parse(reader, column.length, column.scale)
        case ColumnType.FLOAT:
            return float(struct.unpack("<f", reader.take(4))[0])
        case ColumnType.DOUBLE:
            return float(struct.unpack("<d", reader.take(8))[0])
        case ColumnType.YEAR:
            year = reader.u8()
            return year + 1900 if year else 0
        case ColumnType.BIT:
            return int.from_bytes(reader.take((column.length + 7) // 8), "big")
        case ColumnType.ENUM | ColumnType.SET:
            return int.from_bytes(reader.take(_word_bytes(column)), "little")
        case ColumnType.BLOB:
            return _text(_blob(column, reader), column.charset)
        case ColumnType.JSON:
            return json_text(_blob(column, reader))
        case ColumnType.GEOMETRY | ColumnType.VECTOR:
            return _blob(column, reader)
        case _:
            raise MalformedPacketError(f"a column of type {kind.name} has no value")


def _blob(column: Column, reader: Reader) -> bytes:
    if not 1 <= column.length <= 4:
        raise MalformedPacketError(f"a blob's length has {column.length} bytes")
    return reader.take(int.from_bytes(reader.take(column.length), "little"))


def _word_bytes(column: Column) -> int:
    if not 1 <= column.length <= 8:
        raise MalformedPacketError(f"a value of ENUM or SET has {column.length} bytes")
    return column.length


def _text(data: bytes, charset: int | None) -> str | bytes:
    codec = _codec(charset)
    if codec is None:
        return data
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return data


def _codec(charset: int | None) -> str | None:
    """Python's codec for a collation; None for binary data and for unknown collations."""
    if charset is None or charset == BINARY:
        return None
    if charset in _LATIN1:
        return "cp1252"
    utf8 = charset in (33, 45, 46, 76, 83, 11, 65) or 192 <= charset <= 247
    return "utf-8" if utf8 or 255 <= charset <= 323 else None
