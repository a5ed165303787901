"""Finds the clause of a statement that names an unknown column."""

import re
import sqlite3
from typing import Final

from sqlglot import exp

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.script import Statement

_FIELDS: Final = "field list"
_CLAUSES: Final = (
    ("joins", "on clause"),
    ("where", "where clause"),
    ("group", "group statement"),
    ("having", "having clause"),
    ("order", "order clause"),
)


def of_unknown(statement: Statement, error: sqlite3.Error | UnicodeEncodeError) -> str:
    """The clause of the column that SQLite does not find, as the server names it."""
    missing = re.search(r"no such column: (?:.+\.)?(.+)", str(error))
    if missing is None:
        return _FIELDS
    try:
        tree = statement.parse()
    except MySQLError:
        return _FIELDS
    if not isinstance(tree, exp.Select | exp.Update | exp.Delete):
        return _FIELDS
    if any(_names(part, missing[1]) for part in tree.expressions):
        return _FIELDS
    for key, clause in _CLAUSES:
        parts = tree.args.get(key)
        parts = parts if isinstance(parts, list) else [parts]
        if any(isinstance(part, exp.Expr) and _names(part, missing[1]) for part in parts):
            return clause
    return _FIELDS


def _names(part: exp.Expr, column: str) -> bool:
    return any(found.name.lower() == column.lower() for found in part.find_all(exp.Column))
