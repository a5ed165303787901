"""A SELECT that is translated once, and run with the values of system variables as parameters.

Clients repeat their statements, and drivers and proxies read dozens of variables after each login.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlglot import exp

from mysql_mocker.evaluation.binding import FUNCTION_NODES
from mysql_mocker.evaluation.session_functions import FUNCTIONS
from mysql_mocker.evaluation.virtual import VARIABLES
from mysql_mocker.sql import translation
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Value
from mysql_mocker.state.engine import SYSTEM_SCHEMAS
from mysql_mocker.state.session import Session

_STATUS: Final = ("performance_schema", "global_status")
_STATUS_ROWS: Final = "status"
"""The placeholder of its rows."""
_OTHERS: Final = (
    exp.SetOperation | exp.With | exp.Into | exp.Lock | exp.Parameter | exp.Placeholder
    | exp.Anonymous | exp.Offset
)  # fmt: skip
"""Whose names or values are not the same each time, or which have effects."""
_INTEGER_BITS: Final = 64
"""Of SQLite's integers; one is for the sign."""


@dataclass(frozen=True, slots=True)
class KeptQuery:
    """A statement that reads tables, system variables, and what the session is.

    Attributes:
        sql: for SQLite, with named placeholders.
        tables: stored names of the tables that it names.
        values: for each placeholder a variable and its scope, or a function and None.
        reads_status: whether it reads `performance_schema.global_status`.
    """

    sql: str
    tables: tuple[str, ...]
    values: tuple[tuple[str, str | None], ...]
    reads_status: bool

    async def parameters(self, session: Session) -> dict[str, Value]:
        """The values now, by their placeholders.

        Raises:
            MySQLError: 1193, or 1238 for a scope that a variable does not have.
        """
        found: dict[str, Value] = {}
        if self.reads_status:
            found[_STATUS_ROWS] = json.dumps(list(session.server.status().items()))
        for place, (name, scope) in enumerate(self.values):
            if scope is None:
                value = await FUNCTIONS[name](session, ())
            else:
                value = session.variable(name, scope)
            found[_placeholder(place)] = _storable(value)
        return found


def kept_query(statement: Statement, schema: str | None) -> KeptQuery | None:
    """The statement as such a query, with `schema` as the current one; None if it is no such.

    Raises:
        MySQLError: 1046, and as `Statement.parse`.
    """
    in_system_schema = schema is not None and schema.lower() in SYSTEM_SCHEMAS
    if statement.values or in_system_schema or "SQL_CALC_FOUND_ROWS" in statement.text.upper():
        return None
    return _translated(statement, schema)


@lru_cache(maxsize=128)
def _translated(statement: Statement, schema: str | None) -> KeptQuery | None:
    tree = statement.parse()
    nodes = translation.in_order(tree)
    if not isinstance(tree, exp.Select) or not all(map(_is_same_each_time, nodes)):
        return None
    values: list[tuple[str, str | None]] = []
    for node in nodes:
        if isinstance(node, exp.SessionParameter):
            scope = str(node.args.get("kind") or "").lower()
            values.append((node.name, "session" if scope == "local" else scope))
        elif type(node) in FUNCTION_NODES:
            values.append((FUNCTION_NODES[type(node)], None))
        else:
            continue
        node.replace(exp.Placeholder(this=_placeholder(len(values) - 1)))
    if values and any(isinstance(node, exp.Star) for node in nodes):
        return None  # the names of columns are SQLite's then
    translation.qualify(tree, schema, _status_table)
    tables = tuple(table.name for table in translation.tables(tree))
    sql = translation.sqlite_sql(translation.functions(tree))
    return KeptQuery(sql, tables, tuple(values), f":{_STATUS_ROWS}" in sql)


def _is_same_each_time(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string or (node.name.isascii() and "\0" not in node.name)
    if isinstance(node, exp.Table):
        named = (node.db.lower(), node.name.lower())
        return named == _STATUS or (bool(node.name) and named[0] not in SYSTEM_SCHEMAS)
    return not isinstance(node, _OTHERS)


def _status_table(schema: str, _name: str) -> exp.Subquery | None:
    """The server's status, if it is of this schema; from a parameter, a list of pairs as JSON."""
    if schema.lower() != _STATUS[0]:
        return None
    listed = exp.Anonymous(this="json_each", expressions=[exp.Placeholder(this=_STATUS_ROWS)])
    columns = [
        exp.alias_(_item(place), exp.to_identifier(name, quoted=True))
        for place, name in enumerate(VARIABLES)
    ]
    return exp.select(*columns).from_(exp.Table(this=listed)).subquery()


def _item(place: int) -> exp.Expr:
    """An item of a list that `json_each` gives."""
    path = exp.Literal.string(f"$[{place}]")
    return exp.Anonymous(this="json_extract", expressions=[exp.column("value"), path])


def _placeholder(place: int) -> str:
    return f"value{place}"


def _storable(value: Value) -> Value:
    """The value as SQLite would read it in a statement: it stores no other text or integers."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int) and value.bit_length() >= _INTEGER_BITS:
        return float(value)
    return value
