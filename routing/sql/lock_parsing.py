"""Finds what a statement takes and releases; see `routing.sql.session_locks`."""

import re
from typing import Final

from routing.sql.lexer import CALLED, END, LITERAL, QUOTED, WORD, Tokens
from routing.sql.session_locks import UNKNOWN_HOLD, Act, PinReason, SessionLock, quoted

_NAME: Final = re.compile(rb"'([^'\\]*)'|\"([^\"\\]*)\"")
_LOCK_FUNCTIONS: Final = frozenset(
    word
    for name in (
        *("GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS"),
        *("SERVICE_GET_READ_LOCKS", "SERVICE_GET_WRITE_LOCKS"),
    )
    for word in (name.encode(), f"`{name}`".encode(), f'"{name}"'.encode())
)
_GIVES: Final = frozenset({b"RELEASE_LOCK", b"RELEASE_ALL_LOCKS"})


def lock_holds(tokens: Tokens) -> tuple[SessionLock, ...]:
    """The named locks that calls anywhere in a statement take and release."""
    if _LOCK_FUNCTIONS.isdisjoint(map(bytes.upper, tokens.words)):
        return ()
    names = [
        word.strip(b'`"').upper()
        for kind, word, after in zip(
            tokens.kinds, tokens.words, [*tokens.words[1:], b""], strict=True
        )
        if kind in (WORD, CALLED, QUOTED) and after == b"(" and word.upper() in _LOCK_FUNCTIONS
    ]
    if not names:
        return ()
    name = _only_call(tokens) if len(names) == 1 else None
    if name is not None:
        if names[0] not in _GIVES:
            return (SessionLock(Act.ACQUIRE, PinReason.NAMED_LOCK, name, once=True),)
        selected = tokens.words[0] == b"SELECT"
        if names[0] == b"RELEASE_ALL_LOCKS":
            return (SessionLock(Act.GIVE_ALL, PinReason.NAMED_LOCK, selected=selected),)
        return (SessionLock(Act.RELEASE, PinReason.NAMED_LOCK, name, once=True, selected=selected),)
    # How often which of them is called, or in what order, cannot be told.
    holds = []
    if b"GET_LOCK" in names:
        holds.append(SessionLock(Act.ACQUIRE, PinReason.NAMED_LOCK))
    if any(found.startswith(b"SERVICE_") for found in names):
        holds.append(UNKNOWN_HOLD)  # no other function of the server's gives these back
    return tuple(holds)


def _only_call(tokens: Tokens) -> str | None:
    """The lock's name if a statement is one call that runs once; "" if the name is not known."""
    words = tokens.words
    kinds = tokens.kinds
    if words[0] not in (b"SELECT", b"DO") or kinds[1] not in (CALLED, WORD) or words[2] != b"(":
        return None
    if words[1] != b"GET_LOCK" and words[1] not in _GIVES:
        return None
    depth = 0
    index = 2
    while kinds[index] != END:
        depth += {b"(": 1, b")": -1}.get(words[index], 0)
        if words[index] in (b"SELECT", b"TABLE", b"VALUES"):
            return None
        index += 1
        if depth == 0:
            break
    end = index - 1
    if words[index] == b"AS":
        index += 1
    if kinds[index] in (WORD, QUOTED, LITERAL) and words[index] not in _CLAUSES:
        index += 1
    if kinds[index] != END:
        return None
    if kinds[3] != LITERAL or (end != 4 and words[4] not in (b",", b")")):
        return ""
    return _lock_name(tokens.raws[3])


def _lock_name(literals: bytes) -> str:
    """The name in the literals of a call; "" if it is not known."""
    # A list of literals is one token: the name, and the time to wait.
    match = _NAME.match(literals)
    if match is None or literals[match.end() : match.end() + 1] in (b"'", b'"'):
        return ""
    rest = literals[match.end() :].lstrip()
    if rest and not rest.startswith(b","):
        return ""  # literals beside each other are one string
    try:
        # Other names may be other ones in another character set.
        return (match[1] if match[1] is not None else match[2]).decode("ascii").lower()
    except UnicodeDecodeError:
        return ""


_CLAUSES: Final = frozenset(
    b"""FROM WHERE GROUP HAVING WINDOW ORDER LIMIT PROCEDURE INTO FOR LOCK UNION EXCEPT INTERSECT
    QUALIFY AND OR XOR IS IN NOT BETWEEN LIKE REGEXP RLIKE DIV MOD COLLATE SOUNDS MEMBER""".split()
)
"""Words that are no alias."""


def created_table(tokens: Tokens) -> tuple[SessionLock, ...]:
    """The table of CREATE TEMPORARY TABLE."""
    words = tokens.words
    index = words.index(b"TABLE") + 1 if b"TABLE" in words[1:4] else len(tokens)
    if words[index] == b"IF":
        index += 3
    schema, name, _ = _table(tokens, index)
    return (
        SessionLock(Act.ACQUIRE, PinReason.TEMPORARY_TABLE, f"{schema}.{name}" if name else ""),
    )


def dropped_tables(tokens: Tokens) -> tuple[SessionLock, ...]:
    """The tables of DROP [TEMPORARY] TABLE."""
    words = tokens.words
    index = 2 if words[1] == b"TEMPORARY" else 1
    if words[index] not in (b"TABLE", b"TABLES"):
        return ()
    index += 1
    if words[index] == b"IF":
        index += 2
    holds = []
    while index < len(tokens):
        schema, name, index = _table(tokens, index)
        if name:
            holds.append(SessionLock(Act.RELEASE, PinReason.TEMPORARY_TABLE, f"{schema}.{name}"))
        if words[index : index + 1] != [b","]:
            break
        index += 1
    return tuple(holds)


def parse_alter(tokens: Tokens) -> tuple[SessionLock, ...]:
    """That a temporary table may have another name after ALTER TABLE … RENAME."""
    if b"RENAME" in tokens.words:
        return (SessionLock(Act.BLUR, PinReason.TEMPORARY_TABLE),)
    return ()


def parse_handler(tokens: Tokens) -> tuple[SessionLock, ...]:
    """The handler that HANDLER … OPEN or CLOSE opens or closes."""
    _, name, index = _table(tokens, 1)
    word = tokens.words[index]
    if word == b"CLOSE" and name:
        return (SessionLock(Act.RELEASE, PinReason.HANDLER, name),)
    if word != b"OPEN":
        return ()
    index += 2 if tokens.words[index + 1] == b"AS" else 1
    if tokens.kinds[index] != END:
        name = _name(tokens, index)
    return (SessionLock(Act.ACQUIRE, PinReason.HANDLER, name),)


def _table(tokens: Tokens, index: int) -> tuple[str, str, int]:
    """A table's schema ("" for the default one) and name, and what follows; "" if unreadable."""
    first = _name(tokens, index)
    if tokens.words[index + 1 : index + 2] != [b"."]:
        return "", first, index + 1
    second = _name(tokens, index + 2)
    return first, second if first else "", index + 3


def _name(tokens: Tokens, index: int) -> str:
    """A name in backticks; "" if there is none, or it cannot be decoded."""
    if index >= len(tokens):
        return ""
    raw = tokens.raws[index]
    if tokens.kinds[index] == QUOTED:
        quote = raw[:1]
        raw = raw[1:-1].replace(quote * 2, quote)
    elif tokens.kinds[index] not in (WORD, CALLED):
        return ""
    try:
        return quoted(raw.decode())
    except UnicodeDecodeError:
        return ""
