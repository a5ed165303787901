"""How statements are split into tokens, depending on a session's settings."""

import pytest

from routing.session.lexer_modes import LexerModes, flags_of
from routing.sql.lexer import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES, MODE_UTF8


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("", 0),
        ("ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES", 0),
        ("ANSI_QUOTES", MODE_ANSI_QUOTES),
        ("ansi", MODE_ANSI_QUOTES),
        ("STRICT_ALL_TABLES, NO_BACKSLASH_ESCAPES", MODE_NO_BACKSLASH_ESCAPES),
        ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES),
        ("NOT_ANSI_QUOTES", 0),
    ],
)
def test_modes_of_the_lexer(mode: str, flags: int) -> None:
    assert flags_of(mode) == flags


@pytest.mark.parametrize(
    ("literal", "flags", "known"),
    [
        ("'ANSI_QUOTES'", MODE_ANSI_QUOTES, True),
        ('"ANSI_QUOTES"', MODE_ANSI_QUOTES, True),
        ("ANSI_QUOTES", MODE_ANSI_QUOTES, True),
        ("ansi", MODE_ANSI_QUOTES, True),
        ("''", 0, True),
        ("'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'", MODE_NO_BACKSLASH_ESCAPES, True),
        (None, None, False),
        ("4", None, False),  # by its bits
        ("0x4", None, False),
        ("DEFAULT", MODE_NO_BACKSLASH_ESCAPES, True),
        ("default", MODE_NO_BACKSLASH_ESCAPES, True),
    ],
)
def test_set_sql_mode(literal: str | None, flags: int | None, known: bool) -> None:
    modes = LexerModes()
    modes.begin("NO_BACKSLASH_ESCAPES", "utf8mb4")
    modes.set_sql_mode("ANSI_QUOTES")
    modes.set_sql_mode(literal)
    assert modes.known is known
    if flags is not None:
        assert modes.flags == flags | MODE_UTF8


@pytest.mark.parametrize(
    ("literal", "utf8"),
    [
        *(("utf8mb4", True), ("'utf8mb4'", True), ("UTF8MB3 COLLATE utf8mb3_bin", True)),
        *(("latin1", False), ("'sjis'", False), ("DEFAULT", False), (None, False)),
    ],
)
def test_set_character_set(literal: str | None, utf8: bool) -> None:
    for before in ("utf8mb4", "gbk"):
        modes = LexerModes()
        modes.begin("ANSI_QUOTES", before)
        modes.set_character_set(literal)
        assert modes.flags == MODE_ANSI_QUOTES | (MODE_UTF8 if utf8 else 0)


def test_a_reset_returns_to_the_sql_mode_that_the_session_began_with() -> None:
    modes = LexerModes()
    modes.begin("ANSI_QUOTES", "utf8mb4")
    modes.set_sql_mode("'NO_BACKSLASH_ESCAPES'")
    modes.set_sql_mode(None)
    modes.reset()
    assert (modes.flags, modes.known) == (MODE_ANSI_QUOTES, True)  # fact 7.9
