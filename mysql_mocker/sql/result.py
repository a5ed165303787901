"""What a statement answers: an OK, or rows under columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.value import Row
from protocol.resultset import ColumnDefinition41


@dataclass(slots=True)
class Done:
    """A statement without rows: it becomes an OK packet.

    Attributes:
        affected_rows: changed (or, under CLIENT_FOUND_ROWS, matched) rows.
        last_insert_id: the first generated AUTO_INCREMENT value, or 0.
        dropped_schema: the statement was a DROP DATABASE, which the server status says.
        info: the human-readable part, e.g. ``Records: 2  Duplicates: 0  Warnings: 0``.
    """

    affected_rows: int = 0
    last_insert_id: int = 0
    info: str = ""
    dropped_schema: bool = False


@dataclass(slots=True)
class Rows:
    """A statement with rows: it becomes a result set.

    Attributes:
        columns: their definitions, one per value of a row.
        rows: all rows.
        error: if it is set, the rows end in this ERR packet (fact 1.2: the server has already sent
            the column definitions when a function fails).
    """

    columns: Sequence[ColumnDefinition41]
    rows: Sequence[Row] = field(default_factory=list)
    error: MySQLError | None = None


Result = Done | Rows


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One line of SHOW WARNINGS."""

    level: str
    code: int
    message: str
