"""Asks the primary what it has, once for all reads that came before the question was sent.

The question goes over the primary connection of one of the waiting reads, which is idle meanwhile:
the proxy needs no account and no connection of its own.

Each read waits within its own budget. The question goes on for the others, even if the read whose
connection it uses has given up; when nobody waits for it any more, the next one goes over another
connection, and the late answer does not count for it. A primary that has sent nothing at all since
a question of a second ago is known to be silent (`Server.is_silent`): for a while nobody asks it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

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
    from routing.servers.topology import Server, Topology

_log = logging.getLogger(__name__)

_PATIENCE_S: Final = 0.25
_QUIET_S: Final = 1.0
"""How long a primary that is asked may say nothing, to nobody, before it counts as silent."""
_SILENT_S: Final = 1.0
"""How long it does; then it is asked again."""


class Asker(Protocol):
    """A session whose read waits for the answer."""

    def primary_for_probe(self) -> ServerConnection | None:
        """Its connection to the primary, if it has one that is usable."""

    def leave_primary(self) -> None:
        """End, if another server is the primary now, or it was restarted."""

    def on_probe(self, answer: Answer | None) -> None:
        """Take what the primary has; None if it cannot say."""

    def on_primary_silent(self) -> None:
        """Go on without it: the primary does not answer."""


class Probes:
    """The shared probes of one primary: at most one is in flight (`routing.servers.gathering`).

    Attributes:
        limit: how long the primary may take to answer, s.
        patience: how long a read waits for the answer at least, s, however short its budget is: a
            budget is meant for replicas, and no such read should fail since the primary is far.
    """

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
        self.limit = limit
        self._now: Callable[[], float] = time.monotonic
        self._call_later = loop.call_later
        self.patience = _PATIENCE_S
        self._gathering: Gathering[Asker] = Gathering()
        self._connection: ServerConnection | None = None  # of the question in flight
        # Whom the last question went to, what it had sent before, and since when that is all.
        self._asked: Server | None = None
        self._received = 0
        self._silent_since = 0.0
        self._asked_at = 0.0
        self._asked_us = 0
        self._last = EMPTY  # what the last answer said
        self._deadline: asyncio.TimerHandle | None = None

    def ask(self, session: Asker) -> None:
        """Let a session's read have the answer to a question that is sent from now on."""
        self._gathering.arrive(session)
        self._begin()

    def leads(self, session: Asker) -> bool:
        """Whether the question in flight goes over this session's connection."""
        return self._gathering.leader is session

    def leave(self, session: Asker) -> None:
        """A session ends."""
        if self._gathering.leave(session):
            self._in_time()
            self._begin()
        else:
            self.give_up(session)

    def give_up(self, session: Asker) -> None:
        """A session's read has waited long enough."""
        if self._gathering.give_up(session):
            self._overdue()
        else:
            self._judge()

    def _begin(self) -> None:
        while askers := self._gathering.begin():
            leader, connection = self._usable(askers)
            self._gathering.leader = leader
            if connection is None:
                self._fail(leader)
            elif connection.overdue:
                self._gathering.postpone()  # until one of them is answered
                return
            else:
                self._ask_over(connection, len(askers))
                return

    def _usable(self, askers: list[Asker]) -> tuple[Asker, ServerConnection | None]:
        """Whose connection the question is to go over; without a connection it fails there."""
        for asker in askers:
            connection = asker.primary_for_probe()
            if connection is None or not connection.overdue:
                return asker, connection
        return askers[0], askers[0].primary_for_probe()

    def _ask_over(self, connection: ServerConnection, askers: int) -> None:
        server = connection.server
        self._asked_at = self._now()
        self._asked_us = utc_us()
        if server is not self._asked or server.packets_received != self._received:
            self._asked = server
            self._received = server.packets_received
            self._silent_since = self._asked_at
        self._connection = connection
        probe = statement_packet(PROBE_SQL, connection.query_attributes)
        connection.send(((SHARED_PROBE, probe),))
        self._deadline = self._call_later(self.limit, self._overdue)
        self._metrics.probed(askers)

    def _fail(self, leader: Asker) -> None:
        """Let the others ask over another connection: a client's settings may be the cause here."""
        self._gathering.leave(leader)
        self._in_time()
        leader.leave_primary()  # with its session, if it was another primary's
        leader.on_probe(None)

    def on_answer(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The primary's `gtid_executed`, over the leader's connection."""
        if connection.overdue:
            connection.overdue = False  # those who waited for it went on without
            self._begin()
            return
        leader = self._gathering.leader
        if leader is None or leader.primary_for_probe() is not connection:
            return
        answer = parse(stream, self._last)
        if answer is None and leader not in self._gathering.asked:
            self._in_time()
            self._gathering.postpone()  # it has given up
        elif answer is None:
            self._fail(leader)
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
        """The question in flight is not answered in time: whoever can still wait asks another."""
        connection = self._connection
        self._in_time()
        if connection is not None:
            connection.overdue = True  # its late answer must not count for a later question
        self._gathering.postpone()
        self._judge()
        self._begin()

    def _judge(self) -> None:
        """Somebody has waited in vain: if the primary is silent, nobody need wait for it."""
        server, now = self._asked, self._now()
        if (
            server is not None
            and server.packets_received == self._received
            and now - self._silent_since >= _QUIET_S
        ):
            known = server.is_silent(now)
            server.set_silent(now + _SILENT_S)
            if not known:
                _log.warning("the primary %s does not answer", server.name)
                self._sessions.on_primary_silent()
            waiting, self._gathering.waiting = self._gathering.waiting, []
            for session in waiting:
                session.on_primary_silent()

    def _end(self, answer: Answer, sessions: list[Asker]) -> None:
        self._in_time()
        for session in sessions:
            session.on_probe(answer)

    def _in_time(self) -> None:
        """The question in flight is over."""
        self._connection = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
