"""What a statement asks about the one before it, and what it leaves for the next one to ask.

A session's diagnostics area has four parts: the conditions (warnings and errors), FOUND_ROWS(),
ROW_COUNT(), and the cost of the last query (the status variables Last_query_cost and
Last_query_partial_plans). The rules were measured on 9.7.4 (docs/mysql-behaviour.md, *What is left
of the statement before*).
"""

from typing import Final

from routing.sql.lexer import VARIABLE, Tokens

CONDITIONS: Final = 1
"""Warnings and errors."""
FOUND_ROWS: Final = 2
ROW_COUNT: Final = 4
COST: Final = 8
PARTS: Final = CONDITIONS | FOUND_ROWS | ROW_COUNT | COST

# What else is known of what a statement leaves.
FOUND_AS_SHOWN: Final = 16
"""FOUND_ROWS() is the number of rows in its answer."""
MAY_FIND_ROWS: Final = 32
"""Its text does not show whether it sets FOUND_ROWS(), and whether it keeps ROW_COUNT()."""
SHOWS_ROWS: Final = 64
"""Its answer is a result set: ROW_COUNT() is -1."""
AFFECTS_NONE: Final = 128
"""ROW_COUNT() is 0 after it."""

# A server has two counts: the rows of the last query of whatever kind (`current_found_rows` in its
# source), and those that FOUND_ROWS() shows (`previous_found_rows`).
COUNTS_ROWS: Final = 256
"""It sets the current count alone, which FOUND_ROWS() does not show yet."""
MAY_COUNT_ROWS: Final = 512
"""Its text does not show whether it sets the current count."""
TAKES_COUNT: Final = 1024
"""FOUND_ROWS() shows the current count behind it, whichever statement has set that."""

UNKNOWN: Final = CONDITIONS | ROW_COUNT | COST | MAY_FIND_ROWS | MAY_COUNT_ROWS
"""What a statement leaves that is not understood."""

_RUNNING: Final = {b"EXECUTE": UNKNOWN, b"CALL": (UNKNOWN & ~MAY_COUNT_ROWS) | TAKES_COUNT}
_QUERY_WORDS: Final = (b"SELECT", b"WITH", b"TABLE", b"VALUES", b"(")
_INSERTING: Final = (b"INSERT", b"REPLACE")
_CHANGING: Final = frozenset({*_INSERTING, b"UPDATE", b"DELETE"})
_QUERIES: Final = frozenset({b"SELECT", b"TABLE", b"WITH"})
_DELETE_MODIFIERS: Final = (b"LOW_PRIORITY", b"QUICK", b"IGNORE")
_EXPLAINING: Final = (b"EXPLAIN", b"DESCRIBE", b"DESC")
_EXPLAINED: Final = frozenset(
    {*_QUERIES, *_INSERTING, b"VALUES", b"UPDATE", b"DELETE", b"CONNECTION"}
)
_SHOWN_WITHOUT: Final = frozenset(
    b"CREATE GRANTS PRIVILEGES PROCESSLIST PROFILE PROFILES WARNINGS ERRORS ENGINE PARSE_TREE"
    b" BINARY BINLOG RELAYLOG REPLICA REPLICAS MASTER SLAVE".split()
)
"""What SHOW lists without a query."""
_OF_SESSION: Final = frozenset(
    b"SET BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE USE PREPARE DEALLOCATE".split()
)
_DEFINING: Final = (b"CREATE", b"DROP", b"TRUNCATE", b"RENAME")
_DEFINES_FROM: Final = frozenset({b"SELECT", b"WITH", b"VALUES", b"INDEX"})
_SHOWING: Final = frozenset(b"ANALYZE CHECK CHECKSUM OPTIMIZE REPAIR HELP".split())
_COUNTING: Final = frozenset({b"SQL_CALC_FOUND_ROWS", b"LIMIT"})
"""FOUND_ROWS() counts the rows that an offset skips, and literals do not show in a statement."""
_ASKED: Final = {
    **dict.fromkeys((b"FOUND_ROWS", b"`FOUND_ROWS`"), FOUND_ROWS),
    **dict.fromkeys((b"ROW_COUNT", b"`ROW_COUNT`"), ROW_COUNT),
    b"DIAGNOSTICS": CONDITIONS | ROW_COUNT,
}
_DIAGNOSING: Final = frozenset({b"WARNINGS", b"ERRORS"})


def asks(tokens: Tokens) -> int:
    """The parts that a statement asks about; a column of such a name counts, too."""
    words = tokens.words
    if words[0] == b"RESIGNAL":
        return CONDITIONS  # it fails, and adds that
    parts = 0
    for kind, word in zip(tokens.kinds, words, strict=True):
        if kind == VARIABLE:
            continue
        parts |= _ASKED.get(word.upper(), 0)
    return parts


def shown_by_show(tokens: Tokens) -> int:
    """The parts that a SHOW of class DIAGNOSTIC asks about."""
    return COST if b"STATUS" in tokens.words[1:3] else CONDITIONS


