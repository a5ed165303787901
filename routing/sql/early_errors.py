"""Errors by which a server says that a statement has done nothing.

A statement that fails in parsing, or when tables and columns are looked up, has committed nothing,
and begun or ended no transaction. An error code alone does not show that: a stored program can
raise the same codes after writes that it has committed, by SIGNAL or when it prepares a text, and
so may a broken trigger that is met after an implicit commit. So the list is by code and by the kind
of statement, and statements that may run a program are not in it. Nor is 1149 (ER_SYNTAX_ERROR),
which only BINLOG raises, perhaps after events that it has committed. Each entry was tested on MySQL
9.7.4 (tests/real_mysql/test_early_errors.py).
"""

import re
from typing import Final

from protocol.errors import ServerErrorCode
from routing.sql.statement import Statement, StatementReason
from routing.sql.token_patterns import BLANK

PARSING: Final = ServerErrorCode.ER_PARSE_ERROR.code
READ_ONLY: Final = ServerErrorCode.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION.code
IN_PROGRESS: Final = ServerErrorCode.ER_CANT_CHANGE_TX_CHARACTERISTICS.code
"""SET TRANSACTION inside a transaction."""
EMPTY: Final = ServerErrorCode.ER_EMPTY_QUERY.code
LOOKING_UP: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_NO_DB_ERROR,
        ServerErrorCode.ER_NON_UNIQ_ERROR,
        ServerErrorCode.ER_BAD_FIELD_ERROR,
        ServerErrorCode.ER_TABLEACCESS_DENIED_ERROR,
        ServerErrorCode.ER_COLUMNACCESS_DENIED_ERROR,
        ServerErrorCode.ER_NO_SUCH_TABLE,
    )
)

QUERIES: Final = frozenset(
    {
        *(
            StatementReason.NOTHING,
            StatementReason.USER_VARIABLE,
            StatementReason.SYSTEM_VARIABLE,
            StatementReason.SESSION_FUNCTION,
        ),
        *(
            StatementReason.LOCKING_READ,
            StatementReason.SERVER_STATE,
            StatementReason.METADATA,
            StatementReason.PLAN,
        ),
    }
)
"""Statements without stored functions, except in views: such functions write as they run."""

PARSED_FIRST: Final = QUERIES | {
    *(
        StatementReason.FILE,
        StatementReason.LOCK_FUNCTION,
        StatementReason.STATUS,
        StatementReason.DIAGNOSTICS,
        StatementReason.FOUND_ROWS,
    ),
    *(
        StatementReason.TRANSACTION,
        StatementReason.SAVEPOINT,
        StatementReason.SETTING,
        StatementReason.DEFAULT_SCHEMA,
        StatementReason.HANDLER,
    ),
    *(StatementReason.PREPARED_STATEMENT, StatementReason.KILL),
}
"""Statements that commit nothing before they are parsed, and run no program."""

COMMITTING_FIRST: Final = frozenset(
    {
        *(
            StatementReason.DEFINITION,
            StatementReason.ACCOUNT,
            StatementReason.ADMINISTRATION,
            StatementReason.TABLE_LOCK,
        ),
        *(StatementReason.TEMPORARY_TABLE, StatementReason.UNLOGGED),
    }
)
"""Statements that open tables after an implicit commit, perhaps with a trigger that cannot be
parsed. A function that is called while a table is created may not write (1746)."""

_SELECTING: Final = re.compile(rb"%bSELECT\b" % BLANK, re.IGNORECASE)
_NOTHING: Final = re.compile(rb"[\t-\r ;]*")


def changes_nothing(
    statement: Statement, text: bytes, error: int, in_transaction: bool, read_only: bool = False
) -> bool:
    """Whether a statement that failed has changed nothing on its server, nor in its session.

    Args:
        statement: what failed.
        text: of it.
        error: the server's code.
        in_transaction: one was open before, or may have been.
        read_only: it was READ ONLY, so that nothing but a procedure can have ended it.
    """
    reason = statement.reason
    if error == EMPTY:
        return _NOTHING.fullmatch(text) is not None
    if b";" in text.rstrip(b"\t\n\v\f\r ;"):
        return False  # the statements before the one that failed may have run
    if error == READ_ONLY:
        return read_only and reason is StatementReason.DATA
    if error == IN_PROGRESS:
        return reason is StatementReason.TRANSACTION
    if error in LOOKING_UP:
        return reason in QUERIES
    if error != PARSING:
        return False
    if reason is StatementReason.UNREADABLE:
        # Without a call it runs no function. `mysql` begins with such a one: select $$.
        return b"(" not in text and _SELECTING.match(text) is not None
    if reason in COMMITTING_FIRST:
        return not in_transaction
    return reason in PARSED_FIRST
