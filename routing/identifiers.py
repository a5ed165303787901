"""The names in a statement, of tables, columns and whatever else, as servers may compare them."""

from typing import Final

from routing.lexer import CALLED, QUOTED, WORD, Tokens

FOREIGN: Final = b"\xff"
"""Stands for all names outside ASCII, which servers compare in more ways than one."""

_READING: Final = (b"FROM", b"TABLE")


def identifier(name: bytes) -> bytes:
    """A name without its quotes, as it is compared here: in upper case."""
    return name.upper() if name.isascii() else FOREIGN


def identifiers(tokens: Tokens) -> frozenset[bytes]:
    """All words and quoted names of a statement; none if it does not read from any table."""
    words = tokens.words
    if not any(word in words for word in _READING):
        return frozenset()
    names = []
    for kind, word in zip(tokens.kinds, words, strict=True):
        if kind in (WORD, CALLED):
            names.append(word if word.isascii() else FOREIGN)
        elif kind == QUOTED:
            quote = word[:1]
            names.append(identifier(word[1:-1].replace(quote + quote, quote)))
    return frozenset(names)
