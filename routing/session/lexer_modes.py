"""How a session's statements are cut into tokens: by its sql_mode and its character set."""

from typing import Final

from routing.sql.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_UTF8,
    UTF8_COMPATIBLE,
)

_ANSI: Final = frozenset({"ANSI_QUOTES", "ANSI"})


class LexerModes:
    """Those of one session.

    Attributes:
        flags: a sum of `routing.sql.lexer.MODE_…`.
        known: False after a SET sql_mode whose value cannot be read off the statement.
    """

    def __init__(self) -> None:
        self.flags = 0
        self.known = True
        self._initial = 0

    def begin(self, sql_mode: str, character_set: str) -> None:
        """The session begins with these; a reset returns to the sql_mode.

        But not to the character set: a reset takes the server's own (fact 7.9).
        """
        self.flags = self._initial = flags_of(sql_mode)
        self.set_character_set(character_set)

    def reset(self) -> None:
        """The session was reset."""
        self.flags = self._initial
        self.known = True

    def set_character_set(self, literal: str | None) -> None:
        """The client chose its character set: a literal, perhaps with a COLLATE behind it."""
        words = (literal or "").lower().split()
        if words and words[0].strip("'\"") in UTF8_COMPATIBLE:
            self.flags |= MODE_UTF8
        else:
            self.flags &= ~MODE_UTF8

    def set_sql_mode(self, literal: str | None) -> None:
        """The client set sql_mode; None is a value that the statement does not show."""
        text = "" if literal is None else literal.strip("'\"")
        self.known = literal is not None and (literal != text or text.isidentifier())
        if self.known:
            default = literal == text and text.upper() == "DEFAULT"
            modes = self._initial if default else flags_of(text)
            self.flags = modes | self.flags & MODE_UTF8


def flags_of(sql_mode: str) -> int:
    """The modes of a sql_mode that change where a statement's tokens begin and end."""
    names = {name.strip().upper() for name in sql_mode.split(",")}
    flags = 0
    if names & _ANSI:
        flags |= MODE_ANSI_QUOTES
    if "NO_BACKSLASH_ESCAPES" in names:
        flags |= MODE_NO_BACKSLASH_ESCAPES
    return flags
