"""A transaction that may still write, and reads from replicas until it does.

At READ COMMITTED and READ UNCOMMITTED each statement has a snapshot of its own, so each read stands
alone: it goes where it would go outside a transaction. So that the client is told that a
transaction is open, one is open on each of these replicas, too. It is READ ONLY, so that nothing
can be written there; the client does not see that. The first statement that is anything but a plain
read keeps what follows on the primary, where the transaction itself is.
"""

from typing import Final

from routing.session.snapshot import Snapshot
from routing.sql.statement import Statement, StatementClass, Touch

_PLAIN: Final = (StatementClass.READ, StatementClass.DIAGNOSTIC, StatementClass.PROXY)


class Split:
    """Of an open READ WRITE transaction.

    Attributes:
        autocommit: the session's as it began: the replicas are to have the same.
        implied: the client did not begin it, and the primary has not heard of it yet.
        stays: all that follows runs on the primary.
    """

    def __init__(self, *, autocommit: bool = True, implied: bool = False) -> None:
        self.autocommit = autocommit
        self.implied = implied
        self.stays = False


def is_plain(statement: Statement | None, may_write: bool) -> bool:
    """Whether a transaction may go on reading from replicas after a command.

    Args:
        statement: what it was; None if it was none, or nobody looked at it.
        may_write: the command may commit something.
    """
    if may_write:
        return False
    if statement is None or statement.kind in _PLAIN:
        return True
    session = statement.kind is StatementClass.SESSION
    return session and not statement.assignments and not statement.holds


def goes_on(statement: Statement | None, may_write: bool, still_open: bool) -> bool:
    """Whether the same transaction is certain to be open after a command that ended well.

    Args:
        statement: as of `is_plain`.
        may_write: likewise.
        still_open: a READ WRITE transaction is open behind it.
    """
    if not still_open:
        return False
    if statement is None:
        return not may_write
    if statement.multi or statement.calls_programs:
        return False  # it may have ended it, and begun another
    if statement.kind is not StatementClass.TRANSACTION:
        return True
    return statement.reason is Touch.SAVEPOINT or bool(statement.assignments)


def begins(statement: Statement | None, text: bytes, before: Split | Snapshot | None) -> bool:
    """Whether an open transaction is certain to have begun with a command, and may be a `Split`.

    Args:
        statement: what it was.
        text: its text, if that is known.
        before: that of the transaction that it ended, if there was one.
    """
    if statement is None or statement.multi or statement.kind is not StatementClass.TRANSACTION:
        return False
    if statement.begins:
        return bool(text) and b"SNAPSHOT" not in text.upper()
    # COMMIT AND CHAIN; its isolation level is that of the one before.
    return before is not None and statement.reason is not Touch.SAVEPOINT
