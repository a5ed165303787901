"""Asks the primary what it has, once for all reads that came before the question was sent.

The question goes over the primary connection of one of the waiting reads, which is idle meanwhile:
the proxy needs no account and no connection of its own.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

from protocol.gtid import EMPTY
from proxy.server.exchange import SHARED_PROBE
from proxy.server.gtid_question import PROBE_SQL, parse
from proxy.server.statement_packet import statement_packet
from proxy.wall_clock import utc_us
from routing.servers.gathering import Gathering

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from protocol.response_stream import ResponseStream
    from proxy.observe.ledger import Ledger
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.gtid_question import Answer
    from proxy.shared.sessions import Sessions
    from routing.servers.topology import Topology

_log = logging.getLogger(__name__)


class Asker(Protocol):
    """A session whose read waits for the answer."""

    def primary_for_probe(self) -> ServerConnection | None:
        """Its connection to the primary, if that can be asked over it."""

    def leave_primary(self) -> None:
        """End, if another server is the primary now, or it was restarted."""

    def on_probe(self, answer: Answer | None) -> None:
        """Take what the primary has; None if it cannot say."""


class Probes:
    """The shared probes of one primary: at most one is in flight (`routing.servers.gathering`)."""

    def __init__(
        self,
        topology: Topology,
        sessions: Sessions,
        ledger: Ledger,
        metrics: Metrics,
        limit: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """The primary may take `limit`, s, to answer."""
        self._topology = topology
        self._sessions = sessions
        self._ledger = ledger
        self._metrics = metrics
        self._limit = limit
        self._now: Callable[[], float] = time.monotonic
        self._call_later = loop.call_later
        self._gathering: Gathering[Asker] = Gathering()
        self._asked_at = 0.0
        self._asked_us = 0
        self._last = EMPTY  # what the last answer said
        self._deadline: asyncio.TimerHandle | None = None

    def ask(self, session: Asker) -> None:
        """Let a session's read have the answer to a question that is sent from now on."""
        self._gathering.arrive(session)
        self._begin()

    def leave(self, session: Asker) -> None:
        """A session ends."""
        if self._gathering.leave(session):
            self._in_time()
            self._begin()

    def _begin(self) -> None:
        while askers := self._gathering.begin():
            connection = askers[0].primary_for_probe()
            if connection is not None:
                self._asked_at = self._now()
                self._asked_us = utc_us()
                probe = statement_packet(PROBE_SQL, connection.query_attributes)
                connection.send(((SHARED_PROBE, probe),))
                self._deadline = self._call_later(self._limit, self._overdue)
                self._metrics.probed(len(askers))
                return
            self._fail(askers[0])

    def _fail(self, leader: Asker) -> None:
        """Let the others ask over another connection: a client's settings may be the cause here."""
        self._gathering.leave(leader)
        leader.leave_primary()  # with its session, if it was another primary's
        leader.on_probe(None)

    def on_answer(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The primary's `gtid_executed`, over the leader's connection."""
        if connection.overdue:
            connection.overdue = False
            return  # those who waited for it went on without
        askers = self._gathering.asked
        if not askers or askers[0].primary_for_probe() is not connection:
            return
        answer = parse(stream, self._last)
        self._in_time()
        if answer is None:
            self._fail(askers[0])
        else:
            executed = self._last = answer.executed
            server = connection.server
            server.add_proof(executed, connection.epoch)
            if not answer.names:
                self._sessions.stopped_naming(server)
            self._ledger.record_proof(server, "probed", executed, self._asked_us, utc_us())
            if server is self._topology.primary:
                self._topology.observations.add(self._asked_at, executed)
            self._end(answer, self._gathering.end())
        self._begin()

    def _overdue(self) -> None:
        _log.warning("the primary does not say what it has")
        askers = self._gathering.asked
        connection = askers[0].primary_for_probe() if askers else None
        if connection is not None:
            connection.overdue = True  # its late answer must not count for a later question
        self._end(None, self._gathering.end())
        self._begin()

    def _end(self, answer: Answer | None, sessions: list[Asker]) -> None:
        self._in_time()
        for session in sessions:
            session.on_probe(answer)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
