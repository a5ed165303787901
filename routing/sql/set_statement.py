"""SET: what it assigns, and what the assigned expressions touch."""

import re
from typing import Final

from routing.sql import query
from routing.sql.lexer import END, LITERAL, QUOTED, VARIABLE, WORD, Tokens
from routing.sql.user_variables import mentioned, name_of
from routing.sql.verdict import Assignment, StatementClass, StatementReason, Verdict

_SCOPES: Final = {
    b"SESSION": "session",
    b"LOCAL": "session",
    b"GLOBAL": "global",
    b"PERSIST": "persist",
    b"PERSIST_ONLY": "persist",
}
_ONE_SHOT: Final = frozenset({"transaction_isolation", "transaction_read_only"})
"""`SET @@name`, without a scope, sets these for the next transaction only."""

_NAMING: Final = ("names", "character set")
_NAMED_BY: Final = "default_collation_for_utf8mb4"
"""A NAMES behind it takes the value that it had before the statement."""

_LEVELS: Final = {
    b"ISOLATION LEVEL READ UNCOMMITTED": "'READ-UNCOMMITTED'",
    b"ISOLATION LEVEL READ COMMITTED": "'READ-COMMITTED'",
    b"ISOLATION LEVEL REPEATABLE READ": "'REPEATABLE-READ'",
    b"ISOLATION LEVEL SERIALIZABLE": "'SERIALIZABLE'",
}

_PLAIN: Final = re.compile(r"[a-z0-9_$]+")
"""Servers compare other names without accents, and without blanks at their end."""

_SINGLE_LITERAL: Final = re.compile(
    rb"'(?:[^'\\]++|\\[\s\S]|'')*+'|\"(?:[^\"\\]++|\\[\s\S]|\"\")*+\"|[0-9a-zA-Z.+-]++"
)
_NOT_LITERAL: Final = frozenset(
    b"""CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME LOCALTIMESTAMP UTC_DATE
    UTC_TIME UTC_TIMESTAMP""".split()
)
"""Functions that need no parenthesis."""

_ACCOUNTS: Final = Verdict(StatementClass.WRITE, StatementReason.ACCOUNT, may_write=True)
_UNKNOWN: Final = Verdict(StatementClass.WRITE, StatementReason.UNKNOWN_STATEMENT, may_write=True)


def set_verdict(tokens: Tokens) -> Verdict:
    """The verdict on a statement that begins with SET."""
    words = tokens.words
    if words[1] == b"PASSWORD" and words[2] in (b"=", b":=", b"FOR", b"TO"):
        return _ACCOUNTS
    if words[1] == b"DEFAULT" and words[2] == b"ROLE":
        return _ACCOUNTS
    if words[1] == b"ROLE":
        return _one("role", _text(tokens, 2))
    if words[1] == b"RESOURCE" and words[2] == b"GROUP":
        return _one("resource_group", None)
    if words[1] == b"TRANSACTION":
        return _transaction(tokens, 2, "one-shot")
    if words[1] in _SCOPES and words[2] == b"TRANSACTION":
        return _transaction(tokens, 3, _SCOPES[words[1]])
    return _assignments(tokens)


def _one(name: str, value: str | None) -> Verdict:
    assignments = (Assignment("session", name, value),)
    return Verdict(StatementClass.SESSION, StatementReason.SETTING, assignments=assignments)


def _text(tokens: Tokens, start: int) -> str | None:
    """The text from a token on; None if it cannot be decoded."""
    try:
        return b" ".join(tokens.raws[start:-1]).decode()
    except UnicodeDecodeError:
        return None


def _transaction(tokens: Tokens, start: int, scope: str) -> Verdict:
    """SET [scope] TRANSACTION, as assignments to the variables that it sets."""
    text = b" ".join(tokens.words[start:-1])
    assignments = []
    for part in text.split(b" , "):
        level = _LEVELS.get(part)
        if level is not None:
            assignments.append(Assignment(scope, "transaction_isolation", level))
        elif part in (b"READ ONLY", b"READ WRITE"):
            value = "ON" if part == b"READ ONLY" else "OFF"
            assignments.append(Assignment(scope, "transaction_read_only", value))
        else:
            return _UNKNOWN
    return Verdict(
        StatementClass.TRANSACTION, StatementReason.TRANSACTION, assignments=tuple(assignments)
    )


def _assignments(tokens: Tokens) -> Verdict:
    kinds = tokens.kinds
    words = tokens.words
    assignments: list[Assignment] = []
    touched = 0
    # Without a word of its own, an assignment has the scope of the one before it.
    scope = "session"
    index = 1
    while True:
        if words[index] == b"NAMES" and words[index + 1] not in (b"=", b":="):
            stop = _value_end(tokens, index + 1)
            assignments.append(Assignment("session", "names", _names(tokens, index + 1, stop)))
        elif words[index] in (b"CHARSET", b"CHARACTER") and words[index + 1] not in (b"=", b":="):
            start = index + (2 if words[index + 1] == b"SET" else 1)
            stop = _value_end(tokens, start)
            assignments.append(Assignment("session", "character set", _value(tokens, start, stop)))
        else:
            if words[index] in _SCOPES and kinds[index + 1] in (WORD, QUOTED):
                scope = _SCOPES[words[index]]
                index += 1
            equals = _equals(tokens, index)
            assignment = _target(tokens, index, equals, scope) if equals else None
            if assignment is None:
                return _malformed(tokens)
            stop = _value_end(tokens, equals + 1)
            value = _value(tokens, equals + 1, stop)
            assignments.append(Assignment(assignment[0], assignment[1], value))
            touched |= query.scan(tokens, equals + 1, stop)
        if kinds[stop] == END:
            break
        index = stop + 1
    if touched & query.ASSIGNS:
        for name in mentioned(tokens):
            assignments.append(Assignment("user", name, None))
    return _verdict(tuple(_without_contradicting_names(assignments)), touched)


