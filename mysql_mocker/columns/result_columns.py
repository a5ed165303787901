"""The column definitions of a result set."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import sqlglot
from sqlglot import TokenType, exp

from mysql_mocker.columns import value_type
from mysql_mocker.columns.expression_type import ExpressionTypes
from mysql_mocker.columns.value_type import BINARY, BLOB, NOT_NULL, TEXT, UNSIGNED, ValueType
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Row, Value
from mysql_mocker.state.catalogue import Column
from mysql_mocker.state.session import Session
from protocol.constants import CHARSET_BINARY, CHARSET_UTF8MB4_0900_AI_CI, FieldType
from protocol.resultset import ColumnDefinition41

_PRIMARY_KEY, _UNIQUE_KEY, _MULTIPLE_KEY, _AUTO_INCREMENT = 0x2, 0x4, 0x8, 0x200
_NO_DEFAULT, _PART_KEY = 0x1000, 0x4000
_KEYS: Final = {"PRI": _PRIMARY_KEY, "UNI": _UNIQUE_KEY, "MUL": _MULTIPLE_KEY}
_ENDS_OF_LIST: Final = frozenset(
    ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "INTO",
     "FOR", "LOCK", "WINDOW")
)  # fmt: skip


def declared(column: Column, schema: str, table: str, org_table: str) -> ColumnDefinition41:
    """The definition of a table's column."""
    kind = value_type.declared(column.type)
    flags = NOT_NULL * column.not_null | _KEYS.get(column.key, 0) | _PART_KEY * column.indexed
    flags |= UNSIGNED * kind.unsigned | _AUTO_INCREMENT * column.auto_increment
    flags |= BINARY * (not kind.text and not kind.number)
    flags |= BLOB * (kind.type in (FieldType.MYSQL_TYPE_BLOB, FieldType.MYSQL_TYPE_JSON))
    if column.not_null and column.default is None and not column.auto_increment:
        flags |= _NO_DEFAULT
    return ColumnDefinition41(
        schema=schema, table=table, org_table=org_table, name=column.name, org_name=column.name,
        character_set=CHARSET_UTF8MB4_0900_AI_CI if kind.text else CHARSET_BINARY,
        column_length=kind.length, type=kind.type, flags=flags, decimals=kind.decimals,
    )  # fmt: skip


def type_of(definition: ColumnDefinition41) -> ValueType:
    """The type of the values of a column with this definition."""
    return ValueType(
        definition.type, definition.column_length, bool(definition.flags & UNSIGNED),
        definition.decimals, definition.character_set != CHARSET_BINARY,
    )  # fmt: skip


def computed(name: str, values: Sequence[Value]) -> ColumnDefinition41:
    """The definition of a column of which only the values are known."""
    sample = next((value for value in values if value is not None), None)
    return value_type.of_value(sample).definition(name)


def made_up(names: Sequence[str], rows: Sequence[Row]) -> list[ColumnDefinition41]:
    """Definitions for rows that come from no table."""
    return [computed(name, [row[i] for row in rows]) for i, name in enumerate(names)]


def integer(name: str) -> ColumnDefinition41:
    """The definition of a number whose value is not known yet."""
    return value_type.INTEGER.definition(name)


@lru_cache(maxsize=128)
def written(statement: Statement) -> Sequence[str]:
    """Each item of the first select list as the client wrote it: MySQL's column names."""
    depth, start = 0, None
    items: list[str] = []
    for position, token in enumerate(statement.tokens):
        word = token.text.upper().partition(" ")[0]
        if start is None:
            if depth <= 0 and token.token_type is TokenType.SELECT:
                start = position + 1
            elif depth <= 0 and statement.tokens[0].token_type is TokenType.L_PAREN:
                continue
        elif start == position and word in ("DISTINCT", "ALL", "DISTINCTROW"):
            start = position + 1
        elif depth == 0:
            ends = token.token_type is not TokenType.STRING and word in _ENDS_OF_LIST
            if ends or token.token_type is TokenType.R_PAREN:
                items.append(statement.source(start, position - 1))
                return items
            if token.token_type is TokenType.COMMA:
                items.append(statement.source(start, position - 1))
                start = position + 1
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
    if start is not None and start < len(statement.tokens):
        items.append(statement.source(start, len(statement.tokens) - 1))
    return items


