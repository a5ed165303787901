"""Transaction control: BEGIN, COMMIT, ROLLBACK, savepoints, LOCK TABLES and XA."""

from typing import TYPE_CHECKING

from mysql_mocker.error import MySQLError, syntax_error
from mysql_mocker.result import Done
from mysql_mocker.script import Statement

if TYPE_CHECKING:
    from mysql_mocker.session import Session

_SNAPSHOT = ["WITH", "CONSISTENT", "SNAPSHOT"]


async def begin(session: "Session", statement: Statement) -> Done:
    """BEGIN and START TRANSACTION.

    Raises:
        MySQLError: 1064.
    """
    words = statement.words
    options = " ".join(words[2:]) if words[0] == "START" else ""
    read_only = bool(session.variables["transaction_read_only"])
    if "READ ONLY" in options:
        read_only = True
    elif "READ WRITE" in options:
        read_only = False
    session.transaction.begin(read_only=read_only)
    snapshot = "WITH CONSISTENT SNAPSHOT" in options
    if snapshot:
        # SQLite's snapshot begins with a read.
        session.transaction.read()
        session.catalogue.schemas()
        session.trackers.noted(read=True)
    parts = ["START TRANSACTION"]
    parts += ["WITH CONSISTENT SNAPSHOT"] * snapshot
    parts += ["READ ONLY"] * ("READ ONLY" in options)
    text = f"{parts[0]} {', '.join(parts[1:])}".rstrip() + ";"
    session.trackers.characteristics_set(f"{session.characteristics} {text}".strip())
    return Done()


async def commit(session: "Session", statement: Statement) -> Done:
    """COMMIT [AND CHAIN]."""
    session.transaction.commit()
    _after(session, statement)
    return Done()


async def rollback(session: "Session", statement: Statement) -> Done:
    """ROLLBACK [AND CHAIN], and ROLLBACK TO a savepoint.

    Raises:
        MySQLError: 1305.
    """
    if "TO" in statement.words:
        session.transaction.rollback_to(statement.tokens[-1].text)
    else:
        session.transaction.rollback()
        _after(session, statement)
    return Done()


def _after(session: "Session", statement: Statement) -> None:
    session.characteristics = ""
    session.trackers.characteristics_set("")
    if "CHAIN" in statement.words and "NO" not in statement.words:
        session.transaction.begin(read_only=bool(session.variables["transaction_read_only"]))


async def savepoint(session: "Session", statement: Statement) -> Done:
    """SAVEPOINT name."""
    session.transaction.savepoint(statement.tokens[1].text)
    return Done()


async def release(session: "Session", statement: Statement) -> Done:
    """RELEASE SAVEPOINT name.

    Raises:
        MySQLError: 1305.
    """
    session.transaction.release(statement.tokens[-1].text)
    return Done()


async def lock_tables(session: "Session", _statement: Statement) -> Done:
    """LOCK TABLES: commits; the locks themselves are only reported, not held."""
    session.transaction.commit()
    session.trackers.tables_locked()
    return Done()


async def unlock_tables(session: "Session", _statement: Statement) -> Done:
    """UNLOCK TABLES."""
    if not session.transaction.active:
        session.trackers.transaction_ended()
    return Done()


async def xa(session: "Session", statement: Statement) -> Done:
    """XA START, END, PREPARE, COMMIT [ONE PHASE], ROLLBACK.

    Raises:
        MySQLError: 1397 for an unknown transaction, 1399 for one in another state.
    """
    words = statement.words
    if len(words) < 3:
        raise syntax_error(statement.text)
    transaction, prepared = session.transaction, session.server.prepared_transactions
    xid = statement.source(2, min(2 if "," not in words else 6, len(words) - 1))
    if words[1] in ("START", "BEGIN"):
        if transaction.active:
            raise _wrong_state("ACTIVE")
        transaction.begin(read_only=False)
        transaction.xid = xid
        return Done()
    if words[1] in ("COMMIT", "ROLLBACK") and xid in prepared:
        transaction.finish(prepared.pop(xid), keep=words[1] == "COMMIT")
        return Done()
    if transaction.xid != xid:
        raise MySQLError(1397, "XAE04", "XAER_NOTA: Unknown XID")
    if words[1] == "PREPARE":
        prepared[xid] = transaction.prepare()
    elif words[1] == "COMMIT":
        if words[-2:] != ["ONE", "PHASE"]:
            raise _wrong_state("IDLE")
        transaction.commit()
    elif words[1] == "ROLLBACK":
        transaction.rollback()
    elif words[1] != "END":
        raise syntax_error(statement.text)
    return Done()


def _wrong_state(state: str) -> MySQLError:
    return MySQLError(
        1399,
        "XAE07",
        f"XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} "
        "state",
    )
