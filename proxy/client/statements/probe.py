"""Asks the primary what it has, in front of a read on it (`proxy.server.gtid_question`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.server.exchange import PROBE
from proxy.server.gtid_question import PROBE_SQL, parse
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from proxy.server.gtid_question import Answer


def probe(query_attributes: bool) -> Batch:
    """The question."""
    return ((PROBE, statement_packet(PROBE_SQL, query_attributes)),)


def probe_result(primary: ServerConnection) -> Answer | None:
    """Its answer; None, and a line in the log, where there is none."""
    return parse(primary.stream, primary.server.applied)
