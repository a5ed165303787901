"""Which statements FOUND_ROWS() tells of: those for which a server runs a query, whatever it shows.

(docs/mysql-behaviour.md, *What is left of the statement before*)
"""

from typing import Final

from routing.sql.lexer import Tokens

_ALWAYS: Final = frozenset({b"SELECT", b"WITH", b"TABLE", b"VALUES", b"(", b"UPDATE", b"DO"})
_INSERTING: Final = (b"INSERT", b"REPLACE")
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


def sets_found_rows(tokens: Tokens) -> bool | None:
    """Whether FOUND_ROWS() tells of a statement that ended well; None if its text does not show."""
    words = tokens.words
    first = words[0]
    if first in (b"CALL", b"EXECUTE"):
        return None
    if first in _ALWAYS:
        return True
    if first in _INSERTING:
        return not _QUERIES.isdisjoint(words)
    if first == b"DELETE":
        table = next((word for word in words[1:] if word not in _DELETE_MODIFIERS), b"")
        return table != b"FROM" or b"USING" in words or b"SELECT" in words
    if first in _EXPLAINING:
        return words[1] == b"ANALYZE" or _EXPLAINED.isdisjoint(words)
    return first == b"SHOW" and _SHOWN_WITHOUT.isdisjoint(words[1:3])
