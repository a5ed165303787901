"""Which transactions may read from replicas."""

import pytest

from routing.consistency.decision import Level, Scope, TimeoutPolicy, TransactionReads
from routing.consistency.rules import Rules
from routing.session.session import Session
from routing.session.split import Split
from routing.session.transactions import (
    follow_savepoints,
    may_set_savepoint,
    opens_read_only,
    opens_snapshot,
    opens_split,
    reads_apart,
    splits,
    splits_snapshots,
)
from routing.sql.statement import classify_text

SPLIT = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
PRIMARY = Rules(
    *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
    transaction_reads=TransactionReads.PRIMARY,
)
SNAPSHOT = Rules(
    *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
    transaction_reads=TransactionReads.SNAPSHOT,
)


def session(isolation: str = "'READ-COMMITTED'", *, autocommit: bool = True) -> Session:
    state = Session(SPLIT, 0)
    state.autocommit = autocommit
    if isolation:
        state.set_variable("transaction_isolation", isolation)
    return state


@pytest.mark.parametrize(
    ("isolation", "apart"),
    [
        ("'READ-COMMITTED'", True),
        ("'READ-UNCOMMITTED'", True),
        ("'read committed'", True),
        *(("'REPEATABLE-READ'", False), ("'SERIALIZABLE'", False), ("DEFAULT", False), ("", False)),
    ],
)
def test_an_isolation_level_that_is_not_known_keeps_reads_together(
    isolation: str, apart: bool
) -> None:
    assert splits(session(isolation, autocommit=False), SPLIT) is apart


def test_a_transaction_reads_apart_until_it_stays() -> None:
    state = session()
    assert not splits(state, SPLIT)  # it is not known how it began
    state.in_transaction = True
    state.split = Split()
    assert splits(state, SPLIT)
    assert not splits(state, PRIMARY)
    state.split.stays = True
    assert not splits(state, SPLIT)


def test_without_autocommit_a_read_opens_one() -> None:
    state = session(autocommit=False)
    assert splits(state, SPLIT)
    state.in_transaction = True  # nobody saw how it began
    assert not splits(state, SPLIT)
    state.in_transaction = False
    state.status_tells = False  # its client would see the flag change
    assert not splits(state, SPLIT)


@pytest.mark.parametrize("doubt", ["unsure", "suspect"])
def test_a_doubt_keeps_reads_on_the_primary(doubt: str) -> None:
    state = session()
    state.split = Split()
    setattr(state, doubt, True)
    assert not splits(state, SPLIT)


def test_a_client_that_tracks_its_transactions_would_see_a_split() -> None:
    state = session()
    state.split = Split()
    state.trackers.set("session_track_transaction_info", "STATE")
    assert not splits(state, SPLIT)
    state.trackers.set("session_track_transaction_info", "OFF")
    assert splits(state, SPLIT)


def test_what_set_transaction_says_is_not_split() -> None:
    state = session(autocommit=False)
    state.modes.set_next("transaction_isolation", "'SERIALIZABLE'")
    assert not splits(state, SPLIT)
    state.modes.spent()
    assert splits(state, SPLIT)
    state.modes.read_only = True  # then it reads a snapshot
    assert not splits(state, SPLIT)


def test_a_reset_forgets_it() -> None:
    state = session()
    state.split = Split()
    state.reset()
    assert state.split is None
    assert not reads_apart(state)


def test_which_sessions_split_snapshots() -> None:
    state = Session(SNAPSHOT, 0)
    assert splits_snapshots(state, SNAPSHOT)
    assert not opens_snapshot(state, SNAPSHOT)  # with autocommit no read opens a transaction
    state.autocommit = False
    assert opens_snapshot(state, SNAPSHOT)
    state.modes.set_next("transaction_read_only", "1")
    assert splits_snapshots(state, SNAPSHOT)
    assert not opens_snapshot(state, SNAPSHOT)
    state.modes.spent()
    for level in ("'READ-COMMITTED'", "'READ-UNCOMMITTED'", "'SERIALIZABLE'", "DEFAULT"):
        state.set_variable("transaction_isolation", level)
        assert not splits_snapshots(state, SNAPSHOT)
    state.set_variable("transaction_isolation", "'REPEATABLE-READ'")
    assert splits_snapshots(state, SNAPSHOT)
    state.rolled_back()
    assert not splits_snapshots(state, SNAPSHOT)
    state.retries = False
    state.unsure = True
    assert not splits_snapshots(state, SNAPSHOT)


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


def _after(state: Session, *texts: str) -> bool:
    for text in texts:
        follow_savepoints(state, classify_text(text.encode(), 0), False)
    return state.has_savepoint


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
    state.in_transaction = True
    assert not _after(state, "INSERT INTO t VALUES (1)")
    state.in_transaction = False
    assert _after(state, "SAVEPOINT s")
    state.autocommit = True
    assert not _after(state, "SET autocommit = 1")


def test_what_could_have_a_savepoint_removed_opens_on_the_primary() -> None:
    state = session(autocommit=False)
    state.modes.read_only = True
    assert opens_read_only(state)
    state.modes.read_only = False
    assert opens_split(state)
    state.has_savepoint = True
    assert not opens_split(state)
    state.modes.read_only = True
    assert not opens_read_only(state)
    state = session("", autocommit=False)
    assert opens_snapshot(state, SNAPSHOT)
    state.has_savepoint = True
    assert not opens_snapshot(state, SNAPSHOT)
