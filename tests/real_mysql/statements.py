"""Statements of a client that shows all their rows."""

from __future__ import annotations  # Connection is generic for the type checker only

from pymysql.connections import Connection
from pymysql.cursors import Cursor

Rows = list[tuple[object, ...]]


def run(session: Connection[Cursor], sql: str) -> Rows:
    """The rows of all results."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        rows: Rows = list(cursor.fetchall())
        while cursor.nextset():
            rows += cursor.fetchall()
        return rows
