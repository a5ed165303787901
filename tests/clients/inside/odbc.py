"""MariaDB's ODBC driver at a server, by pyodbc: the usual things.

    python odbc.py SETTINGS

SETTINGS are the driver's, such as FORCETLS=1. Writes what languages.py reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import pyodbc

MULTI_STATEMENTS = 67108864
SELECT = "SELECT v FROM t WHERE LENGTH(v)"


def connect() -> Any:
    """A connection in autocommit."""
    settings = {
        "DRIVER": "{MariaDB Unicode}",
        "SERVER": os.environ["TIDEGATE_HOST"],
        "PORT": os.environ["TIDEGATE_PORT"],
        "UID": os.environ["TIDEGATE_USER"],
        "PWD": os.environ["TIDEGATE_PASSWORD"],
        "DATABASE": "test",
        "OPTION": str(MULTI_STATEMENTS),
    }
    text = "".join(f"{name}={value};" for name, value in settings.items())
    return pyodbc.connect(text + sys.argv[1], autocommit=True)


def same(expected: object, found: object) -> None:
    """Raise AssertionError where they differ."""
    assert expected == found, f"expected {expected!r:.300}, found {found!r:.300}"


def rows(cursor: Any, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    """All rows of a statement."""
    return [tuple(row) for row in cursor.execute(sql, *parameters).fetchall()]


def refused(state: str, code: int, run: Callable[[], object]) -> None:
    """Expect an error with this SQLSTATE and this code."""
    found, message = "none", ""
    try:
        run()
    except pyodbc.Error as error:
        found, message = error.args
    same(state, found)
    assert f"({code})" in message, message


def values(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(20, 6), c DATETIME(6), d LONGBLOB, e TIME(3),"
        " f DOUBLE, g TEXT CHARACTER SET utf8mb4, h YEAR)"
    )
    moment = datetime(2026, 1, 2, 3, 4, 5)  # the driver drops fractions of seconds
    row = (7, Decimal("1.500000"), moment, b"\0\xff", time(1, 2, 3), 0.5, "zoë 😀", 2026)
    cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
    cursor.execute("INSERT INTO t (a, b, g) VALUES (?, ?, ?)", 8, None, None)
    same([row], rows(cursor, "SELECT * FROM t WHERE a = ?", 7))
    same([row], rows(cursor, "SELECT * FROM t WHERE a = 7"))
    same([(None, None)], rows(cursor, "SELECT b, g FROM t WHERE a = ?", 8))


def written(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    for n in range(1, 21):
        same(1, cursor.execute("INSERT INTO t VALUES (?)", n).rowcount)
        same([(n,)], rows(cursor, "SELECT COUNT(*) FROM t WHERE id <= ?", n))


def batches(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b TEXT)")
    for cursor.fast_executemany in (False, True):
        cursor.executemany("INSERT INTO t (a, b) VALUES (?, ?)", [(n, f"r{n}") for n in range(300)])
    same([(600, 2 * sum(range(300)))], rows(cursor, "SELECT COUNT(*), SUM(a) FROM t"))


def transactions(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    connection.autocommit = False
    for end, seen in ((connection.rollback, 0), (connection.commit, 1)):
        cursor.execute("INSERT INTO t VALUES (?)", 1)
        end()
        same([(seen,)], rows(cursor, "SELECT COUNT(*) FROM t"))
    connection.autocommit = True
    connection.set_attr(pyodbc.SQL_ATTR_TXN_ISOLATION, pyodbc.SQL_TXN_SERIALIZABLE)
    same([("SERIALIZABLE",)], rows(cursor, "SELECT @@transaction_isolation"))


def results(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("DROP PROCEDURE IF EXISTS twice")
    cursor.execute("CREATE PROCEDURE twice(IN n INT) BEGIN SELECT n; SELECT n + 1; END")
    for sql, parameters in (("SELECT 1; SELECT 2", ()), ("{CALL twice(?)}", (1,))):
        cursor.execute(sql, *parameters)
        seen = [cursor.fetchval()]
        while cursor.nextset() and cursor.description:
            seen.append(cursor.fetchval())
        same([1, 2], seen)
    same([(77,)], rows(cursor, "SELECT ?", 77))


def two_cursors(connection: Any) -> None:
    first, second = connection.cursor(), connection.cursor()
    first.execute(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)"
        " SELECT n FROM n"
    )
    for n in range(1, 1001):
        same(n, first.fetchone()[0])
        if n % 100 == 0:
            same([(n,)], rows(second, "SELECT ? + 0", n))


def catalogue(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), KEY v_index (v))")
    same(["t"], [row.table_name for row in cursor.tables(table="t", catalog="test")])
    same(["id", "v"], [row.column_name for row in cursor.columns(table="t", catalog="test")])
    same({"PRIMARY", "v_index"}, {row[5] for row in cursor.statistics("t")} - {None})
    assert connection.getinfo(pyodbc.SQL_DBMS_VER).startswith("0"), "a version"


def large(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
    for size in (1_000_000, (1 << 24) - 60, 17_000_000):
        value = b"x" * size
        cursor.execute("INSERT INTO t (v) VALUES (?)", value)
        for sql, parameters in ((f"{SELECT} = {size}", ()), (f"{SELECT} = ?", (size,))):
            assert rows(cursor, sql, *parameters) == [(value,)], size


def errors(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    cursor.execute("INSERT INTO t VALUES (1)")
    refused("42S02", 1146, lambda: cursor.execute("SELECT * FROM absent"))
    refused("42S02", 1146, lambda: cursor.execute("SELECT * FROM absent WHERE id = ?", 1))
    refused("23000", 1062, lambda: cursor.execute("INSERT INTO t VALUES (?)", 1))
    refused("42000", 1064, lambda: cursor.execute("SELEC 1"))
    same([(1,)], rows(cursor, "SELECT 1"))


def schema(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("USE test2")
    same([("test2",)], rows(cursor, "SELECT DATABASE()"))


CHECKS: dict[str, Callable[[Any], None]] = {
    "values of every kind": values,
    "prepared: what was written is read": written,
    "batches": batches,
    "a transaction, rolled back and committed": transactions,
    "several results": results,
    "two cursors in turn": two_cursors,
    "the catalogue": catalogue,
    "large values both ways": large,
    "an error, and what comes after it": errors,
    "another schema": schema,
}


def main() -> None:
    """Run all, each on a connection of its own."""
    for name, check in CHECKS.items():
        try:
            connection = connect()
            connection.cursor().execute("DROP TABLE IF EXISTS t")
            check(connection)
            connection.close()
        except (AssertionError, pyodbc.Error, ValueError) as error:
            message = " ".join(str(error).split())
            print(f"not ok {name} # {type(error).__name__}: {message:.500}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    print("end")


if __name__ == "__main__":
    main()
