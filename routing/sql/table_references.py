"""Which tables a query reads from, if it does not only read from what it makes by itself.

JSON_TABLE, derived tables and common table expressions stand where tables do. A server takes no
snapshot for them, begins no transaction, and keeps what SET TRANSACTION has set.

Which tables a query reads is told from two sides (`TableNames`). What stands where the grammar
expects a table has to be known. Beside that, each name that can be a table's counts, wherever it
stands: to take a column for a table costs a wait, and to miss a table would be a stale read.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from routing.sql.lexer import CALLED, QUOTED, WORD, Tokens

Name = tuple[str, str]
"""Schema and table, in lower case, as servers may compare them; the schema is empty where the
statement does not name it."""


class TableNames(NamedTuple):
    """The names in a query that are, or may be, those of tables and views.

    Attributes:
        references: what stands where a table does.
        names: all that may be a table's, wherever it stands; also those of columns and aliases.
    """

    references: frozenset[Name]
    names: frozenset[Name]

    def within(self, schema: str) -> "TableNames":
        """The same where this is the default schema."""
        return TableNames(_within(self.references, schema), _within(self.names, schema))


def _within(names: frozenset[Name], schema: str) -> frozenset[Name]:
    schema = schema.lower()
    return frozenset([(of or schema, name) for of, name in names])


_QUERY_WORDS: Final = frozenset({b"SELECT", b"WITH", b"VALUES", b"TABLE"})
_BEFORE_NAMES: Final = _QUERY_WORDS | {b"LATERAL"}
"""Words that may stand where a table reference is expected, and are none."""
_JOINS: Final = frozenset({b"JOIN", b"STRAIGHT_JOIN"})
_BEHIND_FROM: Final = frozenset(
    b"WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT UNION EXCEPT INTERSECT INTO FOR LOCK".split()
)
_WITHOUT_TABLE: Final = frozenset({b"JSON_TABLE", b"DUAL"})
_NAMES: Final = (WORD, CALLED, QUOTED)
RESERVED: Final = frozenset(
    b"""
    ALL AND AS ASC BETWEEN BY CASE CROSS DESC DISTINCT ELSE EXISTS FOR FROM GROUP HAVING IN INNER
    INTERVAL IS JOIN LEFT LIKE LIMIT NATURAL NOT NULL ON OR ORDER OUTER RIGHT SELECT TABLE THEN
    UNION USING WHEN WHERE WITH
    """.split()
)
"""The most frequent of the words that are no names, but in quotes or behind a dot."""


class _Level:
    """What stands in one pair of parentheses, or outside of all.

    Attributes:
        selects: a SELECT stands there, so that a FROM is not that of a function.
        lists: table references stand there, separated by commas and joins.
        expects: the next token is a table reference.
        defines: common table expressions are named there.
        recursive: likewise, WITH RECURSIVE.
        defined: the name whose query follows.
        queries: that query begins.
        names: those that can be read from there.
    """

    __slots__ = (
        "defined",
        "defines",
        "expects",
        "lists",
        "names",
        "queries",
        "recursive",
        "selects",
    )

    def __init__(self, names: frozenset[bytes], *, expects: bool) -> None:
        self.selects = False
        self.lists = expects
        self.expects = expects
        self.defines = False
        self.recursive = False
        self.defined = b""
        self.queries = False
        self.names = names

    def inner(self) -> "_Level":
        """What stands in a pair of parentheses that opens here."""
        names = self.names
        if self.queries and self.recursive:
            names |= {self.defined}
        inner = _Level(names, expects=self.expects)
        self.expects = False
        return inner

    def end_inner(self) -> None:
        """Such a pair has closed."""
        if self.queries:
            self.names |= {self.defined}
            self.queries = False


def reads_table(tokens: Tokens) -> bool:
    """Whether a query reads from something that is a table, or a view, by its name.

    What the grammar does not allow may count as either.
    """
    return next(_references(tokens), None) is not None


def table_names(tokens: Tokens) -> TableNames | None:
    """The names in a query that may be those of tables; None if they cannot be told.

    That is so where such a name is not in ASCII: servers compare these in more ways than one.
    """
    references: set[Name] = set()
    names: set[Name] = set()
    for index in _references(tokens):
        name = _table(tokens, index)
        if name is None:
            return None
        references.add(name)
    for index in range(len(tokens)):
        if _may_be_table(tokens, index):
            name = _table(tokens, index)
            if name is None:
                return None
            names.add(name)
    return TableNames(frozenset(references), frozenset(names))


def _may_be_table(tokens: Tokens, index: int) -> bool:
    """Whether a table's name can begin with this token, as far as its neighbours tell."""
    kind = tokens.kinds[index]
    if kind != QUOTED and (kind != WORD or tokens.words[index] in RESERVED):
        return False
    before = tokens.words[index - 1] if index else b""
    if before == b".":  # the second part of a name, unless the dot begins one
        return index == 1 or tokens.kinds[index - 2] not in _NAMES
    if tokens.words[index + 1] == b".":
        return tokens.words[index + 2] != b"*"  # else all columns of what is named elsewhere
    return before != b"AS"


