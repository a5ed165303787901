"""SET: system variables, user variables, NAMES, TRANSACTION."""

from typing import Final

from sqlglot import Token, TokenType, exp

from mysql_mocker.error import MySQLError, syntax_error
from mysql_mocker.evaluation.binding import evaluate
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.sql_mode import mixes_strictness
from mysql_mocker.sql.value import Value
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import (
    CEILINGS,
    DEFINITIONS,
    Reach,
    canonical,
    checked,
)
from mysql_mocker.statements import definition, gtid_variables
from protocol.errors import ServerErrorCode

_SCOPES: Final = {
    "GLOBAL": "global", "PERSIST": "global", "PERSIST_ONLY": "global", "SESSION": "session",
    "LOCAL": "session",
}  # fmt: skip
_VALUES: Final = frozenset(
    (TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE,
     TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.PLACEHOLDER)
)  # fmt: skip
_LONG_NUMBER: Final = 19
"""Digits: shorter numbers are integers to SQLite, too."""
_MIXED_STRICTNESS: Final = (
    "'NO_ZERO_DATE', 'NO_ZERO_IN_DATE' and 'ERROR_FOR_DIVISION_BY_ZERO' sql modes should be used "
    "with strict mode. They will be merged with strict mode in a future release."
)
_ISOLATION: Final = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


async def assign(session: Session, statement: Statement) -> Done:
    """SET in all its forms.

    Raises:
        MySQLError: the server's error for what is wrong; the assignments before it are made.
    """
    words = statement.words
    if len(words) < 2:
        raise syntax_error(statement.text)
    if words[1] in ("PASSWORD", "DEFAULT", "RESOURCE"):
        await definition.begin(session)
        definition.end(session)
        return Done()
    if words[1] == "ROLE":
        return Done()
    position = 2 if words[1] in _SCOPES else 1
    if words[position] == "TRANSACTION":
        _transaction(session, statement, _SCOPES.get(words[1], ""))
        return Done()
    for item in _items(statement):
        await _one(session, item)
    return Done()


