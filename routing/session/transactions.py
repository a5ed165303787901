"""Which of a session's transactions may read from replicas, by what it has set and what is asked.

With autocommit off and no transaction open, a read of a table opens one by itself. All other
transactions are the client's, and begin on the primary.

With autocommit off, a savepoint can be set before anything has opened a transaction, and no status
flag tells of it. A read that then opened one on a replica would have the primary told to begin it,
too, and that would remove the savepoint. So such a transaction stays on the primary.
"""

from typing import Final

from routing.consistency.decision import TransactionReads
from routing.consistency.rules import Rules
from routing.session.session import Session
from routing.session.snapshot import Snapshot
from routing.session.split import Split
from routing.session.split_snapshot import SplitSnapshot
from routing.session.variables import DEFAULT_ISOLATION, ISOLATION
from routing.sql.statement import Statement, StatementClass, Touch

_APART: Final = ("READ-COMMITTED", "READ-UNCOMMITTED")
"""Isolation levels at which each statement has a snapshot of its own."""


def _isolation(session: Session) -> str:
    """The level of its transactions, as trackers tell it, by what it has set."""
    literal = session.variables.get(ISOLATION, DEFAULT_ISOLATION)
    return literal.strip("'\"").upper().replace(" ", "-")


def is_serializable(session: Session) -> bool:
    """Whether its transactions are, by what it has set."""
    return "SERIALIZABLE" in _isolation(session)


def reads_apart(session: Session) -> bool:
    """Whether each statement of its transactions has a snapshot of its own, by what it has set.

    A SET TRANSACTION may say otherwise of the next one.
    """
    return _isolation(session) in _APART


# What may read from replicas


def splits(session: Session, rules: Rules) -> bool:
    """Whether a read under these rules may leave the primary in an open transaction.

    Or in the one that it opens. While the client tracks its transactions' state it would see.
    """
    if rules.transaction_reads is TransactionReads.PRIMARY or session.snapshot is not None:
        return False
    if session.unsure or session.suspect or session.trackers.of_transactions:
        return False
    split = session.split
    return opens_split(session) if split is None else not split.stays


def splits_snapshots(session: Session, rules: Rules) -> bool:
    """Whether a transaction that began now could read from a replica's snapshot, and write.

    Under rules by which it may, at REPEATABLE READ, and while nobody sees the difference.
    """
    if rules.transaction_reads is not TransactionReads.SNAPSHOT or session.retries:
        return False
    if session.unsure or session.suspect or session.trackers.of_transactions:
        return False
    if session.modes.isolates:
        return False
    return _isolation(session) == DEFAULT_ISOLATION


# What the first read of a table opens


def opens_read_only(session: Session) -> bool:
    """Whether it is a READ ONLY transaction that may be a replica's.

    A SERIALIZABLE one locks what it reads, which orders nothing on a replica.
    """
    if session.autocommit or session.in_transaction or session.suspect or session.has_savepoint:
        return False
    modes = session.modes
    if session.trackers.of_transactions or not modes.next_is_read_only or modes.isolates:
        return False
    return not is_serializable(session)


def opens_split(session: Session) -> bool:
    """Whether it is a transaction that may write, and read apart."""
    return _opens_writing(session) and reads_apart(session)


def opens_snapshot(session: Session, rules: Rules) -> bool:
    """Whether it is a transaction that may read from a replica's snapshot, and write."""
    return _opens_writing(session) and splits_snapshots(session, rules)


def _opens_writing(session: Session) -> bool:
    """Whether it is a transaction that may write, of which nothing else was said."""
    if session.autocommit or session.in_transaction or not session.status_tells:
        return False
    if session.has_savepoint:
        return False
    modes = session.modes
    return not modes.waiting and not modes.next_is_read_only


def may_set_savepoint(statement: Statement | None, may_write: bool) -> bool:
    """Whether a savepoint may be set after a command on the primary, whether it failed or not.

    Args:
        statement: what it was; None if it was none, or nobody looked at it.
        may_write: the command may commit something.
    """
    if statement is None:
        return may_write
    return statement.multi or statement.calls_programs or statement.reason is Touch.SAVEPOINT


def follow_savepoints(session: Session, statement: Statement | None, may_write: bool) -> None:
    """Note whether a savepoint may be set, after a command that ended well on the primary.

    Args:
        session: the one that sent it; it has taken over the status flags already.
        statement: as of `may_set_savepoint`.
        may_write: likewise.
    """
    if session.autocommit or session.in_transaction:
        session.has_savepoint = False  # those of an open transaction end with it
    elif may_set_savepoint(statement, may_write):
        session.has_savepoint = True
    elif statement is not None and statement.kind is StatementClass.TRANSACTION:
        session.has_savepoint = session.has_savepoint and bool(statement.assignments)


def begin_implied(session: Session, rules: Rules) -> None:
    """Note the transaction that a session's read opens on a replica, if it opens one.

    Args:
        session: the one that reads.
        rules: what the read asks for.
    """
    if session.snapshot is not None:
        return
    if opens_read_only(session):
        apart = reads_apart(session)
        session.snapshot = Snapshot(autocommit=False, implied=True, apart=apart)
    elif opens_snapshot(session, rules):
        session.snapshot = SplitSnapshot(autocommit=False, implied=True)
    elif session.split is None and opens_split(session):
        session.split = Split(autocommit=False, implied=True)
