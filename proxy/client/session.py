"""One client's session: takes its commands, and turns what is to be done into I/O, in one place.

Theory of operation
===================

A command is first interpreted (`proxy.client.requests.commands`): a statement becomes a `Command`;
for anything else an `Action` says what is to be done. For a statement the read's machine
(`routing.request.read`) is asked; each of its steps becomes a question to the primary, a timer, a
connection that is opened, bytes to a server, or an answer of the proxy's own (`_perform`).
`Dispatch` writes to servers: `command_batch` makes what goes in front of a command, and `servers`
knows the connection.

Servers answer in order. `ProxyQueryAnswers` judges the answers to the proxy's own statements; those
that are events for the machine are told to it by `ReadEvents`. `ServerAnswers` passes the bytes of
the client's answer on, or holds them back as long as they may not count. `Disconnects` takes over
where a server or the client is gone. Each returns the machine's next step, if there is one, and the
session takes it.

The parts are given what they have in common, the `SessionContext`, and the other parts that they
work with; none of them holds the session. What they share of the command that is being served is
its `CurrentCommand`. COM_CHANGE_USER has a part of its own, made for the one command
(`proxy.client.login.change_user`).

Most statements do not come here at all: `proxy.client.fast_path` sends plain statements, and takes
their answers, as long as the session is plain (`Session.plain`). Whatever comes here may change
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from proxy.client.answers.disconnects import Disconnects
from proxy.client.answers.proxy_query_answers import ProxyQueryAnswers
from proxy.client.answers.read_events import ReadEvents
from proxy.client.answers.server_answers import ServerAnswers
from proxy.client.effects.command_effects import CommandEffects
from proxy.client.effects.missing_trackers import MissingTrackers
from proxy.client.fast_path.answer import FastAnswers
from proxy.client.fast_path.request import FastRequests
from proxy.client.login.change_user import UserChange
from proxy.client.primary_stand_in import PrimaryStandIn
from proxy.client.read_timers import ReadTimers
from proxy.client.replies.own_answers import OwnAnswers
from proxy.client.requests.commands import parse_command, parse_long_command
from proxy.client.requests.commands.action import (
    Action,
    ChangeUser,
    Done,
    Find,
    NoAnswer,
    Own,
    Ping,
    Quit,
    Refused,
    Take,
    ToHolder,
    TooLong,
    ToPrimary,
    Unknown,
)
from proxy.client.requests.commands.command_context import CommandContext
from proxy.client.requests.commands.query import kill as kill_command
from proxy.client.requests.dispatch import Dispatch
from proxy.client.requests.own_statements import OwnStatements
from proxy.client.servers import Servers
from proxy.client.session_context import SessionContext
from proxy.client.sharing.connection_lease import ConnectionLease
from proxy.client.statements.diagnostics import KEEP_ALIVE
from proxy.server.connection import ServerConnection
from proxy.server.errors import NoPrimaryError, ServerFullError
from proxy.shared.activity import Activity
from proxy.shared.keepalive import is_last_chance, is_over
from proxy.wall_clock import utc_us
from routing.consistency.decision import (
    Decision,
    Reason,
)
from routing.policy import on_primary
from routing.request import refusal
from routing.request.command import Command
from routing.request.stage import ASKING, DELAYED, DONE, JOINED, OPENING, SENT
from routing.request.step import Ask, Delay, End, Join, Known, Open, Refuse, Send, Step
from routing.sql.diagnostics import ROW_COUNT
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from proxy.client.connection import ClientConnection
    from proxy.client.session_rules import SessionRules
    from proxy.observe.label_values import EndCause
    from proxy.server.exchange import Purpose
    from proxy.server.gtid_question import Answer as ProbeAnswer
    from proxy.server.login import Login
    from proxy.shared.administration.question import Question
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server
    from routing.session.session import Session

_SHUTDOWN: Final = ServerErrorCode.ER_SERVER_SHUTDOWN.code

PING_TRUST_US: Final = 1_000_000
"""How long ago the primary may have spoken for a COM_PING to be answered without it."""
_OF_A_KILL_S: Final = 5.0
"""A connection that is lost so soon behind a KILL was killed: not even a read may be answered."""


class ClientSession:
    """Serves one client. It is the owner of its server connections (`Owner`)."""

    def __init__(
        self,
        shared: Shared,
        client: ClientConnection,
        login: Login,
        session_id: int,
        connection_id: int,
        state: Session,
        rules: SessionRules,
    ) -> None:
        """The session of a client that was let in.

        Args:
            shared: what sessions share.
            client: the connection to it.
            login: as whom.
            session_id: names it in logs; no other session of this worker has it.
            connection_id: the connection id that the client was given: the primary's, if all went
                well.
            state: what routing knows of it.
            rules: where its rules come from.
        """
        self._shared = shared
        self._now = shared.now
        self._topology = shared.topology
        self._client = client
        self._session_id = session_id
        self._connection_id = connection_id
        self._state = state
        self._servers = servers = Servers(shared, client, login, state, self)
        self._read_timers = read_timers = ReadTimers(
            shared.waits, shared.deadlines, shared.call_later, self._silent
        )
        self._session_context = context = SessionContext(
            shared, session_id, client, state, rules, servers, read_timers
        )
        self._current = current = context.current
        self._read = context.read
        self._long = context.long
        # The parts; each is given those that it works with.
        self._command_effects = command_effects = CommandEffects(context)
        missing_trackers = MissingTrackers(context, command_effects)
        lease: ConnectionLease | None = None
        if shared.config.shares_connections:
            lease = ConnectionLease(context, connection_id)
        self._lease = lease
        self._memory = context.memory
        self._command_context = CommandContext(context)
        self._events = events = ReadEvents(context)
        self._own_answers = own_answers = OwnAnswers(context)
        self._own = OwnStatements(context, command_effects, own_answers, connection_id)
        self._stand_in = PrimaryStandIn(context, command_effects, own_answers)
        self._taker = taker = FastAnswers(context, lease)
        self._fast = client.fast = FastRequests(context, missing_trackers, taker, lease)
        self._dispatch = dispatch = Dispatch(context, missing_trackers, lease, own_answers, taker)
        self._answers = answers = ServerAnswers(
            context, events, command_effects, missing_trackers, lease, dispatch
        )
        self._query_answers = ProxyQueryAnswers(
            context, events, command_effects, lease, dispatch, own_answers, answers
        )
        self._disconnects = Disconnects(
            context, events, command_effects, lease, dispatch, own_answers
        )
        self._task: asyncio.Task[None] | None = None  # what the client has to wait for
        self._closed = False
        # The last command that a replica was sent in the primary's place.
        self._substituted: Command | None = None
        self._reads_on = False
        self._configure()
        state.outdated = rules.outdated
        # The command, and how often the primary had spoken, when `keep_alive` was called last.
        self._seen = current.command, 0
        self._idle_looks = -1  # since a look found a new command; -1 while one is served

    # What others may know (`proxy.shared.sessions.Member`)

    @property
    def session_id(self) -> int:
        """Names it in logs; no other session of this worker has it."""
        return self._session_id

    @property
    def connection_id(self) -> int:
        """What its client was given for one."""
        return self._connection_id

    @property
    def state(self) -> Session:
        """What routing knows of it."""
        return self._state

    @property
    def peer(self) -> str:
        """The client's address, for the log."""
        return self._client.peer

    @property
    def client(self) -> ClientConnection:
        """The connection to its client."""
        return self._client

    @property
    def activity(self) -> Activity:
        """What it does now, for operators."""
        current, active = self._current, self._servers.active
        server = None if active is None else active.server.name
        return Activity(current.stage, current.command, current.outcome, server, self.is_away)

    @property
    def keeps_waiting(self) -> ServerConnection | None:
        """The connection to a replica that the client waits for, if there is one."""
        return None if self._current.stage == DONE else self._servers.keeps_waiting

    def thread_of(self, username: str) -> int:
        """The primary's id of the session, for a KILL by this user.

        A statement of the session on a replica is ended here. 0 if there is no such id: then the
        session is about to end.
        """
        servers = self._servers
        self._current.killed_at = self._now()
        if servers.login.username == username:
            # The primary would not find a statement that runs on a replica.
            servers.kill_active(f"session {self._session_id}: kill its query", query_only=True)
        if servers.primary is not None:
            servers.primary.keepable = False  # a KILL may come late: nobody else may get it
            if self._lease is not None:
                self._lease.killed()
        return servers.primary_thread_id

    def cut_off(self) -> None:
        """End at once, whatever the client does: with an error, if it would be read as one."""
        if self._rests or self._holds_command:
            self._end_by_shutdown()
        else:
            self._client.abort()

    def on_config_changed(self) -> None:
        """Other options count from the next command on, or behind an open transaction.

        The reads of a transaction that has one snapshot must not ask for different things.
        """
        self._state.outdated = True
        self._state.plain = False
        self._client.configure(self._shared.config.max_allowed_packet)

    def _configure(self) -> None:
        """Take over what the session has computed from options."""
        shared = self._shared
        config = shared.config
        self._reads_on = config.without_primary == "read" and bool(shared.topology.replicas)
        self._read.on_lost_writes = config.on_lost_writes
        self._fast.configure(config.connect_timeout)
        self._dispatch.configure(config.connect_timeout)
        if self._lease is not None:
            self._lease.configure()

    def _follow_config(self) -> None:
        """Let the options that count now count for the command that has come."""
        self._state.outdated = False
        self._configure()
        self._client.configure(self._shared.config.max_allowed_packet)
        self._read.cached_decision.forget()
        self._command_effects.follow_config()

    def prefer_replica(self, index: int) -> None:
        """Let its reads ask the replica first that `Topology.first_of` this is."""
        self._state.preferred = index
        self._read.cached_decision.forget()

    def leave_replica(self, server: Server) -> bool:
        """Close the connection to a server that is used no more; False while a read is there."""
        connection = self._servers.open_to(server)
        if connection is None:
            return True
        prepared = self._session_context.prepared
        if (
            connection.busy
            or connection is self._servers.active
            or self._servers.has_open_snapshot(connection)
            or prepared.has_cursor_on(connection)
        ):
            return False
        self._servers.give_up(connection)
        return True

    def shut_down(self) -> None:
        """The proxy stops: end, if no statement runs and no transaction is open."""
        if self._rests and not self._state.transaction.is_open:
            self._end_by_shutdown()

    def _end_by_shutdown(self) -> None:
        self._client.fail(
            ServerErrorCode.ER_SERVER_SHUTDOWN,
            "Server shutdown in progress",
            sequence_id=1 if self._holds_command else 0,
        )

    def leave_stuck_write(self, why: str) -> None:
        """End, if the client waits for the primary to answer what may write: it will not."""
        primary, current = self._servers.primary, self._current
        if primary is None or primary is not self._servers.active or current.stage == DONE:
            return
        if not current.outcome.may_write or current.answer.started:
            return
        primary.close()
        cause = f"Tidegate: {why}; whether the statement took effect is not known"
        self.server_lost(primary, cause, None)

    def leave_primary(self) -> None:
        """Leave it, if the primary has changed, or was restarted: the session was on the old one.

        It ends, unless it can go on without (`_can_outlive`).
        """
        servers, lease = self._servers, self._lease
        primary = servers.primary
        cause = servers.cause if primary is not None or lease is None else lease.cause
        if not cause:
            return
        if primary is not None and self._can_outlive(primary, None):
            lease = self._take_lease()
            lacking = lease.lacking(primary)
            if not lacking:
                servers.abandon_primary()
                self._part_from(primary)
                lease.outlives()
                self._go_on_without()
                return
            servers.abandon_primary()
            code = ServerErrorCode.ER_SERVER_SHUTDOWN
            message = f"Tidegate: {cause}, and the session had {lacking} on the old one"
            self._end_without(ErrPacket(code.code, code.sqlstate, f"{message}; connect again"))
            return
        code = ServerErrorCode.ER_SERVER_SHUTDOWN
        message = f"Tidegate: {cause}; connect again"
        if primary is None:
            if self._current.answer.started and self._current.stage != DONE:
                self._client.close()  # as a server that dies amid an answer
            else:
                self._end_refused(ErrPacket(code.code, code.sqlstate, message))
            return
        primary.close()
        error = ErrPacket(code.code, code.sqlstate, message)
        self.server_lost(primary, message, error.serialise(self._client.capabilities))

    def on_primary_gone(self) -> None:
        """The primary is found not to be there: do without it, if it has no connection to it."""
        if self._lease is not None:
            self._lease.on_primary_gone()

    def on_primary_back(self) -> None:
        """The primary is found to be there: what is to have it borrows a connection again."""
        if self._lease is not None and self._state.without_primary:
            self._lease.on_primary_back()
            self._state.plain = False
            self._read.cached_decision.forget()

    # It loses the primary, and lives on (docs/architecture/without-primary.md)

    def _take_lease(self) -> ConnectionLease:
        """The lease of a session that loses its primary, made now if it had none."""
        lease = self._lease
        if lease is None:
            lease = self._lease = ConnectionLease(self._session_context, self._connection_id)
            self._taker.use_lease(lease)
            self._fast.use_lease(lease)
            self._dispatch.use_lease(lease)
            self._answers.use_lease(lease)
            self._query_answers.use_lease(lease)
            self._disconnects.use_lease(lease)
        return lease

    def _can_outlive(self, primary: ServerConnection, error: bytes | None) -> bool:
        """Whether the session may go on without the primary, as far as its command is concerned.

        Whoever has sent the primary a command is not told what became of it; a read that has shown
        nothing can be answered elsewhere. `error` is the ERR packet by which the server ended the
        connection, if it did.
        """
        current = self._current
        if not self._reads_on:
            return False
        if self._long.going or self._client.closed:
            return False
        if self._now() - self._current.killed_at < _OF_A_KILL_S:
            return False
        if error is not None and ErrPacket.parse(error).code != _SHUTDOWN:
            return False  # it says what it has against this session
        if current.stage == DONE or self._servers.active_replica is not None:
            return self._task is None
        if self._servers.active is primary:
            return (
                current.stage == SENT
                and current.command.is_read
                and not (current.outcome.may_write or self._read.bound or current.answer.started)
            )
        return current.stage in (ASKING, OPENING, JOINED, DELAYED)

    def _part_from(self, primary: ServerConnection) -> None:
        """The connection to the primary is gone, and the session perhaps goes on without it."""
        asking = self._current.stage == ASKING
        if self._servers.active is primary:
            self._servers.deactivate()
            self._read_timers.cancel_timer()
            self._current.answer.held = b""
        elif asking:
            self._read_timers.cancel_timer()  # it is asked anew, with a time limit of its own
        self._dispatch.leave()
        if self._shared.probes.leads(self) or asking:
            self._shared.probes.leave(self)
        self._take_lease().doubt(primary)

    def _on_presence(self, primary: ServerConnection, cause: str, *, gone: bool) -> None:
        """It is known now whether the primary is gone, of which the connection was lost."""
        lease = self._lease
        if self._closed or self._client.closed or lease is None or not lease.in_doubt:
            return
        lacking = lease.lacking(primary) if gone else ""
        if gone and not lacking:
            lease.outlives()
            self._go_on_without()
        elif gone:
            code = ServerErrorCode.ER_SERVER_SHUTDOWN
            message = (
                f"Tidegate: the primary {primary.server.name} is gone, and with it {lacking} of"
                " the session; connect again"
            )
            self._end_without(ErrPacket(code.code, code.sqlstate, message))
        else:
            waits = self._current.is_waiting or (
                self._current.stage == SENT and self._servers.active is None
            )
            self._leave_read()
            self._servers.abandon_primary()  # if it has another by now
            self._disconnects.primary(primary, cause, None, active=False, waits=waits)

    def _go_on_without(self) -> None:
        """Let a read that was with the primary, or was to ask it something, go on."""
        current = self._current
        if self._task is not None:
            return  # it has waited for this, and goes on by itself
        if current.stage == ASKING:
            seconds = max(self._read.budget, 0.0)
            self._start(self._awake(lambda: self._ask_primary(seconds)), "borrow")
        elif current.stage == SENT and self._servers.active is None:
            self._perform(self._read.primary_lost(self._now()))

    def _end_without(self, error: ErrPacket) -> None:
        """The session cannot go on without the primary: end it, as a server that dies would."""
        if self._current.answer.started and self._current.stage != DONE:
            self._client.close()
        else:
            self._end_refused(error)

    def _lacks_primary(self, cause: str) -> None:
        """The command needs the primary, and there is none: the session stays."""
        current = self._current
        if current.stage == ASKING:
            self._perform(self._events.primary_silent())
            return
        command = current.command
        name = self._topology.primary.name
        refused = refusal.no_primary(name, cause, may_write=current.outcome.may_write)
        choice = self._stand_in.choice(command)
        if choice == "replica" and self._substituted is not command:
            self._substituted = command
            self._start(self._substitute(refused), "a replica in the primary's place")
        elif choice in ("refuse", "replica"):
            self._perform(self._read.no_primary(refused, self._now()))
        else:
            self._stand_in.carry_out(command, choice, self._lease)

    async def _substitute(self, refused: Refuse) -> None:
        """Have a replica answer in the primary's place, or refuse the command."""
        servers, stand_in = self._servers, self._stand_in
        for server in stand_in.replicas:
            connection = servers.replica(server)
            if connection is None:
                await servers.open(server)
                connection = servers.replica(server)
            if self._closed or self._client.closed:
                return
            if not self.is_away:
                self._task = None
                self._to(on_primary(self._topology, Reason.SESSION))  # it is back
                return
            if connection is not None and stand_in.fits(connection, self._current.command):
                self._task = None
                self._dispatch.to_substitute(connection)
                return
        self._task = None
        self._perform(self._read.no_primary(refused, self._now()))

    def keep_alive(self) -> None:
        """Send the primary a COM_PING if the client has worked without it since the last call.

        It has no effect that shows: whoever asks for ROW_COUNT() is not asking the primary. A
        client that has done nothing for all of its wait_timeout is ended.
        """
        if self._servers.primary is None and self.is_away:
            self.rest()  # also where connections are not shared
            self._seen = self._current.command, 0  # and keep no other command
            self._idle_looks = -1
            return
        primary, command, state = self._servers.primary, self._current.command, self._state
        received = 0 if primary is None else primary.packets_received
        (seen, heard), self._seen = self._seen, (command, received)
        if not self._rests:
            self._idle_looks = -1
        elif command is not seen:
            self._idle_looks = 0
        else:
            self._idle_looks += 1
        waits = self._current.stage != DONE and self._servers.active_replica is not None
        worked = received == heard and (waits or command is not seen)
        if primary is None:
            return
        if is_over(self._idle_looks, state.wait_timeout):
            self._end_by_wait_timeout()
        elif worked or is_last_chance(self._idle_looks, state.wait_timeout):
            self._let_hear(primary, waits=waits)

    def _let_hear(self, primary: ServerConnection, *, waits: bool) -> None:
        """Let the primary hear of the session, if its answer tells of no statement before."""
        state = self._state
        if primary.busy or primary.lost or state.trackers_pending or state.result_trackers_pending:
            return
        if waits or not state.diagnostics.is_at(primary.area, ROW_COUNT):
            primary.send(KEEP_ALIVE)

    # Its connections are given back, and others borrowed

    def rest(self) -> None:
        """Give the connections back, if no command came since this was called last."""
        lease = self._lease
        if lease is None or not self._rests:
            return
        lease.rest(self._current.command)
        if lease.is_expired:
            self._end_by_wait_timeout()

    def _end_by_wait_timeout(self) -> None:
        self._end_by_limit(
            "wait_timeout",
            ServerErrorCode.ER_CLIENT_INTERACTION_TIMEOUT,
            "The client was disconnected by the server because of inactivity. See wait_timeout"
            " and interactive_timeout for configuring this behavior.",
            waits=False,
        )

    @property
    def last_command(self) -> Command | None:
        """The last command, if its client waits for nothing."""
        return self._current.command if self._rests else None

    def end_idle(self, seconds: float) -> None:
        """End, since the client has sent nothing for so long."""
        self._end_by_limit(
            "client_idle_timeout",
            ServerErrorCode.ER_CLIENT_INTERACTION_TIMEOUT,
            "The client was disconnected by the server because of inactivity (Tidegate's"
            f" client-idle-timeout is {seconds:g} s)",
            waits=False,
        )

    def _end_by_limit(
        self, cause: EndCause, code: ServerErrorCode, message: str, *, waits: bool = True
    ) -> None:
        """End, since the client has met a limit; `waits` if it waits for an answer."""
        metrics = self._shared.metrics
        metrics.client_ended(cause)
        metrics.error("proxy", code.code)
        sequence_id = 1 if waits else 0
        if self._long.going:  # who is still sending does not read the error
            self._long.discard(lambda: self._client.fail(code, message, sequence_id))
        else:
            self._client.fail(code, message, sequence_id)

    @property
    def _rests(self) -> bool:
        """Whether its client waits for nothing."""
        return self._current.stage == DONE and not (
            self._long.going or self._client.closed or self._holds_command
        )

    @property
    def _holds_command(self) -> bool:
        """Whether a command has come that is not served yet: its answer begins with packet 1."""
        return self._lease is not None and self._lease.holds_command

    def give_way(self, server: Server) -> None:
        """Others wait for a connection to the server: give one back, if it is not needed."""
        if self._lease is not None:
            self._lease.give_way(server, rests=self._rests)

    @property
    def is_away(self) -> bool:
        """Whether it has no connection to the primary, and borrows one for its next command."""
        return self._lease is not None and self._lease.is_away

    async def wake(self) -> ErrPacket | None:
        """Have a connection to the primary again; why there is none now, or None.

        Any other failure ends the session, and its client is told.
        """
        try:
            error = None if self._lease is None else await self._lease.borrow()
        except ServerFullError as full:
            return full.error
        except NoPrimaryError as absent:
            primary = self._topology.primary.name
            refused = refusal.no_primary(primary, str(absent), may_write=False)
            return ErrPacket(refused.code.code, refused.code.sqlstate, refused.message)
        if error is not None and not self._client.closed:
            self._end_refused(error)
        return None

    async def _awake(self, then: Callable[[], None]) -> None:
        """Borrow a connection for the command that waits, and go on with it."""
        full: ErrPacket | None = None
        absent = ""
        try:
            error = None if self._lease is None else await self._lease.borrow()
        except ServerFullError as reason:
            error, full = None, reason.error
        except NoPrimaryError as reason:
            error, absent = None, str(reason)
        self._task = None
        if self._closed or self._client.closed or self._current.stage == DONE:
            return
        if error is not None:
            self._end_without(error)
        elif absent:
            self._lacks_primary(absent)
        elif full is None:
            then()
        else:
            code = ServerErrorCode.ER_CON_COUNT_ERROR
            self._leave_read()
            self._own_answers.refuse_whole(Refuse(code, full.message, Reason.PROXY))

    async def _find(self, order: Find) -> None:
        """Find what is to be killed, and go on with the KILL."""
        targets = self._shared.kill_targets
        full: ErrPacket | None = None
        thread_id: int | None = None
        try:
            thread_id = await targets.find(order.connection_id, self._state.user)
        except ServerFullError as error:
            full = error.error
        self._task = None
        if self._closed or self._client.closed:
            return
        if full is None:
            self._take(kill_command(self._command_context, order.command.packet, thread_id))
        else:
            absent = full.code == ServerErrorCode.CR_CONN_HOST_ERROR.code
            code = (
                ServerErrorCode.CR_CONN_HOST_ERROR if absent else ServerErrorCode.ER_CON_COUNT_ERROR
            )
            self._own_answers.refuse(code, full.message)

    def _end_refused(self, error: ErrPacket) -> None:
        """End the client's connection with what the server, or the proxy, says of its login."""
        waits = self._current.stage != DONE
        self._leave_read()
        self._own_answers.end_refused(error, waits=waits, held=self._holds_command)

    # It begins, and others log in over it

    def take_primary(self, connection: ServerConnection) -> None:
        """Use this connection to the primary.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        self._session_context.prepared.reserve(connection.opening.prepared)
        self._servers.take_primary(connection)

    def begin_anew(self, connection: ServerConnection) -> None:
        """Use this connection to the primary, as another user; ChannelClosedError if it broke."""
        self.take_primary(connection)
        if self._lease is not None:
            self._lease.began()

    def begin_without_primary(self, connection: ServerConnection) -> None:
        """Begin as a replica has begun the session, since the primary is gone."""
        self._servers.begin_without_primary(connection)
        self._take_lease().began_without_primary()

    async def _change_user(self) -> None:
        """Let another user log in; failing ends the session."""
        change = UserChange(self._session_context, self._command_effects, self)
        changed = await change.run()
        if changed:
            self._task = None
            self._client.ready()
        elif changed is False:
            self.client_lost()

    # A command comes (`proxy.client.connection.Commands`)

    @property
    def results(self) -> str:
        """Its character_set_results, if that is known; else empty."""
        return self._state.results

    def serve(self, packet: bytes) -> None:
        """Serve a whole command, header and payload."""
        if self._lease is not None and self._lease.holds(lambda: self.serve(packet)):
            return
        if self._state.outdated and not self._state.transaction.is_open:
            self._follow_config()
        self._take(parse_command(self._command_context, packet))

    def _take(self, order: Command | Action) -> None:
        excess = self._memory.excess
        if excess:
            self._end_by_limit("max_session_memory", ServerErrorCode.ER_DA_CONN_LIMIT, excess)
            return
        state = self._state
        state.plain = state.plain and isinstance(order, Command) and order.is_plain
        if isinstance(order, Command):
            self._current.begin(order)
            self._route()
        else:
            self._obey(order)

    def begin_stream(self, prefix: bytes) -> None:
        """Serve a command that comes in parts (`stream`); `prefix` is how it begins, with header.

        Such a long command is not classified: it goes to the primary, and may do anything.
        """
        self._long.begin()
        self._serve_long(prefix)

    def _serve_long(self, prefix: bytes) -> None:
        if self._lease is not None and self._lease.holds(lambda: self._serve_long(prefix)):
            return
        if self._state.outdated:
            self._follow_config()
        self._take(parse_long_command(self._command_context, prefix))

    def stream(self, data: bytes, done: bool) -> None:
        """Pass on a part of a long command or of a local file."""
        self._long.part(data, done)
        primary = self._servers.primary
        if done and primary is not None and self._current.stage == DONE and not primary.busy:
            self.on_idle(primary)  # it was answered before it had come whole

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""
        self._servers.abandon_primary()

    def count_too_long(self) -> None:
        """The client is ended, since it has sent a packet that is longer than allowed."""
        metrics = self._shared.metrics
        metrics.client_ended("max_allowed_packet")
        metrics.error("proxy", ServerErrorCode.ER_NET_PACKET_TOO_LARGE.code)

    def _obey(self, order: Action) -> None:  # noqa: C901, PLR0912 one case per action
        """Do what an order says."""
        if isinstance(order, ToPrimary):
            self._current.begin(order.command)
            decision = on_primary(self._topology, order.reason)
            if order.bound:
                self._read.bind(decision, order.command.rules, self._now())
            self._to(decision)
        elif isinstance(order, Own):
            self._obey_own(order.command)
        elif isinstance(order, Ping):
            self._ping(order.command)
        elif isinstance(order, NoAnswer):
            self._client.ready()
        elif isinstance(order, Find):
            self._current.begin(order.command)
            self._start(self._find(order), "find what to kill")
        elif isinstance(order, Take):
            if self._long.going:
                self._long.give(order.take, then=self._client.ready)
            else:
                order.take(order.packet)
                self._client.ready()
        elif isinstance(order, ToHolder):
            self._current.begin(order.command)
            self._go_on(self._dispatch.to_holder(order.holder, order.reason))
        elif isinstance(order, Refused):
            self._current.begin(order.command)
            self._own_answers.refuse(order.code, order.message, order.reason)
        elif isinstance(order, Done):
            self._current.begin(order.command)
            self._state.diagnostics.affects_none()
            self._own_answers.ok()
        elif isinstance(order, Unknown):
            unknown = ToPrimary(order.command, Reason.PREPARED)
            if self._long.going:
                self._long.discard(lambda: self._obey(unknown))
            else:
                self._obey(unknown)
        elif isinstance(order, ChangeUser):
            self._current.begin(order.command)
            self._start(self._change_user(), "change user")
        elif isinstance(order, Quit):
            self._client.close()
        elif isinstance(order, TooLong):
            self.count_too_long()
            self._client.fail(
                ServerErrorCode.ER_NET_PACKET_TOO_LARGE,
                "Got a packet bigger than this command can be",
            )
            self._long.going = False

    def _ping(self, command: Command) -> None:
        """Answer a COM_PING for the primary, if that answered the last command just now.

        Not if that was an error, or another server, or too long ago.
        """
        primary = self._servers.primary
        decision = self._current.outcome.decision
        fresh = (
            primary is not None
            and decision is not None
            and decision.server is primary.server
            and not primary.busy
            and primary.stream.error is None
            and utc_us() - self._current.command.arrived_us <= PING_TRUST_US
        )
        self._current.begin(command)
        if primary is None or not fresh:
            self._to(on_primary(self._topology, Reason.COMMAND))
        else:
            self._state.diagnostics.affects_none()
            self._own_answers.ok(self._state.diagnostics.warning_count)

    def _obey_own(self, command: Command) -> None:
        """Obey a statement to Tidegate, or say what is wrong with it."""
        self._own.follows(self._current.command, self._current.outcome)
        self._current.begin(command)
        question = self._own.question(command)
        if question is not None:
            self._start(self._administer(command, question), "ask the workers")
        elif self._own.asks_primary(command):
            self._perform(self._read.ask(self._now()))  # `Known` goes on
        else:
            self._own.obey(command, None)

    async def _administer(self, command: Command, question: Question) -> None:
        """Have the workers answer a statement to Tidegate, and tell the client."""
        found = await self._shared.administration.ask(question)
        self._task = None
        if not (self._closed or self._client.closed):
            self._own.show(command, question, found)

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        """Do what the client has to wait for."""
        self._task = self._shared.start(work, f"session {self._session_id}: {name}")
        self._task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect, which is logged: the client must not wait for ever.
            self._client.abort()
            self.client_lost()
        if self._closed:
            self._part()

    # The read's machine: steps

    def _route(self) -> None:
        """Let the policy decide about the statement, and go on."""
        command = self._current.command
        statement = command.statement
        if statement is None:
            return
        read = self._read
        step = read.begin(statement, command.rules, self._now())
        if isinstance(step, Send) and read.note is None:
            self._current.outcome.required = read.required
            self._to(step.decision)
        else:
            self._perform(step)

    def _perform(self, step: Step) -> None:  # noqa: C901 one case per step
        """Turn a step into what it says."""
        outcome, read, read_timers = self._current.outcome, self._read, self._read_timers
        outcome.required = read.required
        if read.note is not None:
            self._events.count(read.note)
            read.note = None
        if isinstance(step, Send):
            outcome.dispatched_us = utc_us()
            self._to(step.decision)
        elif isinstance(step, Ask):
            seconds = step.seconds
            if self.is_away:
                self._start(self._awake(lambda: self._ask_primary(seconds)), "borrow")
            else:
                if self._servers.primary is not None:
                    self._dispatch.save_found_rows(self._servers.primary)
                self._ask_primary(seconds)
        elif isinstance(step, Join):
            read_timers.join(step.wait, self)
            read_timers.after(step.seconds, self._out_of_time)
        elif isinstance(step, Open):
            self._start(self._open(step.server), "open replica")
        elif isinstance(step, Delay):
            read_timers.after(step.seconds, self._turn_came)
        elif isinstance(step, Refuse):
            self._own_answers.refuse_whole(step)
        elif isinstance(step, End):
            self._own_answers.end_lost(step.cause)
        elif isinstance(step, Known):
            self._own.obey(self._current.command, read.probe_result)

    def _go_on(self, step: Step | None) -> None:
        """Take the next step, if there is one already."""
        if step is not None:
            self._perform(step)

    def _ask_primary(self, seconds: float) -> None:
        """Share in the next question to the primary, and wait so long for the answer."""
        probes = self._shared.probes
        self._read_timers.after(max(seconds, probes.patience), self._primary_is_late)
        probes.ask(self)

    # The read's machine: events

    def primary_for_probe(self) -> ServerConnection | None:
        """Its connection to the primary, if it has one that is usable."""
        return self._servers.primary_for_probe()

    def on_probe(self, answer: ProbeAnswer | None) -> None:
        """What the primary has, by a question that was sent after `Ask`; None if it cannot say."""
        if answer is None and self._task is not None:
            return  # it has lost the primary meanwhile, and asks anew
        self._perform(self._events.on_probe(answer))

    def _primary_is_late(self) -> None:
        self._shared.probes.give_up(self)
        self.on_primary_silent()

    def on_primary_silent(self) -> None:
        """The primary does not say what it has, or not within the read's budget."""
        self._perform(self._events.primary_silent())

    def on_released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        self._perform(self._events.on_released(self))

    def _out_of_time(self) -> None:
        self._perform(self._events.out_of_time(self))

    def _turn_came(self) -> None:
        self._perform(self._events.turn_came())

    async def _open(self, server: Server) -> None:
        """Open a connection to a replica."""
        failed = await self._servers.open(server)
        self._task = None
        if not self._client.closed:  # else the primary was lost meanwhile
            self._perform(self._events.on_opened(failed))

    def _silent(self) -> None:
        """The server did not even say that the wait's budget ran out."""
        replica = self._servers.active
        if replica is not None and replica is self._servers.primary:
            self._perform(self._events.unsettled(replica))
        elif replica is not None:
            self._taker.on_declined(replica)
            self._perform(self._events.silent(replica))
            self._servers.give_up(replica)

    # To a server

    def _to(self, decision: Decision) -> None:
        """Write the command to the server that was decided on."""
        primary, current = self._servers.primary, self._current
        if decision.server is self._topology.primary:
            if primary is None and self.is_away:
                current.outcome.set_decision(decision)
                current.on_sent()
                self._start(self._awake(lambda: self._to_borrowed(decision)), "borrow")
                return
            if self._reads_on and primary is not None and decision.server.is_silent(self._now()):
                self._to_silent(decision)
                return
        step = self._dispatch.to(decision)
        if step is not None:  # on the path of every statement, so without a call
            self._perform(step)

    def _to_borrowed(self, decision: Decision) -> None:
        """Write the command to the primary, of which a connection was borrowed for it.

        Meanwhile another server may have become the primary, so that the one that was decided on is
        a replica: it must not get the command, which may write.
        """
        if decision.server is self._topology.primary:
            self._to(decision)
        elif self._current.stage == SENT:
            self._perform(self._read.primary_lost(self._now()))
        else:
            self._to(on_primary(self._topology, decision.reason))

    def _to_silent(self, decision: Decision) -> None:
        """The primary is known to answer nobody, so it is not sent the command.

        A COMMIT that is refused must be rolled back, so the session ends then.
        """
        current = self._current
        statement = current.command.statement
        ends = statement is not None and statement.kind is StatementClass.TRANSACTION
        current.outcome.set_decision(decision)
        if ends and self._state.transaction.is_open:
            name = decision.server.name
            self._own_answers.end_lost(f"{name} does not answer")
        else:
            current.on_sent()
            self._lacks_primary("it does not answer")

    # From a server (`proxy.server.connection.Owner`)

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Pass on bytes of the answer; a replica's late answer is dropped."""
        self._state.plain = False  # else the fast path would have taken it
        self._go_on(self._answers.on_answer(connection, data, received))

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge the answer to a statement of the proxy's own."""
        self._go_on(self._query_answers.on_answer(connection, purpose))

    def on_idle(self, connection: ServerConnection) -> None:
        """Take the next command, if the answer to this one is complete."""
        servers = self._servers
        if self._lease is not None and self._lease.answered(connection):
            return
        is_done = self._current.stage == DONE and not self._long.going
        if is_done and connection is servers.active:
            servers.on_idle(connection)
            if self._lease is not None and self._shared.slots.waiting:
                self._lease.let_others(rests=self._rests)
            self._client.ready()

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Run the statement elsewhere if that is safe, else end the session as a server would."""
        servers = self._servers
        active = connection is servers.active and self._current.stage != DONE
        servers.on_lost(connection)
        if connection is servers.primary and self._can_outlive(connection, error):
            servers.primary = None
            self._part_from(connection)
            shared = self._shared
            if error is not None:
                self._on_presence(connection, cause, gone=True)  # it has said so
                return
            shared.primary_presence.ask(
                connection,
                servers.login,
                lambda gone: self._on_presence(connection, cause, gone=gone),
                self._client.abort,
            )
        elif connection is servers.primary:
            waits = self._task is not None or self._current.is_waiting
            self._leave_read()
            self._disconnects.primary(connection, cause, error, active=active, waits=waits)
        elif active:
            self._go_on(self._disconnects.replica(connection, cause))
        else:
            self._dispatch.on_found_rows(connection)
            self.on_idle(connection)  # it may have broken right behind its answer

    def server_paused(self, connection: ServerConnection) -> None:
        """The server reads slower than the client sends: let the client wait."""
        self._client.pause_reading()

    def server_resumed(self, connection: ServerConnection) -> None:
        """The server reads again."""
        self._client.resume_reading()

    # The client

    def client_paused(self) -> None:
        """The client reads slower than the server sends: let the server wait."""
        self._servers.pause()

    def client_resumed(self) -> None:
        """The client reads again."""
        self._servers.resume()

    def client_lost(self) -> None:
        """The client is gone: let go of its servers, and do not leave a WAIT behind (fact 4.1)."""
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._leave_read()
        self._disconnects.client()
        self._shared.sessions.forget(self)
        self._part()

    def _leave_read(self) -> None:
        """Nobody waits for the read any more."""
        current = self._current
        self._read_timers.leave(self)
        self._dispatch.leave()
        asking = current.stage == ASKING
        current.on_left()
        self._read_timers.end_wait()
        if asking or self._shared.probes.leads(self):
            self._shared.probes.leave(self)

    def _part(self) -> None:
        """Drop all references to this session, once nothing runs for it any more.

        So it is freed at once, and not by the garbage collector, which hardly ever runs.
        """
        if self._task is not None and not self._task.done():
            return
        self._task = None
        self._client.detach()
        self._long.forget()
        self._read_timers.part()
        self._servers.drop_owner()
