"""User variables: the names that statements use, and which they may assign."""

import re
from typing import Final

from routing.sql.lexer import VARIABLE, Tokens
from routing.sql.verdict import Assignment

ALL: Final = "*"
"""Stands for all user variables, where it cannot be told which."""

_PLAIN: Final = re.compile(rb"[A-Za-z0-9_.$]+")
"""Other names may be equal to the server although they differ here: by accents, or blanks."""

_XPATH: Final = (b"EXTRACTVALUE", b"UPDATEXML")
_ASSIGNING: Final = frozenset({b":=", b"INTO"})
_BY_ARGUMENT: Final = (b"CALL", b"LOAD", b"GET")


def name_of(variable: bytes) -> str:
    """The name of a VARIABLE token, in lower case; `ALL` if it may have others."""
    name = variable[1:]
    if name[:1] in (b"'", b'"', b"`"):
        name = name[1:-1]
    return name.decode("ascii").lower() if _PLAIN.fullmatch(name) else ALL


def mentioned(tokens: Tokens) -> tuple[str, ...]:
    """The names of the user variables that a statement mentions, each once.

    An XPath expression, which may be made of anything, may mention any.
    """
    names: dict[str, None] = {}
    for kind, word in zip(tokens.kinds, tokens.words, strict=True):
        if kind == VARIABLE and not word.startswith(b"@@"):
            names[name_of(word)] = None
        elif word in _XPATH:
            names[ALL] = None
    return tuple(names)


def assigned(tokens: Tokens) -> tuple[Assignment, ...]:
    """The user variables that a statement other than SET may assign; their values are not known."""
    words = tokens.words
    if words[0] not in _BY_ARGUMENT and _ASSIGNING.isdisjoint(words):
        return ()
    return tuple(Assignment("user", name, None) for name in mentioned(tokens))