def leaves(tokens: Tokens) -> int:  # noqa: C901 one case per kind of statement
    """What a statement that ends well leaves: the parts that it sets, and what is known of them."""
    words = tokens.words
    first = words[0]
    if first in _QUERY_WORDS:
        return _query(words)
    if first in _RUNNING:
        return _RUNNING[first]
    if first in _INSERTING:
        return CONDITIONS | ROW_COUNT | COST | _inserted(words)
    if first == b"UPDATE":
        return PARTS  # but for LIMIT 0, which runs no query
    if first == b"DELETE":
        return CONDITIONS | ROW_COUNT | COST | _deleted(words)
    if first == b"DO":
        return PARTS | AFFECTS_NONE
    if first == b"SHOW":
        return _shown(words)
    if first in _EXPLAINING:
        return _explained(words)
    if first == b"GET":
        return 0
    if first in _OF_SESSION:
        counts = MAY_COUNT_ROWS if first == b"SET" and not _QUERIES.isdisjoint(words) else 0
        return CONDITIONS | ROW_COUNT | AFFECTS_NONE | counts
    if first in _DEFINING and _DEFINES_FROM.isdisjoint(words) and words.count(b"TABLE") < 2:
        return CONDITIONS | ROW_COUNT | AFFECTS_NONE
    if first in _SHOWING:
        return CONDITIONS | ROW_COUNT | SHOWS_ROWS
    return CONDITIONS | ROW_COUNT | (_created(words) if first == b"CREATE" else 0)


def together(parts: list[int]) -> int:
    """What several statements of one text leave."""
    left = 0
    for part in parts:
        if part & TAKES_COUNT:
            if left & COUNTS_ROWS:
                left |= FOUND_ROWS
            elif (left | part) & MAY_COUNT_ROWS:
                left |= MAY_FIND_ROWS
            part &= ~MAY_COUNT_ROWS
        if part & (FOUND_ROWS | TAKES_COUNT):
            left &= ~(COUNTS_ROWS | MAY_COUNT_ROWS)
        left |= part & (PARTS | MAY_FIND_ROWS | COUNTS_ROWS | MAY_COUNT_ROWS | TAKES_COUNT)
    if left & TAKES_COUNT and left & MAY_COUNT_ROWS:
        left ^= MAY_COUNT_ROWS | COUNTS_ROWS  # behind what takes the count, not within it
    return left | (parts[-1] & (SHOWS_ROWS | AFFECTS_NONE))


def either(first: int, second: int) -> int:
    """What a text leaves that can be read in two ways."""
    return first if first == second else UNKNOWN


def _query(words: list[bytes]) -> int:
    if b"INTO" in words:
        return PARTS
    return PARTS | SHOWS_ROWS | (FOUND_AS_SHOWN if _COUNTING.isdisjoint(words) else 0)


def _inserted(words: list[bytes]) -> int:
    """A subquery of constants among values is no query."""
    if _QUERIES.isdisjoint(words):
        return TAKES_COUNT
    valued = b"VALUES" in words or b"VALUE" in words or b"SET" in words
    return FOUND_ROWS if not valued or b"FROM" in words else TAKES_COUNT


def _deleted(words: list[bytes]) -> int:
    table = next((word for word in words[1:] if word not in _DELETE_MODIFIERS), b"")
    if table != b"FROM" or b"USING" in words:
        return FOUND_ROWS
    queried = b"TABLE" in words or (b"SELECT" in words and words.count(b"FROM") > 1)
    return FOUND_ROWS if queried else TAKES_COUNT


def _created(words: list[bytes]) -> int:
    """CREATE TABLE … SELECT; a table that exists already is left as it is."""
    if b"TABLE" not in words[1:3] or not _is_query(words[3:]):
        return 0
    return MAY_COUNT_ROWS if b"EXISTS" in words[3:6] else COUNTS_ROWS


def _is_query(words: list[bytes]) -> bool:
    """Whether there is one; partitions have VALUES, too, and indexes WITH."""
    return b"SELECT" in words or b"TABLE" in words or (b"VALUES" in words and b"ROW" in words)


def _shown(words: list[bytes]) -> int:
    near = words[1:3]
    if not _DIAGNOSING.isdisjoint(near):
        return ROW_COUNT | SHOWS_ROWS
    if b"COUNT" in near:
        return FOUND_ROWS | ROW_COUNT | COST | SHOWS_ROWS | FOUND_AS_SHOWN
    if not _SHOWN_WITHOUT.isdisjoint(near):
        return CONDITIONS | ROW_COUNT | SHOWS_ROWS
    cost = 0 if b"STATUS" in near else COST
    return CONDITIONS | FOUND_ROWS | ROW_COUNT | cost | SHOWS_ROWS | FOUND_AS_SHOWN


def _explained(words: list[bytes]) -> int:
    left = CONDITIONS | ROW_COUNT | COST | SHOWS_ROWS
    if words[1] == b"ANALYZE":
        return left | FOUND_ROWS
    if _EXPLAINED.isdisjoint(words):
        return left | FOUND_ROWS | FOUND_AS_SHOWN
    if b"CONNECTION" in words[2:3]:
        return left
    # The optimizer runs some subqueries.
    subqueries = sum(word in _QUERIES for word in words) - _CHANGING.isdisjoint(words)
    return left | TAKES_COUNT | (MAY_COUNT_ROWS if subqueries > 0 else 0)
