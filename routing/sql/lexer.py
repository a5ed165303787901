r"""Splits a statement's text into tokens, the way the server's lexer does.

`lex` gives every token. `skeleton` only takes out literals and comments; it is the key under which
statements that differ in nothing else are remembered. Whatever `skeleton` takes out is a LITERAL,
or a blank, to `lex`: what is derived from kinds and words alone is the same for all texts of one
skeleton. Both take time linear in the text's length.

What the server does, measured on 9.7.4 (tests/routing/sql/corpus_lexing.py):

- `--` opens a comment only before a blank or control character, or at the end. Line comments end
  at a line feed only.
- Comments do not nest, but inside an executable comment that is not executed one level does.
- `/*!90704 x */` is executed by servers of at least that version, `/*! x */` by all.
- A number that goes on in letters is an identifier (`1f(2)` calls a function); after a decimal
  point it is a number and an identifier; `1.5e-- f()` calls f, for the lexer trips over the `e`.
- Directly after a name and a dot, digits and keywords are names.
- A `$` begins a dollar-quoted string on 9.7 and a name on 8.0; here it is unreadable.
- A NUL ends the text in some places and is an error in others; here controls are unreadable.
- No byte above 0x7F is part of anything but a name, quote or comment under utf8mb4, if it is part
  of a whole character; a broken one outside quotes counts as a blank. Other character sets differ:
  `\` and `` ` `` can end characters of gbk and sjis, 0xA0 is a blank in latin1.
"""

from typing import Final

from routing.sql.token_patterns import (
    EXECUTABLE,
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    NOT_EXECUTED,
    OUTSIDE,
    SKELETON,
    SPLIT_CHARACTER,
    TOKEN,
    UNCOMMENTED,
)

__all__ = ["MODE_ANSI_QUOTES", "MODE_NO_BACKSLASH_ESCAPES"]

MODE_UTF8: Final = 4
"""character_set_client is one of `UTF8_COMPATIBLE`. Without this flag text outside ASCII is read
only as far as every character set reads it alike (but for swe7, which has letters for `{|}~`, and
keeps a session on the primary)."""
MODES: Final = 8
"""Number of combinations of mode flags."""

UTF8_COMPATIBLE: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii", "binary"})

WORD: Final = 1
"""A name or keyword without quotes."""
CALLED: Final = 2
"""A word directly before a parenthesis."""
QUOTED: Final = 3
"""A name in backticks, or in double quotes under ANSI_QUOTES."""
LITERAL: Final = 4
"""A string or number; also several of them, separated by commas or by `),(`."""
VARIABLE: Final = 5
"""`@name` or `@@name`."""
PUNCTUATION: Final = 6
"""One character, or `:=`."""
END: Final = 7

MAX_TOKENS: Final = 4096
"""More tokens make a text unreadable: to look at them would take longer than a millisecond."""

OLDEST_SERVER: Final = 80000
"""Executable comments for this version and below are executed by every server."""
_MAX_VERSIONS: Final = 4


class Tokens:
    """The tokens of one statement, as lists of equal length with an END last.

    Attributes:
        kinds: WORD, CALLED, ….
        words: each token's bytes; words in upper case.
        raws: each token's bytes as written.
    """

    __slots__ = ("kinds", "raws", "words")

    def __init__(self, kinds: list[int], words: list[bytes], raws: list[bytes]) -> None:
        self.kinds = [*kinds, END]
        self.words = [*words, b""]
        self.raws = [*raws, b""]

    def __len__(self) -> int:
        """Number of tokens without the END."""
        return len(self.kinds) - 1

    def part(self, start: int, stop: int) -> "Tokens":
        """Tokens from `start` up to, not including, `stop`."""
        return Tokens(self.kinds[start:stop], self.words[start:stop], self.raws[start:stop])

    def normalised(self) -> bytes:
        """The text with one blank between tokens, `?` for literals, words in upper case."""
        parts = [
            b"?" if kind == LITERAL else word
            for kind, word in zip(self.kinds, self.words, strict=True)
            if kind != END
        ]
        return b" ".join(parts)


