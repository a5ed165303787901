"""Where the reads of one READ ONLY transaction go.

A transaction reads from one snapshot, which its first read takes. The transaction itself is begun
and ended on the primary, as the client says; if its first read may go to a replica, a transaction
is begun there, too, right before that read, and all that follow share its snapshot. What only the
primary can answer is answered there, from a snapshot of the primary's own.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency import Rules
from routing.decision import Level, Scope
from routing.statement import Statement, StatementClass, Touch
from routing.topology import Role, Server

_READS: Final = (StatementClass.READ, StatementClass.WRITE, StatementClass.PIN)


class Snapshot:
    """Of a READ ONLY transaction.

    Attributes:
        server: who has it; None before the first read.
        gtids: of a replica: what it was proved to have when the snapshot was taken.
    """

    def __init__(self) -> None:
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


def ends_transaction(statement: Statement | None) -> bool:
    """Whether a statement may have ended the open transaction, be it to begin another."""
    if statement is None or statement.multi:
        return True
    if statement.kind is StatementClass.TRANSACTION:
        return statement.reason is not Touch.SAVEPOINT
    return statement.may_write


def reads_data(statement: Statement | None, text: bytes) -> bool:
    """Whether a statement that ran on the primary may have taken, or read from, a snapshot."""
    if statement is None or statement.kind in _READS:
        return True
    return statement.kind is StatementClass.SESSION and b"FROM" in text.upper()
