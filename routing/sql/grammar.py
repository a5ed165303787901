"""What a statement is, by the keyword that it begins with.

Every statement of the manual's chapter "SQL Statements" (9.7) has its place here. Any other is
taken for a write.
"""

import re
from collections.abc import Callable
from typing import Final

from routing.sql import diagnostics, query
from routing.sql.lexer import LITERAL, QUOTED, VARIABLE, WORD, Tokens
from routing.sql.lock_parsing import (
    created_table,
    dropped_tables,
    lock_holds,
    parse_alter,
    parse_handler,
)
from routing.sql.session_locks import UNKNOWN_HOLD, Act, PinReason, SessionLock
from routing.sql.set_statement import set_verdict
from routing.sql.user_variables import assigned, mentioned
from routing.sql.verdict import StatementClass, StatementReason, Verdict

READ: Final = StatementClass.READ
WRITE: Final = StatementClass.WRITE
TRANSACTION: Final = StatementClass.TRANSACTION
SESSION: Final = StatementClass.SESSION
PIN: Final = StatementClass.PIN
DIAGNOSTIC: Final = StatementClass.DIAGNOSTIC

UNKNOWN: Final = Verdict(WRITE, StatementReason.UNKNOWN_STATEMENT, may_write=True)

_DEFINITION: Final = Verdict(WRITE, StatementReason.DEFINITION, may_write=True)
_ACCOUNT: Final = Verdict(WRITE, StatementReason.ACCOUNT, may_write=True)
_ADMINISTRATION: Final = Verdict(WRITE, StatementReason.ADMINISTRATION, may_write=True)
_DATA: Final = Verdict(WRITE, StatementReason.DATA, may_write=True)
_COMMITS: Final = Verdict(TRANSACTION, StatementReason.TRANSACTION, may_write=True)
_IN_TRANSACTION: Final = Verdict(TRANSACTION, StatementReason.TRANSACTION)
_SAVEPOINT: Final = Verdict(TRANSACTION, StatementReason.SAVEPOINT)
_BEGINS: Final = Verdict(
    TRANSACTION,
    StatementReason.TRANSACTION,
    may_write=True,
    holds=(SessionLock(Act.GIVE_ALL, PinReason.TABLE_LOCK),),
)
_METADATA: Final = Verdict(READ, StatementReason.METADATA)
_SERVER_STATE: Final = Verdict(SESSION, StatementReason.SERVER_STATE)
_DIAGNOSTICS: Final = Verdict(DIAGNOSTIC, StatementReason.DIAGNOSTICS)

_FIXED: Final[dict[bytes, Verdict]] = {
    b"RENAME": _DEFINITION,
    b"TRUNCATE": _DEFINITION,
    b"GRANT": _ACCOUNT,
    b"REVOKE": _ACCOUNT,
    **dict.fromkeys(
        (
            *(b"ANALYZE", b"CHECK", b"OPTIMIZE", b"REPAIR", b"CACHE"),
            *(b"CHANGE", b"RESET", b"STOP"),
            *(b"CLONE", b"INSTALL", b"UNINSTALL", b"RESTART", b"SHUTDOWN"),
        ),
        _ADMINISTRATION,
    ),
    b"BINLOG": _DATA,
    b"IMPORT": Verdict(WRITE, StatementReason.UNLOGGED, may_write=True),
    b"COMMIT": _COMMITS,
    b"SAVEPOINT": _SAVEPOINT,
    b"RELEASE": _SAVEPOINT,
    b"PREPARE": Verdict(SESSION, StatementReason.PREPARED_STATEMENT),
    # What it executes may be anything.
    b"EXECUTE": Verdict(SESSION, StatementReason.EXECUTED, may_write=True, holds=(UNKNOWN_HOLD,)),
    b"DEALLOCATE": Verdict(SESSION, StatementReason.PREPARED_STATEMENT),
    b"USE": Verdict(SESSION, StatementReason.DEFAULT_SCHEMA),
    b"HELP": _SERVER_STATE,
    b"CHECKSUM": _SERVER_STATE,
    b"SIGNAL": Verdict(SESSION, StatementReason.DIAGNOSTICS),
    b"RESIGNAL": Verdict(SESSION, StatementReason.DIAGNOSTICS),
}