def _items(statement: Statement) -> list[Statement]:
    """The assignments between top-level commas."""
    items: list[Statement] = []
    depth, start = 0, 1
    for position, token in enumerate(statement.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and position and token.token_type is TokenType.COMMA:
            items.append(statement.part(start, position))
            start = position + 1
    items.append(statement.part(start))
    return items


async def _one(session: Session, item: Statement) -> None:
    words = item.words
    if not words:
        raise syntax_error(item.text)
    if words[0] == "NAMES" and len(words) > 1:
        _names(session, item.tokens[1].text)
    elif words[0] in ("CHARACTER SET", "CHARSET") or words[:2] == ["CHARACTER", "SET"]:
        _names(session, item.tokens[-1].text)
    elif item.tokens[0].token_type is TokenType.PARAMETER:
        await _user_variable(session, item)
    else:
        await _system_variable(session, item)


def _names(session: Session, charset: str) -> None:
    if charset.upper() == "DEFAULT":
        charset = "utf8mb4"
    for name in ("character_set_client", "character_set_connection", "character_set_results"):
        session.variables[name] = charset.lower()
        session.trackers.variable_set(name)


def _split(item: Statement) -> tuple[list[Token], Statement]:
    """Tokens before ``=`` or ``:=``, and the expression after it."""
    for position, token in enumerate(item.tokens):
        if token.text in ("=", ":="):
            return list(item.tokens[:position]), item.part(position + 1)
        if token.text == ":" and item.tokens[position + 1].text == "=":
            return list(item.tokens[:position]), item.part(position + 2)
    raise syntax_error(item.text)


async def _value(session: Session, expression: Statement) -> Value:
    if not expression.tokens:
        raise syntax_error(expression.text)
    only = expression.tokens[0]
    if len(expression.tokens) == 1 and only.token_type not in _VALUES:
        return only.text  # a bare word: ON, utf8mb4, DEFAULT
    written = _written(expression)
    if written is not None:
        return written
    return await evaluate(session, expression, expression.expressions(0)[0])


def _written(expression: Statement) -> Value:
    """The value of a plain number or text, which needs no evaluation; None for all else."""
    *before, last = expression.tokens
    if not before and last.token_type is TokenType.NUMBER:
        return int(last.text) if last.text.isdecimal() and len(last.text) < _LONG_NUMBER else None
    if last.token_type is not TokenType.STRING or last.text in expression.values:
        return None
    plain = last.text.isascii() and "\0" not in last.text
    introduced = [token.text.lower() for token in before] in ([], ["_latin1"], ["_utf8mb4"])
    return last.text if plain and introduced else None


async def _user_variable(session: Session, item: Statement) -> None:
    name, right = _named(item)
    value = await _value(session, right)
    # NULL itself leaves the type as it was.
    null = session.typed_variable(name) if right.words == ["NULL"] else ""
    session.set_variable(name, value, null)
    session.trackers.state_set()


def _named(item: Statement) -> tuple[str, Statement]:
    """A user variable's name, and the expression for it."""
    left, right = _split(item)
    return "".join(token.text for token in left[1:]).lower(), right


def declare(session: Session, statement: Statement) -> None:
    """Creates the user variables of a SET that is prepared, as NULL, where there are none."""
    for item in _items(statement):
        if item.tokens and item.tokens[0].token_type is TokenType.PARAMETER:
            name, right = _named(item)
            if name not in session.storage.surroundings.user_variables:
                is_bytes = isinstance(right.expressions(0)[0], exp.Null | exp.HexString)
                session.set_variable(name, None, b"" if is_bytes else "")


async def _system_variable(session: Session, item: Statement) -> None:
    left, right = _split(item)
    names = [token.text for token in left if token.text not in ("@@", "@", ".")]
    scope = "session"
    if len(names) > 1 and names[0].upper() in _SCOPES:
        scope = _SCOPES[names[0].upper()]
        del names[0]
    if len(names) != 1:
        raise syntax_error(item.text)
    name = canonical(names[0])
    value = await _value(session, right)
    if isinstance(value, str) and value.upper() == "DEFAULT" and len(right.tokens) == 1:
        default = DEFINITIONS[name].default
        shared = session.server.variable(name) if scope == "session" else default
        value = int(shared) if isinstance(shared, bool) else shared
    if await gtid_variables.assign(session, scope, name, value):
        return
    set_variable(session, scope, name, value)


def set_variable(session: Session, scope: str, name: str, value: Value) -> None:
    """Assigns one variable, with what follows from it.

    Raises:
        MySQLError: 1231, 1232, 1238, 1229, 1228 or 1766.
    """
    _check_reach(scope, name)
    stored = checked(name, value)
    if name in CEILINGS:
        _check_replication_variable(session)
    truncated = name in CEILINGS or DEFINITIONS[name].bounds
    if truncated and isinstance(value, int) and value != stored:
        session.warn("Warning", 1292, f"Truncated incorrect {name} value: '{value}'")
    if name == "sql_mode" and mixes_strictness(str(stored)):
        session.warn("Warning", 3135, _MIXED_STRICTNESS)
    if name == "session_track_system_variables":
        _warn_of_unknown(session, str(stored))
    if scope == "global":
        if name == "replica_preserve_commit_order":
            _check_stopped(session)
        session.server.set_variable(name, stored)
        return
    _check_moment(session, name, stored)
    was = session.variables.get(name)
    session.variables[name] = stored
    if name in ("last_insert_id", "identity"):
        session.last_insert_id = int(stored)
    if name == "autocommit" and stored and not was:
        session.transaction.commit()
    session.trackers.variable_set(name)


def _check_reach(scope: str, name: str) -> None:
    """Refuses to set a variable in a scope that it does not have."""
    reach = DEFINITIONS[name].reach
    if reach is Reach.READ_ONLY:
        raise MySQLError(1238, "HY000", f"Variable '{name}' is a read only variable")
    if scope == "session" and reach is Reach.GLOBAL:
        raise MySQLError(
            1229,
            "HY000",
            f"Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL",
        )
    if scope == "global" and reach is Reach.SESSION:
        raise MySQLError(
            1228,
            "HY000",
            f"Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL",
        )


def _check_replication_variable(session: Session) -> None:
    if session.user not in session.server.administrators:
        raise MySQLError.of(
            ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
            "Access denied; you need (at least one of) the SUPER, SYSTEM_VARIABLES_ADMIN, "
            "SESSION_VARIABLES_ADMIN or REPLICATION_APPLIER privilege(s) for this operation",
        )


def _warn_of_unknown(session: Session, names: str) -> None:
    """Warns of names that are no variables; they stay in the list."""
    for name in names.split(","):
        if name and name != "*" and name.strip().lower() not in DEFINITIONS:
            message = f"{name} is not a valid system variable and will be ignored."
            session.warn("Warning", 1231, message)


def _check_stopped(session: Session) -> None:
    applier = session.server.applier
    if applier is not None and applier.running:
        raise MySQLError(
            3017,
            "HY000",
            "This operation cannot be performed with a running replica sql thread; run STOP "
            "REPLICA SQL_THREAD first",
        )


def _check_moment(session: Session, name: str, stored: bool | int | float | str) -> None:
    if name == "session_track_gtids" and session.transaction.active:
        raise MySQLError(
            1766,
            "HY000",
            "The system variable session_track_gtids cannot be set when there is an ongoing "
            "transaction.",
        )


def _transaction(session: Session, statement: Statement, scope: str) -> None:
    """SET [scope] TRANSACTION; without a scope it is meant for the next transaction only."""
    text = " ".join(statement.words)
    isolation = next((level for level in _ISOLATION if f"LEVEL {level}" in text), None)
    if not scope:
        if session.transaction.active:
            raise MySQLError(
                1568,
                "25001",
                "Transaction characteristics can't be changed while a transaction is in progress",
            )
        access = next((access for access in ("READ ONLY", "READ WRITE") if access in text), None)
        session.trackers.characteristics_set(isolation=isolation, access=access)
        if access is not None:
            session.next_read_only = access == "READ ONLY"
        if isolation is not None:
            session.next_isolation = isolation.replace(" ", "-")
        return
    if isolation is not None:
        set_variable(session, scope, "transaction_isolation", isolation.replace(" ", "-"))
    if "READ ONLY" in text or "READ WRITE" in text:
        set_variable(session, scope, "transaction_read_only", int("READ ONLY" in text))
