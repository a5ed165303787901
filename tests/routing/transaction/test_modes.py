"""The access mode of the next transaction."""

import pytest

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from routing.consistency.adjustment import Adjustment
from routing.consistency.decision import Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.policy import choose
from routing.session.session import Session
from routing.transaction.modes import TransactionModes, is_on
from tests.routing.test_policy import READ, U, choose_read, session_at, topology_of
from tests.routing.transaction.situations import (
    fail,
    open_on_replica,
    open_read_only,
    open_transaction,
    run,
    take_snapshot,
)


def test_the_session_s_counts_until_something_else_is_said_for_the_next() -> None:
    modes = TransactionModes()
    assert not modes.next_is_read_only
    modes.read_only = True
    assert modes.next_is_read_only
    modes.set_next("transaction_read_only", "OFF")
    assert modes.waiting
    assert not modes.next_is_read_only
    modes.spent()
    assert not modes.waiting
    assert modes.next_is_read_only


def test_what_may_have_been_spent_is_no_reason_to_read_elsewhere() -> None:
    modes = TransactionModes()
    modes.set_next("transaction_read_only", "ON")
    assert modes.next_is_read_only
    modes.doubt()
    assert not modes.next_is_read_only
    assert modes.waiting


def test_an_unknown_value_is_off() -> None:
    modes = TransactionModes()
    modes.set_next("transaction_read_only", None)
    assert not modes.next_is_read_only
    assert [is_on(value) for value in ("1", "'on'", "True", "0", "DEFAULT", None)] == [
        *(True, True, True, False, False, False)
    ]


def rules_at(level: Level, scope: Scope = Scope.CONNECTION) -> Rules:
    return Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY)


def without_autocommit(level: Level = Level.READ_OWN_WRITES, rules: Rules | None = None) -> Session:
    session = session_at(level)
    session.rules = rules or session.rules
    session.transaction.on_autocommit_set(False)
    session.transaction.modes.read_only = True
    return session


def test_the_first_read_of_a_read_only_transaction_goes_to_a_replica() -> None:
    topology = topology_of(f"{U}:1-1000")
    for level in Level:
        chosen = choose_read(without_autocommit(level), topology)
        asks = level in (Level.STRONG, Level.BOUNDED_STALENESS)
        assert chosen.reason is (Reason.PROBE if asks else Reason.READ), level
    for scope in (Scope.USER, Scope.PROXY):
        rules = rules_at(Level.READ_OWN_WRITES, scope)
        assert choose_read(without_autocommit(rules=rules), topology).reason is Reason.PROBE


def test_a_snapshot_gives_what_its_first_read_asked_for() -> None:
    topology = topology_of(f"{U}:1-1000")
    replica = topology.replicas[0]
    for level in Level:
        rules = rules_at(level)
        session = without_autocommit(rules=rules)
        snapshot = open_read_only(session, autocommit=False)
        take_snapshot(session, replica, rules=rules)
        chosen = choose_read(session, topology)
        assert (chosen.server, chosen.reason) == (replica, Reason.TRANSACTION)
        assert chosen.proof is (Proof.NONE if level is Level.BEST_EFFORT else Proof.KNOWN)
        snapshot.stale = True
        assert choose_read(session, topology).proof is Proof.NONE
        session.rules = Adjustment(wait_budget=9.0).applied_to(rules)
        assert choose_read(session, topology).server is replica
        session.rules = Adjustment(scope=Scope.PROXY).applied_to(rules)
        best = level is Level.BEST_EFFORT
        assert (choose_read(session, topology).server is replica) is best


def test_where_each_statement_has_a_snapshot_each_read_goes_its_own_way() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    session.set_variable("transaction_isolation", "'READ-COMMITTED'")
    assert open_read_only(session).per_statement
    assert choose_read(session, topology).reason is Reason.READ
    strong = rules_at(Level.STRONG)  # also by a directive of its own
    chosen = choose(session, READ, topology, 0.0, Requirement(strong))
    assert chosen.reason is Reason.PROBE
    start = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
    run(session, start, AUTOCOMMIT | IN_TRANS | IN_TRANS_READONLY)
    assert choose_read(session, topology).reason is Reason.TRANSACTION


@pytest.mark.parametrize("per_statement", [True, False])
@pytest.mark.parametrize("isolation", ["REPEATABLE-READ", "READ-COMMITTED", "SERIALIZABLE"])
def test_an_isolation_level_that_came_later_is_not_the_transaction_s(
    isolation: str, *, per_statement: bool
) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    if per_statement:
        session.set_variable("transaction_isolation", "'READ-COMMITTED'")
    open_read_only(session)
    session.set_variable("transaction_isolation", f"'{isolation}'")
    its_own = isolation == ("READ-COMMITTED" if per_statement else "REPEATABLE-READ")
    chosen = choose_read(session, topology)
    assert chosen.reason is (Reason.READ if its_own else Reason.TRANSACTION)


def test_not_where_it_may_be_another_transaction() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    open_transaction(session)
    assert choose_read(session, topology).reason is Reason.TRANSACTION
    session = without_autocommit()
    session.trackers_pending = True
    assert choose_read(session, topology).reason is Reason.TRANSACTION


def test_not_where_the_client_tracks_its_transactions() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    session.trackers.set("session_track_transaction_info", "STATE")
    assert choose_read(session, topology).reason is Reason.TRANSACTION


def test_not_at_an_isolation_level_of_its_own() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    session.transaction.modes.set_next("transaction_isolation", "'READ-COMMITTED'")
    assert choose_read(session, topology).reason is Reason.TRANSACTION
    session = without_autocommit()
    session.set_variable("transaction_isolation", "'SERIALIZABLE'")
    assert choose_read(session, topology).reason is Reason.TRANSACTION


def test_a_snapshot_counts_no_more_where_its_transaction_may_have_ended() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    open_on_replica(session, topology.replicas[0])
    assert choose_read(session, topology).server is topology.replicas[0]
    fail(session)
    assert choose_read(session, topology).server is topology.primary
