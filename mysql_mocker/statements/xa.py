"""XA: transactions that are prepared before they are committed."""

from typing import Final

from mysql_mocker.error import MySQLError, no_database_selected, syntax_error, wrong_xa_state
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session
from mysql_mocker.statements import prepare

_ENDING: Final = frozenset(
    ("BEGIN", "START", "COMMIT", "ROLLBACK", "CHECK", "CREATE", "ALTER", "DROP", "TRUNCATE",
     "RENAME", "LOCK", "GRANT", "REVOKE", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "RESET")
)  # fmt: skip
"""First words of statements that would end a transaction."""

_READING: Final = frozenset(
    ("SELECT", "WITH", "TABLE", "(", "INSERT", "REPLACE", "UPDATE", "DELETE")
)
_SHOWING: Final = frozenset(("SHOW", "DESCRIBE", "DESC"))
_WITHOUT_TABLES: Final = frozenset(("WARNINGS", "ERRORS", "COUNT"))
"""What SHOW shows without reading a table of the dictionary; another is CREATE DATABASE."""


def check(session: Session, statement: Statement) -> None:
    """Whether a statement may run in the state of the session's XA transaction.

    Raises:
        MySQLError: 1399 if not; 1146 for an unknown table; 1046 without a schema.
    """
    state = session.transaction.xa_state
    if not state:
        return
    words = statement.words
    back = words[0] == "ROLLBACK" and "TO" in words
    if session.schema is None and prepare.names_no_schema(statement):
        raise no_database_selected()
    if words[0] in _ENDING and not back and "TEMPORARY" not in words:
        raise wrong_xa_state(state)
    if state == "IDLE":
        _check_idle(session, statement)


def _check_idle(session: Session, statement: Statement) -> None:
    words = statement.words
    if words[0] in _READING:
        prepare.resolve(session, statement)
    subquery = words[0] == "SET" and "SELECT" in words and "FROM" in words
    if words[0] in ("RELEASE", "ROLLBACK"):
        session.transaction.savepoint_at(statement.tokens[-1].text)
    if subquery or words[0] in ("SAVEPOINT", "RELEASE", "ROLLBACK", "DROP"):
        raise wrong_xa_state("IDLE")


def check_shown(session: Session, statement: Statement) -> None:
    """Whether SHOW may answer; it is refused only after what it names has been found.

    Raises:
        MySQLError: 1399.
    """
    words = statement.words
    if session.transaction.xa_state != "IDLE" or words[0] not in _SHOWING:
        return
    if words[1] not in _WITHOUT_TABLES and words[1:3] != ["CREATE", "DATABASE"]:
        raise wrong_xa_state("IDLE")


async def run(session: Session, statement: Statement) -> Done:
    """XA START, END, PREPARE, COMMIT [ONE PHASE], ROLLBACK.

    Raises:
        MySQLError: 1397 for an unknown transaction, 1399 for one in another state, 1400 where
            another kind of transaction is open.
    """
    words = statement.words
    if len(words) < 3:
        raise syntax_error(statement.text)
    transaction, prepared = session.transaction, session.server.prepared_transactions
    verb, state = words[1], transaction.xa_state
    xid = statement.source(2, min(2 if "," not in words else 6, len(words) - 1))
    if verb in ("START", "BEGIN"):
        _start(session, xid, state)
    elif verb in ("COMMIT", "ROLLBACK") and not state and not transaction.active:
        if xid not in prepared:
            raise MySQLError(1397, "XAE04", "XAER_NOTA: Unknown XID")
        transaction.finish(prepared.pop(xid), keep=verb == "COMMIT")
    elif verb not in ("END", "PREPARE", "COMMIT", "ROLLBACK"):
        raise syntax_error(statement.text)
    else:
        _go_on(session, verb, xid, one_phase=words[-2:] == ["ONE", "PHASE"])
    return Done()


def _start(session: Session, xid: str, state: str) -> None:
    transaction = session.transaction
    if state:
        raise wrong_xa_state(state)
    if transaction.active:
        raise MySQLError(
            1400, "XAE09", "XAER_OUTSIDE: Some work is done outside global transaction"
        )
    if xid in session.server.prepared_transactions:
        raise MySQLError(1440, "XAE08", "XAER_DUPID: The XID already exists")
    transaction.begin(read_only=transaction.next_read_only, xid=xid)
    transaction.xid, transaction.xa_state = xid, "ACTIVE"


def _go_on(session: Session, verb: str, xid: str, *, one_phase: bool) -> None:
    """What follows XA START."""
    transaction = session.transaction
    needed = "ACTIVE" if verb == "END" else "IDLE"
    state = transaction.xa_state
    if state != needed or (verb == "COMMIT" and not one_phase):
        raise wrong_xa_state(state or "NON-EXISTING")
    if transaction.xid != xid:
        raise MySQLError(1397, "XAE04", "XAER_NOTA: Unknown XID")
    if verb == "END":
        transaction.xa_state = "IDLE"
        return
    if verb == "PREPARE":
        session.server.prepared_transactions[xid] = transaction.prepare()
    elif verb == "COMMIT":
        transaction.commit()
    else:
        transaction.rollback()
    transaction.spend_settings()
