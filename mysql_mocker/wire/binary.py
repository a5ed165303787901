"""The binary protocol's values: rows of prepared statements, and what clients bind to them."""

import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from mysql_mocker.sql.value import Row, Value, to_text
from protocol.constants import FieldType
from protocol.parameter import QueryAttribute
from protocol.resultset import ColumnDefinition41
from protocol.wire import decode_text, lenenc_bytes

_INTEGERS: Final[dict[int, int]] = {
    FieldType.MYSQL_TYPE_TINY: 1,
    FieldType.MYSQL_TYPE_SHORT: 2,
    FieldType.MYSQL_TYPE_YEAR: 2,
    FieldType.MYSQL_TYPE_LONG: 4,
    FieldType.MYSQL_TYPE_INT24: 4,
    FieldType.MYSQL_TYPE_LONGLONG: 8,
}
_BLOBS: Final = frozenset(
    (FieldType.MYSQL_TYPE_TINY_BLOB, FieldType.MYSQL_TYPE_MEDIUM_BLOB,
     FieldType.MYSQL_TYPE_LONG_BLOB, FieldType.MYSQL_TYPE_BLOB)
)  # fmt: skip
_MOMENTS: Final = frozenset(
    (FieldType.MYSQL_TYPE_DATETIME, FieldType.MYSQL_TYPE_TIMESTAMP, FieldType.MYSQL_TYPE_DATE)
)


def _integer(value: Value, size: int) -> bytes:
    try:
        number = int(float(value)) if isinstance(value, float | str) else int(value or 0)
    except ValueError:
        number = 0
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def _moment(value: Value) -> bytes:
    moment = datetime.fromisoformat(str(value))
    packed = struct.pack("<HBB", moment.year, moment.month, moment.day)
    if moment.time().isoformat() != "00:00:00" or moment.microsecond:
        packed += struct.pack("<BBB", moment.hour, moment.minute, moment.second)
        if moment.microsecond:
            packed += struct.pack("<I", moment.microsecond)
    return bytes((len(packed),)) + packed


def _time(value: Value) -> bytes:
    text = str(value)
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total_hours = int(hours)
    packed = struct.pack(
        "<BIBBB",
        text.startswith("-"),
        total_hours // 24,
        total_hours % 24,
        int(minutes),
        int(whole),
    )
    if fraction:
        packed += struct.pack("<I", int(fraction.ljust(6, "0")[:6]))
    return bytes((len(packed),)) + packed


def _encode(column: ColumnDefinition41, value: Value) -> bytes:
    kind = column.type
    if kind in _INTEGERS:
        return _integer(value, _INTEGERS[kind])
    floats: dict[int, str] = {FieldType.MYSQL_TYPE_DOUBLE: "<d", FieldType.MYSQL_TYPE_FLOAT: "<f"}
    if kind in floats:
        return struct.pack(floats[kind], float(value or 0))
    if kind in _MOMENTS:
        return _moment(value)
    if kind == FieldType.MYSQL_TYPE_TIME:
        return _time(value)
    return lenenc_bytes(to_text(value) or b"")


def row(columns: Sequence[ColumnDefinition41], values: Row) -> bytes:
    """A row's payload: NULL bitmap with an offset of two bits, then the values (fact 7.4)."""
    nulls = bytearray((len(columns) + 9) // 8)
    out = []
    for column_index, (column, value) in enumerate(zip(columns, values, strict=True)):
        if value is None:
            nulls[(column_index + 2) // 8] |= 1 << (column_index + 2) % 8
        else:
            out.append(_encode(column, value))
    return b"\0" + bytes(nulls) + b"".join(out)


def bound_value(parameter: QueryAttribute) -> Value:
    """The value that a client bound to a ``?``."""
    raw, kind = parameter.value, parameter.type & 0xFF
    if raw is None or kind == FieldType.MYSQL_TYPE_NULL:
        return None
    if kind in _BLOBS:
        return raw
    decoders: dict[int, Callable[[bytes], Value]] = {
        FieldType.MYSQL_TYPE_DOUBLE: lambda data: float(struct.unpack("<d", data)[0]),
        FieldType.MYSQL_TYPE_FLOAT: lambda data: float(struct.unpack("<f", data)[0]),
        FieldType.MYSQL_TYPE_TIME: _decode_time,
        **dict.fromkeys(_MOMENTS, _decode_moment),
    }
    if kind in _INTEGERS:
        return int(parameter.text or 0)
    return decoders.get(kind, decode_text)(raw)


def _decode_moment(data: bytes) -> Value:
    padded = data.ljust(11, b"\0")
    year, month, day, hour, minute, second, micros = struct.unpack("<HBBBBBI", padded)
    text = f"{year:04d}-{month:02d}-{day:02d}"
    if len(data) > len("YMDD"):
        text += f" {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{micros:06d}" if micros else text


def _decode_time(data: bytes) -> Value:
    negative, days, hours, minutes, seconds, micros = struct.unpack(
        "<BIBBBI", data.ljust(12, b"\0")
    )
    text = f"{'-' * negative}{days * 24 + hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{text}.{micros:06d}" if micros else text
