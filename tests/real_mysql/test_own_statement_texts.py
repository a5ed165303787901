"""Statements to Tidegate are read as the server reads those that look like them."""

from __future__ import annotations  # Connection is generic for the type checker only

import random
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from routing.sql.lexer import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES, MODE_UTF8
from routing.sql.statement import classify_text
from routing.sql.tidegate_statement import OwnStatement, SelectOwn, SetOwn, WrongOwn
from tests.real_mysql.cluster import Cluster

MODES = {
    "": 0,
    "ANSI_QUOTES": MODE_ANSI_QUOTES,
    "NO_BACKSLASH_ESCAPES": MODE_NO_BACKSLASH_ESCAPES,
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES": MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES,
}
PIECES = (*"''\"\"\\\\\\ab%_ntZ0é,", "''", '""', r"\'", r"\"", r"\\", "', '")


@pytest.fixture(scope="module")
def connection(cluster: Cluster) -> Iterator[Connection[Cursor]]:
    connection = cluster.primary.admin("app")
    yield connection
    connection.close()


def own(text: str, sql_mode: str) -> OwnStatement | None:
    return classify_text(text.encode(), MODES[sql_mode] | MODE_UTF8).own


def asked(connection: Connection[Cursor], sql_mode: str, text: str) -> tuple[str, object] | None:
    """Label and value of the first column; None if the server refuses the text."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET sql_mode = '{sql_mode}', NAMES utf8mb4")
        try:
            cursor.execute(text)
        except pymysql.Error:
            return None
        assert cursor.description is not None
        rows = cursor.fetchall()
        return cursor.description[0][0], rows[0][0]


@pytest.mark.parametrize("sql_mode", MODES)
def test_values(connection: Connection[Cursor], sql_mode: str) -> None:
    chance = random.Random(sql_mode)
    compared = 0
    for _ in range(400):
        inside = "".join(chance.choices(PIECES, k=chance.randrange(6)))
        quote = chance.choice("'\"")
        literal = quote + inside + quote
        found = own(f"SET tidegate_application = {literal}", sql_mode)
        if quote == '"' and "ANSI" in sql_mode:
            # A name stands for itself where a variable is set, and for nothing in a SELECT.
            answer = asked(connection, sql_mode, f"SELECT 1 AS {literal}")
        else:
            answer = asked(connection, sql_mode, f"SELECT HEX({literal})")
        if answer is None:
            continue
        if isinstance(found, SetOwn):
            label, value = answer
            expected = label if value == 1 else bytes.fromhex(str(value)).decode()
            assert found.assignments[0].value == expected, literal
            compared += 1
        else:
            assert isinstance(found, WrongOwn), literal  # 'a' 'b', or 'a' % 'b'
    assert compared > 100


@pytest.mark.parametrize("sql_mode", MODES)
@pytest.mark.parametrize(
    "form",
    [
        *("@@?", "@@SESSION.?", "@@local.?", "@@`?`", "@@? a", "@@? AS a", "@@? AS 'a b'"),
        *("@@? 'a''b'", '@@? "a""b"', "@@? AS `a``b`", r"@@? AS 'a\\b'", "@@? LIMIT 1"),
        *("@@? AS é", "@@? AS ''", "@@? AS `limit`", "@@? # a\nAS b"),
    ],
)
def test_labels(connection: Connection[Cursor], form: str, sql_mode: str) -> None:
    answer = asked(connection, sql_mode, "SELECT " + form.replace("?", "sql_mode"))
    assert answer is not None
    found = own("SELECT " + form.replace("?", "tidegate_scope"), sql_mode)
    assert isinstance(found, SelectOwn)
    assert [label for _, label in found.columns] == [
        answer[0].replace("sql_mode", "tidegate_scope")
    ]


@pytest.mark.parametrize(
    "target",
    [
        *("?", "SESSION ?", "LOCAL ?", "@@?", "@@session.?", "@@LOCAL.?", "`?`", "@@`?`"),
        *("@@session.`?`", "@@session . ?", "SESSION `?`"),
    ],
)
@pytest.mark.parametrize("value", ["'en_US'", "en_US", "`en_US`", '"en_US"', "DEFAULT"])
def test_forms_of_set(connection: Connection[Cursor], target: str, value: str) -> None:
    for operator in ("=", " := "):
        assignment = f"SET {target}{operator}{value}"
        with connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(assignment.replace("?", "lc_messages"))
        assert isinstance(own(assignment.replace("?", "tidegate_scope"), ""), SetOwn)
