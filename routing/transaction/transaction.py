"""The transaction of a session: where it stands, what runs on replicas, and what may.

Theory of operation
===================

A session's transactions are begun and ended on the primary, as its client says. The primary's
status flags tell whether one is open (`is_open`); after an error nobody knows until the next flags
come (`is_uncertain`). Beside that stands the `stage`: what the reads of the transaction do.

* Of most transactions that may write, all is the primary's.
* A READ ONLY one has a `Snapshot`, which its first read takes, on a replica if that may answer it.
* Where each statement has a snapshot of its own, each read goes its own way (`PerStatementReads`)
  until the transaction writes.
* If the rules say so, one at REPEATABLE READ reads from a replica's snapshot until it writes
  (`ReplicaSnapshot`).

With autocommit off and no transaction open, a read of a table opens one by itself. It may be a
replica's, and is `implied` until the primary hears of it.

With autocommit off, a savepoint can be set before anything has opened a transaction, and no status
flag tells of it. A read that then opened one on a replica would have the primary told to begin it,
too, and that would remove the savepoint. So such a transaction stays on the primary.

The machine is told of what happened, and changes nothing on a server: an event returns what is to
be done there (`Consequences`). `routing.transaction.stage` has the stages, and the table of where
an event leads. All questions about the session's transaction are asked here; what else of the
session an answer depends on is in `Circumstances`.
"""

from typing import Final, NamedTuple, Protocol

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.gtid import GtidSet
from routing.consistency.decision import TransactionReads
from routing.consistency.rules import Rules
from routing.servers.topology import Server
from routing.sql.statement import Statement, StatementClass
from routing.transaction import commands
from routing.transaction.commands import Needs
from routing.transaction.modes import TransactionModes
from routing.transaction.replica_reads import PerStatementReads, ReplicaReads
from routing.transaction.replica_snapshot import Moment, ReplicaSnapshot
from routing.transaction.snapshot import Snapshot
from routing.transaction.stage import (
    NONE,
    PER_STATEMENT,
    PER_STATEMENT_MOVED,
    READ_ONLY,
    READ_ONLY_ON_PRIMARY,
    READ_ONLY_ON_REPLICA,
    READ_ONLY_PER_STATEMENT,
    SNAPSHOT,
    SNAPSHOT_MOVED,
    SNAPSHOT_ON_REPLICA,
    Event,
    Stage,
    after,
)
from routing.unexpected_event import UnexpectedEventError

# Members of enums, looked up once.
_A_READ: Final = StatementClass.READ
_A_TRANSACTION: Final = StatementClass.TRANSACTION
_ON_PRIMARY: Final = TransactionReads.PRIMARY
_ON_SNAPSHOT: Final = TransactionReads.SNAPSHOT

_READ_ONLY_OPEN: Final = IN_TRANS | IN_TRANS_READONLY
"""Status flags of an open READ ONLY transaction."""

_READ_ONLY: Final = (
    *(READ_ONLY, READ_ONLY_PER_STATEMENT, READ_ONLY_ON_REPLICA, READ_ONLY_ON_PRIMARY),
)
_PER_STATEMENT: Final = ("READ-COMMITTED", "READ-UNCOMMITTED")
"""Isolation levels at which each statement has a snapshot of its own."""
_REPEATABLE: Final = "REPEATABLE-READ"


class Circumstances(Protocol):
    """What else of a session its transactions depend on.

    Attributes:
        rules: what its reads ask for.
        suspect: what failed may have changed the session, which the next OK packet tells.
    """

    rules: Rules
    suspect: bool

    @property
    def isolation(self) -> str:
        """The isolation level of its transactions, by what it has set."""

    @property
    def tracks_transactions(self) -> bool:
        """Whether its client is told of its transactions' state, and would see where they are."""


class Consequences(NamedTuple):
    """What is to be done after an event.

    Attributes:
        end_on_replicas: let the transaction end on all replicas that have it.
        count_split: count a transaction that has shown snapshots of two servers.
    """

    end_on_replicas: bool = False
    count_split: bool = False


_NOTHING: Final = Consequences()
_END: Final = Consequences(end_on_replicas=True)


