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
replica's, and is `implied` until the primary hears of it. So is one that the client begins while
there is no primary.

With autocommit off, a savepoint can be set before anything has opened a transaction, and no status
flag tells of it. A read that then opened one on a replica would have the primary told to begin it,
too, and that would remove the savepoint. So such a transaction stays on the primary.

The machine is told of what happened, and changes nothing on a server: an event returns what is to
be done there (`Consequences`). `routing.transaction.stage` has the stages, and the table of where
an event leads; `routing.transaction.state` has what is known, and `routing.transaction.routable`
which reads may leave the primary. What else of the session that depends on is in `Circumstances`.
"""

from typing import Final, NamedTuple

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.gtid import GtidSet
from routing.consistency.rules import Rules
from routing.servers.topology import Server
from routing.sql.statement import Statement, StatementClass
from routing.transaction import commands
from routing.transaction.commands import Needs
from routing.transaction.modes import TransactionModes
from routing.transaction.replica_reads import ReplicaReads
from routing.transaction.replica_snapshot import Moment
from routing.transaction.routable import (
    REPEATABLE,
    Circumstances,
    RoutableTransaction,
    is_per_statement,
    is_serializable,
)
from routing.transaction.snapshot import Snapshot
from routing.transaction.stage import (
    PER_STATEMENT,
    READ_ONLY,
    SNAPSHOT,
    SNAPSHOT_MOVED,
    SNAPSHOT_ON_REPLICA,
)
from routing.unexpected_event import UnexpectedEventError

# Members of enums, looked up once.
_A_READ: Final = StatementClass.READ
_A_TRANSACTION: Final = StatementClass.TRANSACTION

_READ_ONLY_OPEN: Final = IN_TRANS | IN_TRANS_READONLY
"""Status flags of an open READ ONLY transaction."""


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


class Transaction(RoutableTransaction):
    """The transactions of one session, told of what happens to them."""

    # It reads on replicas

    def on_implied_read(self, session: Circumstances, rules: Rules) -> None:
        """A read under these rules goes to a replica, with autocommit off: it may open one."""
        if self.reads is not None:
            return
        if self.opens_read_only(session):
            self._begin_read_only(False, is_per_statement(session), implied=True)
        elif self.opens_snapshot(session, rules):
            self._begin_snapshot(False, implied=True)
        elif self.opens_per_statement(session):
            self._begin_per_statement(False, implied=True)

    def on_snapshot(
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
        snapshot.begin_on(replica, gtids, rules, required, asked_us, stale=stale)
        self._tell("read_on_replica")

    def withdraw_read(self, reads: ReplicaReads | None, *, inside: bool) -> bool:
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

    def on_first_read(self, status: int) -> None:
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

    def may_begin_unheard_of(self, session: Circumstances) -> bool:
        """Whether one can begin without the primary, and read on replicas alone."""
        if not (self.is_nowhere or self.is_unheard_of) or self.modes.waiting:
            return False
        if self.is_uncertain or session.trackers_pending or session.tracks_transactions:
            return False
        return is_per_statement(session) or session.isolation == REPEATABLE

    def on_begun_unheard_of(self, session: Circumstances, *, read_only: bool | None) -> None:
        """The client began one while there is no primary (`may_begin_unheard_of`).

        Args:
            session: what else the session is.
            read_only: what it said of the access mode; None if it said nothing.
        """
        per_statement = is_per_statement(session)
        if self.modes.next_is_read_only if read_only is None else read_only:
            self._begin_read_only(self.autocommit, per_statement, implied=True)
            self.status |= _READ_ONLY_OPEN
        elif per_statement:
            self._begin_per_statement(self.autocommit, implied=True)
            self.status |= IN_TRANS
        else:
            self._begin_snapshot(self.autocommit, implied=True)
            self.status |= IN_TRANS
        if self.reads is not None:
            self.reads.begun = True
        self.is_open = True

    def on_ended_unheard_of(self) -> None:
        """It was ended, and no primary has ever heard of it (`is_unheard_of`)."""
        self._end()
        self.is_open = False
        self.status &= ~_READ_ONLY_OPEN
        self._follow_status()

    def on_replicas_ended(self) -> None:
        """No replica has a transaction open for the session any more."""
        self.left_on_replica = False

    # It runs on the primary

    def on_primary_begin(self) -> None:
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

    def on_ok(
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
        end_on_replicas = count_split = False
        is_read = statement is not None and statement.kind is _A_READ
        flags = status & _READ_ONLY_OPEN
        if ran and (flags == IN_TRANS or (self.reads is not None and self.reads.may_write)):
            end_on_replicas = self._follow_writing(
                status, statement, text, session, primary, may_write
            )
        if self.after_conflict and self.is_open and not flags & IN_TRANS:
            self.after_conflict = False
        opened_by_read = is_read and not may_write and not self.is_open
        self.is_open = flags & IN_TRANS != 0
        self.is_uncertain = False
        snapshot = self.snapshot
        if ran and (flags == _READ_ONLY_OPEN or (snapshot is not None and not snapshot.may_write)):
            still_open = flags == _READ_ONLY_OPEN
            previous = self._end_read_only(statement, may_write, still_open)
            end_on_replicas = end_on_replicas or previous is not None
            if still_open:
                reads_data = commands.reads_data(statement, may_write, text)
                if self.snapshot is None:
                    autocommit = status & AUTOCOMMIT != 0
                    self._begin_read_only(autocommit, is_per_statement(session), implied=False)
                    if self._must_read_on_primary(
                        statement, text, session, previous, reads_data, opened_by_read
                    ):
                        self._read_on_primary(primary)
                        anew = commands.begins_anew(statement)
                        # It may be the same transaction.
                        count_split = previous is not None and previous.is_on_replica and not anew
                elif self.stage == READ_ONLY and reads_data:
                    self._read_on_primary(primary)
                else:
                    count_split = reads_data and self.snapshot.is_on_replica
        if self.status_tells:
            self.autocommit = status & AUTOCOMMIT != 0
        if self.has_savepoint or not self.autocommit:
            self._follow_savepoints(statement, may_write)
        self._follow_status()
        return (
            Consequences(end_on_replicas, count_split)
            if end_on_replicas or count_split
            else _NOTHING
        )

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
        if commands.ends_by_autocommit(statement, still_open):
            self.modes.left_read_only()
        self._end()
        return snapshot

    def _must_read_on_primary(
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

    def on_error(
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

    def on_restore(self, status: int) -> None:
        """The proxy's settings were made; after an error only this shows if one is open."""
        self.is_open = status & IN_TRANS != 0
        self.is_uncertain = False
        self._follow_status()

    def on_ping(self, status: int) -> None:
        """The primary answered a COM_PING."""
        self.status = status
        self.is_open = status & IN_TRANS != 0
        self._follow_status()

    # Its session

    def on_connect(self, autocommit: bool) -> None:
        """The primary connection is open; a reset returns to what it has now."""
        self.autocommit = self.status_tells = self._initial_autocommit = autocommit

    def on_autocommit_tracked(self, on: bool) -> None:
        """A tracker tells autocommit."""
        self.autocommit = on
        self.status_tells = self.status_tells or on

    def on_autocommit_set(self, on: bool) -> None:
        """The client set autocommit, and no tracker tells of it."""
        self.autocommit = on
        self.status_tells = True

    def on_rollback(self, status: int) -> None:
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