_SHOW: Final[dict[bytes, Verdict]] = {
    **dict.fromkeys(
        (
            *(b"TABLES", b"COLUMNS", b"FIELDS", b"INDEX", b"INDEXES", b"KEYS", b"DATABASES"),
            *(b"SCHEMAS", b"TRIGGERS", b"COLLATION", b"CHARSET"),
        ),
        _METADATA,
    ),
    b"WARNINGS": _DIAGNOSTICS,
    b"ERRORS": _DIAGNOSTICS,
    **dict.fromkeys(
        (
            *(b"STATUS", b"VARIABLES", b"PROCESSLIST", b"PROFILE", b"PROFILES", b"PARSE_TREE"),
            *(b"ENGINE", b"ENGINES", b"PLUGINS", b"OPEN", b"PRIVILEGES", b"GRANTS", b"EVENTS"),
            *(b"BINARY", b"BINLOG", b"RELAYLOG", b"REPLICA", b"REPLICAS", b"MASTER", b"SLAVE"),
        ),
        _SERVER_STATE,
    ),
}
_SHOW_MODIFIERS: Final = frozenset(
    {b"FULL", b"EXTENDED", b"GLOBAL", b"SESSION", b"LOCAL", b"STORAGE"}
)
# An event is disabled on a replica; accounts and roles depend on the session.
_SHOW_CREATE: Final = frozenset(
    b"TABLE VIEW DATABASE SCHEMA PROCEDURE FUNCTION TRIGGER LIBRARY".split()
)
_QUERY_WORDS: Final = (b"SELECT", b"WITH", b"TABLE", b"VALUES", b"(")
_COSTS: Final = (b"LAST_QUERY_COST", b"LAST_QUERY_PARTIAL_PLANS")
"""Status variables that tell of the statement before."""
_CALLING: Final = (b"SELECT", b"WITH", b"VALUES")
"""Words from which on a CREATE TEMPORARY TABLE may call a function."""
_BEFORE_WILDCARD: Final = re.compile(rb"[a-z0-9]*")
_TRACKING: Final = b"session"
_KILL_DIGITS: Final = 20
"""Connection ids have 64 bits."""
_DML_WORDS: Final = (b"INSERT", b"REPLACE", b"UPDATE", b"DELETE")


def verdict(tokens: Tokens) -> Verdict:
    """The verdict on one statement, without what follows a semicolon."""
    words = tokens.words
    rule = _RULES.get(words[0])
    found = _FIXED.get(words[0], UNKNOWN) if rule is None else rule(tokens)
    if found.reason is StatementReason.DEFINITION and words[1] != b"TABLE":
        return found  # a stored program runs nothing of its body yet
    holds = lock_holds(tokens)
    if holds:
        found = found._replace(holds=found.holds + holds)
    if found.kind is not READ:
        parts = _asked(tokens, found)
        if parts:
            found = found._replace(asks=parts)
    if found.kind is SESSION and not found.may_write and query.shows_tracking(tokens):
        found = found._replace(shows_tracking=True)
    if found.kind is READ and found.reason is not StatementReason.NOTHING:
        found = found._replace(user_variables=mentioned(tokens))
    if words[0] != b"SET":
        variables = assigned(tokens)
        if variables:
            found = found._replace(assignments=found.assignments + variables)
    return found


def _asked(tokens: Tokens, found: Verdict) -> int:
    """The parts of the diagnostics area that a statement asks about."""
    if found.kind is DIAGNOSTIC and tokens.words[0] == b"SHOW":
        return diagnostics.shown_by_show(tokens)
    shown = diagnostics.CONDITIONS if query.shows_conditions(tokens) else 0
    return diagnostics.asks(tokens) | shown


