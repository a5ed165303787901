"""The column definitions of a result set."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlglot import TokenType, exp

from mysql_mocker.catalogue import Column
from mysql_mocker.script import Statement
from mysql_mocker.value import Row, Value
from protocol.constants import CHARSET_BINARY, CHARSET_UTF8MB4_0900_AI_CI, FieldType
from protocol.resultset import ColumnDefinition41

if TYPE_CHECKING:
    from mysql_mocker.session import Session

_TYPES: Final[dict[str, tuple[FieldType, int]]] = {
    "TINYINT": (FieldType.MYSQL_TYPE_TINY, 4), "BOOL": (FieldType.MYSQL_TYPE_TINY, 1),
    "BOOLEAN": (FieldType.MYSQL_TYPE_TINY, 1), "SMALLINT": (FieldType.MYSQL_TYPE_SHORT, 6),
    "MEDIUMINT": (FieldType.MYSQL_TYPE_INT24, 9), "INT": (FieldType.MYSQL_TYPE_LONG, 11),
    "INTEGER": (FieldType.MYSQL_TYPE_LONG, 11), "BIGINT": (FieldType.MYSQL_TYPE_LONGLONG, 20),
    "DECIMAL": (FieldType.MYSQL_TYPE_NEWDECIMAL, 12),
    "NUMERIC": (FieldType.MYSQL_TYPE_NEWDECIMAL, 12),
    "DOUBLE": (FieldType.MYSQL_TYPE_DOUBLE, 22), "FLOAT": (FieldType.MYSQL_TYPE_FLOAT, 12),
    "DATE": (FieldType.MYSQL_TYPE_DATE, 10), "TIME": (FieldType.MYSQL_TYPE_TIME, 10),
    "DATETIME": (FieldType.MYSQL_TYPE_DATETIME, 19), "YEAR": (FieldType.MYSQL_TYPE_YEAR, 4),
    "TIMESTAMP": (FieldType.MYSQL_TYPE_TIMESTAMP, 19),
    "CHAR": (FieldType.MYSQL_TYPE_STRING, 0), "VARCHAR": (FieldType.MYSQL_TYPE_VAR_STRING, 0),
    "TINYTEXT": (FieldType.MYSQL_TYPE_BLOB, 255 * 4),
    "TEXT": (FieldType.MYSQL_TYPE_BLOB, 65535 * 4),
    "MEDIUMTEXT": (FieldType.MYSQL_TYPE_BLOB, 2**24 - 1),
    "LONGTEXT": (FieldType.MYSQL_TYPE_BLOB, 2**32 - 1),
    "BINARY": (FieldType.MYSQL_TYPE_STRING, 0), "VARBINARY": (FieldType.MYSQL_TYPE_VAR_STRING, 0),
    "TINYBLOB": (FieldType.MYSQL_TYPE_BLOB, 255), "BLOB": (FieldType.MYSQL_TYPE_BLOB, 65535),
    "MEDIUMBLOB": (FieldType.MYSQL_TYPE_BLOB, 2**24 - 1),
    "LONGBLOB": (FieldType.MYSQL_TYPE_BLOB, 2**32 - 1),
    "JSON": (FieldType.MYSQL_TYPE_JSON, 2**32 - 1),
}  # fmt: skip
_TEXTS: Final = frozenset(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"))
_NOT_NULL, _PRIMARY_KEY, _UNSIGNED, _BINARY, _AUTO_INCREMENT = 0x1, 0x2, 0x20, 0x80, 0x200
_MOMENTS: Final = frozenset(("NOW", "SYSDATE", "LOCALTIMESTAMP", "UTC_TIMESTAMP"))
_MOMENT_NODES: Final = exp.CurrentTimestamp | exp.UtcTimestamp | exp.Localtime
_ENDS_OF_LIST: Final = frozenset(
    ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "INTO",
     "FOR", "LOCK", "WINDOW")
)  # fmt: skip


def declared(column: Column, schema: str, table: str, org_table: str) -> ColumnDefinition41:
    """The definition of a table's column."""
    word, _, rest = column.type.upper().partition("(")
    base = word.split(" ")[0]
    kind, length = _TYPES.get(base, (FieldType.MYSQL_TYPE_VAR_STRING, 0))
    sizes = [int(size) for size in rest.partition(")")[0].split(",") if size.strip().isdigit()]
    text = base in _TEXTS
    if sizes and not length:
        length = sizes[0] * (4 if text else 1)
    decimals = 0
    if kind is FieldType.MYSQL_TYPE_NEWDECIMAL:
        decimals = sizes[1] if len(sizes) > 1 else 0
    elif kind in (FieldType.MYSQL_TYPE_DATETIME, FieldType.MYSQL_TYPE_TIMESTAMP) and sizes:
        decimals, length = sizes[0], length + 1 + sizes[0]
    flags = _NOT_NULL * column.not_null
    flags |= _PRIMARY_KEY * (column.key == "PRI") | _AUTO_INCREMENT * column.auto_increment
    flags |= _UNSIGNED * ("UNSIGNED" in column.type.upper()) | _BINARY * (not text)
    return ColumnDefinition41(
        schema=schema, table=table, org_table=org_table, name=column.name, org_name=column.name,
        character_set=CHARSET_UTF8MB4_0900_AI_CI if text else CHARSET_BINARY,
        column_length=length, type=kind, flags=flags, decimals=decimals,
    )  # fmt: skip