def _equals(tokens: Tokens, index: int) -> int:
    """Where the sign stands behind a variable's name; 0 if there is none."""
    for position in range(index, len(tokens)):
        if tokens.words[position] in (b"=", b":="):
            return position
    return 0


def _without_contradicting_names(assignments: list[Assignment]) -> list[Assignment]:
    """The same, with no value for a NAMES that would mean something else in a SET of its own."""
    names = [assignment.name for assignment in assignments]
    named = [index for index, name in enumerate(names) if name in _NAMING]
    if len(named) < 2 and not (named and _NAMED_BY in names[: named[0]]):
        return assignments
    return [
        Assignment(assignment.scope, assignment.name, None)
        if assignment.name in _NAMING
        else assignment
        for assignment in assignments
    ]


def _verdict(assignments: tuple[Assignment, ...], touched: int) -> Verdict:
    # Switching autocommit on commits.
    commits = any(assignment.name == "autocommit" for assignment in assignments)
    found = query.query_verdict(touched)
    if found.kind in (StatementClass.WRITE, StatementClass.PIN):
        return found._replace(may_write=found.may_write or commits, assignments=assignments)
    return Verdict(
        StatementClass.SESSION, StatementReason.SETTING, commits, assignments=assignments
    )


def _malformed(tokens: Tokens) -> Verdict:
    """A SET that cannot be read; what it may name is treated as assigned."""
    named = any(
        kind != LITERAL and b"SESSION_TRACK_GTIDS" in word.upper()
        for kind, word in zip(tokens.kinds, tokens.words, strict=True)
    )
    if not named:
        return _UNKNOWN
    return _UNKNOWN._replace(assignments=(Assignment("session", "session_track_gtids", None),))


def _value_end(tokens: Tokens, index: int) -> int:
    """Where the value that begins here ends: at a comma outside parentheses, or at the END."""
    depth = 0
    while tokens.kinds[index] != END:
        word = tokens.words[index]
        if word == b"(":
            depth += 1
        elif word == b")":
            depth -= 1
        elif word == b"," and depth <= 0:
            break
        index += 1
    return index


def _target(tokens: Tokens, start: int, stop: int, scope: str) -> tuple[str, str] | None:
    """Scope and name of the variable that these tokens name."""
    if stop == start:
        return None
    first = tokens.raws[start]
    if tokens.kinds[start] == VARIABLE and not first.startswith(b"@@"):
        return ("user", name_of(first)) if stop == start + 1 else None
    for index in range(start + 1, stop):
        if tokens.words[index] != b"." and not tokens.words[index - 1].endswith(b"."):
            return None
    parts: list[str] = []
    text = b"".join(tokens.raws[start:stop])
    marked = text.startswith(b"@@")
    for part in text[2 if marked else 0 :].split(b"."):
        name = _unquoted(part)
        if name is None or _PLAIN.fullmatch(name) is None:
            return None
        parts.append(name)
    if marked:
        scope = "session"
        if len(parts) > 1 and parts[0].upper().encode() in _SCOPES:
            scope = _SCOPES[parts.pop(0).upper().encode()]
        elif parts[0] in _ONE_SHOT:
            scope = "one-shot"
    return scope, ".".join(parts)


def _unquoted(raw: bytes) -> str | None:
    """A name in lower case without its quotes; None if it cannot be decoded."""
    if raw[:1] in (b"'", b'"', b"`"):
        raw = raw[1:-1]
    try:
        return raw.decode().lower()
    except UnicodeDecodeError:
        return None


def _value(tokens: Tokens, start: int, stop: int) -> str | None:
    """The SQL text of a literal or bare word; None for anything else."""
    sign = b""
    if stop == start + 2 and tokens.words[start] in (b"+", b"-"):
        sign = tokens.words[start]
        start += 1
    if stop != start + 1:
        return None
    raw = tokens.raws[start]
    kind = tokens.kinds[start]
    if kind == LITERAL:
        if _SINGLE_LITERAL.fullmatch(raw) is None:
            return None
    elif kind != WORD or sign or tokens.words[start] in _NOT_LITERAL:
        return None
    try:
        return (sign + raw).decode()
    except UnicodeDecodeError:
        return None


def _names(tokens: Tokens, start: int, stop: int) -> str | None:
    """What follows SET NAMES: a character set, perhaps with COLLATE."""
    if stop == start + 3 and tokens.words[start + 1] == b"COLLATE":
        character_set = _value(tokens, start, start + 1)
        collation = _value(tokens, start + 2, stop)
        if character_set is None or collation is None:
            return None
        return f"{character_set} COLLATE {collation}"
    return _value(tokens, start, stop)
