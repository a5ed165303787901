"""Asks a server which views the account of a connection can see, and what they are.

The question goes over connections with arbitrary settings of clients, and means the same under
every collation, character set, sql_mode and limit (docs/mysql-behaviour.md, *Views*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.resultset import parse_text_row

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream

_HINTS: Final = b"/*+ SET_VAR(sql_big_selects=1) SET_VAR(max_execution_time=5000) */"
_LARGEST: Final = 3_000_000
"""The most bytes of a column: each is read in one piece, and all must fit into one packet of 16
MiB. What is longer is NULL, and so is what is longer than the server's max_allowed_packet."""
_OTHERS: Final = b"<>_utf8mb4'sys'"
"""The server's own schema of views: they are recognised by the schema's name."""


_TABLES: Final = (
    b",(SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(TABLE_SCHEMA,TABLE_NAME,ENGINE)) AS BINARY)"
    b" FROM information_schema.TABLES WHERE TABLE_TYPE<>_utf8mb4'VIEW' AND TABLE_SCHEMA NOT IN"
    b" (_utf8mb4'mysql',_utf8mb4'sys',_utf8mb4'performance_schema',_utf8mb4'information_schema'))"
    b" AS t,"
    b"(SELECT IF(COUNT(*)=0,CAST(_utf8mb4'[]' AS BINARY),CAST(JSON_ARRAYAGG(JSON_ARRAY("
    b"CONSTRAINT_SCHEMA,TABLE_NAME,UNIQUE_CONSTRAINT_SCHEMA,REFERENCED_TABLE_NAME)) AS BINARY))"
    b" FROM information_schema.REFERENTIAL_CONSTRAINTS"
    b" WHERE NOT (UPDATE_RULE IN (_utf8mb4'NO ACTION',_utf8mb4'RESTRICT')"
    b" AND DELETE_RULE IN (_utf8mb4'NO ACTION',_utf8mb4'RESTRICT'))) AS f"
)
_DIRTY: Final = b"READ-UNCOMMITTED"


def _question(definition: bytes, *, tables: bool = False) -> bytes:
    rows = (
        b"SELECT (SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_SCHEMA%(others)b) AS n,"
        b"(SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(TABLE_SCHEMA,TABLE_NAME,%(definition)b)) AS BINARY)"
        b" FROM information_schema.VIEWS WHERE TABLE_SCHEMA%(others)b) AS v,"
        b"(SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(VIEW_SCHEMA,VIEW_NAME,TABLE_SCHEMA,TABLE_NAME))"
        b" AS BINARY) FROM information_schema.VIEW_TABLE_USAGE WHERE VIEW_SCHEMA%(others)b) AS u"
        b"%(tables)b LIMIT 1"
    ) % {b"others": _OTHERS, b"definition": definition, b"tables": _TABLES if tables else b""}
    size = str(_LARGEST).encode("ascii")
    columns = (b"v", b"u", b"t", b"f") if tables else (b"v", b"u")
    values = b",".join([b"IF(LENGTH(%b)<%b,%b,NULL)" % (name, size, name) for name in columns])
    isolation = b",@@transaction_isolation" if tables else b""
    return b"SELECT %b n,%b%b FROM (%b) AS q LIMIT 1" % (_HINTS, values, isolation, rows)


QUESTION: Final = _question(b"VIEW_DEFINITION")
NAMES_QUESTION: Final = _question(b"NULL")
"""The same without definitions, where these are too long."""
TABLES_QUESTION: Final = _question(b"VIEW_DEFINITION", tables=True)
"""The first one, which tables there are, and which of their foreign keys cascade."""
COLUMNS: Final = 3
WITH_TABLES: Final = 6
"""Columns of the first two, and of the last."""
AFTER: Final = b"DO 0"
"""To be sent after either question. A hint's settings are tracked as changes of the session; where
results have no OK packet (without CLIENT_DEPRECATE_EOF), the next OK would report them."""


class Answer(NamedTuple):
    """What a server says of its views.

    Attributes:
        whole: nothing was left out for its length.
        views: see `routing.sql.catalogue.read`.
        usages: likewise.
        tables: likewise; None also if that was not asked, or if the session reads what is not
            committed.
        foreign_keys: likewise.
    """

    whole: bool
    views: bytes | None
    usages: bytes | None
    tables: bytes | None = None
    foreign_keys: bytes | None = None


def read(row: list[bytes | None]) -> Answer | None:
    """The answer in a row of `COLUMNS` or `WITH_TABLES` values; None if it is unusable."""
    if len(row) not in (COLUMNS, WITH_TABLES) or row[0] is None or not row[0].isdigit():
        return None
    count, views, usages = row[:COLUMNS]
    whole = count == b"0" or views is not None
    if len(row) != WITH_TABLES or row[-1] == _DIRTY:
        return Answer(whole, views, usages)
    tables, foreign_keys = row[COLUMNS:-1]
    return Answer(whole, views, usages, tables, foreign_keys)


def parse(stream: ResponseStream) -> Answer | None:
    """The answer that a stream has read; None if it is unusable.

    Raises:
        MalformedPacketError: the row is none.
    """
    if stream.error is not None or stream.row is None:
        return None
    return read(parse_text_row(stream.row))