def _query(tokens: Tokens) -> Verdict:
    return query.query_verdict(query.scan(tokens, 0, len(tokens)))


def _parenthesised(tokens: Tokens) -> Verdict:
    first = 0
    while tokens.words[first] == b"(":
        first += 1
    return _query(tokens) if tokens.words[first] in _QUERY_WORDS else UNKNOWN


def _data(_: Tokens) -> Verdict:
    return _DATA


def _load(tokens: Tokens) -> Verdict:
    return _ADMINISTRATION if tokens.words[1] == b"INDEX" else _data(tokens)


def _call(tokens: Tokens) -> Verdict:
    return _data(tokens)._replace(reason=StatementReason.PROCEDURE)


def _do(tokens: Tokens) -> Verdict:
    found = query.query_verdict(query.scan(tokens, 1, len(tokens)))
    if found.kind in (READ, DIAGNOSTIC):
        return Verdict(SESSION, found.reason)
    return found


def _create(tokens: Tokens) -> Verdict:
    words = tokens.words
    if b"TEMPORARY" in words[1:4]:
        start = min((words.index(word) for word in _CALLING if word in words), default=len(tokens))
        calls = query.scan(tokens, start, len(tokens)) & query.UNKNOWN_FUNCTION
        reason = StatementReason.UNKNOWN_FUNCTION if calls else StatementReason.TEMPORARY_TABLE
        return Verdict(PIN, reason, may_write=True, holds=created_table(tokens))
    if words[1] == b"TABLE":  # perhaps from a SELECT
        return _data(tokens)._replace(reason=StatementReason.DEFINITION)
    return _ACCOUNT if words[1] in (b"USER", b"ROLE") else _DEFINITION


def _drop(tokens: Tokens) -> Verdict:
    second = tokens.words[1]
    if second == b"PREPARE":
        return _FIXED[b"DEALLOCATE"]
    if second == b"TEMPORARY":
        return Verdict(
            WRITE, StatementReason.TEMPORARY_TABLE, may_write=True, holds=dropped_tables(tokens)
        )
    if second in (b"USER", b"ROLE"):
        return _ACCOUNT
    return _DEFINITION._replace(holds=dropped_tables(tokens))


def _alter(tokens: Tokens) -> Verdict:
    return _DEFINITION._replace(holds=parse_alter(tokens))


def _handler(tokens: Tokens) -> Verdict:
    return Verdict(PIN, StatementReason.HANDLER, holds=parse_handler(tokens))


def _begin(tokens: Tokens) -> Verdict:
    alone = len(tokens) == 1 or (len(tokens) == 2 and tokens.words[1] == b"WORK")
    return _BEGINS if alone else UNKNOWN  # before it begins, it ends what is open


def _rollback(tokens: Tokens) -> Verdict:
    return _SAVEPOINT if b"TO" in tokens.words[1:3] else _IN_TRANSACTION


def _start(tokens: Tokens) -> Verdict:
    return _BEGINS if tokens.words[1] == b"TRANSACTION" else _ADMINISTRATION


def _xa(tokens: Tokens) -> Verdict:
    if tokens.words[1] == b"END":
        return _SAVEPOINT  # the transaction stays open
    if tokens.words[1] == b"RECOVER":
        return _SERVER_STATE  # it lists what is prepared, inside any transaction
    if tokens.words[1] not in (b"START", b"BEGIN"):
        return _COMMITS
    # What ends it shows in the server's status flags.
    return _COMMITS._replace(holds=(SessionLock(Act.ACQUIRE, PinReason.XA_TRANSACTION),))


def _lock(tokens: Tokens) -> Verdict:
    instance = tokens.words[1] == b"INSTANCE"
    reason = PinReason.BACKUP_LOCK if instance else PinReason.TABLE_LOCK
    return Verdict(
        PIN, StatementReason.TABLE_LOCK, may_write=True, holds=(SessionLock(Act.ACQUIRE, reason),)
    )