def _first_select(tree: exp.Expr) -> exp.Select | None:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree if isinstance(tree, exp.Select) else None


class ResultColumns:
    """Finds names and types for what a SELECT returns, before it runs."""

    def __init__(self, session: Session, statement: Statement) -> None:
        tree = statement.tree
        select = _first_select(tree)
        items = [] if select is None else list(select.expressions)
        texts = written(statement) if select is not None else []
        self._names = [
            _name(item, texts[position] if len(texts) == len(items) else None)
            for position, item in enumerate(items)
        ]
        self._found = QueryColumns(session, statement.values).find(tree, self._names)

    def names(self) -> list[str]:
        """The names of the items, as far as they can be known without the tables."""
        return self._names

    def expected(self) -> list[ColumnDefinition41]:
        """What the columns will be, as far as it is known before the statement runs."""
        return [_known(column, [""]) for column in self._found]

    def definitions(self, header: Sequence[str], rows: Sequence[Row]) -> list[ColumnDefinition41]:
        """One definition per column of the result.

        Args:
            header: SQLite's column names.
            rows: the result; types that are not known otherwise come from it.
        """
        if len(header) != len(self._found):
            return made_up(header, rows)
        return [_known(column, [row[i] for row in rows]) for i, column in enumerate(self._found)]


def _known(column: ColumnDefinition41 | str, values: Sequence[Value]) -> ColumnDefinition41:
    return computed(column, values) if isinstance(column, str) else column


def _name(item: exp.Expr, text: str | None) -> str:
    """The name of a select list's item; `text` is how the client wrote it."""
    string = isinstance(item, exp.Literal) and item.is_string and text != "?"
    if isinstance(item, exp.Alias | exp.Column) or string:
        return str(item.alias_or_name)
    return str(item.sql("mysql")) if text is None else text


Found = ColumnDefinition41 | str
"""A column's definition, or its name alone if its type is not known."""


