"""What a query touches besides replicated data: functions, locks, variables, files, server state.

Works on expressions and whole queries alike, for it looks at names and what stands around them, not
at the grammar: a text that the grammar does not allow is refused by the server, which executes
nothing of it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from routing.sql.lexer import CALLED, PUNCTUATION, QUOTED, VARIABLE, WORD, Tokens
from routing.sql.native_functions import ADJACENT_ONLY, PURE
from routing.sql.verdict import StatementClass, StatementReason, Verdict

UNKNOWN_FUNCTION: Final = 1
LOCKING: Final = 2
FILE: Final = 4
DATA: Final = 8
"""A statement that changes data, after WITH or where no query can have it."""
LOCK_FUNCTION: Final = 16
ASSIGNS: Final = 32
"""Sets a user variable."""
USER_VARIABLE: Final = 64
SYSTEM_VARIABLE: Final = 128
SESSION_FUNCTION: Final = 256
SERVER_STATE: Final = 512
DIAGNOSTICS: Final = 1024
FOUND: Final = 4096
"""FOUND_ROWS()."""
TABLE: Final = 2048
"""Reads from a table (or has another FROM)."""

METADATA: Final = 8192
"""Reads from the replicated dictionary, by way of information_schema."""

_EFFECTS: Final[dict[bytes, int]] = {
    b"GET_LOCK": LOCK_FUNCTION,
    # Loadable functions of the locking service; their locks live as long as the session.
    b"SERVICE_GET_READ_LOCKS": LOCK_FUNCTION | UNKNOWN_FUNCTION,
    b"SERVICE_GET_WRITE_LOCKS": LOCK_FUNCTION | UNKNOWN_FUNCTION,
    # `$@name` in an XPath expression is a user variable.
    b"EXTRACTVALUE": USER_VARIABLE,
    b"UPDATEXML": USER_VARIABLE,
    b"FOUND_ROWS": FOUND,
    b"ROW_COUNT": DIAGNOSTICS,
    # `WITH c AS (…) UPDATE (t) SET …`: tables in parentheses.
    b"UPDATE": DATA,
    b"DELETE": DATA,
    **dict.fromkeys(
        (
            *(b"CONNECTION_ID", b"LAST_INSERT_ID", b"USER", b"CURRENT_USER", b"SESSION_USER"),
            *(b"SYSTEM_USER", b"CURRENT_ROLE", b"ROLES_GRAPHML"),
            *(b"RELEASE_LOCK", b"RELEASE_ALL_LOCKS", b"IS_FREE_LOCK", b"IS_USED_LOCK"),
            *(b"SLEEP", b"BENCHMARK"),
            *(b"WAIT_FOR_EXECUTED_GTID_SET", b"SOURCE_POS_WAIT", b"MASTER_POS_WAIT"),
            *(b"VERSION", b"ICU_VERSION", b"UUID_SHORT", b"LOAD_FILE"),
            *(b"PS_CURRENT_THREAD_ID", b"PS_THREAD_ID", b"VALIDATE_PASSWORD_STRENGTH"),
        ),
        SESSION_FUNCTION,
    ),
}
"""What does more than compute, by the word before its parenthesis."""

SERVER_SCHEMAS: Final = frozenset({"information_schema", "performance_schema", "sys", "mysql"})
"""Where one of these is the default schema, unqualified names may be a server's own tables."""

_OWN_SCHEMAS: Final = frozenset({b"PERFORMANCE_SCHEMA", b"SYS", b"MYSQL"})
_REPLICATED_METADATA: Final = frozenset(
    b"""CHARACTER_SETS CHECK_CONSTRAINTS COLLATIONS COLLATION_CHARACTER_SET_APPLICABILITY COLUMNS
    COLUMNS_EXTENSIONS KEYWORDS KEY_COLUMN_USAGE PARAMETERS PARTITIONS REFERENTIAL_CONSTRAINTS
    ROUTINES SCHEMATA SCHEMATA_EXTENSIONS STATISTICS ST_GEOMETRY_COLUMNS
    ST_SPATIAL_REFERENCE_SYSTEMS ST_UNITS_OF_MEASURE TABLES TABLES_EXTENSIONS TABLE_CONSTRAINTS
    TABLE_CONSTRAINTS_EXTENSIONS TRIGGERS VIEWS VIEW_ROUTINE_USAGE VIEW_TABLE_USAGE""".split()
)
"""Views of information_schema that show the replicated dictionary; the others show the server."""