def _unlock(tokens: Tokens) -> Verdict:
    if tokens.words[1] == b"INSTANCE":
        gives: tuple[PinReason, ...] = (PinReason.BACKUP_LOCK,)
    else:
        gives = (PinReason.TABLE_LOCK, PinReason.GLOBAL_READ_LOCK)
    holds = tuple(SessionLock(Act.GIVE_ALL, reason) for reason in gives)
    return Verdict(SESSION, StatementReason.TABLE_LOCK, may_write=True, holds=holds)


def _flush(tokens: Tokens) -> Verdict:
    words = tokens.words
    first = words[2] if words[1] in (b"LOCAL", b"NO_WRITE_TO_BINLOG") else words[1]
    if first not in (b"TABLE", b"TABLES"):
        if b"STATUS" in words:
            holds = (SessionLock(Act.ACQUIRE, PinReason.STATUS_COUNTERS),)
            return Verdict(PIN, StatementReason.ADMINISTRATION, may_write=True, holds=holds)
        return _ADMINISTRATION
    if b"LOCK" not in words and b"EXPORT" not in words:
        return _ADMINISTRATION
    holds = (SessionLock(Act.ACQUIRE, PinReason.GLOBAL_READ_LOCK),)
    return Verdict(PIN, StatementReason.TABLE_LOCK, may_write=True, holds=holds)


def _purge(tokens: Tokens) -> Verdict:
    touched = query.scan(tokens, 1, len(tokens))
    return query.query_verdict(touched) if touched & query.UNKNOWN_FUNCTION else _ADMINISTRATION


def _get(tokens: Tokens) -> Verdict:
    if b"DIAGNOSTICS" not in tokens.words[1:3]:
        return UNKNOWN
    # It sets variables, which live on the primary.
    return Verdict(SESSION, StatementReason.DIAGNOSTICS)


def _kill(tokens: Tokens) -> Verdict:
    which = 2 if tokens.words[1] in (b"CONNECTION", b"QUERY") else 1
    touched = query.scan(tokens, 1, len(tokens))
    if touched & query.UNKNOWN_FUNCTION:
        return query.query_verdict(touched)
    number = tokens.words[which]
    plain = len(tokens) == which + 1 and number.isdigit() and len(number) <= _KILL_DIGITS
    return Verdict(SESSION, StatementReason.KILL, kill_target=int(number) if plain else None)


def _may_be_tracking(literal: bytes) -> bool:
    """Whether a pattern may be that of a name that begins with session_track_."""
    start = _BEFORE_WILDCARD.match(literal[1:-1].lower())
    return start is not None and _TRACKING.startswith(start[0])


def _show(tokens: Tokens) -> Verdict:
    words = tokens.words
    index = 1
    while words[index] in _SHOW_MODIFIERS:
        index += 1
    if words[index : index + 4] == [b"COUNT", b"(", b"*", b")"]:
        index += 4
        found = _DIAGNOSTICS if words[index] in (b"WARNINGS", b"ERRORS") else UNKNOWN
    elif words[index] == b"CREATE":
        found = _METADATA if words[index + 1] in _SHOW_CREATE else _SERVER_STATE
    elif words[index] in (b"TABLE", b"PROCEDURE", b"FUNCTION", b"LIBRARY"):
        found = _METADATA if words[index + 1] == b"STATUS" else _SERVER_STATE
    elif words[index] == b"CHARACTER" and words[index + 1] == b"SET":
        found = _METADATA
    elif words[index] == b"STATUS" and words[index + 1] == b"LIKE":
        name = words[index + 2].strip(b"'\"").upper()
        cost = name in _COSTS and b"GLOBAL" not in words and len(tokens) == index + 3
        found = Verdict(DIAGNOSTIC if cost else SESSION, StatementReason.STATUS)
    elif words[index] == b"VARIABLES" and b"GLOBAL" not in words[1:index]:
        like = words[index + 1] == b"LIKE" and tokens.kinds[index + 2] == LITERAL
        shows = _may_be_tracking(words[index + 2]) if like else True
        reason = StatementReason.STATUS if like else StatementReason.SERVER_STATE
        found = Verdict(SESSION, reason, shows_tracking=shows)
    else:
        found = _SHOW.get(words[index], UNKNOWN)
    # Behind WHERE there can be any expression.
    touched = query.scan(tokens, index, len(tokens))
    touched |= query.schema_behind((b"FROM", b"IN"), words[index:])
    if touched & query.UNKNOWN_FUNCTION or found.kind is READ:
        return query.query_verdict(touched | query.METADATA)
    return found


