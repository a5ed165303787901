"""One client's session: its servers, the command it waits for, and what becomes of the answer.

Theory of operation
===================

A command goes through four steps, each a method that the one before calls:

``command`` hands the packet to its forwarder, which knows what kind of answer follows and, for a
statement, asks the policy where it goes. ``dispatch`` writes it to that server, behind whatever the
server must be told first (`proxy.client.preparation`); where a connection must be opened first, a
task does that and dispatches again. ``answer`` passes the answer's bytes on, or holds them back
where they must not count: a WAIT failed, or a replica refused; then the command runs on the
primary. ``_finish`` takes over what the statement changed, before the client is told of its end.

Every session has one connection to the primary, which is the session as the server knows it, and
opens its own connections to replicas as it needs them.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability, Command
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.frame_numbers import FrameNumbers
from protocol.gtid import EMPTY
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from protocol.response_stream import SIMPLE
from protocol.response_translation import ResponseTranslation
from protocol.statement_execution import with_statement_id
from proxy.channel import ChannelClosedError
from proxy.client import effects, preparation
from proxy.client.change_user import change_user
from proxy.client.forwarders import forward, forward_long
from proxy.client.long_command import LongCommand
from proxy.client.prepared import READING, PreparedStatements, prepare_on
from proxy.client.reads import Reads
from proxy.client.replicas import Replicas
from proxy.client.request import Request
from proxy.observe.show import LastAnswer
from proxy.server.connection import (
    FORWARD,
    FORWARD_ROW,
    PROBE,
    RESTORE,
    PreparedHandle,
    Purpose,
    ServerConnection,
)
from proxy.server.kill import kill
from proxy.server.login import Login, primary_settings
from proxy.server.probe import PROBE_SQL, parsed
from routing.consistency import NO_ADJUSTMENT, REMEMBERING
from routing.decision import Decision, Level, Outcome, Proof, Reason
from routing.policy import on_primary
from routing.session import Session
from routing.snapshot import Snapshot, ends_transaction, reads_data
from routing.statement import StatementClass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from protocol.response_stream import ResponseStream
    from proxy.client.connection import ClientConnection
    from proxy.client.prepared import PreparedStatement
    from proxy.client.session_rules import SessionRules
    from proxy.proxy import Proxy
    from proxy.server.login import Opened
    from routing.consistency import Adjustment, Rules
    from routing.statement import Statement
    from routing.topology import Server

_log = logging.getLogger(__name__)

_DRAIN_LIMIT: Final = 1 << 20
"""Bytes of an answer that does not count which are read before the connection is given up."""

_LASTING: Final = 0x2200
"""Status flags that last: SERVER_STATUS_IN_TRANS_READONLY and _NO_BACKSLASH_ESCAPES."""

_WRITES: Final = frozenset({1290, 1792, 1836})
"""Errors by which a server says that it may not run a statement that writes."""

_REFUSALS: Final = _WRITES | {1461}
"""These, and that it has no room for another prepared statement."""

_QUERY_TIMEOUT: Final = 3024
"""ER_QUERY_TIMEOUT: max_execution_time has passed."""

_IN_TRANS_READONLY: Final = 0x2001
"""Status flags of an open READ ONLY transaction."""

_FORGOTTEN: Final = frozenset({1243, 1615})
"""Errors by which a server says that it does not have a prepared statement any more."""

_FAREWELLS: Final = frozenset({1053, 3032})
"""Errors by which a server says that it goes away, or serves nobody for now."""


class ClientSession:
    """Serves one client; the owner of its server connections (`proxy.server.connection.Owner`).

    Attributes:
        session_id: names it in logs; no other session of this worker has it.
        connection_id: what the client was given for one: the primary's, if all went well.
        state: what routing knows of it.
        rules: where its rules come from.
        classifier: knows statements by their text.
        request: the command in flight, or the last one.
        replicas: its connections to replicas.
        reads: what becomes of its reads before they are answered.
        was_reset: the primary's session no longer has what the login asked for.
        prepared: the statements that the client prepared.
        query_attributes: the client's statements begin with attributes (CLIENT_QUERY_ATTRIBUTES).
        sql_mode: that of the primary's session when it began.
        ordinal: statements so far.
        last_answer: what the statement before those to the proxy was given.
        log_fragment: the session's part of its routing records; empty when it must be made anew.
    """

    def __init__(
        self,
        proxy: Proxy,
        connection: ClientConnection,
        login: Login,
        session_id: int,
        connection_id: int,
        state: Session,
        rules: SessionRules,
    ) -> None:
        self._proxy = proxy
        self.connection = connection
        self.login = login
        self.session_id = session_id
        self.connection_id = connection_id
        self.state = state
        self.rules = rules
        self.classifier = proxy.classifier
        self.request = Request()
        self.prepared = PreparedStatements()
        self._primary: ServerConnection | None = None
        self.replicas = Replicas(proxy, self)
        self.reads = Reads(proxy, self)
        self._active: ServerConnection | None = None  # answers, or is being sent, the request
        self._answered = True
        self._status = 0  # the primary's last
        self.long_command = LongCommand(self)
        self._paused = False  # the client takes no more for now
        self._task: asyncio.Task[None] | None = None
        self._restoring = ""  # the session_track_gtids that is being set
        self._untracked = False  # GTID tracking may be off until the transaction ends
        self.was_reset = False
        self._pins = state.pins.reasons  # as the metrics have them
        self._closed = False
        self._new_rules = False  # another schema, so perhaps other rules
        self.query_attributes = bool(connection.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        self.sql_mode = ""
        self.ordinal = 0
        self.log_fragment = ""
        self.last_answer: LastAnswer | None = None
        self.config = proxy.config
        self.topology = proxy.topology
        self.now = proxy.now

    # Servers

    def take_primary(self, opened: Opened) -> None:
        """Use this connection to the primary, in place of one before it.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        old = self._primary
        connection = opened.connection
        if connection.server is not self._proxy.topology.primary:
            opened.channel.abort()
            raise ChannelClosedError("another server has become the primary")
        connection.translation = ResponseTranslation(
            connection.stream,
            self.connection.capabilities,
            self.state.shown_trackers,
            self.state.shown_variables,
        )
        connection.attach(opened.channel.hand_over(connection), self)
        self._primary = connection
        self._status = connection.stream.status
        identity = opened.identity
        self.sql_mode = identity.sql_mode
        self.state.connected(identity.sql_mode, identity.autocommit, identity.character_set)
        self.state.schema = connection.schema
        self._proxy.metrics.server_connected(connection.server.name)
        if old is not None:
            self.drop(old)

    def drop(self, connection: ServerConnection) -> None:
        """Close a connection to a server."""
        connection.close()
        self.connection.resume_reading()  # it may have been this one that took no more
        self._proxy.metrics.server_disconnected(connection.server.name)

    @property
    def primary(self) -> ServerConnection | None:
        """The connection to the primary; None when it is lost."""
        return self._primary

    @property
    def connections(self) -> list[ServerConnection]:
        """All that are open."""
        others = self.replicas.connections
        return others if self._primary is None else [self._primary, *others]

    @property
    def primary_thread_id(self) -> int:
        """The primary's id of this session, or 0."""
        return 0 if self._primary is None else self._primary.thread_id

    @property
    def waiting_replica(self) -> ServerConnection | None:
        """The replica connection that runs this session's statement, if one does."""
        active = self._active
        return active if active is not None and active is not self._primary else None

    # A command

    def command(self, packet: bytes) -> None:
        """Serve a whole command, header and payload."""
        forward(self, packet)

    def begin_stream(self, prefix: bytes) -> None:
        """Serve a command that comes in parts (`stream`); `prefix` is how it begins, with header.

        What is that long is not classified: it goes to the primary, and may do anything.
        """
        self.long_command.begin()
        if not forward_long(self, prefix):
            self.long_command.going = False

    def stream(self, data: bytes, done: bool) -> None:
        """Pass on a part of a long command or of a local file."""
        self.long_command.part(data, done)
        primary = self._primary
        if done and primary is not None and self._answered and not primary.busy:
            self.settled(primary)  # it was answered before it had come whole

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""
        if self._primary is not None:
            self.drop(self._primary)
            self._primary = None

    def begin(
        self,
        packet: bytes,
        command: Command,
        shape: int,
        statement: Statement | None = None,
        *,
        may_write: bool = False,
        effect: Callable[[ServerConnection], None] | None = None,
    ) -> None:
        """Start the request that the forwarders fill in."""
        self.request.begin(packet, command, shape, statement, may_write, time.time_ns() // 1000)
        self.request.effect = effect

    def route(self) -> None:
        """Let the policy decide about the request's statement, and dispatch it."""
        self.reads.route()

    def to_primary(self, reason: Reason) -> None:
        """Dispatch the request to the primary."""
        self.dispatch(on_primary(self._proxy.topology, reason))

    def to_connection(self, connection: ServerConnection, reason: Reason) -> None:
        """Send the request where something of the session's is, that no other server has."""
        request = self.request
        request.bound = True
        if connection is self._primary:
            self.to_primary(reason)
        elif connection.lost:
            self._end_lost("it held an open cursor")
        else:
            request.reason = reason
            request.proof = Proof.NONE
            request.decision = Decision(connection.server, reason, Proof.NONE)
            self._activate(connection)
            connection.write(self._own_packet(connection))

    def dispatch(self, decision: Decision) -> None:
        """Write the request to the server that was decided on."""
        request = self.request
        state = self.state
        request.decision = decision
        request.reason = decision.reason
        request.proof = decision.proof
        if decision.server is self._proxy.topology.primary:
            primary = self._primary
            if primary is None or primary.lost:
                self._lose_client("Lost connection to MySQL server during query")
                return
            if not self._can_know(primary):
                self.refuse(
                    ServerErrorCode.ER_UNKNOWN_STMT_HANDLER,
                    "Unknown prepared statement handler: sql_mode or character set have changed"
                    " since it was prepared; prepare it again",
                    reason=Reason.PREPARED,
                )
                return
            self._activate(primary)
            data = self._prepare_before(primary)
            if self._older_than_seen():
                data += preparation.settle(primary, self._rules().wait_budget)
            # Only before a read: behind a probe, ROW_COUNT() and the like would tell of the probe.
            if state.wants_probe and request.is_read and self._guarded():
                primary.expect(PROBE)
                data += preparation.statement_packet(primary, PROBE_SQL)
            data += self._own_packet(primary)
            if data:
                primary.write(data)
            if not request.packet and self._knows(primary):
                self._pass_parts(primary)
            return
        replica = self.replicas.get(decision.server)
        if decision.reason is Reason.TRANSACTION:
            request.bound = True
            if replica is None or replica.snapshot is not state.snapshot:
                self._end_lost("a READ ONLY transaction ran there")
            else:
                self._to_replica(replica, decision)
        elif replica is not None and replica.busy:
            self.to_primary(Reason.REPLICA_BEHIND)  # it still drains an answer that came too late
        elif replica is not None and not self._can_know(replica):
            self.to_primary(Reason.PREPARED)
        elif replica is None:
            if decision.reason is Reason.DIAGNOSTIC:
                self.to_primary(Reason.DIAGNOSTIC)  # what it asks about is gone
                return
            self._start(self._open_replica(decision.server), "open replica")
        else:
            self._to_replica(replica, decision)

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        """Do what the client has to wait for."""
        self._task = self._proxy.tasks.start(work, f"session {self.session_id}: {name}")
        self._task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect, which the log tells of: the client must not wait for ever.
            self.connection.abort()
            self.client_lost()

    def deactivate(self) -> None:
        """What the active connection still answers to the request does not count."""
        self._active = None

    def primary_for_probe(self) -> ServerConnection | None:
        """The primary connection, if it can ask the primary for what it has."""
        primary = self._primary
        usable = primary is not None and not primary.lost and not primary.overdue
        if not usable or primary is None or primary.server is not self._proxy.topology.primary:
            return None
        return primary

    def _activate(self, connection: ServerConnection) -> None:
        self._active = connection
        self._answered = False
        if self._paused:
            connection.pause_reading()

    def _to_replica(self, replica: ServerConnection, decision: Decision) -> None:
        request = self.request
        state = self.state
        self._activate(replica)
        data = b""
        waits = decision.proof is Proof.WAITED and decision.proof_set is not None
        schema = state.schema if replica.schema != state.schema else ""
        role = state.variables.get("role", "")
        audits = decision.proof is not Proof.NONE and self.reads.audits()
        if (
            waits
            or audits
            or schema
            or replica.role != role
            or replica.needs_reset
            or replica.variables_version != state.variables_version
        ):
            parts = preparation.prepare(replica, state)
            if waits and decision.proof_set is not None:
                budget = (request.rules or state.rules).wait_budget - request.wait_us / 1e6
                request.dispatched_us = time.time_ns() // 1000
                parts += preparation.wait(replica, decision.proof_set, budget)
                self.reads.wait.begin(replica, decision.proof_set, budget)
            if audits and request.required is not None:
                parts += preparation.audit(replica, request.required)
            if replica.role != role:
                parts += preparation.choose_role(replica, role)
            if schema:
                parts += preparation.choose_schema(replica, schema)
            data = parts
        snapshot = state.snapshot
        if snapshot is not None and replica.snapshot is not snapshot:
            data += preparation.begin_transaction(replica, snapshot)
            snapshot.taken_on(replica.server, decision.proof_set or EMPTY)
        if request.statement is not None and request.statement.user_variables:
            names = request.statement.user_variables
            data += preparation.assign_user_variables(replica, state, names)
        replica.write(data + self._own_packet(replica))

    def _own_packet(self, connection: ServerConnection) -> bytes:
        """The client's command as this server is to get it; registers its answer.

        Where the server must be told of a prepared statement first, that is all for now.
        """
        request = self.request
        prepared = request.prepared
        held = request.statement is not None and request.statement.holds
        expected = FORWARD_ROW if held else FORWARD[request.shape]
        if prepared is None:
            connection.expect(expected)
            return request.packet
        handle = connection.statements.get(prepared.number)
        if handle is None:
            if connection is self._primary:
                connection.schema = self.state.schema
            if not request.packet:
                self.long_command.hold()
            return prepare_on(connection, prepared, self.state.schema)
        connection.expect(expected)
        if not request.packet:
            return b""  # its parts follow
        packet = prepared.command(request.packet, handle, self.query_attributes)
        return prepared.long_data_for(handle) + packet if prepared.long_data else packet

    def _prepared(self, connection: ServerConnection, stream: ResponseStream, active: bool) -> None:
        """A server was asked to prepare a statement that it did not know; perhaps it did."""
        number = connection.preparing.popleft()
        if stream.head is not None:
            connection.statements[number] = PreparedHandle.of(stream.head)
        prepared = self.request.prepared
        if not active or self._answered or prepared is None or prepared.number != number:
            return
        if stream.error is None:
            connection.write(self._own_packet(connection))
            self._pass_parts(connection)
        elif connection is not self._primary and not self.request.bound:
            self.reads.fall_back(connection, Reason.REPLICA_REFUSED)
        else:
            if self.long_command.going:
                self.long_command.give(_nowhere)
            self._finish(connection, stream)
            self.connection.write(frame(stream.error, 1))

    def _can_know(self, connection: ServerConnection) -> bool:
        """As `_knows`, or it can be told."""
        prepared = self.request.prepared
        return self._knows(connection) or prepared is None or prepared.is_read_alike(self.state)

    def holder(self, prepared: PreparedStatement) -> ServerConnection | None:
        """A server that knows the statement: where its cursor is open, if it has one."""
        if prepared.cursor is not None:
            return prepared.cursor
        for connection in self.connections:
            if prepared.number in connection.statements and not connection.busy:
                return connection
        return None

    def _prepare_before(self, primary: ServerConnection) -> bytes:
        """What must be prepared before the request changes how statements are read."""
        statement = self.request.statement
        if not len(self.prepared) or statement is None:
            return b""
        variables = self.state.variables
        if not any(
            one.name in READING and (one.value is None or variables.get(one.name) != one.value)
            for one in statement.assignments
        ):
            return b""
        primary.schema = schema = self.state.schema
        return b"".join(
            [
                prepare_on(primary, prepared, schema)
                for prepared in self.prepared.missing_on(primary)
                if prepared.is_read_alike(self.state)
            ]
        )

    def _knows(self, connection: ServerConnection) -> bool:
        """Whether the server knows the prepared statement that the request is about, if it is."""
        prepared = self.request.prepared
        return prepared is None or prepared.number in connection.statements

    def _pass_parts(self, connection: ServerConnection) -> None:
        """Let the parts of a long command go to the server that has been told what they are of."""
        request = self.request
        prepared = request.prepared
        if prepared is None:
            self.long_command.give(connection.write)
            return
        handle = connection.statements[prepared.number]
        self.long_command.give(
            connection.write,
            lambda part: prepared.command(part, handle, self.query_attributes),
        )

    async def _open_replica(self, server: Server) -> None:
        """Open this session's connection to a replica, then decide again."""
        failed = await self.replicas.open(server)
        if failed is not None:
            self.reads.note_fallback(server, failed)
        self._task = None
        self.request.dispatched_us = time.time_ns() // 1000
        # The server may be another incarnation than the one that the decision was about.
        self.route()

    # The answer

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Pass on bytes of the answer; what a replica says too late goes nowhere."""
        if connection is not self._active:
            connection.drained += received
            if connection.drained > _DRAIN_LIMIT:
                self.replicas.give_up(connection)
            return
        request = self.request
        stream = connection.stream
        request.received += received
        if stream.session_states:
            self._take_trackers(connection)
        if not request.started and (
            connection is not self._primary or request.number or request.prepared is not None
        ):
            data = request.held + data
            request.held = b""
            if len(data) < 9 if request.number else len(data) < 5:
                request.held = data
                return
            if data[4] == 0xFF:
                if not stream.done:
                    request.held = data
                    return
                if stream.error is not None and self._does_not_count(connection, stream.error):
                    return
            elif request.number:
                data = with_statement_id(data, request.number)
        if stream.infile and connection is not self._primary:
            raise MalformedPacketError("a replica asked for a local file")
        if stream.done:
            self._finish(connection, stream)
        if data:
            request.started = True
            self.connection.write(data)
        if stream.infile:
            numbers = FrameNumbers(stream.sequence_id + 1)
            self.long_command.begin()
            self.long_command.give(lambda data: connection.write(numbers.renumber(data)))
            stream.infile_sent()
            self.connection.expect_infile()

    def _does_not_count(self, connection: ServerConnection, error: bytes) -> bool:
        """Whether a server's error is not for the client: the command runs again, or elsewhere."""
        request = self.request
        code = _code(error)
        prepared = request.prepared
        if code in _FORGOTTEN and prepared is not None and prepared.moves:
            if not request.prepared_anew and request.packet:
                request.prepared_anew = True
                connection.statements.pop(prepared.number, None)
                connection.write(self._own_packet(connection))
                return True
        elif connection is self._primary or request.bound:
            return False
        elif code in _REFUSALS or (code == _QUERY_TIMEOUT and self._unlimited()):
            statement = request.statement
            if code in _WRITES and statement is not None:
                self._proxy.topology.refusals.add(statement.digest, self._proxy.now())
            self.reads.fall_back(connection, Reason.REPLICA_REFUSED)
            return True
        elif code in _FAREWELLS:
            self.reads.fall_back(connection, Reason.REPLICA_LOST)
            self.replicas.give_up(connection)
            return True
        return False

    def _unlimited(self) -> bool:
        """Whether a limit of execution time is the replica's own, and none that the client set."""
        hinted = b"MAX_EXECUTION_TIME" in self.request.text.upper()
        return "max_execution_time" not in self.state.variables and not hinted

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge the answer to a statement of the proxy's own."""
        stream = connection.stream
        active = connection is self._active
        if purpose is Purpose.WAIT:
            if active:
                self.reads.waited(connection, stream)
        elif purpose is Purpose.PROBE:
            if active:
                if stream.session_states:
                    self._take_trackers(connection)  # of what failed before it
                self._probed(connection, stream)
        elif purpose is Purpose.GATHER:
            if self.state.suspect:
                self._take_trackers(connection)  # of what failed before it
                if effects.told_late(self.request, self.state):
                    self.restore_settings()
            self._proxy.probes.answered(connection, stream)
        elif purpose is Purpose.SETTLE:
            self.reads.settled(connection, stream)
        elif purpose is Purpose.STATEMENT:
            self._prepared(connection, stream, active)
        elif purpose is Purpose.AUDIT:
            if active:
                self.reads.audited(connection, stream)
        elif stream.error is None:
            if purpose is Purpose.RESTORE:
                self._restored(stream)
        elif purpose is Purpose.RESTORE:
            connection.close()
            self._lose_client(
                "the primary did not take the settings that consistency needs: "
                f"{ErrPacket.parse(stream.error)}"
            )
        elif connection is self._primary:
            self._lose_client(
                "the primary did not go back to the session's schema: "
                f"{ErrPacket.parse(stream.error)}"
            )
        else:
            _log.info(
                "replica %s could not be prepared: %s",
                connection.server.name,
                ErrPacket.parse(stream.error),
            )
            if active:
                self.reads.fall_back(connection, Reason.REPLICA_REFUSED)
            # Even if nobody waits for it any more: it has not what it was thought to have.
            self.replicas.give_up(connection)

    def settled(self, connection: ServerConnection) -> None:
        """Take the next command, if the answer to this one is complete."""
        if connection is self._active and self._answered and not self.long_command.going:
            self._active = None
            if self._paused:
                connection.resume_reading()
            self.connection.ready()

    def _probed(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The primary's `gtid_executed`; without it, what is required stays unknown."""
        answer = parsed(stream)
        if answer is None:
            return
        executed = answer.executed
        self.state.probed(executed, answer.owned)
        connection.server.proved(executed, connection.epoch)
        self._proxy.ledger.proved(
            connection.server,
            "probed",
            executed,
            self.request.dispatched_us,
            time.time_ns() // 1000,
        )

    def _rules(self) -> Rules:
        return self.request.rules or self.state.rules

    def _guarded(self) -> bool:
        return self._rules().level is not Level.BEST_EFFORT

    def _older_than_seen(self) -> bool:
        """Whether the primary may not show yet what a replica has shown.

        A replica can have applied what the primary has in its binlog, and not in its engine.
        """
        rules = self._rules()
        state = self.state
        if rules.level not in REMEMBERING or state.in_transaction:
            return False
        statement = self.request.statement
        if statement is not None and statement.kind is StatementClass.DIAGNOSTIC:
            return False  # it would tell of the WAIT
        if self.request.shape not in effects.SHOWING:
            return False
        primary = self._proxy.topology.primary
        scope = state.reading(rules, self._proxy.topology.term, self._proxy.now())
        if scope.unseen or scope.seen_on not in (None, primary):
            return True
        # What a probe named as being committed may not be there yet.
        return not scope.everything <= primary.applied

    def _take_trackers(self, connection: ServerConnection) -> None:
        stream = connection.stream
        if connection is not self._primary and not connection.tracks_all:
            return
        proxy = self._proxy
        schema = self.state.schema
        effects.take_trackers(
            stream.session_states,
            self.request,
            self.state,
            connection,
            proxy.metrics,
            proxy.now(),
        )
        stream.session_states.clear()
        if self.state.schema != schema:
            self.log_fragment = ""
            if self.rules.by_schema:
                self.state.initial_rules = self.rules.initial(self.state.schema)
                self._new_rules = True

    # The end

    def _finish(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The answer is complete: take over what it changed, count it, log it."""
        request = self.request
        state = self.state
        self._answered = True
        if connection is self._primary:
            if stream.error is None:
                self._status = status = stream.status
                state.in_transaction = status & 0x0001 != 0
                self._follow_snapshot(connection, status)
                if state.status_tells:
                    state.autocommit = status & 0x0002 != 0
                state.one_shot = False
                restore = effects.succeeded(request, state, stream.row)
                if self._untracked:
                    state.may_have_written(request.rules)
                    restore = restore or not state.in_transaction
                if restore:
                    self.restore_settings()
            else:
                if request.may_write or not state.modes_known:
                    # It may have committed before it failed, and opened a transaction, too.
                    state.may_have_written(request.rules)
                    state.in_transaction = True
                    self._proxy.metrics.required_unknown("error")
                elif not state.autocommit:
                    state.in_transaction = True  # by the first table that it came to
                if effects.failed(request, state):
                    self.restore_settings()
        if request.effect is not None and stream.error is None:
            request.effect(connection)
        if request.prepared is not None:
            request.prepared.ended(request.command, connection)
        effects.shown(request, state, connection, stream.rows)
        self._count_pins()
        if self._new_rules:
            self._new_rules = False
            self._follow_rules(self.rules.present(state.schema))
        if request.statement is None or request.reason is not Reason.DIAGNOSTIC:
            state.last = connection.server
        error = 0 if stream.error is None else _code(stream.error)
        self._account(connection.server, Outcome.ERROR if error else Outcome.OK, error, stream.rows)

    def _count_pins(self) -> None:
        """Let the metrics know why the session is pinned, if that has changed."""
        reasons = self.state.pins.reasons
        if reasons is not self._pins:
            self._proxy.metrics.pins(self._pins, reasons)
            self._pins = reasons

    def _follow_snapshot(self, primary: ServerConnection, status: int) -> None:
        """See whether a READ ONLY transaction has begun or ended, or reads from the primary."""
        state = self.state
        request = self.request
        statement = request.statement
        snapshot = state.snapshot
        if snapshot is not None and ends_transaction(statement):
            state.snapshot = snapshot = None
            self.replicas.end_transactions()
        if status & _IN_TRANS_READONLY != _IN_TRANS_READONLY:
            return
        if snapshot is None:
            state.snapshot = snapshot = Snapshot()
            text = request.text.upper()
            if state.one_shot or state.tracks_transactions or b"SNAPSHOT" in text or not text:
                snapshot.taken_on(primary.server)
        elif snapshot.server is None and reads_data(statement, request.text):
            snapshot.taken_on(primary.server)
        elif snapshot.is_replicas and reads_data(statement, request.text):
            self._proxy.metrics.snapshot_split()

    def restore_settings(self) -> None:
        """Make the proxy's settings of the primary connection again, behind the command."""
        primary = self._primary
        if primary is None:
            return
        if primary.translation is not None:
            primary.translation.show(self.state.shown_trackers, self.state.shown_variables)
        self.replicas.track(self.state)
        primary.expect(RESTORE)
        # Inside a transaction GTID tracking cannot be changed (fact 2.4): it is done behind it.
        self._untracked = self.state.in_transaction
        self._restoring = self.state.tracking
        shown = self.state.shown_variables
        tracking = "" if self._untracked else self.state.tracking
        sql = primary_settings(tracking, shown)
        primary.write(preparation.statement_packet(primary, sql))

    def _restored(self, stream: ResponseStream) -> None:
        """The settings were made; behind an error it is known only now if a transaction is open."""
        self.state.in_transaction = stream.status & 0x0001 != 0
        if not self._untracked and self._primary is not None:
            self._primary.tracks_all = self._restoring == "ALL_GTIDS"
        if self._untracked and not self.state.in_transaction:
            self.restore_settings()

    def _account(
        self, server: Server | None, outcome: Outcome, error: int, rows: int | None
    ) -> None:
        self._proxy.ledger.enter(self, server, outcome, error, rows)

    def refuse(
        self, code: ServerErrorCode, message: str, *, reason: Reason = Reason.COMMAND
    ) -> None:
        """Answer the request with an error of the proxy's own."""
        request = self.request
        request.reason = reason
        request.proof = Proof.NONE
        self._proxy.metrics.error("proxy", code.code)
        self._account(None, Outcome.ERROR, code.code, None)
        self._answered = True
        self._active = None
        if request.prepared is not None:
            request.prepared.forget_long_data()  # as an execution that fails
        self.connection.send_error(ErrPacket(code.code, code.sqlstate, message))
        self.connection.ready()

    @property
    def status(self) -> int:
        """The server status of an answer of the proxy's own: clients escape by what it says."""
        flags = 0x0001 if self.state.in_transaction else 0
        if self.state.autocommit:
            flags |= 0x0002
        return flags | self._status & _LASTING

    def ok(self) -> bytes:
        """An OK packet of the proxy's own, framed."""
        packet = OkPacket(status=self.status)
        return frame(packet.serialise(self.connection.capabilities), 1)

    def fresh_ok(self, within_us: int) -> bytes | None:
        """The OK that the primary would give, framed, if it answered the last command so lately.

        None if that was an error, or another server, or too long ago.
        """
        primary = self._primary
        last = self.request
        decision = last.decision
        if (
            primary is None
            or decision is None
            or decision.server is not primary.server
            or primary.busy
            or primary.stream.error is not None
            or time.time_ns() // 1000 - last.arrived_us > within_us
        ):
            return None
        packet = OkPacket(status=self.status, warnings=primary.stream.warnings)
        return frame(packet.serialise(self.connection.capabilities), 1)

    def answer_itself(self, data: bytes) -> None:
        """Answer the request without a server."""
        request = self.request
        request.reason = Reason.PROXY
        request.proof = Proof.NONE
        self._account(None, Outcome.OK, 0, None)
        self.connection.write(data)
        self.connection.ready()

    def keep_last_answer(self) -> None:
        """A statement to the proxy begins, which may ask about the one before it."""
        if self.request.reason is not None and self.request.reason is not Reason.PROXY:
            self.last_answer = LastAnswer.of(self)

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Run the statement elsewhere if that is safe, else end the session as a server would."""
        proxy = self._proxy
        server = connection.server
        proxy.metrics.server_disconnected(server.name)
        self.connection.resume_reading()  # it may have been this one that took no more
        active = connection is self._active and not self._answered
        if connection is not self._primary:
            self.replicas.lost(connection)
            if not active:
                self.settled(connection)  # it may have broken right behind its answer
                return
            _log.info("replica %s was lost during a statement: %s", server.name, cause)
            if not self.request.started and not self.request.bound:
                self.reads.fall_back(connection, Reason.REPLICA_LOST)
                return
            self._showed_in_part(connection)
            self._account(server, Outcome.LOST, 0, None)
            self._end_lost(cause)
            return
        self._primary = None
        pending = self._task is not None or self.reads.pending
        self.reads.leave()
        if pending or (self._active is not None and not self._answered):
            if active:
                self._showed_in_part(connection)
            if active and self.request.may_write:
                self.state.may_have_written(self.request.rules)
                proxy.metrics.required_unknown("lost")
            self._account(server, Outcome.LOST, 0, None)
            self._end_lost(cause)
        elif error is not None:
            self.connection.write(frame(error, 0))
            self.connection.close()
        else:
            self.connection.close()

    def _end_lost(self, cause: str) -> None:
        """The server is gone that the session cannot do without: as if the client's own were."""
        if self.request.started:
            self.connection.close()
        else:
            self._lose_client(f"Lost connection to MySQL server during query ({cause})")

    def _showed_in_part(self, connection: ServerConnection) -> None:
        """Some of an answer that will not be complete has reached the client."""
        if self.request.started:
            self.state.showed(connection.server, connection.epoch, self.request.rules)

    def _lose_client(self, message: str) -> None:
        code = ServerErrorCode.CR_SERVER_LOST
        self._proxy.metrics.error("proxy", code.code)
        self._answered = True
        self.connection.fail(code, message)

    # The session as a whole

    def adjust(self, chosen: Adjustment) -> None:
        """Let these settings of the client's count, in place of those before."""
        self.rules.chosen = chosen
        self._follow_rules(self.rules.present(self.state.schema))

    def _follow_rules(self, rules: Rules) -> None:
        self.log_fragment = ""
        if self.state.adjust(rules):
            self.restore_settings()

    def reset(self) -> None:
        """The primary did a COM_RESET_CONNECTION: the rest follows."""
        self.rules.chosen = NO_ADJUSTMENT
        self.log_fragment = ""
        self.state.reset()
        self._count_pins()
        self.was_reset = True
        self.prepared.clear()
        self.replicas.reset(self.state.variables_version)
        self.restore_settings()

    def change_user(self, packet: bytes) -> None:
        """COM_CHANGE_USER: a new login over the same client connection."""
        self.begin(packet, Command.COM_CHANGE_USER, SIMPLE)
        self._start(change_user(self._proxy, self, packet), "change user")

    def changed_user(self, login: Login, opened: Opened, rules: SessionRules) -> None:
        """The new login succeeded: what the old one had goes, what it wrote stays written.

        Raises:
            ChannelClosedError: the new connection broke meanwhile.
        """
        self._task = None
        self.was_reset = self._untracked = False
        self.login = login
        self.rules = rules
        self.state.user = login.username
        self.state.initial_rules = rules.initial(login.database or "")
        self.state.reset()
        self._count_pins()
        self.state.avoided = frozenset()
        self.prepared.clear()
        self.replicas.drop_all()
        self.take_primary(opened)
        self.log_fragment = ""
        request = self.request
        request.reason = Reason.COMMAND
        request.proof = Proof.PRIMARY
        self._account(opened.connection.server, Outcome.OK, 0, None)
        self._answered = True

    def server_thread_id(self, connection_id: int) -> int | None:
        """The primary's id of the session that a client knows by this one, or None."""
        target = self._proxy.session_of(connection_id)
        if target is None:
            return None
        replica = target.waiting_replica
        if replica is not None and target.login.username == self.login.username:
            # Its statement runs on a replica; the primary would find nothing to end.
            self._proxy.tasks.start(
                kill(
                    replica,
                    target.replicas.login(),
                    self._proxy.config,
                    self._proxy.materials,
                    query_only=True,
                ),
                f"session {target.session_id}: kill its query",
            )
        return target.primary_thread_id

    def shut_down(self) -> None:
        """The proxy stops: end an idle session as a server does."""
        if self._answered and self._task is None and not self.reads.pending:
            self.connection.fail(
                ServerErrorCode.ER_SERVER_SHUTDOWN, "Server shutdown in progress", sequence_id=0
            )

    def leave_primary(self) -> None:
        """Another server is the primary now, and what the session was, it was on the old one."""
        primary = self._primary
        if primary is None or primary.server is self._proxy.topology.primary:
            return
        primary.close()
        code = ServerErrorCode.ER_SERVER_SHUTDOWN
        message = "Tidegate: another server has become the primary; connect again"
        error = ErrPacket(code.code, code.sqlstate, message)
        self.server_lost(primary, message, error.serialise(self.connection.capabilities))

    # The client

    def client_lost(self) -> None:
        """The client is gone: let go of its servers, and do not leave a WAIT behind (fact 4.1)."""
        if self._closed:
            return
        self._closed = True
        self.state.pins.clear()
        self._count_pins()
        if self._task is not None:
            self._task.cancel()
        self.reads.leave()
        active = self._active
        if active is not None and not self._answered:
            self._showed_in_part(active)
        if active is not None and not active.lost and active.awaiting is Purpose.WAIT:
            self._proxy.metrics.wait_killed()
            self._proxy.tasks.start(
                kill(active, self.replicas.login(), self._proxy.config, self._proxy.materials),
                f"session {self.session_id}: kill its wait",
            )
        self.replicas.drop_all()
        if self._primary is not None:
            self.drop(self._primary)
        self._proxy.forget(self)

    def client_paused(self) -> None:
        """The client reads slower than the server sends: let the server wait."""
        self._paused = True
        if self._active is not None:
            self._active.pause_reading()

    def client_resumed(self) -> None:
        """The client reads again."""
        self._paused = False
        if self._active is not None:
            self._active.resume_reading()

    def server_paused(self, connection: ServerConnection) -> None:
        """The server reads slower than the client sends: let the client wait."""
        self.connection.pause_reading()

    def server_resumed(self, connection: ServerConnection) -> None:
        """The server reads again."""
        self.connection.resume_reading()


def _nowhere(data: bytes) -> None:
    """What is wrong with it is told when it has come whole."""


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8
