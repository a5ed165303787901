"""What the server does with texts that hide it, and what their class admits."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import random
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from routing.sql.lexer import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES, MODE_UTF8
from routing.sql.statement import StatementClass, classify_text
from tests.real_mysql.cluster import Cluster
from tests.support.statement_texts import hiding_text

MODES = {
    "": 0,
    "ANSI_QUOTES": MODE_ANSI_QUOTES,
    "NO_BACKSLASH_ESCAPES": MODE_NO_BACKSLASH_ESCAPES,
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES": MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES,
}
# Named as calls in `statement_texts` name them; each leaves a row behind.
FUNCTIONS = ("f", "1f", "1e5", "sum", "left", "abs", "5e")
FUNCTION = """
CREATE FUNCTION `?`(a INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA
BEGIN INSERT INTO calls VALUES (1); RETURN 4242; END
"""
LOCKS = """
SELECT COUNT(*) FROM performance_schema.data_locks
WHERE OBJECT_NAME = 't' AND LOCK_TYPE = 'RECORD'
"""
HOLDS = "SELECT IS_USED_LOCK('k') IS NOT NULL"
ASSIGNED = "SELECT @z IS NOT NULL"
TEXTS = 1000


class TextRunner:
    """A connection that runs texts, and another that sees what they did."""

    def __init__(self, cluster: Cluster) -> None:
        self._observer = cluster.primary.admin("app")
        self._runner = cluster.primary.admin("app")
        for connection in (self._observer, self._runner):
            connection.autocommit(True)
        with self._observer.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
            cursor.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
            cursor.execute("CREATE TABLE calls (n INT)")
            for name in FUNCTIONS:
                cursor.execute(FUNCTION.replace("?", name))

    def close(self) -> None:
        self._runner.close()
        self._observer.close()

    def run(self, text: bytes, sql_mode: str, *, locks: bool) -> tuple[bool, bool, bool, bool]:
        """Run a text; whether it called a function, took a lock, assigned @z, locked rows."""
        _value(self._runner, f"SET sql_mode = '{sql_mode}', @z = NULL")
        _value(self._runner, "DO RELEASE_ALL_LOCKS()")
        _value(self._observer, "DELETE FROM calls")
        if locks:
            _value(self._runner, "BEGIN")
        with contextlib.suppress(pymysql.Error):
            _value(self._runner, text)
        locked = locks and _value(self._observer, LOCKS) != 0
        if locks:
            _value(self._runner, "COMMIT")
        called = _value(self._observer, "SELECT COUNT(*) FROM calls") != 0
        holds = _value(self._runner, HOLDS) != 0
        assigned = _value(self._runner, ASSIGNED) != 0
        return called, holds, assigned, locked


def _value(connection: Connection[Cursor], sql: str | bytes) -> object:
    """The first value of a result, if there is one."""
    connection.encoding = "latin1"  # whatever names come back
    connection.query(sql)
    rows = connection._result.rows if connection._result else None
    return rows[0][0] if rows else None


@pytest.fixture(scope="module")
def witness(cluster: Cluster) -> Iterator[TextRunner]:
    witness = TextRunner(cluster)
    yield witness
    witness.close()


@pytest.mark.parametrize("sql_mode", MODES)
def test_no_class_promises_too_much(witness: TextRunner, sql_mode: str) -> None:
    chance = random.Random(sql_mode)
    effects = 0
    for index in range(TEXTS // len(MODES)):
        text = hiding_text(chance).encode()
        called, holds, assigned, locked = witness.run(text, sql_mode, locks=index % 2 == 0)
        effects += called or holds or assigned or locked
        for mode_flags in (MODES[sql_mode], MODES[sql_mode] | MODE_UTF8):
            statement = classify_text(text, mode_flags)
            if called:
                assert statement.kind is StatementClass.WRITE, text
                assert statement.may_write, text
            if holds:
                assert statement.pins, text
            if assigned:  # then no value of it may be carried on
                assert statement.may_run_programs or any(
                    assignment.scope == "user" for assignment in statement.assignments
                ), text
            if locked:
                assert statement.kind is StatementClass.WRITE, text
    assert effects > 10
