"""Transaction control: BEGIN, COMMIT, ROLLBACK, savepoints and LOCK TABLES."""

from typing import Final

from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session

_SNAPSHOT_IGNORED: Final = (
    "InnoDB: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with "
    "REPEATABLE READ isolation level."
)


async def begin(session: Session, statement: Statement) -> Done:
    """BEGIN and START TRANSACTION.

    Raises:
        MySQLError: 1064.
    """
    words = statement.words
    options = " ".join(words[2:]) if words[0] == "START" else ""
    read_only: bool | None = None
    if "READ ONLY" in options:
        read_only = True
    elif "READ WRITE" in options:
        read_only = False
    if read_only is not None:
        access = "READ ONLY" if read_only else "READ WRITE"
        session.trackers.characteristics_set(access=access, begins=True)
    session.transaction.begin(read_only=read_only)
    if "WITH CONSISTENT SNAPSHOT" in options:
        isolation = session.next_isolation or session.variables["transaction_isolation"]
        if isolation != "REPEATABLE-READ":
            session.warn("Warning", 138, _SNAPSHOT_IGNORED)
        # SQLite's snapshot begins with a read.
        session.transaction.read()
        session.catalogue.schemas()
        session.trackers.snapshot_taken()
    return Done()


async def commit(session: Session, statement: Statement) -> Done:
    """COMMIT [AND CHAIN].

    Raises:
        MySQLError: 1290: the server has become read only, and the transaction is rolled back.
    """
    await session.transaction.before_commit()
    read_only = _read_only(session)
    session.transaction.commit(numbered=session.gtid_next.owned is not None)
    _after(session, statement, read_only=read_only)
    return Done()


async def rollback(session: Session, statement: Statement) -> Done:
    """ROLLBACK [AND CHAIN], and ROLLBACK TO a savepoint.

    Raises:
        MySQLError: 1305.
    """
    if "TO" in statement.words:
        session.transaction.rollback_to(statement.tokens[-1].text)
    else:
        read_only = _read_only(session)
        session.transaction.rollback()
        session.gtid_next.end()
        _after(session, statement, read_only=read_only)
    return Done()


def _read_only(session: Session) -> bool:
    """Whether the open transaction, or else the next one, refuses writes."""
    transaction = session.transaction
    return transaction.read_only if transaction.active else transaction.next_read_only


def _after(session: Session, statement: Statement, *, read_only: bool) -> None:
    if "CHAIN" in statement.words and "NO" not in statement.words:
        # The next transaction has the same access mode as this one.
        session.transaction.begin(read_only=read_only)
    else:
        session.transaction.spend_settings()


async def savepoint(session: Session, statement: Statement) -> Done:
    """SAVEPOINT name."""
    session.transaction.savepoint(statement.tokens[1].text)
    return Done()


async def release(session: Session, statement: Statement) -> Done:
    """RELEASE SAVEPOINT name.

    Raises:
        MySQLError: 1305.
    """
    session.transaction.release(statement.tokens[-1].text)
    return Done()


async def lock_tables(session: Session, statement: Statement) -> Done:
    """LOCK TABLES: commits; the locks themselves are only reported, not held.

    Raises:
        MySQLError: 1046 or 1146.
    """
    tables = [
        session.stored(statement.tokens[position - 1].text)
        for position, word in enumerate(statement.words)
        if word in ("READ", "WRITE") and position > 2 and statement.words[position - 2] != "."
    ]
    session.transaction.commit()
    for table in tables:
        if session.catalogue.kind(table) is None:
            raise session.unknown_table(table)
    session.transaction.read()
    session.trackers.tables_locked()
    return Done()


async def unlock_tables(session: Session, _statement: Statement) -> Done:
    """UNLOCK TABLES."""
    if not session.transaction.active:
        session.trackers.transaction_ended()
    return Done()
