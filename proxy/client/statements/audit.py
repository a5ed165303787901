"""Asks a replica whether it has what an audited read must see, without relying on what is known."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.constants import TEXT_ONE, TEXT_ZERO
from proxy.client.statements.server_error import error_of
from proxy.client.statements.time_limit import hint
from proxy.server.exchange import AUDIT
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.outcome import CommandOutcome
    from routing.session.session import Session

_log = logging.getLogger(__name__)


def audit(state: Session, gtids: GtidSet, query_attributes: bool) -> Batch:
    """A question for the server's own word on a set."""
    sql = (
        f"SELECT {hint(state, 0.0)}GTID_SUBSET(_latin1'{gtids.text}',@@GLOBAL.gtid_executed)"
        " LIMIT 1"
    )
    return ((AUDIT, statement_packet(sql.encode("ascii"), query_attributes)),)


def audit_result(
    connection: ServerConnection, outcome: CommandOutcome, metrics: Metrics
) -> bool | None:
    """Whether a replica has what a read must see; None if it does not say."""
    stream = connection.stream
    has: bool | None = None
    if stream.error is None and stream.rows == 1 and stream.row in (TEXT_ONE, TEXT_ZERO):
        has = stream.row == TEXT_ONE
    if has:
        metrics.audited("held")
    elif has is False:
        # The proxy took the replica for newer than it is: this must never happen.
        metrics.audited("stale")
        metrics.stale_proven()
        required = "" if outcome.required is None else outcome.required.text
        _log.error(
            "replica %s does not have what it was taken to have (%s): %s; the read goes to the"
            " primary",
            connection.server.name,
            outcome.proof,
            required[:1000],
        )
    else:
        metrics.audited("unanswered")
        _log.warning(
            "replica %s does not say whether it has what a read must see (%s); the read goes to"
            " the primary",
            connection.server.name,
            error_of(stream, "no answer"),
        )
    return has
