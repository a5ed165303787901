"""What a command means for the transaction that it runs in. Pure functions."""

from typing import Final, Literal

from routing.sql.statement import Statement, StatementClass, StatementReason, may_read_tables

Needs = Literal["nothing", "snapshot", "same"]
"""What a command on the primary needs in a transaction that reads a replica's snapshot: that a
snapshot is taken there first, or also that it is known to be the same."""

_READING: Final = (StatementClass.READ, StatementClass.WRITE, StatementClass.PIN)
_PLAIN: Final = (StatementClass.READ, StatementClass.DIAGNOSTIC, StatementClass.PROXY)
_UNTOUCHED: Final = (StatementClass.DIAGNOSTIC, StatementClass.PROXY)
_WITHOUT_DATA: Final = (
    StatementReason.DEFINITION,
    StatementReason.ACCOUNT,
    StatementReason.ADMINISTRATION,
)


# Does it end the transaction, or begin one?


def may_end_read_only(statement: Statement | None, may_write: bool, still_open: bool) -> bool:
    """Whether a command may have ended a READ ONLY transaction, perhaps to begin another.

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
        return statement.reason is not StatementReason.SAVEPOINT and not statement.assignments
    if statement.reason is StatementReason.SETTING:
        return not still_open  # SET autocommit ends transactions, and begins none
    return may_write


def ends_by_autocommit(statement: Statement | None, still_open: bool) -> bool:
    """Whether a transaction ended since its client switched autocommit on, which commits."""
    if statement is None or still_open:
        return False
    return any(assignment.name == "autocommit" for assignment in statement.assignments)


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
    return statement.reason is StatementReason.SAVEPOINT or bool(statement.assignments)


def begins_anew(statement: Statement | None) -> bool:
    """Whether an open transaction is certain to have begun with this statement."""
    if statement is None or statement.multi:
        return False
    return statement.kind is StatementClass.TRANSACTION


def begins_writing(statement: Statement | None, text: bytes, *, follows: bool) -> bool:
    """Whether an open READ WRITE transaction began with a command, and may read from replicas.

    Args:
        statement: what it was.
        text: its text, if that is known.
        follows: it ended a transaction that could.
    """
    if statement is None or statement.multi or statement.kind is not StatementClass.TRANSACTION:
        return False
    if statement.begins:
        return bool(text) and b"SNAPSHOT" not in text.upper()
    # COMMIT AND CHAIN; its isolation level is that of the one before.
    return follows and statement.reason is not StatementReason.SAVEPOINT


def may_set_savepoint(statement: Statement | None, may_write: bool) -> bool:
    """Whether a savepoint may be set after a command on the primary, whether it failed or not.

    Args:
        statement: what it was; None if it was none, or nobody looked at it.
        may_write: the command may commit something.
    """
    if statement is None:
        return may_write
    return (
        statement.multi or statement.calls_programs or statement.reason is StatementReason.SAVEPOINT
    )


# Does it read?


def reads_data(statement: Statement | None, may_write: bool, text: bytes) -> bool:
    """Whether a command that ran on the primary may have taken, or read from, a snapshot."""
    if statement is None:
        return may_write
    if statement.reason is StatementReason.MULTIPLE:
        return True
    if statement.reason is StatementReason.METADATA:
        return b"SELECT" in text.upper()  # besides the dictionary it may read tables
    if statement.kind in _READING and statement.reason is not StatementReason.SEVERAL:
        return True
    session = statement.kind in (StatementClass.SESSION, StatementClass.WRITE)
    return session and may_read_tables(text)


def is_plain(statement: Statement | None, may_write: bool) -> bool:
    """Whether a transaction may go on reading per statement on replicas after a command.

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


def needs(statement: Statement | None, may_write: bool, text: bytes) -> Needs:
    """What a command needs that is to run on the primary behind reads of a replica's snapshot.

    Args:
        statement: what it is; None if it is none, or nobody looked at it.
        may_write: it may commit something.
        text: bytes that hold its text; empty if that is not known.
    """
    if statement is None:
        return "same" if may_write else "nothing"
    if statement.multi:
        return "same"
    kind, reason = statement.kind, statement.reason
    if kind is StatementClass.READ:
        dictionary = reason is StatementReason.METADATA and b"SELECT" not in text.upper()
        return "same" if statement.identifiers and not dictionary else "nothing"
    if kind in _UNTOUCHED:
        return "nothing"
    if kind is StatementClass.TRANSACTION:
        ends = reason is not StatementReason.SAVEPOINT and not statement.assignments
        return "nothing" if ends else "snapshot"
    if statement.is_current or reason in _WITHOUT_DATA:
        return "snapshot"
    if kind is StatementClass.WRITE or reason in (
        StatementReason.EXECUTED,
        StatementReason.HANDLER,
    ):
        return "same"
    if may_read_tables(text):
        return "same"
    return "snapshot" if statement.assignments or statement.holds else "nothing"