def computed(name: str, values: Sequence[Value]) -> ColumnDefinition41:
    """The definition of a column that no table declares, by what is in it."""
    sample = next((value for value in values if value is not None), None)
    kind, charset, length, decimals = FieldType.MYSQL_TYPE_VAR_STRING, CHARSET_BINARY, 0, 0
    flags = _BINARY
    if isinstance(sample, int):
        kind, length = FieldType.MYSQL_TYPE_LONGLONG, 21
    elif isinstance(sample, float):
        kind, length, decimals = FieldType.MYSQL_TYPE_DOUBLE, 23, 31
    elif isinstance(sample, bytes):
        kind, length = (
            FieldType.MYSQL_TYPE_BLOB,
            max(len(v) for v in values if isinstance(v, bytes)),
        )
    elif isinstance(sample, str):
        charset, flags, decimals = CHARSET_UTF8MB4_0900_AI_CI, 0, 31
        length = 4 * max(len(str(value)) for value in values)
    else:
        kind = FieldType.MYSQL_TYPE_NULL
    return ColumnDefinition41(
        name=name, character_set=charset, column_length=length, type=kind, flags=flags,
        decimals=decimals,
    )  # fmt: skip


def made_up(names: Sequence[str], rows: Sequence[Row]) -> list[ColumnDefinition41]:
    """Definitions for rows that come from no table."""
    return [computed(name, [row[i] for row in rows]) for i, name in enumerate(names)]


def integer(name: str) -> ColumnDefinition41:
    """The definition of a number whose value is not known yet."""
    return computed(name, [0])


def written(statement: Statement) -> list[str]:
    """Each item of the first select list as the client wrote it: MySQL's column names."""
    depth, start = 0, None
    items: list[str] = []
    for place, token in enumerate(statement.tokens):
        word = token.text.upper().partition(" ")[0]
        if start is None:
            if depth <= 0 and token.token_type is TokenType.SELECT:
                start = place + 1
            elif depth <= 0 and statement.tokens[0].token_type is TokenType.L_PAREN:
                continue
        elif start == place and word in ("DISTINCT", "ALL", "DISTINCTROW"):
            start = place + 1
        elif depth == 0:
            ends = token.token_type is not TokenType.STRING and word in _ENDS_OF_LIST
            if ends or token.token_type is TokenType.R_PAREN:
                items.append(statement.source(start, place - 1))
                return items
            if token.token_type is TokenType.COMMA:
                items.append(statement.source(start, place - 1))
                start = place + 1
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
    if start is not None and start < len(statement.tokens):
        items.append(statement.source(start, len(statement.tokens) - 1))
    return items


