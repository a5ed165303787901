"""The WAIT in front of a read: WAIT_FOR_EXECUTED_GTID_SET, and whether the set is there then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import TEXT_ONE, TEXT_ZERO
from protocol.errors import ServerErrorCode
from protocol.packet import frame
from protocol.response import ErrPacket
from proxy.client.statements.confirmation import UNANSWERED, result_beside_wait
from proxy.client.statements.time_limit import hint
from proxy.server.exchange import WAIT
from proxy.server.statement_packet import PLAIN, WITH_ATTRIBUTES

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.statements.confirmation import Confirmation
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.wait_results import WaitResult
    from routing.session.session import Session

_PLAIN: Final = PLAIN.decode("ascii")
_ATTRIBUTES: Final = WITH_ATTRIBUTES.decode("ascii")
_TIMEOUTS: Final[dict[float, str]] = {}
_MOST_TIMEOUTS: Final = 64
_REACHED: Final = (TEXT_ZERO + TEXT_ONE, TEXT_ONE + TEXT_ONE)
"""The first two values of an answer which say that the set is there. The second is what counts:
under some settings a WAIT takes a set for an empty one, and succeeds."""
_TIMED_OUT: Final = TEXT_ONE + TEXT_ZERO
_VALUES: Final = 4
"""The length of those two in a row, bytes; the confirmation's follow, if it was asked for."""


def wait(
    state: Session, gtids: GtidSet, budget: float, further: str, query_attributes: bool
) -> Batch:
    """A WAIT for a set (`wait_packet`)."""
    return ((WAIT, wait_packet(state, gtids, budget, further, query_attributes)),)


def wait_packet(
    state: Session, gtids: GtidSet, budget: float, further: str, query_attributes: bool
) -> bytes:
    """A WAIT for a set, framed.

    Two values come back: what the WAIT said (0 reached, 1 timed out), and what GTID_SUBSET, which
    reads the set by itself and more strictly, said of it afterwards (1 applied). Behind them are
    those of `further`: columns that are asked for beside (`proxy.client.statements.confirmation`),
    or none.

    The text is our own canonical one (a malformed set can look satisfied, fact 3.1), and the
    timeout is never 0, which would mean for ever (fact 4.1). What else a session may have set must
    not change what is asked: hence the character sets, LIMIT and the hint (docs/mysql-behaviour.md,
    *Statements of the proxy's own*).
    """
    seconds = max(budget, 0.001)
    text, limit, timeout = gtids.text, hint(state, seconds), _timeout(seconds)
    beside = "," + further if further else ""
    command = _ATTRIBUTES if query_attributes else _PLAIN
    sql = (
        f"{command}SELECT {limit}WAIT_FOR_EXECUTED_GTID_SET(_latin1'{text}',{timeout}) a,"
        f"GTID_SUBSET(_latin1'{text}',@@GLOBAL.gtid_executed) b{beside} LIMIT 1"
    )
    return frame(sql.encode("ascii"), 0)


def _timeout(seconds: float) -> str:
    """As a number of SQL; sessions have few different ones."""
    text = _TIMEOUTS.get(seconds)
    if text is None:
        text = format(seconds, ".3f")
        if len(_TIMEOUTS) < _MOST_TIMEOUTS:
            _TIMEOUTS[seconds] = text
    return text


def is_reached(stream: ResponseStream) -> bool:
    """Whether an answer to a WAIT, which asked nothing else, says that the set is there."""
    return stream.error is None and stream.rows == 1 and stream.row in _REACHED


def _is_interrupted(stream: ResponseStream) -> bool:
    """Whether a KILL QUERY has ended it."""
    error = stream.error
    return (
        error is not None
        and ErrPacket.parse(error).code == ServerErrorCode.ER_QUERY_INTERRUPTED.code
    )


def wait_result(
    connection: ServerConnection,
    waited_us: int,
    metrics: Metrics,
    *,
    confirm: bool,
    order: bool,
    killed: bool,
    is_brief: bool = False,
) -> tuple[WaitResult, Confirmation]:
    """How a WAIT ended, and what the replica also said of itself.

    Args:
        connection: to the replica; its stream holds the answer.
        waited_us: how long it took.
        metrics: count it.
        confirm: the replica was asked for all of `confirmation.columns`.
        order: or only for the order of commits.
        killed: a KILL was sent for it; an error 1317 that nobody here asked for proves nothing.
        is_brief: it was a brief one, which only sees whether the replica has the set.
    """
    stream = connection.stream
    row = stream.row if stream.error is None and stream.rows == 1 else None
    result: WaitResult = "interrupted" if killed and _is_interrupted(stream) else "failed"
    confirmation = UNANSWERED
    if row is not None:
        asks = confirm or order
        values = row[:_VALUES] if asks else row
        if values in _REACHED:
            result = "reached"
        elif values == _TIMED_OUT:
            result = "timeout"
        if asks and result in ("reached", "timeout"):
            confirmation = result_beside_wait(connection, row[_VALUES:], metrics, confirm=confirm)
    is_counted_apart = is_brief and result == "timeout"
    metrics.wait(connection.server.name, "not_yet" if is_counted_apart else result, waited_us)
    return result, confirmation
