"""Which answers may hide a commit whose GTID they do not name."""

import pytest

from routing.session.commits import Commits
from routing.sql.statement import classify
from routing.transaction.transaction import Transaction

AUTOCOMMIT, IN_TRANS = 0x0002, 0x0003
CHANGED = (AUTOCOMMIT, b"")
INSIDE = (IN_TRANS, b"")
UPDATED = b"Rows matched: 2  Changed: 1  Warnings: 0"
UNCHANGED = b"Rows matched: 2  Changed: 0  Warnings: 0"


def ended(
    commits: Commits,
    sql: str | None,
    *changes: tuple[int, bytes],
    named: bool = False,
    inside: bool = False,
    temporary: bool = False,
) -> bool:
    statement = None if sql is None else classify(sql.encode())
    commits.transaction.on_restore(IN_TRANS if inside else 0)
    return commits.ended(statement, named, list(changes), temporary)


@pytest.fixture
def commits() -> Commits:
    return Commits(Transaction())


@pytest.mark.parametrize(
    ("sql", "change", "unnamed"),
    [
        ("INSERT INTO t VALUES (1)", CHANGED, True),
        ("UPDATE t SET a = 1", (AUTOCOMMIT, UPDATED), True),
        ("UPDATE t SET a = 1", (AUTOCOMMIT, UNCHANGED), False),
        ("INSERT INTO t VALUES (1), (2)", (AUTOCOMMIT, b"Records: 2  Duplicates: 0  "), True),
        ("SELECT 1 INTO OUTFILE 'x'", CHANGED, False),
        ("CREATE TABLE t (a INT)", None, True),
        ("GRANT SELECT ON t TO u", None, True),
        ("UPDATE t SET a = 1 WHERE FALSE", None, False),
        ("CALL p()", None, False),
        ("CALL p()", CHANGED, True),
        ("FLUSH LOCAL TABLES", None, False),
        ("COMMIT", None, False),
    ],
)
def test_an_answer_without_a_gtid(
    commits: Commits, sql: str, change: tuple[int, bytes] | None, unnamed: bool
) -> None:
    changes = () if change is None else (change,)
    assert not ended(Commits(Transaction()), sql, *changes, named=True)
    assert ended(commits, sql, *changes) == unnamed


@pytest.mark.parametrize("first", ["CALL p()", "INSERT INTO t VALUES (1)", "SELECT f()", None])
@pytest.mark.parametrize("then", ["CALL p()", "SELECT f()", "EXECUTE s", None])
def test_a_program_is_in_doubt_behind_what_may_have_run_one(
    commits: Commits, first: str | None, then: str | None
) -> None:
    ended(commits, first, named=True)
    assert not commits.wants_tracking(classify(b"CALL p()"))
    assert ended(commits, then)
    assert not ended(commits, then, named=True)
    assert commits.wants_tracking(classify(b"CALL p()"))
    assert not commits.wants_tracking(classify(b"UPDATE t SET a = 1"))
    commits.tracked()
    assert not commits.wants_tracking(classify(b"CALL p()"))
    assert not ended(commits, then)


def test_a_transaction_is_named_where_it_ends(commits: Commits) -> None:
    for named in (True, False):
        assert not ended(commits, "BEGIN", inside=True)
        assert not ended(commits, "INSERT INTO t VALUES (1)", INSIDE, inside=True)
        assert not ended(commits, "SAVEPOINT s", inside=True)
        assert ended(commits, "COMMIT", named=named) != named
        assert not ended(commits, "COMMIT")


@pytest.mark.parametrize("end", ["COMMIT AND CHAIN", "BEGIN", "START TRANSACTION"])
def test_a_transaction_ends_where_the_next_one_begins(commits: Commits, end: str) -> None:
    assert not ended(commits, "INSERT INTO t VALUES (1)", INSIDE, inside=True)
    assert ended(commits, end, inside=True)
    assert not ended(commits, "COMMIT")


@pytest.mark.parametrize("sql", ["SET SESSION TRANSACTION READ ONLY", "ROLLBACK TO s"])
def test_a_transaction_goes_on(commits: Commits, sql: str) -> None:
    assert not ended(commits, "INSERT INTO t VALUES (1)", INSIDE, inside=True)
    assert not ended(commits, sql, inside=True)
    assert ended(commits, "COMMIT")


def test_what_is_rolled_back_needs_no_name(commits: Commits) -> None:
    assert not ended(commits, "INSERT INTO t VALUES (1)", INSIDE, inside=True)
    assert not ended(commits, "ROLLBACK")
    assert not ended(commits, "COMMIT")


def test_a_program_inside_a_transaction_may_have_written(commits: Commits) -> None:
    ended(commits, "INSERT INTO t VALUES (1)", named=True)
    assert not ended(commits, "CALL p()", inside=True)
    assert ended(commits, "COMMIT")


def test_each_of_several_statements_needs_a_name(commits: Commits) -> None:
    sql = "UPDATE t SET a = 1; UPDATE t SET a = 2"
    assert ended(commits, sql, CHANGED, named=True)
    assert not ended(commits, sql, named=True)
    commits = Commits(Transaction())
    assert not ended(commits, "BEGIN; INSERT INTO t VALUES (1); COMMIT", INSIDE, named=True)
    assert ended(commits, "BEGIN; INSERT INTO t VALUES (1); COMMIT", INSIDE)


def test_the_last_answer_of_a_program_need_not_repeat_the_name(commits: Commits) -> None:
    assert not ended(commits, "CALL p()", CHANGED, named=True)


def test_rows_of_temporary_tables_have_no_names(commits: Commits) -> None:
    assert not ended(commits, "CREATE TEMPORARY TABLE t SELECT 1", CHANGED, temporary=True)
    assert not ended(commits, "INSERT INTO t VALUES (1)", CHANGED, temporary=True)
    assert ended(commits, "DROP TABLE t")  # something else may have been written meanwhile
    assert not ended(commits, "UPDATE u SET a = 1", named=True)
