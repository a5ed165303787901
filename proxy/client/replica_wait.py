"""One read's wait for a replica: a WAIT of its own before the statement, or another read's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Level

if TYPE_CHECKING:
    import asyncio

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.observe.metrics import WaitResult
    from proxy.proxy import Proxy
    from proxy.server.connection import ServerConnection
    from proxy.server.waits import Wait
    from routing.servers.topology import Server

_REACHED: Final = (b"\x010\x011", b"\x011\x011")
"""The first two values of an answer to a WAIT (`preparation.wait`) by which the set is there. What
counts is the second: under some settings a WAIT itself takes a set for an empty one, and is
content."""
_TIMED_OUT: Final = b"\x011\x010"
VALUES: Final = 4
"""How long those two are in a row, bytes; behind them are the confirmation's, if it was asked."""


class ReplicaWait:
    """At most one wait at a time; the session's `Reads` hear how it ends."""

    def __init__(self, proxy: Proxy, session: ClientSession) -> None:
        self._proxy = proxy
        self._session = session
        self._deadline: asyncio.TimerHandle | None = None
        self._wait: Wait | None = None
        self._server: Server | None = None  # of the wait that was joined
        self._joined_at = 0.0

    @property
    def pending(self) -> bool:
        """Whether it waits."""
        return self._deadline is not None

    # A WAIT of its own

    def begin(self, replica: ServerConnection, gtids: GtidSet, budget: float) -> None:
        """A WAIT was sent; the replica is not relied on to end it."""
        self._wait = self._proxy.waits.begin(replica.server, gtids, self._proxy.now())
        self._deadline = self._proxy.call_later(
            budget + self._proxy.config.connect_timeout, self._overdue, replica
        )

    def _overdue(self, replica: ServerConnection) -> None:
        self._count(replica.server, "failed", self._since_dispatch())
        self._session.reads.replica_silent(replica)

    def judge(self, connection: ServerConnection, stream: ResponseStream) -> WaitResult:
        """How a WAIT ended, by its answer."""
        request = self._session.request
        server = connection.server
        request.wait_us = self._since_dispatch()
        self._in_time()
        now = self._proxy.now()
        decision = request.decision
        result: WaitResult = "failed"
        row = stream.row
        if stream.error is None and stream.rows == 1 and row is not None and decision is not None:
            said = row[:VALUES] if self._session.reads.confirmation.asked else row
            if said in _REACHED and decision.proof_set is not None:
                server.proved(decision.proof_set, connection.epoch, request.sent_at)
                server.applied_after(now - self._changed_at(now), request.wait_us / 1e6, now)
                result = "reached"
            elif said == _TIMED_OUT:
                server.timed_out(now, now - self._changed_at(now))
                result = "timeout"
        self._count(server, result, request.wait_us)
        return result

    def _changed_at(self, now: float) -> float:
        """When what the read waits for was acknowledged, monotonic s."""
        session = self._session
        request = session.request
        rules = request.rules or session.state.rules
        asked_at = now - request.wait_us / 1e6
        if rules.level is Level.STRONG or rules.level is Level.BOUNDED_STALENESS:
            return asked_at
        scope = session.state.reading(rules, self._proxy.topology.term, now)
        return scope.changed_at or asked_at  # nothing was acknowledged since it is known

    def end(self, server: Server) -> None:
        """It is over: those who joined it need not wait any more."""
        self._in_time()
        wait = self._wait
        if wait is not None and self._server is None:
            self._wait = None
            self._proxy.waits.end(server, wait)

    # Another read's

    def join(self, server: Server, gtids: GtidSet, budget: float) -> bool:
        """Rely on a WAIT in flight, if there is one that will do."""
        now = self._proxy.now()
        wait = self._proxy.waits.join(server, gtids, self, now) if budget > 0 else None
        if wait is None:
            return False
        self._wait = wait
        self._server = server
        self._joined_at = now
        self._deadline = self._proxy.call_later(budget, self._out_of_time)
        return True

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        self._part("shared")
        self._session.reads.resume()

    def _out_of_time(self) -> None:
        """The WAIT that was joined has not ended within the read's own budget."""
        server = self._server
        if server is not None:
            self._part("timeout")
            self._session.reads.waited_in_vain(server)

    def _part(self, result: WaitResult) -> None:
        """Rely on the joined WAIT no more."""
        waited_us = round((self._proxy.now() - self._joined_at) * 1e6)
        if self._server is not None:
            self._count(self._server, result, waited_us)
        self._session.request.wait_us += waited_us
        self._leave_joined()

    def _leave_joined(self) -> None:
        self._in_time()
        if self._wait is not None and self in self._wait.joined:
            self._wait.joined.remove(self)
        self._wait = None
        self._server = None

    # Both

    def leave(self) -> None:
        """The client or its primary is gone."""
        decision = self._session.request.decision
        if self._server is not None:
            self._leave_joined()
        elif decision is not None:
            self.end(decision.server)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _since_dispatch(self) -> int:
        return time.time_ns() // 1000 - self._session.request.dispatched_us

    def _count(self, server: Server, result: WaitResult, wait_us: int) -> None:
        self._proxy.metrics.wait(server.name, result, wait_us)
