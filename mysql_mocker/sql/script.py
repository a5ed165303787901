"""Splits the text of a COM_QUERY into its statements."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from sys import maxsize
from typing import SupportsIndex, TypeVar, overload

import sqlglot.errors
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.mysql import MySQL

from mysql_mocker.error import MySQLError, syntax_error, unsupported
from mysql_mocker.sql.value import Value

# sqlglot warns of options that SQLite lacks, which the mocker's user need not know.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_T = TypeVar("_T")
_LONG_LITERAL = 512
_LONG_TEXT = 2048
_KEPT_TEXT = 8192
"""Longer texts are not kept."""
_QUOTED = re.compile(
    r"""'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"|`[^`]*+`"""
    r"""|/\*.*?\*/|(?:\#|--\s)[^\n]*""",
    re.S,
)
_ESCAPE = re.compile(r"\\(.)|''", re.S)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}
_VERSIONED_COMMENT = re.compile(r"/\*!\d*(.*?)\*/", re.S)
_MODIFIERS = frozenset(
    ("SQL_NO_CACHE", "SQL_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_SMALL_RESULT", "SQL_BIG_RESULT",
     "SQL_BUFFER_RESULT", "HIGH_PRIORITY", "LOW_PRIORITY", "DELAYED", "QUICK", "STRAIGHT_JOIN")
)  # fmt: skip
_IN_NAMES = (TokenType.DOT, TokenType.SESSION_PARAMETER)
"""After these comes a name, not a modifier."""
_ROUTINE_WORDS = frozenset(("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"))


class Plain(MySQL):
    """MySQL as it is without sql_mode."""

    class Tokenizer(MySQL.Tokenizer):
        """Reads every statement to its end."""

        # sqlglot would keep what follows these words as one piece of text,
        COMMANDS = set()  # noqa: RUF012 - sqlglot reads it from the class
        # and read these two words as one.
        KEYWORDS = {  # noqa: RUF012
            word: kind
            for word, kind in MySQL.Tokenizer.KEYWORDS.items()
            if word not in ("LOCK TABLES", "UNLOCK TABLES")
        }


class AnsiQuotes(Plain):
    """MySQL under sql_mode ANSI_QUOTES."""

    class Tokenizer(Plain.Tokenizer):
        """Double quotes enclose names."""

        QUOTES = ["'"]  # noqa: RUF012 - sqlglot reads it from the class
        IDENTIFIERS = ["`", '"']  # noqa: RUF012


class NoBackslashEscapes(Plain):
    """MySQL under sql_mode NO_BACKSLASH_ESCAPES."""

    class Tokenizer(Plain.Tokenizer):
        """A backslash is a character."""

        STRING_ESCAPES = ["'", '"']  # noqa: RUF012 - sqlglot reads it from the class


