"""The access mode of the next transaction."""

import pytest

from protocol.gtid import EMPTY
from routing.consistency.decision import Level, Reason
from routing.session.session import Session
from routing.session.snapshot import Snapshot
from routing.session.transaction_modes import TransactionModes, is_on
from tests.routing.test_policy import U, choose_read, session_at, topology_of


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


def without_autocommit(level: Level = Level.READ_OWN_WRITES) -> Session:
    session = session_at(level)
    session.autocommit = False
    session.modes.read_only = True
    return session


def test_the_first_read_of_a_read_only_transaction_goes_to_a_replica() -> None:
    topology = topology_of(f"{U}:1-1000")
    for level in (Level.READ_OWN_WRITES, Level.BEST_EFFORT):
        assert choose_read(without_autocommit(level), topology).server is not topology.primary
    for level in (Level.STRONG, Level.MONOTONIC_READS, Level.READ_ALL_WRITES):
        assert choose_read(without_autocommit(level), topology).reason is Reason.TRANSACTION


@pytest.mark.parametrize("state", ["in_transaction", "suspect", "tracks_transactions"])
def test_not_where_it_may_be_another_transaction(state: str) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    setattr(session, state, True)
    assert choose_read(session, topology).reason is Reason.TRANSACTION


def test_not_at_an_isolation_level_of_its_own() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    session.modes.set_next("transaction_isolation", "'READ-COMMITTED'")
    assert choose_read(session, topology).reason is Reason.TRANSACTION
    session = without_autocommit()
    session.set_variable("transaction_isolation", "'SERIALIZABLE'")
    assert choose_read(session, topology).reason is Reason.TRANSACTION


def test_a_snapshot_counts_no_more_where_its_transaction_may_have_ended() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = without_autocommit()
    session.snapshot = Snapshot(autocommit=False, implied=True)
    session.snapshot.taken_on(topology.replicas[0], EMPTY)
    assert choose_read(session, topology).server is topology.replicas[0]
    session.in_transaction = session.unsure = True
    assert choose_read(session, topology).server is topology.primary