_DIAGNOSTIC_VARIABLES: Final = frozenset(
    scope + name
    for scope in (b"@@", b"@@SESSION.", b"@@LOCAL.")
    for name in (b"WARNING_COUNT", b"ERROR_COUNT")
)

_MARKED: Final = _OWN_SCHEMAS | {
    *(b"INFORMATION_SCHEMA", b"CURRENT_USER", b"FROM", b"TABLE"),
    *(b"FOR", b"LOCK", b"INTO", b"UPDATE", b"DELETE", b"INSERT", b"REPLACE"),
}
"""Words that can mean something without a parenthesis behind them."""


def scan(tokens: Tokens, start: int, stop: int) -> int:  # noqa: C901, PLR0912 one case per token, hot
    """Find what tokens from `start` up to, not including, `stop` touch.

    Returns:
        A sum of the flags above; 0 for a pure expression.
    """
    kinds = tokens.kinds
    words = tokens.words
    touched = 0
    depth = 0
    index = start
    while index < stop:
        kind = kinds[index]
        word = words[index]
        if kind == PUNCTUATION:
            if word == b"(":
                depth += 1
            elif word == b")":
                depth -= 1
            elif word == b":=":
                touched |= ASSIGNS
        elif kind == CALLED:
            touched |= _call(tokens, index)
        elif kind == WORD:
            if words[index + 1] == b"(":
                touched |= _call(tokens, index)
            elif word in _MARKED and (index == 0 or words[index - 1] != b"."):
                touched |= _marked(tokens, index, depth)
                if word == b"FOR" and words[index + 1] == b"UPDATE":
                    index += 1  # that is no UPDATE of data
        elif kind == VARIABLE:
            touched |= _variable(tokens, index)
        elif kind == QUOTED:
            if words[index + 1] == b"(":
                touched |= _call(tokens, index)
            else:
                touched |= _schema(tokens, index, word[1:-1].upper())
        index += 1
    return touched


def _call(tokens: Tokens, index: int) -> int:
    """What a name before a parenthesis touches."""
    kinds = tokens.kinds
    word = tokens.words[index]
    before = tokens.words[index - 1] if index else b""
    if before == b".":
        return UNKNOWN_FUNCTION
    if kinds[index] == QUOTED:
        # In backticks native functions are native, and the grammar's are stored ones.
        touched = _EFFECTS.get(word[1:-1].upper(), 0) | UNKNOWN_FUNCTION
    elif word in PURE:
        if kinds[index] == CALLED or word not in ADJACENT_ONLY:
            return TABLE if word == b"FROM" else 0
        touched = UNKNOWN_FUNCTION
    else:
        touched = _EFFECTS.get(word, 0)
        if touched and (kinds[index] == CALLED or word not in ADJACENT_ONLY):
            return touched
        touched |= UNKNOWN_FUNCTION
    if before in (b"AS", b")"):
        return 0  # an alias with column names: no expression goes on like this
    if before in (b"WITH", b"RECURSIVE", b",") and _names_columns(tokens, index + 1):
        return 0
    return touched


def _names_columns(tokens: Tokens, index: int) -> bool:
    """Whether a parenthesis opens the column list of a common table expression."""
    kinds = tokens.kinds
    words = tokens.words
    while True:
        if kinds[index + 1] not in (WORD, QUOTED):
            return False
        index += 2
        if words[index] != b",":
            break
    return words[index] == b")" and words[index + 1] == b"AS" and words[index + 2] == b"("


def _marked(tokens: Tokens, index: int, depth: int) -> int:
    """What one of the words of `_MARKED` touches."""
    word = tokens.words[index]
    after = tokens.words[index + 1]
    if word == b"FROM":
        return 0 if after == b"DUAL" else TABLE
    if word == b"TABLE":
        return TABLE
    if word == b"FOR":
        if after in (b"JOIN", b"ORDER", b"GROUP", b"ORDINALITY"):
            return 0
        # In parentheses it may be SUBSTRING's.
        return LOCKING if depth <= 0 or after in (b"UPDATE", b"SHARE") else 0
    if word == b"LOCK":
        return LOCKING
    if word == b"INTO":
        return ASSIGNS if tokens.kinds[index + 1] == VARIABLE else FILE
    if word == b"CURRENT_USER":
        return SESSION_FUNCTION
    if word in (b"UPDATE", b"DELETE", b"INSERT", b"REPLACE"):
        return DATA
    return _schema(tokens, index, word)


