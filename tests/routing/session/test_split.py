"""Which transactions send their reads to replicas, and what ends that."""

import pytest

from routing.session.split import Split, begins, goes_on, is_plain
from routing.sql.statement import classify


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
    assert begins(classify(text), text, None) is alone
    assert begins(classify(text), text, Split()) is chained