def lex(sql: bytes, mode_flags: int) -> Tokens | None:  # noqa: C901 one case per kind of token, hot
    """Cut a text into tokens; comments and blanks are left out.

    Args:
        sql: a statement's text.
        mode_flags: a sum of `MODE_…`.

    Returns:
        None if the text is unreadable: unterminated, with characters that no token has, with an
        executable comment (see `executed_texts`), of too many tokens, or not to be read with
        certainty without knowing its character set.
    """
    found = TOKEN[mode_flags & 3].findall(sql)
    if len(found) > MAX_TOKENS:
        return None
    kinds: list[int] = []
    words: list[bytes] = []
    raws: list[bytes] = []
    for word, other, literal, unreadable in found:
        if word:
            if word[-1] == 0x28:  # (
                name = word[:-1]
                kinds += (CALLED, PUNCTUATION)
                words += (name.upper(), b"(")
                raws += (name, b"(")
            else:
                kinds.append(WORD)
                words.append(word.upper())
                raws.append(word)
        elif other:
            first = other[0]
            if first == 0x40:  # @
                kinds.append(VARIABLE)
            elif first == 0x60 or first == 0x22:  # ` "
                kinds.append(QUOTED)
            else:
                kinds.append(PUNCTUATION)
            words.append(other)
            raws.append(other)
        elif literal:
            kinds.append(LITERAL)
            words.append(literal)
            raws.append(literal)
        elif unreadable:
            return None
    tokens = Tokens(kinds, words, raws)
    if not sql.isascii() and not (_certain(sql, mode_flags) and _plain_names(tokens, mode_flags)):
        return None
    return tokens


def skeleton(sql: bytes, mode_flags: int) -> bytes | None:
    """A text without its literals and comments; None if that must not be used as a key.

    Two texts with one skeleton have, by `lex` and with the same flags, the same kinds of tokens,
    and the same words except for literals; or both are unreadable.
    """
    # To look for bytes by `in` costs many times a `find`.
    if sql.find(b"\0") >= 0 or not (sql.isascii() or _certain(sql, mode_flags)):
        return None
    # A NUL stands for each literal, and one more at the end.
    rest = b"\0".join(SKELETON[mode_flags & 3].findall(sql))
    if rest.find(b"/*") >= 0:
        if b"/*!" in rest:
            return None
        return b" ".join(UNCOMMENTED[mode_flags & 3].findall(rest))
    return rest


def _certain(sql: bytes, mode_flags: int) -> bool:
    """Whether quotes end at the same bytes in every character set that the text may be in."""
    if mode_flags & MODE_UTF8:
        return True
    try:
        sql.decode()
    except UnicodeDecodeError:
        return False
    return SPLIT_CHARACTER.search(sql) is None


def _plain_names(tokens: Tokens, mode_flags: int) -> bool:
    """Whether what stands outside quotes is ASCII, or UTF-8 where the text is known to be."""
    for kind, raw in zip(tokens.kinds, tokens.raws, strict=True):
        if kind not in (LITERAL, QUOTED) and not raw.isascii():
            if not mode_flags & MODE_UTF8:
                return False
            try:
                raw.decode()
            except UnicodeDecodeError:
                return False
    return True


def executed_texts(sql: bytes, mode_flags: int) -> list[bytes] | None:
    """What servers of different versions make of a text with executable comments.

    Returns:
        The text with each such comment replaced by its content, or by a blank, for the oldest
        server first; None if that cannot be told.
    """
    versions = {OLDEST_SERVER}
    versions.update(int(match[1]) for match in EXECUTABLE.finditer(sql) if match[1])
    servers = sorted(version for version in versions if version >= OLDEST_SERVER)
    if len(servers) > _MAX_VERSIONS:
        return None
    texts = []
    for server in servers:
        text = _executed_by(server, sql, mode_flags)
        if text is None:
            return None
        texts.append(text)
    return texts


def _executed_by(server: int, sql: bytes, mode_flags: int) -> bytes | None:
    between = OUTSIDE[mode_flags & 3]
    parts: list[bytes] = []
    position = 0
    inside = False
    while True:
        match = between.match(sql, position)
        if match is None:
            return None
        parts.append(match[0])
        position = match.end()
        if sql.startswith(b"*/", position):
            parts.append(b" " if inside else b"*/")
            inside = False
            position += 2
            continue
        opening = EXECUTABLE.match(sql, position)
        if opening is None:
            # The end, or what has no end, or a version of six digits.
            return b"".join(parts) if position == len(sql) and not inside else None
        parts.append(b" ")
        position = opening.end()
        if opening[1] and int(opening[1]) > server:
            skipped = NOT_EXECUTED.match(sql, position)
            if skipped is None:
                return None
            position = skipped.end()
        else:
            inside = True
