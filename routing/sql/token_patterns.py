"""The regular expressions of `routing.sql.lexer`, for each combination of quoting modes.

No piece can match in two ways, and all repetition is possessive, so that nothing is ever tried a
second time. Where a quote or comment has no end, the rest of the text is taken at once.
"""

import re
from typing import Final

MODE_ANSI_QUOTES: Final = 1
"""sql_mode has ANSI_QUOTES: "x" is a name."""
MODE_NO_BACKSLASH_ESCAPES: Final = 2
"""sql_mode has NO_BACKSLASH_ESCAPES: a backslash in quotes is a backslash."""

# `\w` is ASCII in bytes patterns.
_SPACE = rb"[\t-\r ]"
_NAME = rb"[\w$\x80-\xff]"
_SINGLE = (rb"'(?:[^'\\]++|\\[\s\S]|'')*+'", rb"'(?:[^']++|'')*+'")
_DOUBLE = (rb'"(?:[^"\\]++|\\[\s\S]|"")*+"', rb'"(?:[^"]++|"")*+"')
_BACKTICKS = rb"`(?:[^`]++|``)*+`"
_ANY_COMMENT = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
_COMMENT = rb"(?!/\*[!+])" + _ANY_COMMENT
# An unbalanced quote can hide an optimizer hint's end from the server: such a hint is unreadable.
# So is one that may set sql_auto_is_null: then `a IS NULL` asks for LAST_INSERT_ID(). A server
# compares that name without accents.
_HINT = (
    rb"/\*\+(?![^*]*?(?i:auto_is_null|set_var[\s(`\"]*+[\w$]{0,15}+[\x80-\xff]))"
    rb"""(?:[^*'"`]++|'[^'*]*+'|"[^"*]*+"|`[^`*]*+`|\*(?!/))*+\*/"""
)
_LINE_COMMENT = rb"(?:#|--(?=[\x00- \x7f]|\Z))[^\n]*+"
BLANK: Final = rb"(?:%b++|%b|%b|%b)*+" % (_SPACE, _COMMENT, _LINE_COMMENT, _HINT)
"""Blanks and comments."""

_HEX_OR_BITS = rb"0x[0-9a-fA-F]++(?!%b)|0b[01]++(?!%b)" % (_NAME, _NAME)
_EXPONENT = rb"[eE][+-]?\d++"
_NUMBER = rb"(?:%b|(?:\d++\.\d*+|(?<!%b)\.\d++)(?:%b)?+|\d++%b|\d++(?!%b|\.))" % (
    *(_HEX_OR_BITS, _NAME, _EXPONENT),
    *(_EXPONENT, _NAME),
)
# The server loses these, and takes the next character for a token of its own.
_BROKEN_NUMBER = rb"(?:\d++\.\d*+|\.\d++)[eE](?![+-]?\d)"
_DIGIT_NAME = rb"(?!%b|\d++%b)\d++(?=[A-Za-z_$\x80-\xff])%b++" % (_HEX_OR_BITS, _EXPONENT, _NAME)
# A number that cannot be part of anything longer.
_CLEAR_NUMBER = rb"\d++(?:\.\d++)?+(?:%b)?+(?![\w$\x80-\xff.@])" % _EXPONENT


def _list(literal: bytes) -> bytes:
    """Literals separated by commas or by `),(`, as in IN lists and in rows of VALUES."""
    separator = rb"%b*+(?:,|\)%b*+,%b*+\()%b*+[-+]?" % (_SPACE, _SPACE, _SPACE, _SPACE)
    return rb"%b(?:%b%b)*+" % (literal, separator, literal)


def _strings(mode: int) -> bytes:
    raw = 1 if mode & MODE_NO_BACKSLASH_ESCAPES else 0
    return _SINGLE[raw] if mode & MODE_ANSI_QUOTES else _SINGLE[raw] + b"|" + _DOUBLE[raw]


def _quoted_names(mode: int) -> bytes:
    # In a name a backslash is a backslash, whatever the mode.
    return _BACKTICKS + b"|" + _DOUBLE[1] if mode & MODE_ANSI_QUOTES else _BACKTICKS


