"""Which reads of a transaction may leave the primary, and what the first one opens."""

from typing import Final, Protocol

from routing.consistency.decision import TransactionReads
from routing.consistency.rules import Rules
from routing.transaction.stage import PER_STATEMENT, SNAPSHOT
from routing.transaction.state import TransactionState

# Members of enums, looked up once.
_ON_PRIMARY: Final = TransactionReads.PRIMARY
_ON_SNAPSHOT: Final = TransactionReads.SNAPSHOT

_PER_STATEMENT: Final = ("READ-COMMITTED", "READ-UNCOMMITTED")
"""Isolation levels at which each statement has a snapshot of its own."""
REPEATABLE: Final = "REPEATABLE-READ"


class Circumstances(Protocol):
    """What else of a session its transactions depend on.

    Attributes:
        rules: what its reads ask for.
        suspect: what failed may have changed the session, which the next OK packet tells.
        without_primary: it has no primary for now, so a replica's snapshot is all that there is.
    """

    rules: Rules
    trackers_pending: bool
    without_primary: bool

    @property
    def isolation(self) -> str:
        """The isolation level of its transactions, by what it has set."""

    @property
    def tracks_transactions(self) -> bool:
        """Whether its client is told of its transactions' state, and would see where they are."""


class RoutableTransaction(TransactionState):
    """A transaction, asked where its reads may go."""

    # Which reads may leave the primary

    def waits_for_table(self, session: Circumstances, rules: Rules) -> bool:
        """Whether its snapshot is to be taken by the first read of a table, and by no other.

        What reads none takes no snapshot, and without autocommit opens no transaction.
        """
        if self.autocommit and not self.is_open:
            return False
        if self.stage == SNAPSHOT:
            return True
        return self.snapshot is None and self.opens_snapshot(session, rules)

    def keeps_reads(self, session: Circumstances, rules: Rules) -> bool:
        """Whether reads under these rules stay on the primary for its sake.

        Its snapshot, if it is to have one, was not taken yet.
        """
        if self.autocommit and not self.is_open and not self.modes.waiting:
            return False
        if not self.is_uncertain and self._begins_elsewhere(session, rules):
            return False
        return not self.reads_per_statement(session, rules)

    def _begins_elsewhere(self, session: Circumstances, rules: Rules) -> bool:
        """Whether a read under these rules may take its snapshot on a replica."""
        snapshot = self.snapshot
        if snapshot is None:
            if self.autocommit:
                return False
            if not self.opens_read_only(session) and not self.opens_snapshot(session, rules):
                return False
        if rules is session.rules:
            return True
        return is_per_statement(session) if snapshot is None else snapshot.per_statement

    def gives(self, rules: Rules) -> bool:
        """Whether a replica has its snapshot, and that gives reads under these rules what they ask.

        Not while it is uncertain: the transaction may have ended.
        """
        snapshot = self.snapshot
        if snapshot is None or not snapshot.is_on_replica or self.is_uncertain:
            return False
        return snapshot.gives(rules)

    def may_take_snapshot(self, session: Circumstances, rules: Rules) -> bool:
        """Whether a transaction on a replica that began with a read now would be the same one.

        The isolation level that the session has by now may be another.
        """
        snapshot = self.snapshot
        if snapshot is None or is_serializable(session):
            return False
        if snapshot.per_statement is not is_per_statement(session):
            return False
        if not snapshot.may_write or session.without_primary:
            return True
        return rules.transaction_reads is _ON_SNAPSHOT

    def reads_per_statement(self, session: Circumstances, rules: Rules) -> bool:
        """Whether a read under these rules may leave the primary in an open transaction.

        Or in the one that it opens. While the client tracks its transactions' state it would see.
        """
        if rules.transaction_reads is _ON_PRIMARY or self.snapshot is not None:
            return False
        if self.is_uncertain or session.trackers_pending or session.tracks_transactions:
            return False
        if self.reads is None:
            return self.opens_per_statement(session)
        return self.stage == PER_STATEMENT

    def allows_question(self, session: Circumstances) -> bool:
        """Whether a question of the proxy's on the primary does not touch its snapshot.

        Where statements have snapshots of their own, the question does not take the next one's. Nor
        does it where the transaction's snapshot is still to be taken, and is taken anew.
        """
        if self.autocommit and not self.is_open:
            return True
        rules, snapshot = session.rules, self.snapshot
        if self.stage == SNAPSHOT or (snapshot is not None and snapshot.per_statement):
            return True
        return self.reads_per_statement(session, rules) or self.opens_snapshot(session, rules)

    # What the first read of a table opens

    def opens_read_only(self, session: Circumstances) -> bool:
        """Whether it is a READ ONLY transaction that may be a replica's.

        A SERIALIZABLE one locks what it reads, which orders nothing on a replica.
        """
        if self.autocommit or self.is_open or session.trackers_pending or self.has_savepoint:
            return False
        modes = self.modes
        if session.tracks_transactions or not modes.next_is_read_only or modes.isolates:
            return False
        return not is_serializable(session)

    def opens_per_statement(self, session: Circumstances) -> bool:
        """Whether it is a transaction that may write, and read per statement."""
        return self._opens_writing() and is_per_statement(session)

    def opens_snapshot(self, session: Circumstances, rules: Rules) -> bool:
        """Whether it is a transaction that may read from a replica's snapshot, and write."""
        return self._opens_writing() and self._may_read_snapshot(session, rules)

    def _opens_writing(self) -> bool:
        """Whether it is a transaction that may write, of which nothing else was said."""
        if self.autocommit or self.is_open or not self.status_tells:
            return False
        if self.has_savepoint:
            return False
        modes = self.modes
        return not modes.waiting and not modes.next_is_read_only

    def _may_read_snapshot(self, session: Circumstances, rules: Rules) -> bool:
        """Whether a transaction that began now could read from a replica's snapshot, and write.

        Under rules by which it may, at REPEATABLE READ, and while nobody sees the difference.
        """
        if self.after_conflict:
            return False
        if rules.transaction_reads is not _ON_SNAPSHOT and not session.without_primary:
            return False
        if self.is_uncertain or session.trackers_pending or session.tracks_transactions:
            return False
        if self.modes.isolates:
            return False
        return session.isolation == REPEATABLE


def is_per_statement(session: Circumstances) -> bool:
    """Whether each statement of its transactions has a snapshot of its own, by what it has set.

    A SET TRANSACTION may say otherwise of the next one.
    """
    return session.isolation in _PER_STATEMENT


def is_serializable(session: Circumstances) -> bool:
    """Whether its transactions are, by what it has set."""
    return "SERIALIZABLE" in session.isolation
