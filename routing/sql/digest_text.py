"""A statement's text without its literals, for people: what is shown beside its digest.

It is made from the same tokens as the digest, so what the digest does not tell apart is one text:
literals are `?`, a list of them `...`, comments and hints are left out, one blank stands between
tokens, as in a server's DIGEST_TEXT. Names and keywords are as they were first written, where a
server's has keywords in upper case and names in backticks.
"""

import re
from hashlib import blake2b
from typing import Final

from routing.sql.lexer import LITERAL, PUNCTUATION, Tokens, lex

LONGEST: Final = 1024
"""Bytes of a text that are shown, as in max_digest_length."""
UNREADABLE: Final = "(a text that is not shown)"
"""It has executable comments, or is too long, or cannot be read with certainty."""

_QUOTED: Final = re.compile(rb"'(?:[^'\\]|\\[\s\S]|'')*'|\"(?:[^\"\\]|\\[\s\S]|\"\")*\"")
_NUMERIC: Final = re.compile(rb"0[xXbB][0-9A-Fa-f]*|[0-9].*")
_OPERATORS: Final = frozenset(b"<> <= >= != := || && -> ->> <=> << >>".split())
"""The tokens of these are single characters."""
_LISTED: Final = (b"IN", b"VALUES", b"VALUE", b"ROW")


def digest_text(sql: bytes, mode_flags: int, digest: str) -> str | None:
    """The text of a digest; None if `sql` is not a text with that digest, as far as can be told.

    Args:
        sql: the statement.
        mode_flags: a sum of `routing.sql.lexer.MODE_…`.
        digest: as `Statement.digest` has it.
    """
    tokens = lex(sql, mode_flags)
    if tokens is None:
        return None
    while len(tokens) and tokens.words[len(tokens) - 1] == b";":
        tokens = tokens.part(0, len(tokens) - 1)
    if blake2b(tokens.normalised(), digest_size=8).hexdigest() != digest:
        return None
    return _rendered(tokens)


def _rendered(tokens: Tokens) -> str:
    parts: list[bytes] = []
    length = 0
    for index in range(len(tokens)):
        part = _shown(tokens, index)
        if parts and tokens.kinds[index] == PUNCTUATION and parts[-1] + part in _OPERATORS:
            parts[-1] += part
            continue
        length += len(part) + 1
        if length > LONGEST:
            parts.append(b"...")
            break
        parts.append(part)
    text = b" ".join(parts).replace(b"( ... )", b"(...)")
    shown = text.decode("utf-8", "replace")
    # A name in quotes may hold anything, and the text goes to logs and terminals.
    return shown if shown.isprintable() else "".join(map(_printable, shown))


def _printable(character: str) -> str:
    return character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _shown(tokens: Tokens, index: int) -> bytes:
    raw = tokens.raws[index]
    if tokens.kinds[index] != LITERAL:
        return b"?" if _NUMERIC.fullmatch(raw) else raw
    words = tokens.words
    listed = index >= 2 and words[index - 1] == b"(" and words[index - 2] in _LISTED
    return b"..." if listed or b"," in _QUOTED.sub(b"", raw) else b"?"
