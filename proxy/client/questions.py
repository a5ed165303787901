"""What servers answer to the proxy's questions in front of a read: judged, counted and logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.constants import TEXT_ONE, TEXT_ZERO
from protocol.response import ErrPacket
from proxy.client.proof_check import UNANSWERED, parsed

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.proof_check import Said
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from routing.request.outcome import CommandOutcome
    from routing.request.wait_results import WaitResult

_log = logging.getLogger(__name__)

_REACHED: Final = (TEXT_ZERO + TEXT_ONE, TEXT_ONE + TEXT_ONE)
"""The first two values of an answer to a WAIT (`preparation.wait`) which say that the set is there.
The second is what counts: under some settings a WAIT takes a set for an empty one, and succeeds."""
_TIMED_OUT: Final = TEXT_ONE + TEXT_ZERO
_VALUES: Final = 4
"""The length of those two in a row, bytes; the confirmation's follow, if it was asked for."""


def is_reached(stream: ResponseStream) -> bool:
    """Whether an answer to a WAIT, which asked nothing else, says that the set is there."""
    return stream.error is None and stream.rows == 1 and stream.row in _REACHED


def waited(
    connection: ServerConnection, waited_us: int, metrics: Metrics, *, confirm: bool, order: bool
) -> tuple[WaitResult, Said]:
    """How a WAIT ended, and what the replica also said of itself.

    Args:
        connection: to the replica; its stream holds the answer.
        waited_us: how long it took.
        metrics: count it.
        confirm: the replica was asked for all of `confirmation.columns`.
        order: or only for the order of commits.
    """
    stream = connection.stream
    row = stream.row if stream.error is None and stream.rows == 1 else None
    result: WaitResult = "failed"
    said = UNANSWERED
    if row is not None:
        asked = confirm or order
        values = row[:_VALUES] if asked else row
        if values in _REACHED:
            result = "reached"
        elif values == _TIMED_OUT:
            result = "timeout"
        if asked and result != "failed":
            said = _said(connection, row[_VALUES:], metrics, confirm=confirm)
    metrics.wait(connection.server.name, result, waited_us)
    return result, said


def confirmed(connection: ServerConnection, metrics: Metrics) -> Said:
    """What a replica says of itself, asked for nothing else."""
    stream = connection.stream
    alone = stream.error is None and stream.rows == 1
    return _said(connection, stream.row or b"" if alone else b"", metrics, confirm=True)


def _said(connection: ServerConnection, values: bytes, metrics: Metrics, *, confirm: bool) -> Said:
    said = parsed(values, confirm=confirm)
    server = connection.server
    if said.still is False:
        metrics.confirmed(server.name, "lost")
        if connection.epoch == server.epoch:
            _log.error(
                "replica %s does not have any more what it had proved: it was rebuilt, or lost"
                " transactions; until it has them again, reads that need them go elsewhere",
                server.name,
            )
    elif said.ordered is None:
        metrics.confirmed(server.name, "unanswered")
        _log.warning(
            "replica %s does not say whether it still has what it had proved (%s); the read"
            " goes elsewhere",
            server.name,
            error_of(connection.stream, "no answer"),
        )
    elif said.still:
        metrics.confirmed(server.name, "held")
    return said


def audited(connection: ServerConnection, outcome: CommandOutcome, metrics: Metrics) -> bool | None:
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


def shows_all(stream: ResponseStream) -> bool:
    """Whether the primary has finished what it was committing (`preparation.settle`)."""
    if stream.error is None and stream.rows == 1 and stream.row == TEXT_ZERO:
        return True
    _log.warning(
        "the primary has not finished what it was committing: %s",
        error_of(stream, "the wait budget ran out"),
    )
    return False


def error_of(stream: ResponseStream, otherwise: str) -> str:
    """What a server's error says, if there is one."""
    return otherwise if stream.error is None else str(ErrPacket.parse(stream.error))