class QueryColumns:
    """Finds the columns of a query and of those inside it.

    Args:
        session: knows tables and variables.
        values: of the statement's markers, see `Statement.values`.
    """

    def __init__(self, session: Session, values: dict[str, Value]) -> None:
        self._session = session
        self._values = values
        self._common: dict[str, list[Found]] = {}

    def find(self, tree: exp.Expr, names: Sequence[str] = ()) -> list[Found]:
        """The columns of a query; `names` are those of its items, where they are known."""
        with_ = tree.args.get("with_") or tree.args.get("with")
        for cte in with_.expressions if isinstance(with_, exp.With) else ():
            self._common[cte.alias.lower()] = []
            self._common[cte.alias.lower()] = self.find(cte.this)
        if isinstance(tree, exp.Subquery):
            return self.find(tree.this, names)
        if isinstance(tree, exp.SetOperation):
            return _united(self.find(tree.this, names), self.find(tree.expression))
        return self._select(tree, names) if isinstance(tree, exp.Select) else []

    def _select(self, select: exp.Select, names: Sequence[str]) -> list[Found]:
        sources = self._sources(select)
        types = ExpressionTypes(
            self._session, self._values, lambda column: _type_in(sources, column), self._scalar
        )
        found: list[Found] = []
        for position, item in enumerate(select.expressions):
            name = names[position] if position < len(names) else _name(item, None)
            source = item.unalias()
            if item.is_star:
                wanted = item.args.get("table")
                found += _all_of(sources, "" if wanted is None else wanted.name)
                continue
            if isinstance(source, exp.Column):
                column = _in(sources, source)
                known: Found = name if column is None else replace(column, name=name)
            else:
                kind = types.find(source)
                known = name if kind is None else kind.definition(name)
            found.append(known)
        return found

    def _scalar(self, query: exp.Expr) -> ValueType | None:
        columns = self.find(query)
        if len(columns) != 1 or isinstance(columns[0], str):
            return None
        kind = type_of(columns[0])
        return TEXT if kind.text else kind

    def _sources(self, select: exp.Select) -> list[tuple[str, list[Found]]]:
        """Name and columns of each table in FROM."""
        found: list[tuple[str, list[Found]]] = []
        from_ = _from(select)
        if isinstance(from_, exp.Expr):
            found.append(self._source(from_.this))
        for join in select.args.get("joins") or []:
            found.append(self._source(join.this))
        return found

    def _source(self, table: exp.Expr) -> tuple[str, list[Found]]:
        """Name and columns of a table, a view or a derived table."""
        alias = str(table.alias_or_name)
        if isinstance(table, exp.Subquery):
            return alias, _derived(self.find(table.this), alias)
        if not isinstance(table, exp.Table):
            return alias, []
        if not table.db and table.name.lower() in self._common:
            return alias, _derived(self._common[table.name.lower()], alias)
        schema, name = table.db or self._session.schema or "", table.name
        if not table.db and "." in name:
            schema, _, name = name.partition(".")  # inside a view
        stored = f"{schema}.{name}"
        catalogue = self._session.catalogue
        alias = str(table.alias or name)
        query = catalogue.view(stored)
        if query is not None:
            inner = QueryColumns(self._session, {}).find(_parsed_view(query))
            view = [c for c in inner if isinstance(c, ColumnDefinition41)]
            return alias, [
                replace(c, schema=schema, table=alias, org_table=name, org_name=c.name)
                for c in view
            ]
        return alias, [
            declared(column, schema, alias, name) for column in catalogue.columns(stored)
        ]


def _parsed_view(query: str) -> exp.Expr:
    return sqlglot.parse_one(query, read="sqlite")


def _from(select: exp.Select) -> exp.Expr | None:
    found = select.args.get("from_") or select.args.get("from")
    return found if isinstance(found, exp.Expr) else None


def _column_name(column: Found) -> str:
    return column if isinstance(column, str) else column.name


def _in(sources: list[tuple[str, list[Found]]], node: exp.Column) -> ColumnDefinition41 | None:
    for name, columns in sources:
        if node.table and node.table.lower() != name.lower():
            continue
        for column in columns:
            if _column_name(column).lower() == node.name.lower():
                return None if isinstance(column, str) else column
    return None


def _type_in(sources: list[tuple[str, list[Found]]], node: exp.Column) -> ValueType | None:
    column = _in(sources, node)
    return None if column is None else type_of(column)


def _all_of(sources: list[tuple[str, list[Found]]], wanted: str) -> list[Found]:
    return [
        column
        for name, columns in sources
        for column in columns
        if not wanted or wanted.lower() == name.lower()
    ]


def _derived(columns: list[Found], alias: str) -> list[Found]:
    return [
        column if isinstance(column, str) else replace(column, table=alias) for column in columns
    ]


def _united(left: list[Found], right: list[Found]) -> list[Found]:
    """The columns of a UNION or another set operation."""
    if len(left) != len(right):
        return left
    found: list[Found] = []
    for left_column, right_column in zip(left, right, strict=True):
        if isinstance(left_column, str) or isinstance(right_column, str):
            found.append(_column_name(left_column))
            continue
        first, second = type_of(left_column), type_of(right_column)
        kind = value_type.common((first, second))
        types = {side.type for side in (first, second) if side != value_type.NULL}
        if len(types) == 1 and not kind.text:
            kind = replace(kind, type=types.pop())
        found.append(kind.definition(left_column.name))
    return found
