"""Converts JSON as the server stores it to text as the server prints it.

Source: the comment at the head of the server's sql-common/json_binary.h. Values are found by
offsets from the beginning of their object or array, so each offset is checked.
"""

import base64
import json
import struct
from typing import Final

from protocol.binlog import decimal_value
from protocol.errors import MalformedPacketError
from protocol.wire import Reader

_OBJECT, _LARGE_OBJECT, _ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE: Final = 15
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_NUMBERS: Final = {
    _INT16: struct.Struct("<h"), _UINT16: struct.Struct("<H"), _INT32: struct.Struct("<i"),
    _UINT32: struct.Struct("<I"), _INT64: struct.Struct("<q"), _UINT64: struct.Struct("<Q"),
}  # fmt: skip
_MAX_DEPTH: Final = 100
_LONGEST_HEAD: Final = 8

_NEWDECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7


def json_text(data: bytes) -> str:
    """A document as text.

    Raises:
        MalformedPacketError: an offset or a length is beyond the end, or it is too deep.
    """
    if not data:
        return "null"  # no bytes are stored where a statement could not store its document
    # Values may share bytes, but only so far that the text does not become many times as long.
    budget = [(_MAX_DEPTH + 1) * len(data) + 64]
    return _value(data[0], data[1:], 0, budget)


def _value(kind: int, data: bytes, depth: int, budget: list[int]) -> str:
    budget[0] -= len(data) + 1
    if depth > _MAX_DEPTH or budget[0] < 0:
        raise MalformedPacketError("a JSON document is too deep, or contradicts itself")
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, depth, budget)
    if kind == _LITERAL:
        return _literal(Reader(data).u8())
    if (number := _NUMBERS.get(kind)) is not None:
        return str(number.unpack(Reader(data).take(number.size))[0])
    if kind == _DOUBLE:
        return repr(float(struct.unpack("<d", Reader(data).take(8))[0]))
    reader = Reader(data)
    if kind == _STRING:
        return _quoted(reader.take(_length(reader)))
    if kind == _OPAQUE:
        opaque = reader.u8()
        return _opaque(opaque, reader.take(_length(reader)))
    raise MalformedPacketError(f"type {kind} of a JSON value is not known")


def _container(kind: int, data: bytes, depth: int, budget: list[int]) -> str:
    wide = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    named = kind in (_OBJECT, _LARGE_OBJECT)
    size = 4 if wide else 2
    reader = Reader(data)
    count, length = _offset(reader, size), _offset(reader, size)
    entry = (size + 2 if named else 0) + 1 + size
    if length > len(data) or count * entry > length:
        raise MalformedPacketError(
            f"a JSON value claims {length} bytes and {count} entries, but has {len(data)} bytes"
        )
    names = []
    if named:
        for _ in range(count):
            at, name_length = _offset(reader, size), reader.u16()
            if at + name_length > length:
                raise MalformedPacketError("a JSON object's key lies beyond its end")
            names.append(_quoted(data[at : at + name_length]))
    values = []
    for _ in range(count):
        inner = reader.u8()
        slot = reader.take(size)
        inlined = inner in (_LITERAL, _INT16, _UINT16) or (wide and inner in (_INT32, _UINT32))
        if inlined:
            values.append(_value(inner, slot, depth + 1, budget))
            continue
        at = int.from_bytes(slot, "little")
        if not entry <= at < length:
            raise MalformedPacketError("a JSON value lies outside its container")
        values.append(_value(inner, _part(inner, data, at, length), depth + 1, budget))
    if named:
        pairs = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
        return "{" + ", ".join(pairs) + "}"
    return "[" + ", ".join(values) + "]"


def _part(kind: int, data: bytes, at: int, end: int) -> bytes:
    """The bytes of a value that begins at `at`, and a few more."""
    reader = Reader(data[at : min(end, at + _LONGEST_HEAD)])
    if kind <= _LARGE_ARRAY:
        size = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
        reader.take(size)
        return data[at : min(end, at + _offset(reader, size))]
    if kind == _OPAQUE:
        reader.u8()
    if kind in (_STRING, _OPAQUE):
        return data[at : min(end, at + _LONGEST_HEAD + _length(reader))]
    return data[at : min(end, at + _LONGEST_HEAD)]


def _offset(reader: Reader, size: int) -> int:
    return reader.u32() if size == 4 else reader.u16()


def _literal(value: int) -> str:
    if value not in _LITERALS:
        raise MalformedPacketError(f"{value} is not a JSON literal")
    return _LITERALS[value]


def _length(reader: Reader) -> int:
    """Seven bits per byte, the lowest first; the highest bit says that another byte follows."""
    length = 0
    for shift in range(0, 35, 7):
        byte = reader.u8()
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
    raise MalformedPacketError("a length in JSON has more than five bytes")


def _quoted(text: bytes) -> str:
    return json.dumps(text.decode("utf-8", "replace"), ensure_ascii=False)


def _opaque(kind: int, data: bytes) -> str:
    reader = Reader(data)
    if kind == _NEWDECIMAL:
        precision, scale = reader.u8(), reader.u8()
        if scale > precision or precision > 65:
            raise MalformedPacketError(f"DECIMAL({precision},{scale}) does not exist")
        return f"{decimal_value.parse(reader, precision, scale):f}"
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return f'"{_packed_time(kind, int.from_bytes(reader.take(8), "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _packed_time(kind: int, packed: int) -> str:
    sign = "-" if packed < 0 else ""
    whole, micros = divmod(abs(packed), 1 << 24)
    clock = f"{whole >> 12 & (0x3FF if kind == _TIME else 0x1F):02d}"
    clock += f":{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"
    if kind == _TIME:
        return sign + clock
    day = whole >> 17
    year, month = divmod(day >> 5, 13)
    date = f"{year:04d}-{month:02d}-{day & 31:02d}"
    return date if kind == _DATE else f"{date} {clock}"