def _explain(tokens: Tokens) -> Verdict:
    words = tokens.words
    index = _explained(tokens)
    if index >= len(tokens):
        return UNKNOWN
    options = words[1:index]
    if words[index] == b"FOR" and words[index + 1] == b"CONNECTION":
        return _SERVER_STATE
    if words[index] in _DML_WORDS:
        found = _explain_dml(tokens, index, b"ANALYZE" in options)
    elif words[index] in _QUERY_WORDS:
        touched = query.scan(tokens, index, len(tokens))
        touched |= query.schema_behind((b"SCHEMA", b"DATABASE"), options)
        found = query.query_verdict(touched)
        if found.kind is READ and found.reason is not StatementReason.METADATA:
            found = found._replace(reason=StatementReason.PLAN)
    else:
        found = _describe(tokens, index)
    if b"INTO" in options and found.kind is not WRITE:
        return Verdict(SESSION, StatementReason.USER_VARIABLE, found.may_write)
    return found


def _explained(tokens: Tokens) -> int:
    """Where what an EXPLAIN explains begins, behind its options."""
    words = tokens.words
    index = 1
    while index < len(tokens):
        if words[index] == b"ANALYZE":
            index += 1
        elif words[index] == b"FORMAT" and words[index + 1] == b"=":
            index += 3
        elif words[index] == b"INTO" and tokens.kinds[index + 1] == VARIABLE:
            index += 2
        elif words[index] == b"FOR" and words[index + 1] in (b"SCHEMA", b"DATABASE"):
            index += 3
        else:
            break
    return index


def _explain_dml(tokens: Tokens, index: int, analyze: bool) -> Verdict:
    if analyze:
        return _DATA
    touched = query.scan(tokens, index + 1, len(tokens))
    if touched & query.UNKNOWN_FUNCTION:
        return query.query_verdict(touched)
    return Verdict(SESSION, StatementReason.DATA)  # a replica's plan is not the one that would run


def _describe(tokens: Tokens, index: int) -> Verdict:
    """DESCRIBE table [column]."""
    for kind, word in zip(tokens.kinds[index:-1], tokens.words[index:-1], strict=True):
        if kind not in (WORD, QUOTED, LITERAL) and word not in (b".", b"%"):
            return UNKNOWN
    touched = query.scan(tokens, index, len(tokens))
    found = query.query_verdict(touched | query.METADATA)
    return found if tokens.kinds[index] in (WORD, QUOTED) else UNKNOWN


_RULES: Final[dict[bytes, Callable[[Tokens], Verdict]]] = {
    b"SELECT": _query,
    b"WITH": _query,
    b"TABLE": _query,
    b"VALUES": _query,
    b"(": _parenthesised,
    b"INSERT": _data,
    b"REPLACE": _data,
    b"UPDATE": _data,
    b"DELETE": _data,
    b"LOAD": _load,
    b"CALL": _call,
    b"DO": _do,
    b"SET": set_verdict,
    b"SHOW": _show,
    b"EXPLAIN": _explain,
    b"DESCRIBE": _explain,
    b"DESC": _explain,
    b"CREATE": _create,
    b"DROP": _drop,
    b"ALTER": _alter,
    b"HANDLER": _handler,
    b"XA": _xa,
    b"LOCK": _lock,
    b"UNLOCK": _unlock,
    b"BEGIN": _begin,
    b"START": _start,
    b"ROLLBACK": _rollback,
    b"FLUSH": _flush,
    b"PURGE": _purge,
    b"GET": _get,
    b"KILL": _kill,
}
