"""How a server describes values in column definitions: type, length, sign, decimals."""

import re
from dataclasses import dataclass, replace
from typing import Final

from mysql_mocker.sql.value import Value
from protocol.constants import CHARSET_BINARY, CHARSET_UTF8MB4_0900_AI_CI, FieldType
from protocol.resultset import ColumnDefinition41

NOT_NULL, BLOB, UNSIGNED, BINARY = 0x1, 0x10, 0x20, 0x80
NO_DECIMALS: Final = 31
"""`decimals` of a DOUBLE, and of text that belongs to no table."""

_BYTES_PER_CHARACTER: Final = 4
_VARCHAR_END, _MEDIUM_END = 1 << 16, 1 << 24
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
        declared: it is the type of a table's column, which has other flags than an expression.
    """

    type: int
    length: int
    nullable: bool = False
    unsigned: bool = False
    decimals: int = 0
    text: bool = False
    declared: bool = False

    @property
    def integer(self) -> bool:
        """A whole number."""
        return self.type in _INTEGERS

    @property
    def decimal(self) -> bool:
        """A number with a fixed count of decimals."""
        return self.type == FieldType.MYSQL_TYPE_NEWDECIMAL

    @property
    def double(self) -> bool:
        """A floating-point number."""
        return self.type in _DOUBLES

    @property
    def number(self) -> bool:
        """Any of these numbers."""
        return self.integer or self.decimal or self.double

    @property
    def moment(self) -> bool:
        """A date, a time, or both."""
        return self.type in _MOMENTS

    @property
    def null(self) -> bool:
        """NULL and nothing else."""
        return self.type == FieldType.MYSQL_TYPE_NULL

    @property
    def precision(self) -> int:
        """How many digits an integer or a DECIMAL has."""
        if self.integer:
            return self.length - (not self.unsigned)
        return self.length - (not self.unsigned) - (self.decimals > 0)

    @property
    def whole(self) -> int:
        """Digits before the point."""
        return self.precision - (self.decimals if self.decimal else 0)

    @property
    def as_text(self) -> int:
        """Bytes that the value takes in an expression on text."""
        if self.type == FieldType.MYSQL_TYPE_BLOB and self.text:
            return self.length * _BYTES_PER_CHARACTER
        return self.length if self.text else self.length * _BYTES_PER_CHARACTER

    def with_null(self, nullable: bool = True) -> "ValueType":
        """The same type, NULL or not."""
        return replace(self, nullable=nullable)

    def definition(self, name: str) -> ColumnDefinition41:
        """The definition of a column of this type that belongs to no table."""
        flags = NOT_NULL * (not self.nullable) | UNSIGNED * self.unsigned
        return ColumnDefinition41(
            name=name,
            character_set=CHARSET_UTF8MB4_0900_AI_CI if self.text else CHARSET_BINARY,
            column_length=min(self.length, 2**32 - 1),
            type=self.type,
            flags=flags | BINARY * (not self.text),
            decimals=self.decimals,
        )


NULL: Final = ValueType(FieldType.MYSQL_TYPE_NULL, 0, nullable=True)


def integer(length: int = 21, *, nullable: bool = False, unsigned: bool = False) -> ValueType:
    """A BIGINT; `length` has room for the sign."""
    return ValueType(FieldType.MYSQL_TYPE_LONGLONG, length, nullable, unsigned)


def truth(*, nullable: bool = False) -> ValueType:
    """0 or 1."""
    return integer(1, nullable=nullable)


def decimal(precision: int, scale: int, *, nullable: bool = False) -> ValueType:
    """A DECIMAL, of at most 65 digits."""
    scale = min(scale, 30)
    length = min(precision, 65) + 1 + (scale > 0)
    return ValueType(FieldType.MYSQL_TYPE_NEWDECIMAL, length, nullable, decimals=scale)


def double(length: int = 23, *, nullable: bool = False) -> ValueType:
    """A DOUBLE."""
    return ValueType(FieldType.MYSQL_TYPE_DOUBLE, length, nullable, decimals=NO_DECIMALS)


def text(size: int, *, nullable: bool = True) -> ValueType:
    """Text of up to `size` bytes."""
    kind = FieldType.MYSQL_TYPE_VAR_STRING
    if size >= _MEDIUM_END:
        kind = FieldType.MYSQL_TYPE_LONG_BLOB
    elif size >= _VARCHAR_END:
        kind = FieldType.MYSQL_TYPE_MEDIUM_BLOB
    return ValueType(kind, size, nullable, decimals=NO_DECIMALS, text=True)


def characters(count: int, *, nullable: bool = True) -> ValueType:
    """Text of up to `count` characters."""
    return text(count * _BYTES_PER_CHARACTER, nullable=nullable)


def datetime(digits: int = 0, *, nullable: bool = False) -> ValueType:
    """A DATETIME whose seconds have a fraction of `digits` digits."""
    length = 19 + (digits + 1 if digits else 0)
    return ValueType(FieldType.MYSQL_TYPE_DATETIME, length, nullable, decimals=digits)


def date(*, nullable: bool = False) -> ValueType:
    """A DATE."""
    return ValueType(FieldType.MYSQL_TYPE_DATE, 10, nullable)


def time(*, nullable: bool = False) -> ValueType:
    """A TIME of a day."""
    return ValueType(FieldType.MYSQL_TYPE_TIME, 8, nullable)


def declared(words: str, *, nullable: bool) -> ValueType:
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
    return ValueType(kind, length, nullable, unsigned, decimals, is_text, declared=True)


def of_variable(value: bool | float | str) -> ValueType:
    """The type of ``@@name`` for a system variable that is stored as `value`."""
    if isinstance(value, bool):
        return truth(nullable=True)
    if isinstance(value, int):
        return integer(21, nullable=True, unsigned=True)
    if isinstance(value, float):
        return replace(double(nullable=True), decimals=6)
    kind = FieldType.MYSQL_TYPE_VAR_STRING
    return ValueType(kind, 87380, nullable=True, decimals=NO_DECIMALS, text=True)


_UNSET: Final = ValueType(
    FieldType.MYSQL_TYPE_VAR_STRING, 65532, nullable=True, decimals=NO_DECIMALS
)


def of_user_variable(variables: dict[str, Value], name: str) -> ValueType:
    """The type of ``@name`` before the statement runs."""
    if name not in variables:
        return _UNSET
    value = variables[name]
    if isinstance(value, int):
        return integer(21, nullable=True)
    if isinstance(value, float):
        return double(nullable=True)
    if isinstance(value, str):
        return text(268435440)
    return ValueType(
        FieldType.MYSQL_TYPE_MEDIUM_BLOB, 2**24 - 1, nullable=True, decimals=NO_DECIMALS
    )


def common(types: list[ValueType], *, nullable: bool) -> ValueType:
    """The type that can hold the values of all types, as for COALESCE, CASE and UNION."""
    known = [known_type for known_type in types if not known_type.null]
    if not known:
        return NULL
    if all(known_type.integer for known_type in known):
        unsigned = all(known_type.unsigned for known_type in known)
        digits = max(known_type.precision for known_type in known)
        return integer(digits + (not unsigned), nullable=nullable, unsigned=unsigned)
    if all(known_type.integer or known_type.decimal for known_type in known):
        scale = max(known_type.decimals for known_type in known)
        return decimal(
            max(known_type.whole for known_type in known) + scale, scale, nullable=nullable
        )
    if all(known_type.number for known_type in known):
        return double(
            max(known_type.length for known_type in known if known_type.double), nullable=nullable
        )
    if all(known_type.type == known[0].type for known_type in known) and known[0].moment:
        return replace(known[0], nullable=nullable, declared=False)
    if not any(known_type.text or known_type.number or known_type.moment for known_type in known):
        return replace(known[0], nullable=nullable, declared=False)
    return text(max(known_type.as_text for known_type in known), nullable=nullable)


def arithmetic(sign: str, left: ValueType, right: ValueType) -> ValueType:
    """The type of ``left sign right``; `sign` is one of ``+ - * / DIV %``."""
    nullable = left.nullable or right.nullable or sign in ("/", "DIV", "%")
    exact = all(known_type.integer or known_type.decimal for known_type in (left, right))
    if not exact:
        if sign == "DIV":
            return integer(21, nullable=True)
        return double(nullable=nullable)
    whole = left.integer and right.integer
    unsigned = left.unsigned or right.unsigned
    scale = max(left.decimals, right.decimals)
    if sign in ("+", "-", "*") and whole:
        digits = left.precision + right.precision
        if sign != "*":
            digits = max(left.precision, right.precision) + 1
        return integer(digits + (not unsigned), nullable=nullable, unsigned=unsigned)
    if sign == "DIV" or (sign == "%" and whole):
        return integer(left.whole + 1, nullable=True, unsigned=unsigned)
    if sign == "/":
        precision = left.precision + right.decimals + 4
        return decimal(precision, left.decimals + 4, nullable=True)
    if sign == "*":
        precision = left.precision + right.precision
        return decimal(precision, left.decimals + right.decimals, nullable=nullable)
    if sign == "%":
        return decimal(max(left.whole, right.whole) + scale, scale, nullable=True)
    return decimal(max(left.whole, right.whole) + 1 + scale, scale, nullable=nullable)
