"""Asks the primary which roles are active, behind a SET ROLE that does not name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.resultset import parse_text_row
from proxy.server.exchange import ROLES
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch

_SQL: Final = b"SELECT CAST(CURRENT_ROLE() AS BINARY) LIMIT 1"


def ask_roles(query_attributes: bool) -> Batch:
    """The question."""
    return ((ROLES, statement_packet(_SQL, query_attributes)),)


def active_roles(stream: ResponseStream) -> str | None:
    """Its answer, as CURRENT_ROLE() has it; None where there is none."""
    row = stream.row
    values = [] if row is None or stream.error is not None else parse_text_row(row)
    name = values[0] if len(values) == 1 else None
    return None if name is None else name.decode("utf-8", "surrogateescape")
