"""TABLE_MAP: describes a table; the ROWS events after it refer to it by its number."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from protocol import wire
from protocol.binlog.column import (
    CHARACTER,
    NUMERIC,
    WORDS,
    Column,
    ColumnType,
    parse_type,
)
from protocol.errors import MalformedPacketError

(
    _SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _COLUMN_NAME, _SET_WORDS, _ENUM_WORDS,
    _GEOMETRY, _KEY, _KEY_PREFIX, _WORDS_DEFAULT_CHARSET, _WORDS_CHARSET,
) = range(1, 12)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table.

    Attributes:
        table_id: its number.
        schema: its schema.
        table: its name.
        columns: its columns, in order.
        flags: of the event.
        key: places of the primary key's columns; empty if the log does not give them.
    """

    table_id: int
    schema: str
    table: str
    columns: tuple[Column, ...]
    flags: int = 1
    key: tuple[int, ...] = ()

    @classmethod
    def parse(cls, body: bytes) -> "TableMap":
        """Reads the body.

        Raises:
            MalformedPacketError: a length is beyond the end, or a type is not known.
        """
        reader = wire.Reader(body)
        table_id = int.from_bytes(reader.take(6), "little")
        flags = reader.u16()
        schema = wire.decode_text(reader.take(reader.u8()))
        reader.u8()
        table = wire.decode_text(reader.take(reader.u8()))
        reader.u8()
        codes = reader.take(reader.lenenc_int())
        metadata = wire.Reader(reader.lenenc_bytes())
        nullable = reader.take((len(codes) + 7) // 8)
        columns = [
            parse_type(code, metadata, nullable=bool(nullable[place // 8] >> place % 8 & 1))
            for place, code in enumerate(codes)
        ]
        columns, key = _with_options(columns, reader)
        return cls(table_id, schema, table, tuple(columns), flags, key)

    def _options(self) -> bytes:
        fields: list[tuple[int, bytes]] = []
        numeric = [column for column in self.columns if column.type in NUMERIC]
        if numeric:
            bits = "".join("1" if column.unsigned else "0" for column in numeric)
            size = (len(bits) + 7) // 8
            fields.append((_SIGNEDNESS, int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big")))
        for kinds, field in ((CHARACTER, _COLUMN_CHARSET), (WORDS, _WORDS_CHARSET)):
            charsets = [column.charset for column in self.columns if column.type in kinds]
            if charsets and None not in charsets:
                fields.append((field, b"".join(wire.lenenc_int(n or 0) for n in charsets)))
        if any(column.name for column in self.columns):
            names = [wire.lenenc_bytes(wire.encode_text(column.name)) for column in self.columns]
            fields.append((_COLUMN_NAME, b"".join(names)))
        for kind, field in ((ColumnType.SET, _SET_WORDS), (ColumnType.ENUM, _ENUM_WORDS)):
            lists = [column.words for column in self.columns if column.type == kind]
            if any(lists):
                fields.append((field, b"".join(map(_serialise_words, lists))))
        if self.key:
            fields.append((_KEY, b"".join(map(wire.lenenc_int, self.key))))
        return b"".join(bytes((field,)) + wire.lenenc_bytes(value) for field, value in fields)


def _with_options(
    columns: list[Column], reader: wire.Reader
) -> tuple[list[Column], tuple[int, ...]]:
    key: tuple[int, ...] = ()
    seen: set[int] = set()
    while reader.remaining:
        field = reader.u8()
        if field in seen:
            raise MalformedPacketError(f"a table is described twice by field {field}")
        seen.add(field)
        value = wire.Reader(reader.lenenc_bytes())
        if field in (_KEY, _KEY_PREFIX):
            key = _key(value, prefixes=field == _KEY_PREFIX)
        else:
            _describe(columns, field, value)
    return columns, key


def _describe(columns: list[Column], field: int, value: wire.Reader) -> None:
    """Changes the columns that a field describes; a field that is not known changes none."""
    if field == _SIGNEDNESS:
        _signedness(columns, value.rest())
    elif field in (_DEFAULT_CHARSET, _WORDS_DEFAULT_CHARSET):
        kinds = CHARACTER if field == _DEFAULT_CHARSET else WORDS
        _default_charset(columns, _places(columns, kinds), value)
    elif field in (_COLUMN_CHARSET, _WORDS_CHARSET):
        for place in _places(columns, CHARACTER if field == _COLUMN_CHARSET else WORDS):
            columns[place] = replace(columns[place], charset=value.lenenc_int())
    elif field == _COLUMN_NAME:
        for place, column in enumerate(columns):
            columns[place] = replace(column, name=wire.decode_text(value.lenenc_bytes()))
    elif field in (_SET_WORDS, _ENUM_WORDS):
        kind = ColumnType.SET if field == _SET_WORDS else ColumnType.ENUM
        for place in _places(columns, {kind}):
            columns[place] = replace(columns[place], words=_words(value))


def _signedness(columns: list[Column], bits: bytes) -> None:
    places = _places(columns, NUMERIC)
    if len(places) > 8 * len(bits):
        raise MalformedPacketError("the signedness of a table's numbers is not complete")
    for n, place in enumerate(places):
        unsigned = bool(bits[n // 8] >> (7 - n % 8) & 1)
        columns[place] = replace(columns[place], unsigned=unsigned)


def _places(columns: Iterable[Column], kinds: Iterable[ColumnType]) -> list[int]:
    return [place for place, column in enumerate(columns) if column.type in kinds]


def _default_charset(columns: list[Column], places: list[int], value: wire.Reader) -> None:
    default = value.lenenc_int()
    for place in places:
        columns[place] = replace(columns[place], charset=default)
    while value.remaining:
        n, charset = value.lenenc_int(), value.lenenc_int()
        if n >= len(places):
            raise MalformedPacketError(f"a table has no text column {n}")
        columns[places[n]] = replace(columns[places[n]], charset=charset)


def _words(value: wire.Reader) -> tuple[str, ...]:
    take: Callable[[], bytes] = value.lenenc_bytes
    count = value.lenenc_int()
    if count > value.remaining:
        raise MalformedPacketError(f"{count} words do not fit into {value.remaining} bytes")
    return tuple(wire.decode_text(take()) for _ in range(count))


def _serialise_words(words: tuple[str, ...]) -> bytes:
    texts = b"".join(wire.lenenc_bytes(wire.encode_text(word)) for word in words)
    return wire.lenenc_int(len(words)) + texts


def _key(value: wire.Reader, *, prefixes: bool) -> tuple[int, ...]:
    places = []
    while value.remaining:
        places.append(value.lenenc_int())
        if prefixes:
            value.lenenc_int()
    return tuple(places)
