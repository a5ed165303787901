"""Transactions that read from a replica's snapshot, and what they need on the primary."""

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.session.split_snapshot import Moment, SplitSnapshot, needed
from routing.sql.statement import classify

A = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-10")
B = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:11")
RULES = Rules(
    level=Level.READ_OWN_WRITES,
    scope=Scope.CONNECTION,
    wait_budget=0.25,
    on_timeout=TimeoutPolicy.PRIMARY,
    transaction_reads=TransactionReads.SNAPSHOT,
)


@pytest.mark.parametrize(
    ("before", "executed", "owned", "exact"),
    [
        (A, A, EMPTY, A),
        (EMPTY, EMPTY, EMPTY, EMPTY),
        (A, A | B, EMPTY, None),  # B was committed meanwhile: it may be visible
        (A, A, B, None),  # B is being committed: likewise
        (A | B, A | B, B, A | B),
        (None, A, EMPTY, None),
        (A, None, EMPTY, None),
    ],
)
def test_a_moment_is_known_if_nothing_was_committed_in_it(
    before: GtidSet | None, executed: GtidSet | None, owned: GtidSet, exact: GtidSet | None
) -> None:
    moment = Moment()
    moment.before(before)
    moment.behind(executed, owned)
    assert moment.exact == exact


def test_a_snapshot_that_was_not_taken_has_no_moment() -> None:
    moment = Moment()
    moment.before(A)
    moment.failed()
    moment.behind(A)
    assert moment.exact is None


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
    ("needs", "sql"),
    [
        *(("nothing", sql) for sql in NOTHING),
        *(("snapshot", sql) for sql in SNAPSHOT),
        *(("same", sql) for sql in SAME),
    ],
)
def test_what_commands_need(needs: str, sql: str) -> None:
    statement = classify(sql.encode())
    assert needed(statement, statement.may_write, sql.encode()) == needs


@pytest.mark.parametrize("may_write", [False, True])
def test_what_nobody_has_looked_at(may_write: bool) -> None:
    assert needed(None, may_write, b"") == ("same" if may_write else "nothing")


def test_what_two_servers_may_read_in_two_ways_is_current_in_both() -> None:
    assert classify(b"/*!90800 INSERT INTO t */ SELECT * FROM u").is_current is False
    assert classify(b"INSERT INTO t VALUES (1 /*!90000 + 1 */)").is_current


def test_needs_follow_the_transaction() -> None:
    primary, replica = Server("a", Role.PRIMARY), Server("b", Role.REPLICA)
    read, write = classify(b"SELECT * FROM t"), classify(b"DELETE FROM t")
    snapshot = SplitSnapshot()
    assert snapshot.needs(read, False, b"") == "nothing"  # no server has shown anything
    snapshot.taken_on(replica)
    assert snapshot.needs(read, False, b"") == "same"
    assert snapshot.needs(write, True, b"") == "snapshot"
    snapshot.there.before(A)
    snapshot.there.behind(A)
    snapshot.move(primary)
    assert not snapshot.is_replicas
    assert snapshot.needs(write, True, b"") == "nothing"
    assert snapshot.needs(read, False, b"") == "same"  # nobody has said what it shows
    snapshot.here.before(A)
    snapshot.here.behind(A)
    assert snapshot.needs(read, False, b"") == "nothing"
    snapshot.here.before(A)
    snapshot.here.behind(A, B)
    assert snapshot.needs(read, False, b"") == "same"


def test_unknown_snapshots_are_not_the_same() -> None:
    assert not SplitSnapshot().is_same


def test_conflicts_are_errors_by_default() -> None:
    assert RULES.on_split_conflict is ConflictPolicy.ERROR
