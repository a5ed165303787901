"""Asks a replica, in front of a read, whether it still is what its proofs were about.

A replica can be made anew without a restart, with older data under connections that stay (RESET
BINARY LOGS AND GTIDS), and can be told not to commit in its source's order any more. So a read that
relies on what the replica proved a while ago (`proof-max-age`) has a question in front, in the same
write; one that waits asks within its WAIT. One answer serves all reads that follow.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.response import ErrPacket
from routing.consistency.decision import Level, Reason

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.proxy import Proxy
    from proxy.server.connection import ServerConnection
    from routing.consistency.decision import Decision

_log = logging.getLogger(__name__)

_IN_ORDER: Final = (
    "(@@GLOBAL.replica_preserve_commit_order OR @@GLOBAL.replica_parallel_workers<2) d"
)
"""Whether a replica commits in its source's order: one worker has no choice (WL#6813)."""

_YES: Final = b"\x011"
_NO: Final = b"\x010"
_VALUE: Final = len(_YES)


def columns(applied: GtidSet) -> str:
    """Does the server have all of a set, and are commits in order?"""
    return f"GTID_SUBSET(_latin1'{applied.text}',@@GLOBAL.gtid_executed) c,{_IN_ORDER}"


class Confirmation:
    """The question of one session's read; there is one at a time.

    Attributes:
        asked: columns that it has.
    """

    def __init__(self, proxy: Proxy, session: ClientSession) -> None:
        self._proxy = proxy
        self._session = session
        self.asked = 0

    def question(self, replica: ServerConnection) -> str:
        """The columns of a SELECT that ask for all; `judge` takes their values."""
        self.asked = 2
        server = replica.server
        server.asks(self._session.request.sent_at)
        return columns(server.applied)

    def beside_wait(self, replica: ServerConnection, decision: Decision) -> str:
        """What a WAIT asks beside: all, or for the order alone, or nothing.

        Where the order matters every WAIT asks for it: that costs little beside the WAIT.
        """
        if decision.confirm:
            return self.question(replica)
        self.asked = int(self._needs_order())
        return _IN_ORDER if self.asked else ""

    def _needs_order(self) -> bool:
        return (self._session.request.rules or self._session.state.rules).level is (
            Level.READ_ALL_WRITES
        )

    def judge(
        self, connection: ServerConnection, stream: ResponseStream, values: bytes
    ) -> Reason | None:
        """Take the answer; why the read behind it must not count, or None.

        Args:
            connection: whose answer.
            stream: the answer.
            values: what was asked, as in a row; anything else is no answer.
        """
        server = connection.server
        metrics = self._proxy.metrics
        sent_at = self._session.request.sent_at
        if self.asked == 2 and values[:_VALUE] == _NO:
            metrics.confirmed(server.name, "lost")
            if connection.epoch == server.epoch:
                _log.error(
                    "replica %s does not have any more what it had proved: it was rebuilt, or lost"
                    " transactions; until it has them again, reads that need them go elsewhere",
                    server.name,
                )
            server.distrust(connection.epoch)
            return Reason.AUDIT_FAILED
        order = values[-_VALUE:]
        if order not in (_YES, _NO) or values[:-_VALUE] != _YES * (self.asked - 1):
            metrics.confirmed(server.name, "unanswered")
            _log.warning(
                "replica %s does not say whether it still has what it had proved (%s); the read"
                " goes elsewhere",
                server.name,
                "no answer" if stream.error is None else ErrPacket.parse(stream.error),
            )
            return Reason.AUDIT_FAILED
        if self.asked == 2:
            metrics.confirmed(server.name, "held")
            server.confirmed(connection.epoch, sent_at)
        server.keeps_order(order == _YES, sent_at, self._proxy.now())
        return Reason.COMMIT_ORDER if order == _NO and self._needs_order() else None
