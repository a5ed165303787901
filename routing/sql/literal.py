"""The value of a literal in a statement, without its quotes and escapes."""

import re
from typing import Final

from routing.sql.lexer import (
    CALLED,
    LITERAL,
    MODE_NO_BACKSLASH_ESCAPES,
    PUNCTUATION,
    QUOTED,
    WORD,
    Tokens,
)

_NUMBER: Final = re.compile(rb"[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++")
_COMPUTED: Final = frozenset(
    b"""CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER FALSE LOCALTIME LOCALTIMESTAMP NULL
    TRUE UTC_DATE UTC_TIME UTC_TIMESTAMP""".split()
)
"""Words that do not stand for themselves."""
_BOUNDED: Final = b"BOUNDED_STALENESS"

_DOUBLED: Final = {b"'": re.compile(b"''"), b'"': re.compile(b'""')}
_ESCAPED: Final = {b"'": re.compile(rb"\\[\s\S]|''"), b'"': re.compile(rb'\\[\s\S]|""')}
_ESCAPES: Final = {
    b"\\0": b"\0",
    b"\\b": b"\b",
    b"\\n": b"\n",
    b"\\r": b"\r",
    b"\\t": b"\t",
    b"\\Z": b"\x1a",
    b"\\%": b"\\%",  # these two mean something to LIKE only
    b"\\_": b"\\_",
}


def text_of(tokens: Tokens, begin: int, end: int, mode_flags: int) -> str | None:
    """The text that a value stands for.

    Args:
        tokens: a statement.
        begin: where the value begins.
        end: where it has ended.
        mode_flags: those with which the statement was split into tokens, a sum of
            `routing.sql.lexer.MODE_…`.

    Returns:
        None if it is neither a string, a decimal number, a name, a bare word nor
        `BOUNDED_STALENESS(…)`, the only value of a setting that looks like a call; or no UTF-8.
    """
    kinds = tokens.kinds[begin:end]
    raws = tokens.raws[begin:end]
    found: bytes | None = None
    if kinds == [LITERAL]:
        found = _literal(raws[0], mode_flags)
    elif kinds == [QUOTED]:
        quote = raws[0][:1]
        found = raws[0][1:-1].replace(quote * 2, quote)
    elif kinds == [WORD] and tokens.words[begin] not in _COMPUTED:
        found = raws[0]
    elif kinds == [PUNCTUATION, LITERAL] and raws[0] in (b"+", b"-"):
        found = b"".join(raws) if _NUMBER.fullmatch(raws[1]) else None
    elif kinds[:1] == [CALLED] and tokens.words[begin] == _BOUNDED:
        found = b"".join(raws) if len(raws) == 4 and raws[3] == b")" else None
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return None


def _literal(raw: bytes, mode_flags: int) -> bytes | None:
    """The value of one literal; None for several, and for numbers of other bases."""
    quote = raw[:1]
    if quote not in _DOUBLED:
        return raw if _NUMBER.fullmatch(raw) else None
    special = (_DOUBLED if mode_flags & MODE_NO_BACKSLASH_ESCAPES else _ESCAPED)[quote]
    inside = raw[1:-1]
    if quote in special.sub(b"", inside):
        return None  # one that ended, and another
    return special.sub(_unescaped, inside)


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(match[0], match[0][1:])
