"""Whether a query reads from a table, or only from what it makes by itself.

JSON_TABLE, derived tables and common table expressions stand where tables do. A server takes no
snapshot for them, begins no transaction, and keeps what SET TRANSACTION has set.
"""

from typing import Final

from routing.sql.lexer import CALLED, QUOTED, WORD, Tokens

_QUERY_WORDS: Final = frozenset({b"SELECT", b"WITH", b"VALUES", b"TABLE"})
_BEFORE_NAMES: Final = _QUERY_WORDS | {b"LATERAL"}
"""Words that may stand where a table reference is expected, and are none."""
_JOINS: Final = frozenset({b"JOIN", b"STRAIGHT_JOIN"})
_BEHIND_FROM: Final = frozenset(
    b"WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT UNION EXCEPT INTERSECT INTO FOR LOCK".split()
)
_WITHOUT_TABLE: Final = frozenset({b"JSON_TABLE", b"DUAL"})


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
                return True
            level = around.pop()
            level.end_inner()
        elif index and words[index - 1] == b".":
            continue  # a name, whatever it is
        elif level.expects and word not in _BEFORE_NAMES:
            if not _is_made(tokens, index, level.names):
                return True
            level.expects = False
        else:
            _follow(level, tokens, index, kinds[index])
    return False


def _follow(level: _Level, tokens: Tokens, index: int, kind: int) -> None:
    """Follow a token that is no table reference."""
    words, raw = tokens.words, tokens.raws[index]
    if kind in (WORD, CALLED):
        _keyword(level, words, index, raw)
    elif kind == QUOTED:
        if level.defines:
            _name(level, words, index, raw[1:-1])
    elif words[index] == b",":
        level.expects = level.expects or level.lists


def _is_made(tokens: Tokens, index: int, names: frozenset[bytes]) -> bool:
    """Whether a table reference is no table's name."""
    word, raw = tokens.words[index], tokens.raws[index]
    if tokens.kinds[index] in (WORD, CALLED) and word in _WITHOUT_TABLE:
        return True
    name = raw[1:-1] if tokens.kinds[index] == QUOTED else raw
    # Servers may tell letters of different cases apart. In quotes a name may have quotes doubled.
    return name in names and tokens.words[index + 1] != b"."


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
