"""Values for the parameters of prepared statements, of every type."""

import struct

from protocol.constants import FieldType
from protocol.parameter import UNSIGNED

Parameter = tuple[int, bytes | None]

_DATE = struct.pack("<HBB", 2024, 2, 29)
_SECONDS = struct.pack("<HBBBBB", 2023, 12, 31, 23, 59, 58)
_MICROSECONDS = struct.pack("<HBBBBBI", 1999, 12, 31, 0, 0, 1, 123456)
_ZONED = struct.pack("<HBBBBBIh", 2024, 6, 1, 12, 0, 0, 0, 120)
_TIME = struct.pack("<BIBBB", 1, 2, 3, 4, 5)
_TIME_MICROSECONDS = struct.pack("<BIBBBI", 0, 0, 1, 2, 3, 40)


def _typed(kind: int, *values: bytes | None) -> list[Parameter]:
    return [(int(kind), value) for value in values]


INTEGERS: list[Parameter] = [
    *_typed(FieldType.MYSQL_TYPE_TINY, b"\x01", b"\xff", b"\x7f"),
    *_typed(FieldType.MYSQL_TYPE_TINY | UNSIGNED, b"\x02", b"\xff"),
    *_typed(FieldType.MYSQL_TYPE_SHORT, struct.pack("<h", 3), struct.pack("<h", -300)),
    *_typed(FieldType.MYSQL_TYPE_LONG, struct.pack("<i", 2), struct.pack("<i", -(2**31))),
    *_typed(FieldType.MYSQL_TYPE_LONGLONG, struct.pack("<q", 1), struct.pack("<q", 4)),
    *_typed(FieldType.MYSQL_TYPE_LONGLONG | UNSIGNED, struct.pack("<Q", 2**64 - 1)),
]

OTHERS: list[Parameter] = [
    *_typed(FieldType.MYSQL_TYPE_NULL, None),
    *_typed(FieldType.MYSQL_TYPE_LONG, None),
    *_typed(FieldType.MYSQL_TYPE_VAR_STRING, None, b"", b"one", b"new", b"caf\xc3\xa9", b"\xff"),
    *_typed(FieldType.MYSQL_TYPE_STRING, b"two", b"1", b"abc" * 100),
    *_typed(FieldType.MYSQL_TYPE_VARCHAR, b"three"),
    *_typed(FieldType.MYSQL_TYPE_FLOAT, struct.pack("<f", 0.5), struct.pack("<f", 1e10)),
    *_typed(FieldType.MYSQL_TYPE_DOUBLE, struct.pack("<d", -2.25), struct.pack("<d", 1e300)),
    *_typed(FieldType.MYSQL_TYPE_DECIMAL, b"1.10"),
    *_typed(FieldType.MYSQL_TYPE_NEWDECIMAL, b"-99999999.99", b"nothing"),
    *_typed(FieldType.MYSQL_TYPE_BLOB, b"\x00\xff", b"b" * 300),
    *_typed(FieldType.MYSQL_TYPE_TINY_BLOB, b"t"),
    *_typed(FieldType.MYSQL_TYPE_LONG_BLOB, b"l" * 70_000),
    *_typed(FieldType.MYSQL_TYPE_JSON, b'{"k": 1}', b"[broken"),
    *_typed(FieldType.MYSQL_TYPE_DATE, _DATE, b""),
    *_typed(FieldType.MYSQL_TYPE_DATETIME, b"", _DATE, _SECONDS, _MICROSECONDS, _ZONED),
    *_typed(FieldType.MYSQL_TYPE_TIMESTAMP, _SECONDS),
    *_typed(FieldType.MYSQL_TYPE_TIME, b"", _TIME, _TIME_MICROSECONDS),
    *_typed(FieldType.MYSQL_TYPE_VECTOR, b"\x00\x00\x80\x3f"),
]

REFUSED: list[Parameter] = [
    *_typed(FieldType.MYSQL_TYPE_YEAR, struct.pack("<h", 2024)),
    *_typed(FieldType.MYSQL_TYPE_BIT, b"\x05"),
    *_typed(FieldType.MYSQL_TYPE_ENUM, b"a"),
]
"""Types that no server takes."""
