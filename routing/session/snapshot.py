"""Where the reads of one READ ONLY transaction go.

A transaction reads from one snapshot, which its first read takes. One that the client begins is
begun and ended on the primary, as the client says; if its first read may go to a replica, a
transaction is begun there, too, right before that read, and all that follow share its snapshot.
Without autocommit the first read itself begins the transaction (`implied`): on the replica, and on
the primary as soon as that is sent anything. What only the primary can answer is answered there,
from a snapshot of the primary's own.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level, Scope
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.sql.statement import Statement, StatementClass, Touch

_READS: Final = (StatementClass.READ, StatementClass.WRITE, StatementClass.PIN)


class Snapshot:
    """Of a READ ONLY transaction.

    Attributes:
        autocommit: the session's as it began: the replica is to have the same.
        implied: the client did not begin it, and the primary has not heard of it yet.
        server: who has it; None before the first read.
        gtids: of a replica: what it was proved to have when the snapshot was taken.
    """

    def __init__(self, *, autocommit: bool = True, implied: bool = False) -> None:
        self.autocommit = autocommit
        self.implied = implied
        self.server: Server | None = None
        self.gtids: GtidSet = EMPTY

    def taken_on(self, server: Server, gtids: GtidSet = EMPTY) -> None:
        """The transaction's first read goes there."""
        self.server = server
        self.gtids = gtids

    @property
    def is_replicas(self) -> bool:
        """Whether a replica has it."""
        return self.server is not None and self.server.role is not Role.PRIMARY


def allows_snapshot(rules: Rules) -> bool:
    """Whether a transaction's later reads need see no more than its first, by these rules.

    In other scopes and at other levels other sessions' writes, and time, ask for more.
    """
    if rules.level is Level.BEST_EFFORT:
        return True
    return rules.level is Level.READ_OWN_WRITES and rules.scope is Scope.CONNECTION


def ends_transaction(statement: Statement | None, may_write: bool, still_open: bool) -> bool:
    """Whether a command may have ended the open transaction, be it to begin another.

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
        return b"SELECT" in text.upper()  # beside the dictionary it may read tables
    if statement.kind in _READS and statement.reason is not Touch.SEVERAL:
        return True
    session = statement.kind in (StatementClass.SESSION, StatementClass.WRITE)
    return session and b"FROM" in text.upper()
