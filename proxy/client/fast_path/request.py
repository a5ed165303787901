"""Sends the plain statements of a plain session to their server in one step.

Theory of operation
===================

Most statements are like the one before: a read or a write of data, in no transaction, with nothing
to be told to its server first. For these the session need not be asked. A read goes where the last
one went, while that decision stands, or to the replica that the policy chooses anew
(`routing.request.cached_decision`), with a WAIT in front if need be. A write goes to the primary.
The answers are taken in one step, too (`proxy.client.fast_path.answer`).

Whatever else comes is served by the session (`proxy.client.session`), which knows the same things
of the last statement whichever way it went: its `CurrentCommand`. So does an answer that is not as
most are: the read's machine takes the statement up then, as if it had begun there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from proxy.client.answer import Answer
from proxy.client.connection import FastPath
from proxy.client.statements.wait import wait_packet
from proxy.wall_clock import utc_ns
from routing.consistency.decision import Proof, Reason
from routing.policy import on_primary
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.session.plain import is_plain
from routing.sql.statement import PLAIN_READ, PLAIN_WRITE

if TYPE_CHECKING:
    from proxy.client.effects.missing_trackers import MissingTrackers
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection, Taker
    from routing.consistency.decision import Decision
    from routing.servers.topology import Server
    from routing.sql.statement import Statement

_WAITED: Final = Proof.WAITED
_QUERY: Final = Code.COM_QUERY
_COM_QUERY: Final = int(Code.COM_QUERY)


class FastRequests(FastPath):
    """Those of one session."""

    def __init__(
        self,
        session: SessionContext,
        missing_trackers: MissingTrackers,
        taker: Taker,
        lease: ConnectionLease | None,
    ) -> None:
        """`taker` takes the answers; with a `lease` the session gives its connections back."""
        shared = session.shared
        self._topology = shared.topology
        self._classifier = shared.classifier
        self._catalogues = shared.catalogues
        self._audits = shared.audits
        self._now = shared.now
        self._connect_timeout = shared.config.connect_timeout
        self._current = session.current
        self._cached_decision = session.read.cached_decision
        self._read_timers = session.read_timers
        self._state = session.state
        self._servers = session.servers
        self._settings = session.settings
        self._views = session.views
        self._missing_trackers = missing_trackers
        self._taker = taker
        self._lease = lease
        self._query_attributes = session.query_attributes
        self._writes = on_primary(shared.topology, Reason.WRITE)
        # What was found when the session was found plain.
        self._account = session.views.present()
        self._replica: ServerConnection | None = None

    def serve(self, packet: bytes) -> bool:
        """Send a command to its server, if that is a plain statement."""
        state = self._state
        if packet[4] != _COM_QUERY or not (state.plain or self._become_plain()):
            return False
        begin = 5
        if self._query_attributes:
            begin = 7  # if there are none
            if len(packet) < 7 or packet[5] != 0 or packet[6] != 1:
                return False
        statement = self._classifier.classify(packet[begin:], state.lexer_modes.flags)
        if statement.plain == PLAIN_READ:
            return self._read(packet, statement)
        return statement.plain == PLAIN_WRITE and self._write(packet, statement)

    def _become_plain(self) -> bool:
        """See whether the session is plain; it stays so while plain statements come."""
        state, settings, lease = self._state, self._settings, self._lease
        state.plain = (
            is_plain(state)
            and not (settings.undone or settings.untracked)
            and (lease is None or lease.has_connection)
        )
        if state.plain:
            self._replica = None
            self._account = self._views.present()
            self._missing_trackers.pinged = False
            self._current.answer = Answer()
        return state.plain

    def _read(self, packet: bytes, statement: Statement) -> bool:
        """Send a read where the last one went, or with a WAIT where one is due."""
        if (
            statement.identifiers
            and self._account.plain_in is not self._catalogues.era
            and self._views.seen(statement) is not statement
        ):
            return False
        arrived_us, now = utc_ns() // 1000, self._now()
        decision = self._cached_decision.of(now)
        if decision is None:
            return False
        replica, server = self._replica, decision.server
        if (
            replica is None
            or replica.server is not server
            or replica.epoch != server.epoch
            or not replica.is_free
        ):
            replica = self._connection_to(server)
            if replica is None or not replica.is_free:
                return False
        required = self._cached_decision.scope.own
        if replica.stream.tells_status:
            return False  # it is told again that it need not
        waits = decision.proof is _WAITED
        audits = self._audits
        if audits.on and self._cached_decision.relies:
            credit = audits.credit + audits.share
            if credit >= 1:
                return False  # it is audited
            audits.credit = credit
        outcome = self._begin(packet, statement, decision, arrived_us)
        outcome.required = required
        outcome.sent_at = now
        self._servers.activate(replica)
        if waits:
            state, budget = self._state, self._state.rules.wait_budget
            wait = wait_packet(state, required, budget, "", replica.query_attributes)
            # The replica is not relied on to end it.
            self._read_timers.begin_wait(server, required, now, budget + self._connect_timeout)
            replica.ask_behind(self._taker, wait, packet)
        else:
            replica.ask(self._taker, packet)
        return True

    def _connection_to(self, server: Server) -> ServerConnection | None:
        """The connection to a replica, if there is nothing to tell it first."""
        replica = self._servers.replica(server)
        if replica is not None and not replica.mirror.has(self._state):
            replica = None
        self._replica = replica
        return replica

    def _write(self, packet: bytes, statement: Statement) -> bool:
        """Send a write to the primary."""
        primary, topology = self._servers.primary, self._topology
        if primary is None or primary.server is not topology.primary or not primary.is_free:
            return False
        if topology.rivals or not primary.server.gtids:
            return False
        decision = self._writes
        if decision.server is not primary.server:
            decision = self._writes = on_primary(topology, Reason.WRITE)
        self._begin(packet, statement, decision, utc_ns() // 1000)
        self._servers.activate(primary)
        primary.ask(self._taker, packet)
        return True

    def _begin(
        self, packet: bytes, statement: Statement, decision: Decision, arrived_us: int
    ) -> CommandOutcome:
        """Let the session serve this command now."""
        current = self._current
        command = Command(
            _QUERY,
            self._state.rules,
            packet,
            statement,
            statement.may_write,
            arrived_us=arrived_us,
        )
        current.command = command
        current.outcome = outcome = CommandOutcome(command, decision)
        current.on_forward()
        return outcome
