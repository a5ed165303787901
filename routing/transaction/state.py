"""What is known of a session's transaction, and how its stages follow one another."""

from typing import Final

from routing.servers.topology import Server
from routing.sql.statement import Statement, StatementClass
from routing.transaction.modes import TransactionModes
from routing.transaction.replica_reads import PerStatementReads, ReplicaReads
from routing.transaction.replica_snapshot import ReplicaSnapshot
from routing.transaction.snapshot import Snapshot
from routing.transaction.stage import (
    NONE,
    PER_STATEMENT_MOVED,
    READ_ONLY,
    READ_ONLY_ON_PRIMARY,
    READ_ONLY_ON_REPLICA,
    READ_ONLY_PER_STATEMENT,
    SNAPSHOT,
    Event,
    Stage,
    after,
)

_READ_ONLY: Final = (
    *(READ_ONLY, READ_ONLY_PER_STATEMENT, READ_ONLY_ON_REPLICA, READ_ONLY_ON_PRIMARY),
)


class TransactionState:
    """What is known of one session's transactions; there is one at a time.

    Attributes:
        stage: what its reads do.
        is_open: SERVER_STATUS_IN_TRANS of the primary connection; True also where it may be.
        is_uncertain: whether a transaction is open is not known: an ERR packet has no status.
        autocommit: of the primary connection.
        status_tells: SERVER_STATUS_AUTOCOMMIT is true to it. Where autocommit is off by a server's
            default, the flag says on until the client sets the variable.
        has_savepoint: with autocommit off, a savepoint may be set on the primary although no status
            flag tells of a transaction.
        after_conflict: a conflict (`routing.transaction.replica_snapshot`) ended the last one; so
            the next one reads on the primary.
        may_commit: the open one may have something to commit that no GTID has named
            (`routing.session.commits`).
        modes: what the next one will be.
        reads: what replicas have of it, or may get; None if that is nothing.
        snapshot: the same, if it is a snapshot.
        left_on_replica: a transaction that a read did not begin is still to be ended on its
            replica, where its end would take the warnings away.
        status: the primary's last server status.
    """

    def __init__(self) -> None:
        self.stage: Stage = NONE
        self.is_open = self.is_uncertain = False
        self.autocommit = True
        self.status_tells = True
        self.has_savepoint = False
        self.after_conflict = False
        self.may_commit = False
        self.modes = TransactionModes()
        self.reads: ReplicaReads | None = None
        self.snapshot: Snapshot | None = None
        self._replica_snapshot: ReplicaSnapshot | None = None  # the same, if it is one
        self.left_on_replica = False
        self.status = 0
        self._initial_autocommit = True

    def __repr__(self) -> str:
        """Where it stands."""
        words: list[str] = [self.stage]
        words += ["open"] if self.is_open else []
        words += ["uncertain"] if self.is_uncertain else []
        words += ["implied"] if self.reads is not None and self.reads.implied else []
        if self.snapshot is not None and self.snapshot.server is not None:
            words.append(f"snapshot of {self.snapshot.server.name}")
        words += [] if self.autocommit else ["autocommit off"]
        words += ["savepoint"] if self.has_savepoint else []
        words += ["SET TRANSACTION waits"] if self.modes.waiting else []
        words += ["after a conflict"] if self.after_conflict else []
        words += ["left on a replica"] if self.left_on_replica else []
        return f"<Transaction: {', '.join(words)}>"

    # Where it stands

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open, and none will be but by a statement that begins one."""
        return (
            self.stage == NONE
            and not self.is_uncertain
            and self.autocommit
            and self.status_tells
            and not self.modes.waiting
        )

    @property
    def is_nowhere(self) -> bool:
        """Whether no server has anything of one, not even a savepoint."""
        return self.stage == NONE and not self.is_uncertain and not self.has_savepoint

    @property
    def is_read_only(self) -> bool:
        """Whether a READ ONLY one is certain to be open."""
        return self.stage in _READ_ONLY and not self.is_uncertain

    @property
    def awaits_first_read(self) -> bool:
        """Whether the read that is to open it on a replica was sent, and not answered yet."""
        reads = self.reads
        return reads is not None and reads.implied and not self.is_open

    @property
    def reads_on_replica(self) -> bool:
        """Whether it reads from a replica's snapshot."""
        snapshot = self.snapshot
        return snapshot is not None and snapshot.is_on_replica

    @property
    def reads_elsewhere(self) -> bool:
        """Whether replicas answer its reads, so that the primary may show less than they did."""
        reads, snapshot = self.reads, self.snapshot
        if reads is None or snapshot is None:
            return reads is not None
        return snapshot.is_on_replica or self.stage == READ_ONLY_PER_STATEMENT

    @property
    def is_unheard_of(self) -> bool:
        """Whether the primary is to hear first of all that it has begun, without the primary."""
        reads = self.reads
        return reads is not None and reads.implied and (self.reads_elsewhere or reads.begun)

    @property
    def can_move(self) -> bool:
        """Whether it can go on without the replica that it reads on."""
        return self._replica_snapshot is not None

    def may_stand_in(self, replica: Server) -> bool:
        """Whether a replica may answer in the primary's place what reads no table.

        Not beside the one that has the snapshot: its own would be taken for that.
        """
        snapshot = self.snapshot
        if snapshot is None or snapshot.per_statement:
            return True
        return snapshot.server is None or snapshot.server is replica

    def may_ask(self, replica: Server) -> bool:
        """Whether a question about the statement before may go to the replica that ran that.

        Not where it would be the first to read in the transaction: what takes the snapshot must
        wait for what the transaction is to see.
        """
        snapshot = self.snapshot
        return snapshot is None or snapshot.per_statement or snapshot.server is replica

    def to_begin(self, statement: Statement | None) -> ReplicaReads | None:
        """What a replica is to begin before it answers this.

        A snapshot that is taken by the beginning is left to the first read of a table.
        """
        if self.stage == PER_STATEMENT_MOVED:
            return None
        if self.stage == SNAPSHOT and (
            statement is None
            or statement.kind is not StatementClass.READ
            or not statement.identifiers
        ):
            return None
        return self.reads

    # From stage to stage

    def _begin_read_only(self, autocommit: bool, per_statement: bool, *, implied: bool) -> None:
        self._tell("began_read_only_per_statement" if per_statement else "began_read_only")
        self.reads = self.snapshot = Snapshot(
            autocommit=autocommit, implied=implied, per_statement=per_statement
        )

    def _begin_snapshot(self, autocommit: bool, *, implied: bool) -> None:
        self._tell("began_snapshot")
        snapshot = ReplicaSnapshot(autocommit=autocommit, implied=implied)
        self.reads = self.snapshot = self._replica_snapshot = snapshot

    def _begin_per_statement(self, autocommit: bool, *, implied: bool) -> None:
        self._tell("began_per_statement")
        self.reads = PerStatementReads(autocommit=autocommit, implied=implied)

    def _read_on_primary(self, primary: Server) -> None:
        """The primary takes the snapshot."""
        if self.snapshot is not None:
            self.snapshot.begin_on(primary)
        self._tell("read_on_primary")

    def _end(self) -> None:
        """Replicas have no part in what follows."""
        self._tell("ended")
        self.reads = self.snapshot = self._replica_snapshot = None

    def _follow_status(self) -> None:
        """What runs on the primary alone is open as its status flags tell."""
        if self.reads is None and (self.stage == NONE) is self.is_open:
            self._tell("opened" if self.is_open else "closed")

    def _tell(self, event: Event) -> None:
        self.stage = after(self.stage, event)