class Items(list[_T]):
    """Parts of a statement; looking for one that it lacks raises a syntax error."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> _T | list[_T]:
        try:
            return super().__getitem__(index)
        except IndexError:
            raise syntax_error("") from None

    def index(self, item: _T, start: SupportsIndex = 0, stop: SupportsIndex = maxsize) -> int:
        """The first place of `item`.

        Raises:
            MySQLError: 1064.
        """
        try:
            return super().index(item, start, stop)
        except ValueError:
            raise syntax_error("") from None


@dataclass(slots=True, eq=False)  # each is itself: what is made of one may be kept for it
class Statement:
    """One statement of a script.

    Attributes:
        text: as the client wrote it, but with markers for long literals.
        tokens: without those modifiers that change no result.
        values: the values of the markers in the text: long literals that were taken out of it,
            and the values of a prepared statement.
        dialect: how the text was read.
    """

    text: str
    tokens: Sequence[Token]
    values: dict[str, Value] = field(default_factory=dict)
    dialect: type[MySQL] = Plain
    _parsed: exp.Expr | None = None
    _words: Items[str] | None = None

    @property
    def words(self) -> Items[str]:
        """The tokens' texts in upper case: enough to tell administrative statements apart."""
        if self._words is None:
            self._words = Items(token.text.upper() for token in self.tokens)
        return self._words

    def __post_init__(self) -> None:
        self.tokens = Items(self.tokens)

    def source(self, first: int, last: int) -> str:
        """The text from token `first` up to and including token `last`."""
        return self.text[self.tokens[first].start : self.tokens[last].end + 1]

    @property
    def parameters(self) -> int:
        """How many ``?`` there are."""
        return sum(token.token_type is TokenType.PLACEHOLDER for token in self.tokens)

    def with_parameters(self, values: Sequence[Value]) -> "Statement":
        """The statement with a value for every ``?``."""
        tokens: list[Token] = []
        bound = dict(self.values)
        remaining = iter(values)
        for token in self.tokens:
            if token.token_type is TokenType.PLACEHOLDER:
                marker = f"\x01parameter {len(tokens)}\x01"
                bound[marker] = next(remaining)
                tokens.append(Token(TokenType.STRING, marker, start=token.start, end=token.end))
            else:
                tokens.append(token)
        return Statement(self.text, tokens, bound, self.dialect)

    @classmethod
    def of(cls, text: str, like: "Statement") -> "Statement":
        """Another text, read as `like` was, with its values."""
        return cls(text, like.dialect().tokenize(text), like.values, like.dialect)

    def expressions(self, first: int) -> Items[exp.Expr]:
        """The expressions from token `first` to the end, read like a select list.

        Raises:
            MySQLError: 1064.
        """
        start = Token(TokenType.SELECT, "SELECT")
        query = Statement(self.text, [start, *self.tokens[first:]], self.values, self.dialect)
        return Items(query.parse().expressions)

    def with_first_word(self, word: str) -> "Statement":
        """The statement under another verb."""
        first = self.tokens[0]
        kind = TokenType.INSERT if word == "INSERT" else first.token_type
        token = Token(kind, word, start=first.start, end=first.end)
        return Statement(self.text, [token, *self.tokens[1:]], self.values, self.dialect)

    def part(self, first: int, last: int | None = None) -> "Statement":
        """Tokens `first` up to, not including, `last` as a statement of its own."""
        return Statement(self.text, self.tokens[first:last], self.values, self.dialect)

    def parse(self) -> exp.Expr:
        """A new copy of the syntax tree.

        Raises:
            MySQLError: 1064, or 1235 for what sqlglot cannot read.
        """
        return copied(self.tree)

    @property
    def tree(self) -> exp.Expr:
        """The syntax tree, which is read only.

        Raises:
            MySQLError: as `parse`.
        """
        if self._parsed is None:
            self._parsed = _parse(self)
        return self._parsed


def copied(tree: exp.Expr) -> exp.Expr:
    """A copy without comments and positions, in a third of the time that `Expr.copy` takes."""
    return type(tree)(**{name: _copied_part(part) for name, part in tree.args.items()})


def _copied_part(part: object) -> object:
    if isinstance(part, list):
        return [copied(each) if isinstance(each, exp.Expr) else each for each in part]
    return copied(part) if isinstance(part, exp.Expr) else part


def _parse(statement: Statement) -> exp.Expr:
    dialect = statement.dialect()
    try:
        trees = dialect.parser().parse(list(statement.tokens), statement.text)
    except sqlglot.errors.ParseError as error:
        raise syntax_error(statement.text) from error
    tree = trees[0] if trees else None
    if tree is None or isinstance(tree, exp.Column | exp.Alias):
        raise syntax_error(statement.text)
    if isinstance(tree, exp.Command):
        raise unsupported(statement.text)
    return tree


def _unescape(literal: str) -> str:
    def unescaped(match: re.Match[str]) -> str:
        return _ESCAPED.get(match[1], match[1]) if match[1] else "'"

    return _ESCAPE.sub(unescaped, literal[1:-1])


