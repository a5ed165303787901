"""One client connection to the proxy or to a server, by one driver or another."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import struct
from typing import Protocol

import mysql.connector
import pymysql
from mysql.connector.abstracts import MySQLConnectionAbstract, MySQLCursorAbstract
from mysql.connector.cursor import MySQLCursorPrepared
from pymysql.connections import Connection
from pymysql.cursors import Cursor

CLIENT_TIMEOUT_S = 75
"""A client gives up after so long; whatever the proxy promises must be shorter."""

FAILURES = (
    *(pymysql.err.MySQLError, mysql.connector.Error, OSError),
    # What drivers raise where a connection ends within an answer.
    *(struct.error, IndexError, AttributeError),
)


class LoginError(OSError):
    """A connection could not be opened, where one was needed for a statement."""


def code(error: BaseException) -> str:
    """The MySQL error code of a driver's exception, or the exception's name."""
    if isinstance(error, LoginError) and error.__cause__ is not None:
        error = error.__cause__
    number = getattr(error, "errno", None) or next(iter(error.args), None)
    if isinstance(error, OSError) or not isinstance(number, int) or number <= 0:
        return type(error).__name__
    return str(number)


class Link(Protocol):
    """A connection in autocommit, to schema `app`."""

    def execute(self, sql: str, *arguments: int) -> None:
        """Run a statement without rows; ``{}`` stands for each argument."""

    def select(self, sql: str, *arguments: int) -> list[tuple[object, ...]]:
        """Run one with rows."""

    def reset(self) -> None:
        """COM_RESET_CONNECTION."""

    def close(self) -> None:
        """Hang up, whatever state it is in."""


class PyMySQLLink:
    """By PyMySQL: text, without TLS or compression."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._connection: Connection[Cursor] = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=password,
            database="app",
            autocommit=True,
            connect_timeout=CLIENT_TIMEOUT_S,
            read_timeout=CLIENT_TIMEOUT_S,
            write_timeout=CLIENT_TIMEOUT_S,
        )

    def execute(self, sql: str, *arguments: int) -> None:
        self.select(sql, *arguments)

    def select(self, sql: str, *arguments: int) -> list[tuple[object, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql.format(*arguments))
            return list(cursor.fetchall())

    def reset(self) -> None:
        raise NotImplementedError("PyMySQL has no COM_RESET_CONNECTION")

    def close(self) -> None:
        with contextlib.suppress(*FAILURES):
            self._connection.close()


class ConnectorLink:
    """By Connector/Python in pure mode: TLS, and prepared or compressed where wanted."""

    def __init__(
        self,
        port: int,
        user: str,
        password: str,
        *,
        prepared: bool = False,
        compressed: bool = False,
        attributes: dict[str, str] | None = None,
    ) -> None:
        connection = mysql.connector.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=password,
            database="app",
            autocommit=True,
            use_pure=True,
            compress=compressed,
            conn_attrs=attributes or {},
            connection_timeout=CLIENT_TIMEOUT_S,
            read_timeout=CLIENT_TIMEOUT_S,
            write_timeout=CLIENT_TIMEOUT_S,
        )
        if not isinstance(connection, MySQLConnectionAbstract):
            raise TypeError(f"not a plain connection: {connection!r}")
        self._connection = connection
        self._prepared = prepared
        self._statements: dict[str, MySQLCursorAbstract] = {}

    def execute(self, sql: str, *arguments: int) -> None:
        self.select(sql, *arguments)

    def select(self, sql: str, *arguments: int) -> list[tuple[object, ...]]:
        if self._prepared and arguments:
            return self._select_prepared(sql.format(*("?" for _ in arguments)), arguments)
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql.format(*arguments))
            return _rows(cursor)

    def _select_prepared(self, sql: str, arguments: tuple[int, ...]) -> list[tuple[object, ...]]:
        cursor = self._statements.get(sql)
        if cursor is None:
            cursor = self._connection.cursor(cursor_class=MySQLCursorPrepared)
            self._statements[sql] = cursor
        cursor.execute(sql, arguments)
        return _rows(cursor)

    def reset(self) -> None:
        self._statements.clear()  # the server has dropped them
        self._connection.cmd_reset_connection()

    def close(self) -> None:
        # Its own close() asks the server first, which may not answer.
        with contextlib.suppress(*FAILURES):
            self._connection.shutdown()


def _rows(cursor: MySQLCursorAbstract) -> list[tuple[object, ...]]:
    """All rows; none of a statement that has none."""
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