def _first_select(tree: exp.Expr) -> exp.Select | None:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree if isinstance(tree, exp.Select) else None


class ResultColumns:
    """Finds names and types for what a SELECT returns.

    What the tables declare is read here, before the statement runs.
    """

    def __init__(self, session: "Session", statement: Statement) -> None:
        self._session = session
        self._select = _first_select(statement.parse())
        self._items = list(self._select.expressions) if self._select is not None else []
        self._texts = written(statement) if self._select is not None else []
        self._known = self._declared()

    def names(self) -> list[str]:
        """The names of the items, as far as they can be known without the tables."""
        return [self._name(place) for place in range(len(self._items))]

    def _name(self, place: int) -> str:
        item = self._items[place]
        if isinstance(item, exp.Alias | exp.Column) or (
            isinstance(item, exp.Literal) and item.is_string
        ):
            return str(item.alias_or_name)
        if len(self._texts) == len(self._items):
            return self._texts[place]
        return str(item.sql("mysql"))

    def expected(self) -> list[ColumnDefinition41]:
        """What the columns will be, as far as it is known before the statement runs."""
        known = self._known
        found: list[ColumnDefinition41] = []
        for place, item in enumerate(self._items):
            source = item.unalias()
            if item.is_star:
                found += known.values()
            elif isinstance(source, exp.Column) and source.name.lower() in known:
                found.append(replace(known[source.name.lower()], name=self._name(place)))
            else:
                found.append(self._computed(self._name(place), source, [""]))
        return found

    def definitions(self, header: Sequence[str], rows: Sequence[Row]) -> list[ColumnDefinition41]:
        """One definition per column of the result.

        Args:
            header: SQLite's column names.
            rows: the result; types that no table declares come from it.
        """
        known = self._known
        places = self._places(len(header))
        found = []
        for i, sqlite_name in enumerate(header):
            place = places[i]
            item = None if place is None else self._items[place]
            name = sqlite_name if place is None else self._name(place)
            source = item.unalias() if item is not None else None
            wanted = source.name if isinstance(source, exp.Column) else sqlite_name
            definition = None
            if place is None or isinstance(source, exp.Column):
                definition = known.get(wanted.lower())
            if definition is None:
                definition = self._computed(name, source, [row[i] for row in rows])
            found.append(replace(definition, name=name))
        return found

    def _computed(
        self, name: str, source: exp.Expr | None, values: Sequence[Value]
    ) -> ColumnDefinition41:
        moment = isinstance(source, _MOMENT_NODES) or (
            isinstance(source, exp.Anonymous) and source.name.upper() in _MOMENTS
        )
        if moment:
            column = Column(name, "DATETIME", False, None, "", False)
            return declared(column, "", "", "")
        if isinstance(source, exp.Count) and not values:
            return integer(name)
        return computed(name, values)

    def _places(self, width: int) -> list[int | None]:
        """For each result column the item that gives it; None for those of a ``*``."""
        stars = [i for i, item in enumerate(self._items) if item.is_star]
        if not stars and len(self._items) == width:
            return list(range(width))
        if len(stars) == 1 and len(self._items) - 1 <= width:
            before, after = stars[0], len(self._items) - 1 - stars[0]
            middle: list[int | None] = [None] * (width - before - after)
            return [*range(before), *middle, *range(stars[0] + 1, len(self._items))]
        return [None] * width

    def _declared(self) -> dict[str, ColumnDefinition41]:
        """Columns of the tables in FROM, by name."""
        found: dict[str, ColumnDefinition41] = {}
        if self._select is None:
            return found
        for table in self._select.find_all(exp.Table):
            schema = table.db or self._session.schema or ""
            stored = f"{schema}.{table.name}"
            for column in self._session.catalogue.columns(stored):
                definition = declared(column, schema, table.alias_or_name, table.name)
                found.setdefault(column.name.lower(), definition)
        return found
