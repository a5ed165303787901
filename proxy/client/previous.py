"""Lets the primary answer questions about a statement that ran on a replica.

FOUND_ROWS(), ROW_COUNT(), warnings and errors belong to the statement before. Where nothing else is
asked for, the question goes to the server that ran that statement. Where it also needs what only
the primary has (LAST_INSERT_ID(), a table, a variable to be set), the primary is first made to look
as if it had run that statement: by a query with as many rows, or by the statement itself where
there were warnings or an error to ask about, or a LIMIT (whose offset FOUND_ROWS() counts). A
prepared statement is not run again: the primary does not know its warnings.

COM_PING, COM_INIT_DB and COM_STMT_RESET keep all of that, but ROW_COUNT() is 0 after them. So a
COM_PING goes in front of the question, to whichever server answers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.client.preparation import PING, statement_packet
from proxy.server.exchange import IMITATE

if TYPE_CHECKING:
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.trail import Trail

_MOST_ROWS: Final = 100_000
"""More rows are not imitated: the statement itself is run again."""
_RECURSION: Final = 1000
"""The lowest cte_max_recursion_depth that is to be expected."""


class Previous:
    """How one session's last statement ended, if that was on a replica.

    Attributes:
        zeroed: a later command has set ROW_COUNT() to 0, and was answered by the proxy, or by
            another server than the statement.
        command: it; None if there was none on a replica yet.
        trail: what became of it.
    """

    def __init__(self) -> None:
        self.zeroed = False
        self.command: Command | None = None
        self.trail: Trail | None = None

    @property
    def zeroing(self) -> Batch:
        """What sets ROW_COUNT() to 0 on another server, if a later command has set it to 0."""
        return ((IMITATE, PING),) if self.zeroed else ()

    @property
    def is_plain(self) -> bool:
        """Whether a query of as many rows leaves the same behind."""
        command, trail = self.command, self.trail
        if command is None or trail is None or trail.rows > _MOST_ROWS:
            return False
        if trail.error or trail.warnings:
            return False
        text = command.text.upper()
        counted = b"SQL_CALC_FOUND_ROWS" in text or b"LIMIT" in text
        return command.prepared is not None or not counted

    def imitated(self, query_attributes: bool) -> Batch:
        """What to send to the primary first."""
        command, trail = self.command, self.trail
        if command is None or trail is None:
            return ()
        if self.is_plain:
            return ((IMITATE, statement_packet(rows(trail.rows), query_attributes)),)
        if command.prepared is not None or not command.packet:
            return ()
        return ((IMITATE, command.packet),)


def begun(query_attributes: bool) -> Batch:
    """Make the primary look as if nothing had been run on it yet."""
    settings = b"SET SESSION session_track_schema=ON"  # as it is anyway
    return (
        (IMITATE, statement_packet(rows(0), query_attributes)),
        (IMITATE, statement_packet(settings, query_attributes)),
    )


def rows(count: int) -> bytes:
    """A query with so many rows."""
    if count == 0:
        return b"SELECT 1 FROM DUAL WHERE FALSE"
    if count == 1:
        return b"SELECT 1"
    hint = b"/*+ SET_VAR(cte_max_recursion_depth=%d) */ " % count if count > _RECURSION else b""
    numbers = b"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d)" % count
    return numbers + b" SELECT " + hint + b"1 FROM n"