class Transaction:
    """The transactions of one session; there is one at a time.

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
        """Whether the primary is to hear first of all that a read on a replica has begun it."""
        reads = self.reads
        return reads is not None and reads.implied and self.reads_elsewhere

    @property
    def can_move(self) -> bool:
        """Whether it can go on without the replica that it reads on."""
        return self._replica_snapshot is not None

    def may_ask(self, replica: Server) -> bool:
        """Whether a question about the statement before may go to the replica that ran that.

        Not where it would be the first to read in the transaction: what takes the snapshot must
        wait for what the transaction is to see.
        """
        snapshot = self.snapshot
        return snapshot is None or snapshot.per_statement or snapshot.server is replica

    @property
    def to_begin(self) -> ReplicaReads | None:
        """What a replica is to begin before it reads for it."""
        return None if self.stage == PER_STATEMENT_MOVED else self.reads

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
        return not snapshot.may_write or rules.transaction_reads is _ON_SNAPSHOT

    def reads_per_statement(self, session: Circumstances, rules: Rules) -> bool:
        """Whether a read under these rules may leave the primary in an open transaction.

        Or in the one that it opens. While the client tracks its transactions' state it would see.
        """
        if rules.transaction_reads is _ON_PRIMARY or self.snapshot is not None:
            return False
        if self.is_uncertain or session.suspect or session.tracks_transactions:
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
        if self.autocommit or self.is_open or session.suspect or self.has_savepoint:
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
        if rules.transaction_reads is not _ON_SNAPSHOT or self.after_conflict:
            return False
        if self.is_uncertain or session.suspect or session.tracks_transactions:
            return False
        if self.modes.isolates:
            return False
        return session.isolation == _REPEATABLE

    # It reads on replicas

    def implied_read(self, session: Circumstances, rules: Rules) -> None:
        """A read under these rules goes to a replica, with autocommit off: it may open one."""
        if self.reads is not None:
            return
        if self.opens_read_only(session):
            self._begin_read_only(False, is_per_statement(session), implied=True)
        elif self.opens_snapshot(session, rules):
            self._begin_snapshot(False, implied=True)
        elif self.opens_per_statement(session):
            self._begin_per_statement(False, implied=True)

    def snapshot_taken(
        self,
        replica: Server,
        gtids: GtidSet,
        rules: Rules,
        required: GtidSet | None,
        asked_us: int,
        *,
        stale: bool,
    ) -> None:
        """A read that takes its snapshot goes to a replica; see `Snapshot`."""
        snapshot = self.snapshot
        if snapshot is None:
            raise UnexpectedEventError("read_on_replica", self.stage)
        if snapshot.per_statement:
            return
        if self._replica_snapshot is not None:
            self._replica_snapshot.replica = Moment()
        snapshot.taken_on(replica, gtids, rules, required, asked_us, stale=stale)
        self._tell("read_on_replica")

    def withdrawn(self, reads: ReplicaReads | None, *, inside: bool) -> bool:
        """The answer of a replica does not count.

        Args:
            reads: of the transaction that is open there.
            inside: the snapshot had been taken there before.

        Returns:
            Whether that is this one, and it is to end there.
        """
        if reads is None or reads is not self.reads:
            return False
        snapshot = self.snapshot
        if snapshot is not None:
            if inside:
                return True
            if snapshot.server is not None:
                snapshot.server = None
                self._tell("withdrawn")
        if reads.implied and not self.is_open:
            self._end()
        return True

    def first_read_answered(self, status: int) -> None:
        """The read that was to open it on a replica was answered; `status` is 0 if it failed.

        A read of no table has not opened any, and for a failed one it does not matter.
        """
        reads = self.reads
        if reads is not None and status & _READ_ONLY_OPEN == _READ_ONLY_OPEN:
            self.is_open = True
            self.modes.spent()
            self.status |= IN_TRANS if reads.may_write else _READ_ONLY_OPEN
        else:
            self._end()
            self.left_on_replica = True

    def ended_on_replicas(self) -> None:
        """No replica has a transaction open for the session any more."""
        self.left_on_replica = False

    # It runs on the primary

    def heard_of(self) -> None:
        """The primary is told of what a read on a replica has begun."""
        if self.reads is not None:
            self.reads.implied = False

    def needs(self, statement: Statement | None, may_write: bool, text: bytes) -> Needs:
        """What a command that is to run on the primary needs there (`Needs`).

        Args:
            statement: what it is; None if it is none, or nobody looked at it.
            may_write: it may commit something.
            text: bytes that hold its text; empty if that is not known.
        """
        snapshot = self._replica_snapshot
        if snapshot is None:
            return "nothing"
        moved = self.stage == SNAPSHOT_MOVED
        if not moved and not (self.stage == SNAPSHOT_ON_REPLICA and snapshot.is_on_replica):
            return "nothing"  # no replica has shown anything
        needs = commands.needs(statement, may_write, text)
        if moved:
            return "same" if needs == "same" and not snapshot.is_same else "nothing"
        return needs

    def move(self, primary: Server) -> None:
        """The primary takes a snapshot of its own now; all that follows runs there."""
        snapshot = self._replica_snapshot
        if snapshot is None:
            raise UnexpectedEventError("moved", self.stage)
        snapshot.move(primary)
        self._tell("moved")

    def moment(self, reads: ReplicaReads | None, *, of_primary: bool) -> Moment | None:
        """What a server that takes its snapshot says of that; None if that is another one.

        Args:
            reads: of the transaction that is open there, if it is a replica.
            of_primary: it is the primary.
        """
        snapshot = self._replica_snapshot
        if snapshot is None or (self.stage == SNAPSHOT_MOVED) is not of_primary:
            return None
        if of_primary:
            return snapshot.primary
        return snapshot.replica if reads is snapshot else None  # else it was left

    def ok(
        self,
        status: int,
        statement: Statement | None,
        text: bytes,
        session: Circumstances,
        primary: Server,
        *,
        may_write: bool,
        ran: bool,
    ) -> Consequences:
        """A command ended well on the primary.

        Args:
            status: the server status behind it.
            statement: what it was; None if it was none, or nobody looked at it.
            text: bytes that hold its text; empty if that is not known.
            session: what else the session is.
            primary: who answered.
            may_write: the command may commit something.
            ran: it was not merely prepared.
        """
        self.status = status
        ended = counts = False
        is_read = statement is not None and statement.kind is _A_READ
        flags = status & _READ_ONLY_OPEN
        if ran and (flags == IN_TRANS or (self.reads is not None and self.reads.may_write)):
            ended = self._follow_writing(status, statement, text, session, primary, may_write)
        if self.after_conflict and self.is_open and not flags & IN_TRANS:
            self.after_conflict = False
        opened = is_read and not may_write and not self.is_open
        self.is_open = flags & IN_TRANS != 0
        self.is_uncertain = False
        snapshot = self.snapshot
        if ran and (flags == _READ_ONLY_OPEN or (snapshot is not None and not snapshot.may_write)):
            still_open = flags == _READ_ONLY_OPEN
            before = self._end_read_only(statement, may_write, still_open)
            ended = ended or before is not None
            if still_open:
                reads = commands.reads_data(statement, may_write, text)
                if self.snapshot is None:
                    autocommit = status & AUTOCOMMIT != 0
                    self._begin_read_only(autocommit, is_per_statement(session), implied=False)
                    if self._is_primarys(statement, text, session, before, reads, opened):
                        self._read_on_primary(primary)
                        anew = commands.begins_anew(statement)
                        # It may be the same transaction.
                        counts = before is not None and before.is_on_replica and not anew
                elif self.stage == READ_ONLY and reads:
                    self._read_on_primary(primary)
                else:
                    counts = reads and self.snapshot.is_on_replica
        if self.status_tells:
            self.autocommit = status & AUTOCOMMIT != 0
        if self.has_savepoint or not self.autocommit:
            self._follow_savepoints(statement, may_write)
        self._follow_status()
        return Consequences(ended, counts) if ended or counts else _NOTHING

    def _end_read_only(
        self, statement: Statement | None, may_write: bool, still_open: bool
    ) -> Snapshot | None:
        """See whether a command ended the READ ONLY transaction, if one was open; which one."""
        snapshot = self.snapshot
        if snapshot is None:
            return None
        over = commands.may_end_read_only(statement, may_write, still_open)
        # An earlier error may have ended it, and has no status flags to show that.
        if not over and (snapshot.implied or still_open):
            return None
        self._end()
        return snapshot

    def _is_primarys(
        self,
        statement: Statement | None,
        text: bytes,
        session: Circumstances,
        before: Snapshot | None,
        reads: bool,
        opened: bool,
    ) -> bool:
        """Whether a READ ONLY transaction that began with a command has to read on the primary.

        Args:
            statement: what it was.
            text: its text.
            session: what else the session is.
            before: the transaction that it ended.
            reads: it may have read.
            opened: none was open before, and all that it does is read.
        """
        per_statement = is_per_statement(session)
        opened = opened and per_statement
        # A transaction that COMMIT AND CHAIN begins has the isolation level of the previous one.
        changed = before is not None and before.per_statement is not per_statement
        chained = statement is not None and not statement.begins
        return (
            (reads and not opened)
            or not (opened or commands.begins_anew(statement))
            or (changed and chained and not opened)
            or self.modes.isolates
            or is_serializable(session)
            or session.tracks_transactions
            or not text
            or b"SNAPSHOT" in text.upper()
        )

    def _follow_writing(
        self,
        status: int,
        statement: Statement | None,
        text: bytes,
        session: Circumstances,
        primary: Server,
        may_write: bool,
    ) -> bool:
        """See whether one that may write, and reads on replicas, has begun, moved or ended.

        Returns whether it is to end on replicas.
        """
        still_open = status & _READ_ONLY_OPEN == IN_TRANS
        before = self.reads
        follows = before is not None and before.may_write
        if follows:
            if commands.goes_on(statement, may_write, still_open):
                if self.stage == SNAPSHOT:
                    if commands.needs(statement, may_write, text) != "nothing":
                        self._read_on_primary(primary)
                elif self.stage == PER_STATEMENT and not commands.is_plain(statement, may_write):
                    self._tell("moved")
                    return True
                return False
            self._end()
        if not still_open or self.snapshot is not None:
            return follows
        is_read = statement is not None and statement.kind is _A_READ
        opened = is_read and not may_write and self.opens_per_statement(session)
        began = commands.begins_writing(statement, text, follows=follows)
        autocommit = status & AUTOCOMMIT != 0
        if opened or (began and is_per_statement(session) and not self.modes.isolates):
            self._begin_per_statement(autocommit, implied=False)
        elif began and self._may_read_snapshot(session, session.rules):
            self._begin_snapshot(autocommit, implied=False)
        return follows

    def _follow_savepoints(self, statement: Statement | None, may_write: bool) -> None:
        """Note whether a savepoint may be set that no status flag tells of."""
        if self.autocommit or self.is_open:
            self.has_savepoint = False  # those of an open transaction end with it
        elif commands.may_set_savepoint(statement, may_write):
            self.has_savepoint = True
        elif statement is not None and statement.kind is _A_TRANSACTION:
            self.has_savepoint = self.has_savepoint and bool(statement.assignments)

    def failed(
        self, statement: Statement | None, *, may_write: bool, may_open: bool
    ) -> Consequences:
        """The primary answered with an error, which has no status flags.

        Args:
            statement: what failed; None if it was none, or nobody looked at it.
            may_write: it may have committed something.
            may_open: it may have opened a transaction, whatever autocommit is.
        """
        consequences = _NOTHING
        self.modes.doubt()
        reads = self.reads
        if self.snapshot is None:
            if reads is not None and not commands.is_plain(statement, may_write):
                if self.stage == PER_STATEMENT:
                    self._tell("moved")
                consequences = _END
        elif self.snapshot.may_write and self.stage != SNAPSHOT_MOVED and may_write:
            # No transaction is begun on the primary in its place.
            self._end()
            consequences = _END
        if may_open or not self.autocommit:  # by the first table that it read
            self.is_open = self.is_uncertain = True
        if not self.autocommit and commands.may_set_savepoint(statement, may_write):
            self.has_savepoint = True
        self._follow_status()
        return consequences

    def restored(self, status: int) -> None:
        """The proxy's settings were made; after an error only this shows if one is open."""
        self.is_open = status & IN_TRANS != 0
        self.is_uncertain = False
        self._follow_status()

    def pinged(self, status: int) -> None:
        """The primary answered a COM_PING."""
        self.status = status
        self.is_open = status & IN_TRANS != 0
        self._follow_status()

    # Its session

    def connected(self, autocommit: bool) -> None:
        """The primary connection is open; a reset returns to what it has now."""
        self.autocommit = self.status_tells = self._initial_autocommit = autocommit

    def autocommit_told(self, on: bool) -> None:
        """A tracker tells autocommit."""
        self.autocommit = on
        self.status_tells = self.status_tells or on

    def autocommit_set(self, on: bool) -> None:
        """The client set autocommit, and no tracker tells of it."""
        self.autocommit = on
        self.status_tells = True

    def rolled_back(self, status: int) -> None:
        """The proxy ended the open transaction, which its client is told to begin again."""
        self.status = status
        self._forget()
        self.after_conflict = True

    def reset(self) -> None:
        """COM_RESET_CONNECTION or COM_CHANGE_USER."""
        self._forget()
        self.autocommit = self.status_tells = self._initial_autocommit
        self.modes = TransactionModes()
        self.after_conflict = False

    def _forget(self) -> None:
        """None is open any more."""
        if self.reads is not None:
            self._end()
        self.is_open = self.is_uncertain = self.has_savepoint = self.may_commit = False
        self._follow_status()

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
            self.snapshot.taken_on(primary)
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


def is_per_statement(session: Circumstances) -> bool:
    """Whether each statement of its transactions has a snapshot of its own, by what it has set.

    A SET TRANSACTION may say otherwise of the next one.
    """
    return session.isolation in _PER_STATEMENT


def is_serializable(session: Circumstances) -> bool:
    """Whether its transactions are, by what it has set."""
    return "SERIALIZABLE" in session.isolation
