"""Asks a server for FOUND_ROWS(), in front of what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.resultset import parse_text_row
from proxy.server.exchange import FOUND_ROWS
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch


def ask_found_rows(query_attributes: bool) -> Batch:
    """The question."""
    return ((FOUND_ROWS, statement_packet(b"SELECT FOUND_ROWS() LIMIT 1", query_attributes)),)


def found_rows(stream: ResponseStream) -> int | None:
    """Its answer; None where there is none."""
    values = [] if stream.row is None else parse_text_row(stream.row)
    number = values[0] if len(values) == 1 else None
    return int(number) if number is not None and number.isdigit() else None