def _table(tokens: Tokens, index: int) -> Name | None:
    """The table that is named here; None if it is no name, or not in ASCII."""
    first = _text(tokens, index)
    if first is None:
        return None
    if tokens.words[index + 1] != b".":
        return "", first
    second = _text(tokens, index + 2)
    return None if second is None else (first, second)


def _text(tokens: Tokens, index: int) -> str | None:
    """A name without its quotes and in lower case; None if it is none, or not in ASCII."""
    if index >= len(tokens) or tokens.kinds[index] not in _NAMES:
        return None
    name = _unquoted(tokens, index)
    return name.decode("ascii").lower() if name.isascii() else None


def _unquoted(tokens: Tokens, index: int) -> bytes:
    """A name as it is meant."""
    raw = tokens.raws[index]
    if tokens.kinds[index] != QUOTED:
        return raw
    quote = raw[:1]
    return raw[1:-1].replace(quote + quote, quote)


def _references(tokens: Tokens) -> Iterator[int]:
    """Where something stands that is a table, or a view, by its name; the END if nobody can tell.

    What the grammar does not allow may count as either.
    """
    kinds, words = tokens.kinds, tokens.words
    level = _Level(frozenset(), expects=False)
    around: list[_Level] = []
    for index in range(len(tokens)):
        word = words[index]
        if word == b"(":
            around.append(level)
            level = level.inner()
        elif word == b")":
            if not around:
                yield len(tokens)
                return
            level = around.pop()
            level.end_inner()
        elif index and words[index - 1] == b".":
            continue  # a name, whatever it is
        elif level.expects and word not in _BEFORE_NAMES:
            if not _is_made(tokens, index, level.names):
                yield index
            level.expects = False
        else:
            _follow(level, tokens, index, kinds[index])


def _follow(level: _Level, tokens: Tokens, index: int, kind: int) -> None:
    """Follow a token that is no table reference."""
    words = tokens.words
    if kind in (WORD, CALLED):
        _keyword(level, words, index, tokens.raws[index])
    elif kind == QUOTED:
        if level.defines:
            _name(level, words, index, _unquoted(tokens, index))
    elif words[index] == b",":
        level.expects = level.expects or level.lists


def _is_made(tokens: Tokens, index: int, names: frozenset[bytes]) -> bool:
    """Whether a table reference is no table's name."""
    if tokens.kinds[index] in (WORD, CALLED) and tokens.words[index] in _WITHOUT_TABLE:
        return True
    # Servers may tell letters of different cases apart.
    return _unquoted(tokens, index) in names and tokens.words[index + 1] != b"."


def _keyword(level: _Level, words: list[bytes], index: int, raw: bytes) -> None:
    """Follow a word without quotes."""
    word = words[index]
    if word == b"SELECT" or word == b"TABLE":
        level.selects = word == b"SELECT"
        level.lists = level.expects = word == b"TABLE"
        level.defines = False
    elif word in _QUERY_WORDS:
        if level.expects:  # else VALUES may be a function, and WITH belong to GROUP BY
            level.lists = level.expects = False
        level.defines = word == b"WITH" and not level.selects
    elif word == b"FROM":
        if level.selects:
            level.lists = level.expects = True
    elif word in _JOINS:
        level.expects = level.lists
    elif word in _BEHIND_FROM:
        level.lists = False
    elif level.defines:
        _name(level, words, index, raw)


def _name(level: _Level, words: list[bytes], index: int, name: bytes) -> None:
    """Follow a word between WITH and the query that belongs to it."""
    before = words[index - 1]
    if words[index] == b"AS":
        level.queries = True
    elif words[index] == b"RECURSIVE" and before == b"WITH":
        level.recursive = True
    elif before in (b"WITH", b"RECURSIVE", b","):
        level.defined = name
