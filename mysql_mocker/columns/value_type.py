"""The types of values in column definitions.

Those of a table's columns have the lengths that a server gives them; those of expressions have the
greatest one, which no driver looks at.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mysql_mocker.sql.value import Value
from protocol.constants import CHARSET_BINARY, CHARSET_UTF8MB4_0900_AI_CI, FieldType
from protocol.resultset import ColumnDefinition41

NOT_NULL, BLOB, UNSIGNED, BINARY = 0x1, 0x10, 0x20, 0x80
NO_DECIMALS: Final = 31
"""`decimals` of a DOUBLE, and of text that belongs to no table."""

_BYTES_PER_CHARACTER: Final = 4
_INTEGERS: Final = frozenset(
    (FieldType.MYSQL_TYPE_TINY, FieldType.MYSQL_TYPE_SHORT, FieldType.MYSQL_TYPE_INT24,
     FieldType.MYSQL_TYPE_LONG, FieldType.MYSQL_TYPE_LONGLONG, FieldType.MYSQL_TYPE_YEAR)
)  # fmt: skip
_DOUBLES: Final = frozenset((FieldType.MYSQL_TYPE_DOUBLE, FieldType.MYSQL_TYPE_FLOAT))
_MOMENTS: Final = frozenset(
    (FieldType.MYSQL_TYPE_DATE, FieldType.MYSQL_TYPE_TIME, FieldType.MYSQL_TYPE_DATETIME,
     FieldType.MYSQL_TYPE_TIMESTAMP)
)  # fmt: skip
_DECLARED: Final[dict[str, tuple[FieldType, int]]] = {
    "TINYINT": (FieldType.MYSQL_TYPE_TINY, 4), "BOOL": (FieldType.MYSQL_TYPE_TINY, 1),
    "BOOLEAN": (FieldType.MYSQL_TYPE_TINY, 1), "SMALLINT": (FieldType.MYSQL_TYPE_SHORT, 6),
    "MEDIUMINT": (FieldType.MYSQL_TYPE_INT24, 9), "INT": (FieldType.MYSQL_TYPE_LONG, 11),
    "INTEGER": (FieldType.MYSQL_TYPE_LONG, 11), "BIGINT": (FieldType.MYSQL_TYPE_LONGLONG, 20),
    "DECIMAL": (FieldType.MYSQL_TYPE_NEWDECIMAL, 0),
    "NUMERIC": (FieldType.MYSQL_TYPE_NEWDECIMAL, 0),
    "DOUBLE": (FieldType.MYSQL_TYPE_DOUBLE, 22), "REAL": (FieldType.MYSQL_TYPE_DOUBLE, 22),
    "FLOAT": (FieldType.MYSQL_TYPE_FLOAT, 12),
    "DATE": (FieldType.MYSQL_TYPE_DATE, 10), "TIME": (FieldType.MYSQL_TYPE_TIME, 10),
    "DATETIME": (FieldType.MYSQL_TYPE_DATETIME, 19), "YEAR": (FieldType.MYSQL_TYPE_YEAR, 4),
    "TIMESTAMP": (FieldType.MYSQL_TYPE_TIMESTAMP, 19),
    "CHAR": (FieldType.MYSQL_TYPE_STRING, 0), "VARCHAR": (FieldType.MYSQL_TYPE_VAR_STRING, 0),
    "TINYTEXT": (FieldType.MYSQL_TYPE_BLOB, 255 * 4),
    "TEXT": (FieldType.MYSQL_TYPE_BLOB, 65535 * 4),
    "MEDIUMTEXT": (FieldType.MYSQL_TYPE_BLOB, (2**24 - 1) * 4),
    "LONGTEXT": (FieldType.MYSQL_TYPE_BLOB, 2**32 - 1),
    "BINARY": (FieldType.MYSQL_TYPE_STRING, 0), "VARBINARY": (FieldType.MYSQL_TYPE_VAR_STRING, 0),
    "TINYBLOB": (FieldType.MYSQL_TYPE_BLOB, 255), "BLOB": (FieldType.MYSQL_TYPE_BLOB, 65535),
    "MEDIUMBLOB": (FieldType.MYSQL_TYPE_BLOB, 2**24 - 1),
    "LONGBLOB": (FieldType.MYSQL_TYPE_BLOB, 2**32 - 1),
    "JSON": (FieldType.MYSQL_TYPE_JSON, 2**32 - 1),
}  # fmt: skip
_UNSIGNED_LENGTHS: Final[dict[FieldType, int]] = {
    FieldType.MYSQL_TYPE_TINY: 3, FieldType.MYSQL_TYPE_SHORT: 5, FieldType.MYSQL_TYPE_INT24: 8,
    FieldType.MYSQL_TYPE_LONG: 10, FieldType.MYSQL_TYPE_LONGLONG: 20,
}  # fmt: skip
_TEXTS: Final = frozenset(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"))


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of an expression's values.

    Attributes:
        type: a `FieldType`.
        length: in bytes, of the longest value as text.
        text: characters, not bytes.
    """

    type: int
    length: int
    unsigned: bool = False
    decimals: int = 0
    text: bool = False

    @property
    def integer(self) -> bool:
        """A whole number."""
        return self.type in _INTEGERS

    @property
    def exact(self) -> bool:
        """A whole number, or one with a fixed count of decimals."""
        return self.integer or self.type == FieldType.MYSQL_TYPE_NEWDECIMAL

    @property
    def number(self) -> bool:
        """Any number."""
        return self.exact or self.type in _DOUBLES

    @property
    def moment(self) -> bool:
        """A date, a time, or both."""
        return self.type in _MOMENTS

    def definition(self, name: str) -> ColumnDefinition41:
        """The definition of a column of this type that belongs to no table."""
        return ColumnDefinition41(
            name=name,
            character_set=CHARSET_UTF8MB4_0900_AI_CI if self.text else CHARSET_BINARY,
            column_length=self.length,
            type=self.type,
            flags=UNSIGNED * self.unsigned | BINARY * (not self.text),
            decimals=self.decimals,
        )


