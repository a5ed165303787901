"""Duplicate keys: which value, in which key (error 1062)."""

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from mysql_mocker import translation
from mysql_mocker.catalogue import quoted
from mysql_mocker.error import MySQLError

if TYPE_CHECKING:
    from mysql_mocker.session import Session

_CODE, _SQLSTATE = 1062, "23000"


def error(session: "Session", text: str, stored: str, tree: exp.Expr) -> MySQLError:
    """The error for SQLite's ``UNIQUE constraint failed: s.t.a, s.t.b``."""
    columns = re.findall(re.escape(stored) + r"\.([^,]+)(?:, |$)", text)
    entry = _entry(session, stored, tree, columns)
    return MySQLError(_CODE, _SQLSTATE, _message(entry, _key(session, stored, columns)))


def warn(session: "Session", stored: str, tree: exp.Expr, *, skipped: int) -> None:
    """Warnings for the rows that INSERT IGNORE left out."""
    primary = [column.name for column in session.catalogue.columns(stored) if column.key == "PRI"]
    for _ in range(skipped):
        entry = _entry(session, stored, tree, primary)
        session.warn("Warning", _CODE, _message(entry, _key(session, stored, primary)))


def _message(entry: str, key: str) -> str:
    return f"Duplicate entry '{entry}' for key '{key}'"


def _key(session: "Session", stored: str, columns: list[str]) -> str:
    table = stored.partition(".")[2]
    for name, unique, indexed in session.catalogue.indexes(stored):
        if unique and indexed == columns:
            return f"{table}.{name}"
    return f"{table}.PRIMARY"


def _entry(session: "Session", stored: str, tree: exp.Expr, columns: list[str]) -> str:
    """The values that were there already, joined by ``-``; empty if they cannot be told."""
    if not isinstance(tree, exp.Insert) or not isinstance(tree.expression, exp.Values):
        return ""
    schema = tree.this
    names = (
        [column.name.lower() for column in schema.expressions]
        if isinstance(schema, exp.Schema)
        else [column.name.lower() for column in session.catalogue.columns(stored)]
    )
    if not columns or any(column.lower() not in names for column in columns):
        return ""
    places = [names.index(column.lower()) for column in columns]
    condition = " AND ".join(f"{quoted(column)} = ?" for column in columns)
    existing = f"SELECT 1 FROM {quoted(stored)} WHERE {condition}"  # noqa: S608 - quoted
    seen = set()
    for row in tree.expression.expressions:
        values = tuple(
            session.storage.value(translation.sqlite_sql(exp.select(row.expressions[i].copy())))
            for i in places
        )
        if values in seen or session.storage.value(existing, values) is not None:
            return "-".join(str(value) for value in values)
        seen.add(values)
    return ""
