"""Which transactions may read from replicas."""

import pytest

from protocol.constants import AUTOCOMMIT, IN_TRANS
from routing.consistency.decision import Level, Scope, TimeoutPolicy, TransactionReads
from routing.consistency.rules import Rules, TransactionRules
from routing.session.session import Session
from routing.transaction import stage
from routing.transaction.routable import is_per_statement
from tests.routing.transaction.situations import fail, open_transaction, open_writing, run

SPLIT = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
PRIMARY = Rules(
    *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
    transactions=TransactionRules(TransactionReads.PRIMARY),
)
SNAPSHOT = Rules(
    *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
    transactions=TransactionRules(TransactionReads.SNAPSHOT),
)


def session(
    isolation: str = "'READ-COMMITTED'", *, autocommit: bool = True, rules: Rules = SPLIT
) -> Session:
    state = Session(rules, 0)
    state.transaction.on_autocommit_set(autocommit)
    if isolation:
        state.set_variable("transaction_isolation", isolation)
    return state


def leaves(state: Session, rules: Rules = SPLIT) -> bool:
    """Whether a read may leave the primary in an open transaction, or in the one that it opens."""
    return state.transaction.reads_per_statement(state, rules)


@pytest.mark.parametrize(
    ("isolation", "per_statement"),
    [
        ("'READ-COMMITTED'", True),
        ("'READ-UNCOMMITTED'", True),
        ("'read committed'", True),
        *(("'REPEATABLE-READ'", False), ("'SERIALIZABLE'", False), ("DEFAULT", False), ("", False)),
    ],
)
def test_an_isolation_level_that_is_not_known_keeps_reads_together(
    isolation: str, per_statement: bool
) -> None:
    assert leaves(session(isolation, autocommit=False)) is per_statement


def test_a_transaction_reads_per_statement_until_it_moves() -> None:
    state = session()
    assert not leaves(state)  # it is not known how it began
    open_writing(state)
    assert state.transaction.stage == stage.PER_STATEMENT
    assert leaves(state)
    assert not leaves(state, PRIMARY)
    run(state, "INSERT INTO t VALUES (1)", IN_TRANS | AUTOCOMMIT)
    assert state.transaction.stage == stage.PER_STATEMENT_MOVED
    assert not leaves(state)


def test_without_autocommit_a_read_opens_one() -> None:
    state = session(autocommit=False)
    assert leaves(state)
    open_transaction(state)  # nobody saw how it began
    assert not leaves(state)
    state = Session(SPLIT, 0)
    state.on_connect("", autocommit=False, isolation="READ-COMMITTED")
    assert not leaves(state)  # its client would see the flag change


def test_a_doubt_keeps_reads_on_the_primary() -> None:
    state = session()
    open_writing(state)
    state.trackers_pending = True
    assert not leaves(state)
    state.trackers_pending = False
    assert leaves(state)
    fail(state)
    assert not leaves(state)


def test_a_client_that_tracks_its_transactions_would_see_where_they_are() -> None:
    state = session()
    open_writing(state)
    state.trackers.set("session_track_transaction_info", "STATE")
    assert not leaves(state)
    state.trackers.set("session_track_transaction_info", "OFF")
    assert leaves(state)


def test_what_set_transaction_says_is_the_primarys() -> None:
    state = session(autocommit=False)
    modes = state.transaction.modes
    modes.set_next("transaction_isolation", "'SERIALIZABLE'")
    assert not leaves(state)
    modes.spent()
    assert leaves(state)
    modes.read_only = True  # then it reads a snapshot
    assert not leaves(state)


def test_a_reset_forgets_it() -> None:
    state = session()
    open_writing(state)
    state.reset()
    assert state.transaction.reads is None
    assert not is_per_statement(state)


def test_which_transactions_may_read_a_replicas_snapshot() -> None:
    def opens(*, isolation: str = "", autocommit: bool = False) -> bool:
        state = session(isolation, autocommit=autocommit, rules=SNAPSHOT)
        return state.transaction.opens_snapshot(state, SNAPSHOT)

    assert opens()
    assert not opens(autocommit=True)  # with autocommit no read opens a transaction
    for level in ("'READ-COMMITTED'", "'READ-UNCOMMITTED'", "'SERIALIZABLE'", "DEFAULT"):
        assert not opens(isolation=level)
    assert opens(isolation="'REPEATABLE-READ'")


def test_the_transaction_after_a_conflict_reads_on_the_primary() -> None:
    state = session("", rules=SNAPSHOT)
    open_writing(state)
    assert state.transaction.stage == stage.SNAPSHOT
    state.on_rollback(AUTOCOMMIT)
    open_writing(state)
    assert state.transaction.stage == stage.PRIMARY
    run(state, "COMMIT")
    open_writing(state)
    assert state.transaction.stage == stage.SNAPSHOT


def test_set_transaction_read_only_opens_another() -> None:
    state = session("", autocommit=False, rules=SNAPSHOT)
    transaction = state.transaction
    transaction.modes.set_next("transaction_read_only", "1")
    assert not transaction.opens_snapshot(state, SNAPSHOT)
    assert transaction.opens_read_only(state)


def _after(state: Session, *texts: str) -> bool:
    for text in texts:
        run(state, text, 0)
    return state.transaction.has_savepoint


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "BEGIN", "COMMIT AND CHAIN"])
def test_a_savepoint_lasts_until_its_transaction_ends(end: str) -> None:
    state = session(autocommit=False)
    assert not _after(state, "SELECT 1")
    assert _after(state, "SAVEPOINT s")
    assert _after(state, "SELECT 1", "SET SESSION TRANSACTION READ ONLY", "ROLLBACK TO s", "DO 1")
    assert not _after(state, end)


def test_status_flags_tell_of_an_open_transactions_savepoints() -> None:
    state = session(autocommit=False)
    assert _after(state, "SAVEPOINT s")
    run(state, "INSERT INTO t VALUES (1)", IN_TRANS)
    assert not state.transaction.has_savepoint
    run(state, "COMMIT", 0)
    assert _after(state, "SAVEPOINT s")
    run(state, "SET autocommit = 1", AUTOCOMMIT)
    assert not state.transaction.has_savepoint


def test_what_could_have_a_savepoint_removed_opens_on_the_primary() -> None:
    state = session(autocommit=False)
    transaction = state.transaction
    assert transaction.opens_per_statement(state)
    transaction.modes.read_only = True
    assert transaction.opens_read_only(state)
    run(state, "SAVEPOINT s", 0)
    assert not transaction.opens_read_only(state)
    transaction.modes.read_only = False
    assert not transaction.opens_per_statement(state)
    state = session("", autocommit=False, rules=SNAPSHOT)
    assert state.transaction.opens_snapshot(state, SNAPSHOT)
    run(state, "SAVEPOINT s", 0)
    assert not state.transaction.opens_snapshot(state, SNAPSHOT)
