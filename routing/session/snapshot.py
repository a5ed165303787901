"""Where the reads of one READ ONLY transaction go.

A transaction reads from one snapshot, which its first read takes. A transaction that the client
begins is begun and ended on the primary, as the client says; if its first read may go to a replica,
a transaction is begun there, too, right before that read, and all later reads share its snapshot.
With autocommit off the first read itself begins the transaction (`implied`): on the replica, and on
the primary as soon as that is sent anything. What only the primary can answer is answered there,
from the primary's own snapshot.

The snapshot has what the first read must see, by level and scope. Later reads belong to the same
snapshot, as on a single server: nothing newer is required of them.

At READ COMMITTED and READ UNCOMMITTED each statement has a snapshot of its own: there each read is
routed by itself (`apart`), as in a `Split`.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.sql.statement import Statement, StatementClass, Touch, may_read_tables

_READS: Final = (StatementClass.READ, StatementClass.WRITE, StatementClass.PIN)


class Snapshot:
    """Of a READ ONLY transaction.

    Attributes:
        autocommit: the session's as it began: the replica is to have the same.
        implied: the client did not begin it, and the primary has not heard of it yet.
        apart: there is no common snapshot: each of its statements has its own.
        server: which server has it; None before the first read, and where its reads go apart.
        gtids: of a replica: what it was proved to have when the snapshot was taken.
        rules: what its first read asked for; None if nobody knows.
        required: what that had to see; None if unknown.
        asked_us: when that arrived, UTC µs.
        stale: it lacks what the first read had to see, which was answered openly as stale.
    """

    def __init__(
        self, *, autocommit: bool = True, implied: bool = False, apart: bool = False
    ) -> None:
        self.autocommit = autocommit
        self.implied = implied
        self.apart = apart
        self.server: Server | None = None
        self.gtids: GtidSet = EMPTY
        self.rules: Rules | None = None
        self.required: GtidSet | None = EMPTY
        self.asked_us = 0
        self.stale = False

    def taken_on(
        self,
        server: Server,
        gtids: GtidSet = EMPTY,
        rules: Rules | None = None,
        required: GtidSet | None = EMPTY,
        asked_us: int = 0,
        *,
        stale: bool = False,
    ) -> None:
        """The transaction's first read goes there; see the attributes."""
        self.server = server
        self.gtids = gtids
        self.rules = rules
        self.required = required
        self.asked_us = asked_us
        self.stale = stale

    @property
    def is_replicas(self) -> bool:
        """Whether a replica has it."""
        return self.server is not None and self.server.role is not Role.PRIMARY

    @property
    def is_elsewhere(self) -> bool:
        """Whether replicas answer its reads, so that the primary may show less than they did."""
        return self.is_replicas or (self.apart and self.server is None)

    def gives(self, rules: Rules) -> bool:
        """Whether the snapshot gives a later read under these rules what it asks for."""
        its = self.rules
        if its is None or its is rules or rules.level is Level.BEST_EFFORT:
            return True
        same_level = its.level is rules.level and its.staleness == rules.staleness
        return same_level and its.scope is rules.scope and its.application == rules.application


def ends_transaction(statement: Statement | None, may_write: bool, still_open: bool) -> bool:
    """Whether a command may have ended the open transaction, perhaps to begin another.

    Args:
        statement: what it was; None if it was none, or nobody looked at it.
        may_write: the command may commit something.
        still_open: a READ ONLY transaction is open behind it.
    """
    if statement is None:
        return may_write
    if statement.multi:
        return True
    if statement.kind is StatementClass.TRANSACTION:
        return statement.reason is not Touch.SAVEPOINT and not statement.assignments
    if statement.reason is Touch.SETTING:
        return not still_open  # SET autocommit ends transactions, and begins none
    return may_write


def begins_anew(statement: Statement | None) -> bool:
    """Whether an open transaction is certain to have begun with this statement."""
    if statement is None or statement.multi:
        return False
    return statement.kind is StatementClass.TRANSACTION


def reads_data(statement: Statement | None, may_write: bool, text: bytes) -> bool:
    """Whether a command that ran on the primary may have taken, or read from, a snapshot."""
    if statement is None:
        return may_write
    if statement.reason is Touch.MULTIPLE:
        return True
    if statement.reason is Touch.METADATA:
        return b"SELECT" in text.upper()  # besides the dictionary it may read tables
    if statement.kind in _READS and statement.reason is not Touch.SEVERAL:
        return True
    session = statement.kind in (StatementClass.SESSION, StatementClass.WRITE)
    return session and may_read_tables(text)
