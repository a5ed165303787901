"""Statements that are prepared by text: PREPARE, EXECUTE and DEALLOCATE PREPARE."""

import re
from typing import Final, Literal, NamedTuple

from routing.sql.lexer import LITERAL, QUOTED, VARIABLE, WORD, Tokens
from routing.sql.literal import text_of
from routing.sql.user_variables import name_of


class TextPrepared(NamedTuple):
    """What such a statement does.

    Attributes:
        verb: "several" stands for several statements with one of these among them.
        name: of the prepared statement, in lower case; "" if it may be equal to others.
        text: of a PREPARE, what it prepares; None if it does not show it.
        variable: of a PREPARE, the user variable that holds the text; "" if none does.
    """

    verb: Literal["prepare", "execute", "deallocate", "several"]
    name: str = ""
    text: str | None = None
    variable: str = ""


SEVERAL = TextPrepared("several")

_PLAIN: Final = re.compile(rb"[A-Za-z0-9_$]+")
"""Servers compare other names without accents, and without blanks at their end."""


def text_prepared(tokens: Tokens, mode_flags: int) -> TextPrepared | None:
    """What a statement does with prepared ones; None if it is none of the three."""
    words = tokens.words
    if words[0] == b"EXECUTE":
        return TextPrepared("execute", _name(tokens, 1))
    if words[0] in (b"DEALLOCATE", b"DROP") and words[1] == b"PREPARE":
        return TextPrepared("deallocate", _name(tokens, 2))
    if words[0] != b"PREPARE":
        return None
    name = _name(tokens, 1)
    if words[2:3] != [b"FROM"] or len(tokens) != 4:
        return TextPrepared("prepare", name)
    if tokens.kinds[3] == VARIABLE:
        return TextPrepared("prepare", name, None, name_of(tokens.words[3]))
    text = text_of(tokens, 3, 4, mode_flags) if tokens.kinds[3] == LITERAL else None
    return TextPrepared("prepare", name, text)


def _name(tokens: Tokens, index: int) -> str:
    if index >= len(tokens) or tokens.kinds[index] not in (WORD, QUOTED):
        return ""
    raw = tokens.raws[index]
    if tokens.kinds[index] == QUOTED:
        raw = raw[1:-1]
    return raw.decode().lower() if _PLAIN.fullmatch(raw) else ""
