"""The errors that a MySQL client of the mocker can get, in the server's own words."""

import re
import sqlite3

from protocol.errors import ServerErrorCode


class MySQLError(Exception):
    """Ends a statement in an ERR packet.

    Attributes:
        code: the server's error number.
        sqlstate: five characters.
        message: what the client is told.
    """

    def __init__(self, code: int, sqlstate: str, message: str) -> None:
        super().__init__(f"{code} ({sqlstate}): {message}")
        self.code = code
        self.sqlstate = sqlstate
        self.message = message

    @classmethod
    def of(cls, error: ServerErrorCode, message: str) -> "MySQLError":
        """An error whose number the protocol package already knows."""
        return cls(error.code, error.sqlstate, message)


def syntax_error(near: str, line: int = 1) -> MySQLError:
    """1064, with the text from the point where the server no longer understood it."""
    return MySQLError.of(
        ServerErrorCode.ER_PARSE_ERROR,
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
        f"server version for the right syntax to use near '{near[:80]}' at line {line}",
    )


def unsupported(feature: str) -> MySQLError:
    """1235: MySQL can do it, the mocker cannot."""
    return MySQLError.of(
        ServerErrorCode.ER_NOT_SUPPORTED_YET,
        f"This version of MySQL doesn't yet support '{feature[:80]}'",
    )


def unknown_database(name: str) -> MySQLError:
    """1049."""
    return MySQLError.of(ServerErrorCode.ER_BAD_DB_ERROR, f"Unknown database '{name}'")


def unknown_table(name: str) -> MySQLError:
    """1146; `name` is ``schema.table``."""
    return MySQLError(1146, "42S02", f"Table '{name}' doesn't exist")


def no_database_selected() -> MySQLError:
    """1046."""
    return MySQLError(1046, "3D000", "No database selected")


def unknown_variable(name: str) -> MySQLError:
    """1193."""
    return MySQLError.of(
        ServerErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE, f"Unknown system variable '{name}'"
    )


def wrong_value(name: str, value: bool | float | str | bytes | None) -> MySQLError:
    """1231."""
    shown = "NULL" if value is None else str(value)
    return MySQLError(1231, "42000", f"Variable '{name}' can't be set to the value of '{shown}'")


def read_only_server(option: str) -> MySQLError:
    """1290; `option` is ``super-read-only`` or ``read-only``."""
    return MySQLError.of(
        ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT,
        f"The MySQL server is running with the --{option} option so it cannot execute this "
        "statement",
    )


def read_only_transaction() -> MySQLError:
    """1792."""
    return MySQLError.of(
        ServerErrorCode.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
        "Cannot execute statement in a READ ONLY transaction.",
    )


def lock_wait_timeout() -> MySQLError:
    """1205."""
    return MySQLError(1205, "HY000", "Lock wait timeout exceeded; try restarting transaction")


def interrupted() -> MySQLError:
    """1317: KILL QUERY."""
    return MySQLError.of(ServerErrorCode.ER_QUERY_INTERRUPTED, "Query execution was interrupted")


def execution_time_exceeded() -> MySQLError:
    """3024: ``max_execution_time`` ran out."""
    return MySQLError.of(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        "Query execution was interrupted, maximum statement execution time exceeded",
    )


def malformed_gtid_set(text: str) -> MySQLError:
    """1772."""
    return MySQLError(1772, "HY000", f"Malformed GTID set specification '{text}'.")


def applying_failed(error: sqlite3.Error) -> MySQLError:
    """The error with which a replica's applier stops."""
    match = re.match(r"UNIQUE constraint failed: \w+\.(\w+)", str(error))
    if match is None:
        return from_sqlite(error, None)
    text = f"Could not execute Write_rows event on table {match[1]}; Duplicate entry"
    return MySQLError(1062, "23000", text)


_NOT_A_COLUMN = "Unknown column '{}' in 'field list'"
_SQLITE_FAULTS: tuple[tuple[str, int, str, str], ...] = (
    (r"no such table: (?:temp\.|main\.)?(.+)", 1146, "42S02", "Table '{}' doesn't exist"),
    (r"no such column: (.+)", 1054, "42S22", _NOT_A_COLUMN),
    (r"has no column named (.+)", 1054, "42S22", _NOT_A_COLUMN),
    (r"ambiguous column name: (.+)", 1052, "23000", "Column '{}' in field list is ambiguous"),
    (r"no such function: (.+)", 1305, "42000", "FUNCTION {} does not exist"),
    (r"wrong number of arguments to function (\w+)", 1582, "42000",
     "Incorrect parameter count in the call to native function '{}'"),
    (r"has \d+ columns but \d+ values|\d+ values for \d+ columns", 1136, "21S01",
     "Column count doesn't match value count at row 1"),
    (r"NOT NULL constraint failed: .+\.(.+)", 1048, "23000", "Column '{}' cannot be null"),
    (r"FOREIGN KEY constraint failed", 1452, "23000",
     "Cannot add or update a child row: a foreign key constraint fails"),
    (r"CHECK constraint failed: (.+)", 3819, "HY000", "Check constraint '{}' is violated."),
    (r"table \"?(?:.+?\.)?([^.\"]+)\"? already exists", 1050, "42S01",
     "Table '{}' already exists"),
    (r"index \"?(?:.+\.)?([^.\"]+)\"? already exists", 1061, "42000", "Duplicate key name '{}'"),
    (r"no such index: (?:.+\.)?(.+)", 1091, "42000",
     "Can't DROP '{}'; check that column/key exists"),
    (r"no such savepoint: (.+)", 1305, "42000", "SAVEPOINT {} does not exist"),
    (r"duplicate column name: (.+)", 1060, "42S21", "Duplicate column name '{}'"),
    (r"interrupted", 1317, "70100", "Query execution was interrupted"),
    (r"(?:near \"(.*)\": syntax error|incomplete input)", 1064, "42000",
     "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server "
     "version for the right syntax to use near '{}' at line 1"),
)  # fmt: skip


def from_sqlite(error: sqlite3.Error | UnicodeEncodeError, schema: str | None) -> MySQLError:
    """The MySQL error for an error of SQLite; 1105 if there is no better one.

    Errors about duplicate keys (1062) need the statement's values; `duplicates` makes them.
    """
    if isinstance(error, UnicodeEncodeError):
        return MySQLError(1300, "HY000", "Invalid utf8mb4 character string")
    text = str(error)
    for pattern, code, sqlstate, message in _SQLITE_FAULTS:
        match = re.search(pattern, text)
        if match is None:
            continue
        name = (match[1] or "") if match.groups() else ""
        if code == 1305 and "FUNCTION" in message:
            if schema is None:
                return no_database_selected()
            name = f"{schema}.{name}"
        return MySQLError(code, sqlstate, message.format(name))
    return MySQLError.of(ServerErrorCode.ER_UNKNOWN_ERROR, text)
