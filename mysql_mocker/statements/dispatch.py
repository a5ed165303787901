"""Which part of the mocker runs a statement: decided by its first words."""

from collections.abc import Awaitable, Callable
from typing import Final

from mysql_mocker.error import syntax_error
from mysql_mocker.sql.result import Done, Result
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session
from mysql_mocker.statements import (
    administration,
    assignment,
    control,
    definition,
    gtid_executed,
    prepare,
    routines,
    schema_definition,
    select,
    show,
    write,
)

Handler = Callable[[Session, Statement], Awaitable[Result]]
Emit = Callable[[Result], Awaitable[None]]

_HANDLERS: Final[dict[str, Handler]] = {
    "SELECT": select.select, "(": select.select, "WITH": select.select, "VALUES": select.select,
    "TABLE": select.select,
    "DO": select.do, "INSERT": write.insert, "REPLACE": write.insert, "UPDATE": write.update,
    "DELETE": write.delete, "CREATE": definition.define, "ALTER": definition.define,
    "DROP": definition.define, "TRUNCATE": definition.define, "RENAME": definition.define,
    "BEGIN": control.begin, "COMMIT": control.commit, "ROLLBACK": control.rollback,
    "SAVEPOINT": control.savepoint, "RELEASE": control.release,
    "LOCK": control.lock_tables, "UNLOCK": control.unlock_tables, "SET": assignment.assign,
    "SHOW": show.show, "DESCRIBE": show.describe, "DESC": show.describe,
    "EXPLAIN": show.describe, "USE": administration.use, "KILL": administration.kill,
    "FLUSH": administration.flush, "GRANT": administration.binlogged,
    "REVOKE": administration.binlogged, "ANALYZE": administration.maintain,
    "OPTIMIZE": administration.maintain, "CHECK": administration.maintain,
    "REPAIR": administration.maintain, "RESET": administration.reset,
    "PURGE": administration.purge,
    "PREPARE": prepare.prepare, "DEALLOCATE": prepare.deallocate, "SIGNAL": routines.signal,
}  # fmt: skip
_TWO_WORDS: Final[dict[tuple[str, str], Handler]] = {
    ("START", "TRANSACTION"): control.begin, ("START", "REPLICA"): administration.replica,
    ("STOP", "REPLICA"): administration.replica,
    ("CREATE", "DATABASE"): schema_definition.create,
    ("CREATE", "SCHEMA"): schema_definition.create, ("DROP", "DATABASE"): schema_definition.drop,
    ("DROP", "SCHEMA"): schema_definition.drop, ("DROP", "PREPARE"): prepare.deallocate,
    ("DROP", "PROCEDURE"): routines.drop, ("DROP", "FUNCTION"): routines.drop,
    ("CREATE", "USER"): administration.binlogged, ("ALTER", "USER"): administration.binlogged,
    ("DROP", "USER"): administration.binlogged, ("RENAME", "USER"): administration.binlogged,
    ("CREATE", "ROLE"): administration.binlogged, ("DROP", "ROLE"): administration.binlogged,
}  # fmt: skip
_CHANGES: Final = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE"))
_COMMITTING: Final = frozenset(
    ("ALTER", "ANALYZE", "BEGIN", "CREATE", "DROP", "FLUSH", "GRANT", "LOCK", "OPTIMIZE", "RENAME",
     "REPAIR", "REVOKE", "TRUNCATE")
)  # fmt: skip
"""They commit an open transaction before they begin; of these, only BEGIN needs no GTID."""
_DIAGNOSTIC: Final = frozenset(("WARNINGS", "ERRORS", "COUNT"))


def is_diagnostic(statement: Statement) -> bool:
    """Whether the statement leaves the list of warnings as it is."""
    words = statement.words
    return words[0] == "SHOW" and len(words) > 1 and words[1] in _DIAGNOSTIC


def is_rollback(statement: Statement) -> bool:
    """Whether the statement is one of those that never report GTIDs (fact 2.1)."""
    return statement.words[0] == "ROLLBACK"


def knows(statement: Statement) -> bool:
    """Whether its first words are those of a statement."""
    words = statement.words
    two = (words[0], words[1] if len(words) > 1 else "")
    return words[0] in _HANDLERS or two in _TWO_WORDS or words[0] in ("CALL", "EXECUTE")


def _handler(statement: Statement) -> Handler:
    words = statement.words
    if words[0] == "CREATE" and not {"PROCEDURE", "FUNCTION"}.isdisjoint(words[1:6]):
        return routines.create
    handler = _TWO_WORDS.get((words[0], words[1] if len(words) > 1 else ""))
    handler = handler or _HANDLERS.get(words[0])
    if handler is None:
        raise syntax_error(statement.text)
    return handler


async def run(session: Session, statement: Statement, emit: Emit) -> Result:
    """Runs a statement and returns its last result; result sets before it go to `emit`.

    Raises:
        MySQLError: it failed.
        sqlite3.Error: it failed inside SQLite.
    """
    if statement.words[0] == "CALL":
        return await routines.call(session, statement, emit)
    if statement.words[0] == "EXECUTE":
        return await prepare.execute(session, statement, emit)
    words = statement.words
    needs_gtid = words[0] in _CHANGES or (words[0] in _COMMITTING and words[0] != "BEGIN")
    commits = words[0] in _COMMITTING and "TEMPORARY" not in words[1:2]
    commits = commits or words[:2] == ["START", "TRANSACTION"]
    if not session.gtid_next.check(writes=needs_gtid, implicit_commit=commits):
        return Done()
    if words[0] in _CHANGES:
        done = await gtid_executed.change(session, statement)
        if done is not None:
            return done
    return await _handler(statement)(session, statement)
