"""connectorx at a server, on Rust's mysql: reads, by one connection and by several at once.

    python connector_x.py PROTOCOL

PROTOCOL is binary (prepared statements) or text. Writes what languages.py reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import connectorx

ADDRESS = "mysql://{TIDEGATE_USER}:{TIDEGATE_PASSWORD}@{TIDEGATE_HOST}:{TIDEGATE_PORT}/test"
NUMBERS = (
    "SELECT * FROM (WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)"
    " SELECT CAST(n AS SIGNED) AS n FROM n) AS numbers"
)


def read(sql: str, **options: Any) -> dict[str, list[object]]:
    """The columns of a result."""
    address = ADDRESS.format_map(os.environ)
    table = connectorx.read_sql(address, sql, return_type="arrow", protocol=sys.argv[1], **options)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def values() -> None:
    found = read(
        "SELECT CAST(18446744073709551615 AS UNSIGNED) AS a, CAST(1.5 AS DOUBLE) AS b,"
        " CAST('2026-01-02' AS DATE) AS c, 'zoë 😀' AS d, IF(1, NULL, 'x') AS e"
    )
    assert found["a"] == [18446744073709551615], found
    assert found["b"] == [1.5], found
    assert str(found["c"][0]).startswith("2026-01-02"), found
    assert [found["d"], found["e"]] == [["zoë 😀"], [None]], found


def several_connections() -> None:
    found = read(NUMBERS, partition_on="n", partition_num=4)
    assert sorted(found["n"], key=str) == sorted(range(1, 1001), key=str)


def large() -> None:
    for size in (1_000_000, 17_000_000):
        [found] = read(f"SELECT REPEAT('x', {size}) AS v")["v"]
        assert found == "x" * size, size


def refused() -> None:
    message = ""
    try:
        read("SELECT * FROM absent")
    except RuntimeError as error:
        message = str(error)
    assert "1146" in message, message or "no error"
    assert read("SELECT 1 AS a") == {"a": [1]}


CHECKS: dict[str, Callable[[], None]] = {
    "values of every kind": values,
    "rows by four connections": several_connections,
    "large values": large,
    "an error, and what comes after it": refused,
}


def main() -> None:
    """Run all."""
    for name, check in CHECKS.items():
        try:
            check()
        except (AssertionError, RuntimeError) as error:
            message = " ".join(str(error).split())
            print(f"not ok {name} # {type(error).__name__}: {message:.500}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    print("end")


if __name__ == "__main__":
    main()
