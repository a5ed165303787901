"""What commands mean for the transaction that they run in."""

import pytest

from routing.sql.statement import classify, classify_text
from routing.transaction.commands import (
    begins_writing,
    goes_on,
    is_plain,
    may_set_savepoint,
    needs,
)


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        *(("SELECT a FROM t", True), ("SHOW WARNINGS", True), ("USE app", True)),
        *(("SELECT @@version", True), ("SELECT CONNECTION_ID()", True)),
        *(("SET tidegate_scope = 'user'", True), ("SHOW TIDEGATE LAST", True)),
        *(("SELECT a FROM t FOR UPDATE", False), ("SELECT a FROM t FOR SHARE", False)),
        *(("SELECT a FROM t LOCK IN SHARE MODE", False), ("SAVEPOINT s", False)),
        *(("SET @a = 1", False), ("SELECT @a := 1", False), ("SELECT a INTO @a FROM t", False)),
        *(("SET NAMES utf8mb4", False), ("CALL p()", False), ("SELECT f(1)", False)),
        *(("INSERT INTO t VALUES (1)", False), ("SELECT GET_LOCK('a', 1)", False)),
        *(("LOCK TABLES t READ", False), ("XA START 'x'", False), ("HANDLER t OPEN", False)),
        *(("SELECT 1; SELECT 2", False), ("EXECUTE s", False), ("gibberish", False)),
        *(("CREATE TEMPORARY TABLE a (b INT)", False), ("SET TRANSACTION READ ONLY", False)),
    ],
)
def test_plain_statements(sql: str, plain: bool) -> None:
    statement = classify(sql.encode())
    assert is_plain(statement, statement.may_write) is plain


def test_commands_that_are_no_statements() -> None:
    assert is_plain(None, may_write=False)
    assert not is_plain(None, may_write=True)
    assert goes_on(None, may_write=False, still_open=True)
    assert not goes_on(None, may_write=True, still_open=True)


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        *(("SELECT a FROM t", True), ("INSERT INTO t VALUES (1)", True), ("SAVEPOINT s", True)),
        *(("ROLLBACK TO s", True), ("SET TRANSACTION READ ONLY", True), ("SET @a = 1", True)),
        *(("COMMIT AND CHAIN", False), ("BEGIN", False), ("ROLLBACK", False)),
        *(("CALL p()", False), ("COMMIT; BEGIN", False), ("EXECUTE s", False)),
    ],
)
def test_what_may_have_begun_another_ends_it(sql: str, same: bool) -> None:
    statement = classify(sql.encode())
    assert goes_on(statement, statement.may_write, still_open=True) is same
    assert not goes_on(statement, statement.may_write, still_open=False)


@pytest.mark.parametrize(
    ("sql", "alone", "chained"),
    [
        *(("BEGIN", True, True), ("START TRANSACTION", True, True)),
        ("START TRANSACTION READ WRITE", True, True),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", False, False),
        *(("COMMIT AND CHAIN", False, True), ("ROLLBACK AND CHAIN", False, True)),
        *(("SAVEPOINT s", False, False), ("CALL p()", False, False)),
        *(("SELECT a FROM t", False, False), ("BEGIN; SELECT 1", False, False)),
    ],
)
def test_what_begins_one(sql: str, alone: bool, chained: bool) -> None:
    text = sql.encode()
    assert begins_writing(classify(text), text, follows=False) is alone
    assert begins_writing(classify(text), text, follows=True) is chained


@pytest.mark.parametrize(
    ("sql", "sets"),
    [
        *(("SAVEPOINT s", True), ("DO 1; SAVEPOINT s", True), ("CALL p()", True)),
        *(("ROLLBACK TO s", True), ("RELEASE SAVEPOINT s", True)),
        *(("SELECT 1", False), ("SET autocommit = 0", False), ("COMMIT", False)),
    ],
)
def test_what_may_set_a_savepoint(sql: str, sets: bool) -> None:
    assert may_set_savepoint(classify_text(sql.encode(), 0), False) is sets


def test_a_command_that_nobody_looked_at_may_set_a_savepoint() -> None:
    assert may_set_savepoint(None, True)
    assert not may_set_savepoint(None, False)


NOTHING = [
    *("SELECT 1", "SELECT @@version", "SHOW WARNINGS", "COMMIT", "ROLLBACK", "BEGIN"),
    *("SHOW TIDEGATE LAST", "SELECT NOW()", "SHOW COLUMNS FROM t", "COMMIT AND CHAIN"),
]
SNAPSHOT = [
    *("INSERT INTO t VALUES (1)", "UPDATE t SET a = (SELECT MAX(b) FROM u)", "DELETE FROM t"),
    *("REPLACE INTO t SELECT * FROM u", "INSERT INTO t VALUES (f())", "SAVEPOINT s"),
    *("SELECT * FROM t FOR UPDATE", "SELECT a FROM t LOCK IN SHARE MODE", "TABLE t FOR SHARE"),
    *("(SELECT a FROM t) FOR UPDATE", "SET @a = 1", "CREATE TABLE x (a INT)", "SET sql_mode = ''"),
    "SELECT GET_LOCK('a', 1)",
]
SAME = [
    *("SELECT * FROM t", "SELECT a FROM t WHERE b IN (SELECT c FROM u) FOR UPDATE"),
    *("SELECT t.a FROM t JOIN u FOR UPDATE OF t", "TABLE t", "CALL p()", "SELECT f()"),
    *("SELECT * FROM (TABLE t) x FOR UPDATE", "WITH c AS (SELECT 1 FROM t) SELECT * FROM c"),
    *("SELECT a FROM t INTO @a", "SELECT @@port, a FROM t", "SET @a = (SELECT MAX(a) FROM t)"),
    *("INSERT INTO t VALUES (1); SELECT * FROM t", "HANDLER t READ FIRST", "EXECUTE s", "DO f()"),
    *("SELECT a FROM t UNION SELECT a FROM u FOR UPDATE", "SELECT f() FROM t FOR UPDATE", "???"),
    "SELECT table_rows FROM information_schema.tables",
]


@pytest.mark.parametrize(
    ("needed", "sql"),
    [
        *(("nothing", sql) for sql in NOTHING),
        *(("snapshot", sql) for sql in SNAPSHOT),
        *(("same", sql) for sql in SAME),
    ],
)
def test_what_commands_need(needed: str, sql: str) -> None:
    statement = classify(sql.encode())
    assert needs(statement, statement.may_write, sql.encode()) == needed


@pytest.mark.parametrize("may_write", [False, True])
def test_what_nobody_has_looked_at(may_write: bool) -> None:
    assert needs(None, may_write, b"") == ("same" if may_write else "nothing")