NULL: Final = ValueType(FieldType.MYSQL_TYPE_NULL, 0)
INTEGER: Final = ValueType(FieldType.MYSQL_TYPE_LONGLONG, 21)
UNSIGNED_INTEGER: Final = replace(INTEGER, unsigned=True)
DOUBLE: Final = ValueType(FieldType.MYSQL_TYPE_DOUBLE, 23, decimals=NO_DECIMALS)
TEXT: Final = ValueType(FieldType.MYSQL_TYPE_VAR_STRING, 65532, decimals=NO_DECIMALS, text=True)
BYTES: Final = replace(TEXT, text=False)
DATE: Final = ValueType(FieldType.MYSQL_TYPE_DATE, 10)
TIME: Final = ValueType(FieldType.MYSQL_TYPE_TIME, 8)


def decimal(scale: int) -> ValueType:
    """A DECIMAL of 65 digits."""
    return ValueType(FieldType.MYSQL_TYPE_NEWDECIMAL, 67, decimals=min(scale, 30))


def datetime(digits: int = 0) -> ValueType:
    """A DATETIME whose seconds have a fraction of `digits` digits."""
    length = 19 + (digits + 1 if digits else 0)
    return ValueType(FieldType.MYSQL_TYPE_DATETIME, length, decimals=digits)


def declared(words: str) -> ValueType:
    """The type of a table's column, from its declaration such as ``VARCHAR(20)``."""
    words = words.upper()
    base = re.split(r"[ (]", words, maxsplit=1)[0]
    kind, length = _DECLARED.get(base, (FieldType.MYSQL_TYPE_VAR_STRING, 0))
    inside = re.search(r"\(([\d, ]*)\)", words)
    sizes = [int(size) for size in inside[1].split(",")] if inside and inside[1].strip() else []
    is_text = base in _TEXTS
    unsigned = "UNSIGNED" in words
    decimals = 0
    if kind is FieldType.MYSQL_TYPE_NEWDECIMAL:
        precision, decimals = (*sizes, 0)[:2] if sizes else (10, 0)
        length = precision + (decimals > 0) + (not unsigned)
    elif kind in _DOUBLES:
        decimals = sizes[1] if len(sizes) > 1 else NO_DECIMALS
        length = sizes[0] if len(sizes) > 1 else length
    elif kind in _MOMENTS and sizes and sizes[0]:
        decimals, length = sizes[0], length + 1 + sizes[0]
    elif kind in _UNSIGNED_LENGTHS:
        length = sizes[0] if sizes else _UNSIGNED_LENGTHS[kind] if unsigned else length
    elif not length:
        length = (sizes[0] if sizes else 1) * (_BYTES_PER_CHARACTER if is_text else 1)
    return ValueType(kind, length, unsigned, decimals, is_text)


def of_value(value: Value) -> ValueType:
    """The type of a value that is known."""
    if value is None:
        return NULL
    if isinstance(value, bytes):
        return BYTES
    return TEXT if isinstance(value, str) else INTEGER if isinstance(value, int) else DOUBLE


def of_variable(value: bool | float | str) -> ValueType:
    """The type of ``@@name`` for a system variable that is stored as `value`."""
    if isinstance(value, float):
        return replace(DOUBLE, decimals=6)
    return UNSIGNED_INTEGER if type(value) is int else of_value(value)


def common(types: Sequence[ValueType]) -> ValueType:
    """The type that can hold the values of all types, as for COALESCE, CASE and UNION."""
    known = [known_type for known_type in types if known_type != NULL]
    if not known:
        return NULL
    if all(known_type.integer for known_type in known):
        return replace(INTEGER, unsigned=all(known_type.unsigned for known_type in known))
    if all(known_type.exact for known_type in known):
        return decimal(max(known_type.decimals for known_type in known))
    if all(known_type.number for known_type in known):
        return DOUBLE
    first = known[0]
    if first.moment and all(known_type.type == first.type for known_type in known):
        return first
    if any(known_type.text or known_type.number or known_type.moment for known_type in known):
        return TEXT
    return first


def arithmetic(sign: str, left: ValueType, right: ValueType) -> ValueType:
    """The type of ``left sign right``; `sign` is one of ``+ - * / DIV %``."""
    if sign == "DIV" or (left.integer and right.integer and sign != "/"):
        return replace(INTEGER, unsigned=left.unsigned or right.unsigned)
    if not (left.exact and right.exact):
        return DOUBLE
    if sign == "/":
        return decimal(left.decimals + 4)
    if sign == "*":
        return decimal(left.decimals + right.decimals)
    return decimal(max(left.decimals, right.decimals))
