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
from routing.consistency.rules import Rules, TransactionRules
from routing.servers.topology import Role, Server
from routing.session.session import Session
from routing.sql.statement import classify
from routing.transaction.replica_snapshot import Moment, ReplicaSnapshot
from tests.routing.transaction.situations import open_writing, take_snapshot

A = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-10")
B = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:11")
RULES = Rules(
    level=Level.READ_OWN_WRITES,
    scope=Scope.CONNECTION,
    wait_budget=0.25,
    on_timeout=TimeoutPolicy.PRIMARY,
    transactions=TransactionRules(TransactionReads.SNAPSHOT),
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
    moment.on_failure()
    moment.behind(A)
    assert moment.exact is None


def test_what_two_servers_may_read_in_two_ways_is_current_in_both() -> None:
    assert classify(b"/*!90800 INSERT INTO t */ SELECT * FROM u").is_current is False
    assert classify(b"INSERT INTO t VALUES (1 /*!90000 + 1 */)").is_current


def test_unknown_snapshots_are_not_the_same() -> None:
    assert not ReplicaSnapshot().is_same


def test_conflicts_are_errors_by_default() -> None:
    assert RULES.on_split_conflict is ConflictPolicy.ERROR


def test_needs_follow_the_transaction() -> None:
    replica, primary = Server("r", Role.REPLICA), Server("p", Role.PRIMARY)
    read, write = classify(b"SELECT * FROM t"), classify(b"DELETE FROM t")
    session = Session(RULES, 0)
    open_writing(session)
    transaction, snapshot = session.transaction, session.transaction.snapshot
    assert isinstance(snapshot, ReplicaSnapshot)
    assert transaction.needs(read, False, b"") == "nothing"  # no server has shown anything
    take_snapshot(session, replica)
    assert transaction.needs(read, False, b"") == "same"
    assert transaction.needs(write, True, b"") == "snapshot"
    snapshot.replica.before(A)
    snapshot.replica.behind(A)
    transaction.move(primary)
    assert not snapshot.is_on_replica
    assert transaction.needs(write, True, b"") == "nothing"
    assert transaction.needs(read, False, b"") == "same"  # nobody has said what it shows
    snapshot.primary.before(A)
    snapshot.primary.behind(A)
    assert transaction.needs(read, False, b"") == "nothing"
    snapshot.primary.before(A)
    snapshot.primary.behind(A, B)
    assert transaction.needs(read, False, b"") == "same"