def _take_out_literals(text: str, literals: dict[str, Value]) -> str:
    """Replaces long literals by short markers: the tokenizer costs time per character."""

    def marker(match: re.Match[str]) -> str:
        found = match[0]
        if len(found) < _LONG_LITERAL or found[0] != "'":
            return found
        name = f"\x01literal {len(literals)}\x01"
        literals[name] = _unescape(found)
        return f"'{name}'"

    return _QUOTED.sub(marker, text)


def _is_routine(words: Sequence[str]) -> bool:
    return bool(words) and words[0] == "CREATE" and not _ROUTINE_WORDS.isdisjoint(words[1:8])


_CLOSED = re.compile(r"""(?:[^'"`]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`)*+""", re.S)
"""Matches what comes before an unterminated quote."""


def _cut(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens of each statement; a routine's body is not cut."""
    statements: list[list[Token]] = [[]]
    depth = 0
    routine = False
    for token in tokens:
        word = token.text.upper()
        current = statements[-1]
        if routine and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
            depth += (word in ("BEGIN", "CASE")) - (word == "END")
        if token.token_type is TokenType.SEMICOLON and depth <= 0:
            statements.append([])
            depth, routine = 0, False
        else:
            current.append(token)
            routine = routine or (
                word in _ROUTINE_WORDS and _is_routine([t.text.upper() for t in current])
            )
    return statements


@lru_cache(maxsize=128)
def _split_kept(text: str, dialect: type[MySQL]) -> tuple[Statement, ...]:
    return _split(text, dialect)


def _split(text: str, dialect: type[MySQL]) -> tuple[Statement, ...]:
    literals: dict[str, Value] = {}
    if "/*!" in text:
        text = _VERSIONED_COMMENT.sub(r" \1 ", text)
    if len(text) > _LONG_TEXT and dialect is not NoBackslashEscapes:
        text = _take_out_literals(text, literals)
    try:
        tokens = dialect().tokenize(text)
    except sqlglot.errors.TokenError as error:
        raise syntax_error(_CLOSED.sub("", text, count=1) or text) from error
    found = []
    for part in _cut(tokens):
        if not part:
            continue
        start, end = part[0].start, part[-1].end
        kept = [
            token
            for before, token in zip((None, *part), part, strict=False)
            if token.token_type is TokenType.STRING
            or token.text.upper() not in _MODIFIERS
            or (before is not None and before.token_type in _IN_NAMES)
        ]
        for token in kept:
            token.start -= start
            token.end -= start
        found.append(Statement(text[start : end + 1], kept, literals, dialect))
    return tuple(found)


def split(text: str, sql_mode: str = "") -> tuple[Statement, ...]:
    """The statements of `text`, without empty ones.

    Raises:
        MySQLError: 1064 for an unterminated quote, 1065 for no text at all.
    """
    if not text.strip(" \t\r\n;"):
        raise MySQLError(1065, "42000", "Query was empty")
    dialect: type[MySQL] = Plain
    if "ANSI_QUOTES" in sql_mode:
        dialect = AnsiQuotes
    elif "NO_BACKSLASH_ESCAPES" in sql_mode:
        dialect = NoBackslashEscapes
    return _split_kept(text, dialect) if len(text) <= _KEPT_TEXT else _split(text, dialect)


def several(text: str, statements: Sequence[Statement]) -> MySQLError:
    """1064 for a text of several statements, where there may be one."""
    start = text.find(statements[1].text, len(statements[0].text))
    return syntax_error(text[start:].rstrip("; \t\r\n"), 1 + text.count("\n", 0, start))


def text_literal(text: str) -> exp.Expr:
    """A string as a node; SQLite's SQL cannot contain NUL, nor what is not UTF-8."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return exp.HexString(this=text.encode("utf-8", "surrogateescape").hex())
    if "\0" in text:
        return exp.cast(exp.HexString(this=encoded.hex()), "TEXT")
    return exp.Literal.string(text)


def literal(value: Value) -> exp.Expr:
    """A value as a node of the syntax tree."""
    if value is None:
        return exp.Null()
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, str):
        return text_literal(value)
    negative = value < 0
    number = exp.Literal.number(repr(abs(value)))
    return exp.Paren(this=exp.Neg(this=number)) if negative else number
