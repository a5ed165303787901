"""Duplicate keys: which value, in which key (error 1062)."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from mysql_mocker.error import MySQLError
from mysql_mocker.sql import translation
from mysql_mocker.sql.names import quoted
from mysql_mocker.sql.value import Row, Value, to_text
from mysql_mocker.state.session import Session

_CODE, _SQLSTATE = 1062, "23000"
_NEW_ROWS: Final = 1000
"""How many rows of a statement are checked for duplicates."""


def error(session: Session, stored: str, tree: exp.Expr) -> MySQLError:
    """The error for a statement that SQLite refused for a key."""
    names, rows = _new_rows(session, stored, tree)
    every = _messages(session, stored, names, rows, fresh=isinstance(tree, exp.Insert))
    found = [message for message in every if message is not None]
    table = stored.partition(".")[2]
    unknown = f"Duplicate entry '' for key '{table}.PRIMARY'"
    return MySQLError(_CODE, _SQLSTATE, found[0] if found else unknown)


def warn(session: Session, found: Sequence[str | None]) -> None:
    """Warnings for the rows that INSERT IGNORE left out; `found` comes from `expected`."""
    for message in found:
        if message is not None:
            session.warn("Warning", _CODE, message)


def expected(session: Session, stored: str, tree: exp.Expr) -> list[str | None]:
    """Before an INSERT runs: for each row, the message for a key value that it will repeat."""
    names, rows = _new_rows(session, stored, tree)
    return _messages(session, stored, names, rows, fresh=True)


def _keys(session: Session, stored: str) -> list[tuple[str, list[str]]]:
    """Name and columns of each unique key, the primary one first."""
    table = stored.partition(".")[2]
    primary = [column.name for column in session.catalogue.columns(stored) if column.key == "PRI"]
    found = [(f"{table}.PRIMARY", primary)] if primary else []
    for name, unique, columns in reversed(session.catalogue.indexes(stored)):
        if unique:
            found.append((f"{table}.{name}", columns))
    return found


def _messages(
    session: Session, stored: str, names: list[str], rows: Sequence[Row], *, fresh: bool
) -> list[str | None]:
    """For each row, the message for a key value that it repeats; None if it repeats none.

    Args:
        names: of the columns that the rows have, in lower case.
        session: whose statement it is.
        stored: stored name of the table.
        rows: their values.
        fresh: they are inserted; if not, one message is enough.
    """
    keys = [
        (key, columns, [names.index(column.lower()) for column in columns])
        for key, columns in _keys(session, stored)
        if all(column.lower() in names for column in columns)
    ]
    seen: set[tuple[str, tuple[Value, ...]]] = set()
    found: list[str | None] = []
    for row in rows:
        entries = [(key, columns, tuple(row[i] for i in places)) for key, columns, places in keys]
        entries = [entry for entry in entries if None not in entry[2]]
        repeated = next((e for e in entries if _is_there(session, stored, e, seen)), None)
        if repeated is None:
            seen.update((key, _folded(values)) for key, _, values in entries)
            found.append(None)
        else:
            text = b"-".join(to_text(value) or b"" for value in repeated[2]).decode(
                "utf-8", "replace"
            )
            found.append(f"Duplicate entry '{text}' for key '{repeated[0]}'")
            if not fresh:
                break
    return found


def _is_there(
    session: Session,
    stored: str,
    entry: tuple[str, list[str], tuple[Value, ...]],
    seen: set[tuple[str, tuple[Value, ...]]],
) -> bool:
    key, columns, values = entry
    if (key, _folded(values)) in seen:
        return True
    condition = " AND ".join(f"{quoted(column)} = ?" for column in columns)
    existing = f"SELECT 1 FROM {quoted(stored)} WHERE {condition}"  # noqa: S608 - quoted
    return session.storage.value(existing, values) is not None


def _folded(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(value.casefold() if isinstance(value, str) else value for value in values)


def _new_rows(session: Session, stored: str, tree: exp.Expr) -> tuple[list[str], Sequence[Row]]:
    """Names and values of the columns that a statement writes."""
    if isinstance(tree, exp.Update):
        names = [assignment.this.name.lower() for assignment in tree.expressions]
        values = [assignment.expression.copy() for assignment in tree.expressions]
        query = exp.select(*values).from_(tree.this.copy())
        query.set("where", tree.args.get("where"))
        return names, _rows(session, query)
    if not isinstance(tree, exp.Insert):
        return [], []
    schema = tree.this
    named = schema.expressions if isinstance(schema, exp.Schema) else []
    names = [column.name.lower() for column in named]
    names = names or [column.name.lower() for column in session.catalogue.columns(stored)]
    source = tree.expression
    if isinstance(source, exp.Values):
        rows = [
            _rows(session, exp.select(*[part.copy() for part in row.expressions]))[0]
            for row in source.expressions[:_NEW_ROWS]
        ]
        return names, rows
    return names, _rows(session, source.copy()) if isinstance(source, exp.Query) else []


def _rows(session: Session, query: exp.Query) -> Sequence[Row]:
    sql = translation.sqlite_sql(translation.functions(query))
    return session.storage.read(sql)[1][:_NEW_ROWS]