def _token_pattern(mode: int) -> re.Pattern[bytes]:
    word = rb"(?:[A-Za-z_\x80-\xff]%b*+|(?<=\.)%b++|%b)\(?+" % (_NAME, _NAME, _DIGIT_NAME)
    variable = rb"@@?(?:%b|%b|[\w.$\x80-\xff]*+)" % (_strings(mode), _quoted_names(mode))
    sign = rb":=|[(),;+\-*%%&|^~!=<>:{}?]|/(?!\*)|(?!%b)(?:\.(?!\d)|(?<=%b)\.)" % (
        *(_BROKEN_NUMBER, _NAME),
    )
    number = rb"(?!%b)%b" % (_BROKEN_NUMBER, _NUMBER)
    literal = _list(b"(?:%b|%b)" % (_strings(mode), number))
    return re.compile(
        b"%b(?:(%b)|(%b|%b|%b)|(%b)|\\Z|([\\s\\S]++))"
        % (BLANK, word, sign, _quoted_names(mode), variable, literal)
    )


def _skeleton_pattern(mode: int) -> re.Pattern[bytes]:
    literal = b"(?:%b|%b)" % (_strings(mode), _CLEAR_NUMBER)
    kept = (
        rb"[^'\"`#/\-0-9]++",
        rb"(?<=[\w$\x80-\xff.@])\d[\w$\x80-\xff.@]*+",
        rb"(?!%b)\d[\w$\x80-\xff.@]*+" % _CLEAR_NUMBER,
        _quoted_names(mode),
        rb"-(?!-(?:[\x00- \x7f]|\Z))",
        rb"/(?!\*)",
        *(_COMMENT, _HINT, _LINE_COMMENT),
    )
    # Not where a text begins, which would look like no literal at all, nor in @'name'.
    return re.compile(
        b"(?:(?<=[^@])%b)?+((?:%b)*+(?:(?!(?<=[^@])%b)[\\s\\S]++)?+)"
        % (_list(literal), b"|".join(kept), literal)
    )


def _uncommented_pattern(mode: int) -> re.Pattern[bytes]:
    kept = (rb"[^'\"`#/\-]++", _quoted_names(mode), _LINE_COMMENT, b"-", rb"/(?!\*)", _HINT)
    return re.compile(
        b"(?:%b)?+((?:%b)*+(?:(?!%b)[\\s\\S]++)?+)" % (_COMMENT, b"|".join(kept), _COMMENT)
    )


def _outside_pattern(mode: int) -> re.Pattern[bytes]:
    pieces = (
        rb"[^'\"`#/*\-]++",
        *(_strings(mode), _quoted_names(mode)),
        *(_LINE_COMMENT, b"-"),
        rb"(?!/\*!)" + _ANY_COMMENT,
        *(rb"/(?!\*)", rb"\*(?!/)"),
    )
    return re.compile(b"(?:%b)*+" % b"|".join(pieces))


TOKEN: Final = tuple(_token_pattern(mode) for mode in range(4))
"""Blanks and comments, then a token in one of four groups: a word, with the parenthesis that
follows at once; another token; literals; the unreadable rest of the text."""

SKELETON: Final = tuple(_skeleton_pattern(mode) for mode in range(4))
"""Literals, and in a group what stands between them and the next ones."""

_BESIDE_NUMBER = rb"\t-\r =<>(,*+"
NUMBERED: Final = re.compile(
    rb"(?:[A-Za-z_]\w*+|\.(?=[A-Za-z_])|[\t-\r =<>!(),*+;%%]++"
    rb"|(?<=[%b])\d++(?=[%b);]|\Z))++" % (_BESIDE_NUMBER, _BESIDE_NUMBER)
)
"""A text without quotes and comments, whose literals, if it has any, are whole numbers. Its digits
belong to a name, behind a letter, or to a number, behind anything else: no digit decides that."""

NAME_DIGITS: Final = re.compile(rb"(?<=[A-Za-z_])\d++")
"""In such a text those that are part of a name."""

UNCOMMENTED: Final = tuple(_uncommented_pattern(mode) for mode in range(4))
"""A comment, and in a group what stands between it and the next one; for what SKELETON left."""

OUTSIDE: Final = tuple(_outside_pattern(mode) for mode in range(4))
"""Text up to where an executable comment begins or ends."""

EXECUTABLE: Final = re.compile(rb"/\*!(?:(\d{5})(?!\d)|(?!\d{5}))")
"""How an executable comment begins. Six digits are no version to some servers: unreadable."""

NOT_EXECUTED: Final = re.compile(rb"(?:[^*/]++|%b|/(?!\*)|\*(?!/))*+\*/" % _ANY_COMMENT)
"""The rest of an executable comment whose version is too high. Comments in it nest once."""

SPLIT_CHARACTER: Final = re.compile(rb"[\x80-\xff][\\`]")
"""What may be one character in big5, cp932, gb18030, gbk and sjis."""