def _schema(tokens: Tokens, index: int, name: bytes) -> int:
    """What a name touches that may be a schema's."""
    if tokens.words[index + 1] != b".":
        return 0
    if name in _OWN_SCHEMAS:
        return SERVER_STATE
    if name == b"INFORMATION_SCHEMA":
        view = tokens.words[index + 2].strip(b'`"').upper()
        return METADATA if view in _REPLICATED_METADATA else SERVER_STATE
    return 0


def schema_behind(keywords: tuple[bytes, ...], words: Sequence[bytes]) -> int:
    """What the schema touches that a statement names apart from its tables, behind a keyword."""
    for keyword, name in pairwise(words):
        if keyword in keywords and name.strip(b'`"').decode("latin1").lower() in SERVER_SCHEMAS:
            return SERVER_STATE
    return 0


def _variable(tokens: Tokens, index: int) -> int:
    if not tokens.words[index].startswith(b"@@"):
        return USER_VARIABLE
    return DIAGNOSTICS if _is_diagnostic(tokens, index) else SYSTEM_VARIABLE


def _is_diagnostic(tokens: Tokens, index: int) -> bool:
    """Whether a VARIABLE is one of `_DIAGNOSTIC_VARIABLES`; its parts may be apart, or quoted."""
    words = tokens.words
    name = words[index]
    while index < len(tokens) and (name.endswith(b".") or words[index + 1] == b"."):
        index += 1
        name += words[index]
    return name.translate(None, b'`"').upper() in _DIAGNOSTIC_VARIABLES


def shows_conditions(tokens: Tokens) -> bool:
    """Whether a statement reads @@warning_count or @@error_count."""
    return any(
        kind == VARIABLE and _is_diagnostic(tokens, index)
        for index, kind in enumerate(tokens.kinds)
    )


def shows_tracking(tokens: Tokens) -> bool:
    """Whether a statement shows the session's session_track_… variables."""
    for kind, word in zip(tokens.kinds, tokens.words, strict=True):
        if kind == VARIABLE:
            if word.startswith(b"@@") and b"SESSION_TRACK_" in word.upper():
                return True
        elif kind in (WORD, QUOTED) and b"_VARIABLES" in word.upper():
            return b"SESSION_VARIABLES" in word.upper()
    return False


_PURE: Final = Verdict(StatementClass.READ, StatementReason.NOTHING)

_NOT_READS: Final = (
    (UNKNOWN_FUNCTION, Verdict(StatementClass.WRITE, StatementReason.UNKNOWN_FUNCTION, True)),
    (DATA, Verdict(StatementClass.WRITE, StatementReason.DATA, True)),
    (FILE, Verdict(StatementClass.WRITE, StatementReason.FILE, True)),
    (LOCKING, Verdict(StatementClass.WRITE, StatementReason.LOCKING_READ)),
    (LOCK_FUNCTION, Verdict(StatementClass.PIN, StatementReason.LOCK_FUNCTION)),
    (ASSIGNS, Verdict(StatementClass.SESSION, StatementReason.USER_VARIABLE)),
    (SYSTEM_VARIABLE, Verdict(StatementClass.SESSION, StatementReason.SYSTEM_VARIABLE)),
    (SESSION_FUNCTION, Verdict(StatementClass.SESSION, StatementReason.SESSION_FUNCTION)),
    (SERVER_STATE, Verdict(StatementClass.SESSION, StatementReason.SERVER_STATE)),
)
"""What a query is that touches this, the worst first."""


def query_verdict(touched: int) -> Verdict:
    """The verdict on a query that touches this (a sum of flags)."""
    if not touched & ~TABLE:
        return _PURE
    for flag, verdict in _NOT_READS:
        if touched & flag:
            return verdict
    if touched & (DIAGNOSTICS | FOUND):
        # If it reads a table, it must also see what its session wrote since.
        alone = not touched & (TABLE | USER_VARIABLE)
        kind = StatementClass.DIAGNOSTIC if alone else StatementClass.SESSION
        return Verdict(
            kind,
            StatementReason.DIAGNOSTICS if touched & DIAGNOSTICS else StatementReason.FOUND_ROWS,
        )
    if touched & METADATA:
        return Verdict(StatementClass.READ, StatementReason.METADATA)
    if touched & USER_VARIABLE:
        return Verdict(StatementClass.READ, StatementReason.USER_VARIABLE)
    return _PURE
