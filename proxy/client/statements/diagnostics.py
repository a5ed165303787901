"""Makes a server's diagnostics area that of the session (`routing.session.diagnostics_area`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from proxy.server.exchange import (
    REPLAY_DIAGNOSTICS,
    REPLAY_PREPARE,
    REPLAY_ROW_COUNT,
    REPLAY_SETTING,
)
from proxy.server.statement_packet import statement_packet
from routing.session.diagnostics_area import CLEARING_SQL, NO_ROW_COUNT_SQL, rows_sql

if TYPE_CHECKING:
    from proxy.server.exchange import Batch
    from routing.session.diagnostics_area import DiagnosticsReplay

PING: Final = b"\x01\x00\x00\x00\x0e"
"""A COM_PING, framed."""
KEEP_ALIVE: Final[Batch] = ((REPLAY_ROW_COUNT, PING),)
"""A COM_PING that keeps the primary from ending an idle session."""


def replay_batch(by: DiagnosticsReplay, query_attributes: bool) -> Batch:
    """What makes a server's diagnostics area that of the session."""
    batch: Batch = ()
    if by.finds is not None:
        batch = ((REPLAY_DIAGNOSTICS, statement_packet(rows_sql(by.finds), query_attributes)),)
    if by.again:
        prepares = by.again[4] == Code.COM_STMT_PREPARE
        batch += ((REPLAY_PREPARE if prepares else REPLAY_DIAGNOSTICS, by.again),)
    if by.clears:
        batch += ((REPLAY_SETTING, statement_packet(CLEARING_SQL, query_attributes)),)
    if by.counts is not None:
        packet = PING if by.counts == 0 else statement_packet(NO_ROW_COUNT_SQL, query_attributes)
        batch += ((REPLAY_ROW_COUNT, packet),)
    return batch
