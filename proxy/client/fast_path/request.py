"""Sends the plain statements of a plain session to their server in one step.

Theory of operation
===================

Most statements are like the one before: a read or a write of data, in no transaction, with nothing
to be told to its server first. For these the session need not be asked. A read goes where the last
one went, while that decision stands, or to the replica that the policy chooses anew
(`routing.request.cached_decision`), with a WAIT in front if need be, or to the primary where the
wait is not worth it. A write goes to the primary.
The answers are taken in one step, too (`proxy.client.fast_path.answer`).

Whatever else comes is served by the session (`proxy.client.session`), which knows the same things
of the last statement whichever way it went: its `CurrentCommand`. So does an answer that is not as
most are: the read's machine takes the statement up then, as if it had begun there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.prepared_statement import PARAMETER_COUNT_AVAILABLE
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
    from protocol.gtid import GtidSet
    from proxy.client.effects.missing_trackers import MissingTrackers
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection, Taker
    from routing.consistency.decision import Decision
    from routing.servers.topology import Server
    from routing.session.prepared import PreparedHandle, PreparedStatement
    from routing.sql.statement import Statement

_WAITED: Final = Proof.WAITED
_OF_PRIMARY: Final = Proof.PRIMARY
_QUERY: Final = Code.COM_QUERY
_COM_QUERY: Final = int(Code.COM_QUERY)
_EXECUTE: Final = Code.COM_STMT_EXECUTE
_COM_STMT_EXECUTE: Final = int(Code.COM_STMT_EXECUTE)
_FLAGS: Final = 9
"""Where a framed COM_STMT_EXECUTE has its flags."""
_COUNT: Final = 14
"""Where it has the number of its parameters and attributes, if it has any."""
_LONG_COUNT: Final = 251
"""From here on that number has more than one byte."""


class FastRequests(FastPath):
    """Sends the plain commands of one session in one step each."""

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
        self._connect_timeout = 0.0  # `configure` sets it
        self._current = session.current
        self._cached_decision = session.read.cached_decision
        self._read_timers = session.read_timers
        self._state = session.state
        self._servers = session.servers
        self._settings = session.settings
        self._views = session.views
        self._prepared = session.prepared
        self._missing_trackers = missing_trackers
        self._taker = taker
        self._lease = lease
        self._query_attributes = session.query_attributes
        self._writes = on_primary(shared.topology, Reason.WRITE)
        # What was found when the session was found plain.
        self._account = session.views.present()
        self._replica: ServerConnection | None = None
        self._names_writes = False

    def configure(self, connect_timeout: float) -> None:
        """Begin, or go on after a reload, with this time that a silent server has, s."""
        self._connect_timeout = connect_timeout

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def serve(self, packet: bytes) -> bool:
        """Send a command to its server, if that is a plain statement."""
        state = self._state
        if packet[4] != _COM_QUERY:
            return packet[4] == _COM_STMT_EXECUTE and self._execute(packet)
        if not (state.plain or self._become_plain()):
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

    def _execute(self, packet: bytes) -> bool:
        """Execute a prepared statement, if it is a plain read."""
        prepared = self._prepared.of(packet)
        if prepared is None or not _is_alone(packet, prepared) or self._prepared.cursors:
            return False
        statement = prepared.executed_in(self._state.schema)
        if statement is None or statement.plain != PLAIN_READ:
            return False
        if not (self._state.plain or self._become_plain()):
            return False
        return self._read(packet, statement, prepared)

    def _become_plain(self) -> bool:
        """See whether the session is plain; it stays so while plain statements come."""
        state, settings, lease = self._state, self._settings, self._lease
        state.plain = (
            is_plain(state) and not settings.undone and (lease is None or not lease.asking)
        )
        if state.plain:
            self._replica = None
            self._account = self._views.present()
            # Else the tracker of a write tells nothing, or more than its own GTID, or it is not
            # known which. It is the primary's: reads on replicas do not depend on it.
            self._names_writes = (
                state.trackers.gtids == "OWN_GTID"
                and not settings.untracked
                and not self._topology.primary.is_silent(self._now())  # else it gets no write
            )
            self._missing_trackers.is_pinged = False
            self._current.answer = Answer()
        return state.plain

    def _read(
        self, packet: bytes, statement: Statement, prepared: PreparedStatement | None = None
    ) -> bool:
        """Send a read where the last one went, or with a WAIT where one is due.

        One that was prepared goes only where it is known.
        """
        if (
            statement.identifiers
            and (
                self._account.plain_in is not self._catalogues.era or self._account.tables.outdated
            )
            and self._views.classify(statement) is not statement
        ):
            return False
        arrived_us, now = utc_ns() // 1000, self._now()
        decision = self._cached_decision.of(statement.tables, now)
        if decision is None:
            return False
        server = decision.server
        if decision.proof is _OF_PRIMARY:
            return prepared is None and self._read_on_primary(
                packet, statement, decision, arrived_us, now
            )
        replica = self._connection_to(server)
        if replica is None:
            return False
        handle: PreparedHandle | None = None
        if prepared is not None:
            handle = replica.mirror.statements.get(prepared.number)
            if handle is None:
                return False
        required = self._cached_decision.required
        if self._audits.on and self._is_audited():
            return False
        waits = decision.proof is _WAITED
        outcome = self._begin(packet, statement, decision, arrived_us, prepared)
        if prepared is not None and handle is not None:
            prepared.asks_cursor = False
            packet = prepared.command(packet, handle, self._query_attributes)
        outcome.required = required
        outcome.sent_at = now
        self._servers.activate(replica)
        gtids = decision.proof_set
        if waits and gtids is not None:
            self._send_behind_wait(replica, gtids, packet, now)
        else:
            replica.ask(self._taker, packet)
        return True

    def _send_behind_wait(
        self, replica: ServerConnection, gtids: GtidSet, packet: bytes, now: float
    ) -> None:
        """Send a read with a WAIT in front of it, in one write."""
        state, rules = self._state, self._state.rules
        budget = rules.wait_budget
        if rules.is_auto:
            self._topology.primary_share.add(on_primary=False)
        wait = wait_packet(state, gtids, budget, "", replica.query_attributes)
        # The replica is not relied on to end it.
        self._read_timers.begin_wait(replica.server, gtids, now, budget + self._connect_timeout)
        replica.ask_behind(self._taker, wait, packet)

    def _read_on_primary(
        self, packet: bytes, statement: Statement, decision: Decision, arrived_us: int, now: float
    ) -> bool:
        """Send a read to the primary that is not worth a wait, if that may be given another one."""
        primary, topology = self._free_primary(packet, statement), self._topology
        if primary is None or primary.stream.tells_status:
            return False
        if topology.primary_rate_limit.reserve(now, 0.0) is None:
            return False
        outcome = self._begin(packet, statement, decision, arrived_us)
        outcome.required = self._cached_decision.required
        outcome.sent_at = now
        topology.primary_share.add(on_primary=True)
        self._servers.activate(primary)
        primary.ask(self._taker, packet)
        return True

    def _is_audited(self) -> bool:
        """Whether it is a read's turn to be audited, which takes a question of its own."""
        if not self._cached_decision.relies:
            return False
        credit = self._audits.credit + self._audits.share
        if credit >= 1:
            return True
        self._audits.credit = credit
        return False

    def _connection_to(self, server: Server) -> ServerConnection | None:
        """The free connection to a replica, if there is nothing to tell it first."""
        replica = self._replica
        if (
            replica is None
            or replica.server is not server
            or replica.epoch != server.epoch
            or not replica.is_free
        ):
            replica = self._servers.replica(server)
            if replica is not None and not replica.mirror.has(self._state):
                replica = None
            self._replica = replica
            if replica is None or not replica.is_free:
                return None
        return None if replica.stream.tells_status else replica  # it is told again that it need not

    def _write(self, packet: bytes, statement: Statement) -> bool:
        """Send a write to the primary."""
        primary = self._free_primary(packet, statement)
        if primary is None:
            return False
        decision = self._writes
        if decision.server is not primary.server:
            decision = self._writes = on_primary(self._topology, Reason.WRITE)
        self._begin(packet, statement, decision, utc_ns() // 1000)
        self._servers.activate(primary)
        primary.ask(self._taker, packet)
        return True

    def _free_primary(self, packet: bytes, statement: Statement) -> ServerConnection | None:
        """The free connection to the primary, if there is nothing to tell it first."""
        primary, topology = self._servers.primary, self._topology
        if primary is None or primary.server is not topology.primary or not primary.is_free:
            return None
        if topology.withheld or not primary.server.gtids or not self._names_writes:
            return None
        lease = self._lease
        if lease is not None and (
            (lease.is_unnamed and statement.names_id) or lease.may_ask_what_is_lost(packet)
        ):
            return None  # it may be refused
        return primary

    def _begin(
        self,
        packet: bytes,
        statement: Statement,
        decision: Decision,
        arrived_us: int,
        prepared: PreparedStatement | None = None,
    ) -> CommandOutcome:
        """Let the session serve this command now."""
        current = self._current
        command = Command(
            _QUERY if prepared is None else _EXECUTE,
            self._state.rules,
            packet,
            statement,
            statement.may_write,
            prepared,
            arrived_us,
        )
        current.command = command
        current.outcome = outcome = CommandOutcome(command, decision)
        current.on_forward()
        return outcome


def _is_alone(packet: bytes, prepared: PreparedStatement) -> bool:
    """Whether an execution has all values in its packet, no attributes, and asks for no cursor."""
    if len(packet) < _COUNT or prepared.long_data or prepared.spoilt:
        return False
    flags = packet[_FLAGS]
    if flags != PARAMETER_COUNT_AVAILABLE:
        return flags == 0
    count = prepared.parameters
    if len(packet) <= _COUNT or packet[_COUNT] != count or count >= _LONG_COUNT:
        return False
    # Behind the count and a bitmap: whether types follow. Each has two bytes, and a name's length.
    bound = _COUNT + 1 + (count + 7) // 8
    named = packet[bound + 3 : bound + 1 + 3 * count : 3] if packet[bound : bound + 1] else b""
    return packet[bound : bound + 1] in (b"", b"\0") or not any(named)
