"""The names in a statement, of tables, columns and whatever else, as servers may compare them."""

from typing import Final

from routing.sql.lexer import CALLED, QUOTED, WORD, Tokens
from routing.sql.table_references import RESERVED, reads_table

FOREIGN: Final = b"\xff"
"""Stands for all names outside ASCII, which servers compare in more ways than one."""

_QUERIES: Final = (b"SELECT", b"WITH", b"VALUES", b"TABLE", b"(")


def identifier(name: bytes) -> bytes:
    """A name without its quotes, as it is compared here: in upper case."""
    return name.upper() if name.isascii() else FOREIGN


def identifiers(tokens: Tokens) -> frozenset[bytes]:
    """Words and quoted names of a statement; none if it does not read from any table."""
    words = tokens.words
    if b"FROM" not in words and b"TABLE" not in words:
        return frozenset()
    if words[0] in _QUERIES and not reads_table(tokens):
        return frozenset()
    names = []
    before = b""
    for kind, word in zip(tokens.kinds, words, strict=True):
        if kind in (WORD, CALLED):
            if word not in RESERVED or before == b".":
                names.append(word if word.isascii() else FOREIGN)
        elif kind == QUOTED:
            quote = word[:1]
            names.append(identifier(word[1:-1].replace(quote + quote, quote)))
        before = word
    return frozenset(names)
