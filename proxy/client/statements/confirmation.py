"""Asks a replica, in front of a read, whether it still has what it has proved.

A replica can be rebuilt without a restart, with older data while connections stay open (RESET
BINARY LOGS AND GTIDS), and can be told not to commit in its source's order any more. So a read that
relies on what the replica proved a while ago (`proof-max-age`) has a question in front, in the same
write; a read that waits asks within its WAIT. One answer serves all reads that follow.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.constants import TEXT_ONE, TEXT_ZERO
from proxy.client.statements.server_error import error_of
from proxy.client.statements.time_limit import hint
from proxy.server.commit_order import KEEPS_ORDER
from proxy.server.exchange import CONFIRM
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.read import Read
    from routing.session.session import Session

_log = logging.getLogger(__name__)

_IN_ORDER: Final = f"{KEEPS_ORDER} d"

_VALUE: Final = len(TEXT_ONE)


class Confirmation(NamedTuple):
    """What a replica says of itself.

    Attributes:
        still: it has all that it had proved; None if it was not asked, or does not say.
        ordered: it commits in its source's order; None if it does not say.
    """

    still: bool | None
    ordered: bool | None


UNANSWERED: Final = Confirmation(None, None)


def columns(applied: GtidSet) -> str:
    """Does the server have all of a set, and are commits in order?"""
    return f"GTID_SUBSET(_latin1'{applied.text}',@@GLOBAL.gtid_executed) c,{_IN_ORDER}"


def beside_wait(read: Read, *, confirm: bool) -> str:
    """What a WAIT also asks: everything, only the order of commits, or nothing.

    Where the order matters every WAIT asks for it: that costs little in addition to the WAIT.
    """
    if confirm:
        return columns(read.question())
    return _IN_ORDER if read.asks_order else ""


def parse(values: bytes, *, confirm: bool) -> Confirmation:
    """What these values of a row say; anything else is not an answer.

    Args:
        values: those of `columns`, or of the order alone.
        confirm: all was asked.
    """
    if confirm and values[:_VALUE] == TEXT_ZERO:
        return Confirmation(still=False, ordered=None)
    order = values[-_VALUE:]
    if order not in (TEXT_ONE, TEXT_ZERO) or values[:-_VALUE] != (TEXT_ONE if confirm else b""):
        return UNANSWERED
    return Confirmation(still=True if confirm else None, ordered=order == TEXT_ONE)


def confirm(state: Session, question: str, query_attributes: bool) -> Batch:
    """The question by itself; `question` as `columns` has it."""
    sql = f"SELECT {hint(state, 0.0)}{question} LIMIT 1"
    return ((CONFIRM, statement_packet(sql.encode("ascii"), query_attributes)),)


def confirmation_result(connection: ServerConnection, metrics: Metrics) -> Confirmation:
    """What a replica says of itself, asked for nothing else."""
    stream = connection.stream
    alone = stream.error is None and stream.rows == 1
    return result_beside_wait(
        connection, stream.row or b"" if alone else b"", metrics, confirm=True
    )


def result_beside_wait(
    connection: ServerConnection, values: bytes, metrics: Metrics, *, confirm: bool
) -> Confirmation:
    """What it says beside a WAIT, counted and logged; `values` and `confirm` as in `parse`."""
    confirmation = parse(values, confirm=confirm)
    server = connection.server
    if confirmation.still is False:
        metrics.confirmed(server.name, "lost")
        if connection.epoch == server.epoch:
            _log.error(
                "replica %s does not have any more what it had proved: it was rebuilt, or lost"
                " transactions; until it has them again, reads that need them go elsewhere",
                server.name,
            )
    elif confirmation.ordered is None:
        metrics.confirmed(server.name, "unanswered")
        _log.warning(
            "replica %s does not say whether it still has what it had proved (%s); the read"
            " goes elsewhere",
            server.name,
            error_of(connection.stream, "no answer"),
        )
    elif confirmation.still:
        metrics.confirmed(server.name, "held")
    return confirmation
