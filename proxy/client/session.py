"""One client's session: takes its commands, and turns what is to be done into I/O, in one place.

Theory of operation
===================

A command is understood first (`proxy.client.commands`): a statement becomes a `Command`, of all
else an `Order` says what is to be done. For a statement the read's machine (`routing.request.read`)
is asked; each of its steps becomes a question to the primary, a timer, a connection that is opened,
bytes to a server, or an answer of the proxy's own (`_perform`). `Dispatch` writes to servers: what
goes in front of a command is made by `prelude`, and over which connection `servers` knows.

Servers answer in order. `aside` takes the answers to the proxy's own statements; those that are
events for the machine are judged by `ReadEvents`, which gives its next step. `answer` passes the
bytes of the client's answer on, or holds them back as long as they may not count: a WAIT failed, or
a replica refused; then the command runs elsewhere. When it is complete, `Aftermath` takes over what
the command changed, before the client is told of its end.

The parts are given what they need; none of them has the session. What they share of the command
that is being served is its `Turn`.

Most statements do not come here at all: `proxy.client.fast_path` sends what is plain, and takes its
answer, as long as the session is (`Session.plain`). Whatever comes here may change that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.frame_numbers import FrameNumbers
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from protocol.statement_execution import with_statement_id
from proxy.client.aftermath import Aftermath
from proxy.client.answer import (
    DONE,
    HOLDING,
    PASSING,
    as_the_client_knows_it,
    may_pass,
    wants_file,
)
from proxy.client.borrowing import Borrowing
from proxy.client.change_user import change_user
from proxy.client.commands import understood, understood_long
from proxy.client.commands.desk import Desk
from proxy.client.commands.order import (
    ChangeUser,
    Done,
    Find,
    NoAnswer,
    Order,
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
from proxy.client.commands.query import kill as kill_command
from proxy.client.dispatch import Dispatch
from proxy.client.fast_path.answer import FastAnswers
from proxy.client.fast_path.request import FastRequests
from proxy.client.long_command import LongCommand
from proxy.client.own_answers import OwnAnswers
from proxy.client.own_statements import OwnStatements, WrongOwnError
from proxy.client.pending import Pending
from proxy.client.prepared import PreparedStatements
from proxy.client.previous import Previous
from proxy.client.primary_settings import PrimarySettings
from proxy.client.read_events import ReadEvents
from proxy.client.servers import Servers
from proxy.client.split_snapshots import SplitSnapshots
from proxy.client.turn import Turn
from proxy.client.untold import Untold
from proxy.client.views import Views
from proxy.server.connection import Purpose, ServerConnection
from proxy.server.errors import ServerFullError
from proxy.server.kill import kill
from proxy.wall_clock import utc_us
from routing.consistency.decision import (
    Decision,
    Outcome,
    Proof,
    Reason,
)
from routing.policy import on_primary
from routing.request import effects, refusal
from routing.request.command import Command
from routing.request.read import Read
from routing.request.stage import ASKING
from routing.request.step import Ask, Delay, End, Join, Known, Open, Refuse, Send, Step
from routing.session.prepared import PreparedHandle

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from protocol.gtid import GtidSet
    from proxy.client.connection import ClientConnection
    from proxy.client.session_rules import SessionRules
    from proxy.server.gtid_question import Answer as ProbeAnswer
    from proxy.server.login import Login
    from proxy.server.opened import Lent, Opened
    from proxy.shared import Shared
    from routing.servers.topology import Server
    from routing.session.session import Session

_log = logging.getLogger(__name__)

PING_TRUST_US: Final = 1_000_000
"""How long ago the primary may have spoken for a COM_PING to be answered without it."""

_DRAIN_LIMIT: Final = 1 << 20
"""Bytes of an answer that does not count which are read before the connection is given up."""

_OF_SNAPSHOTS: Final = (Purpose.BEFORE, Purpose.SNAPSHOT, Purpose.BEHIND)


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
            connection_id: what the client was given for one: the primary's, if all went well.
            state: what routing knows of it.
            rules: where its rules come from.
        """
        attributes = bool(client.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        self._shared = shared
        self._now = shared.now
        self._topology = shared.topology
        self._metrics = shared.metrics
        self._client = client
        self._session_id = session_id
        self._connection_id = connection_id
        self._state = state
        self._rules = rules
        self._servers = servers = Servers(shared, client, login, state, self)
        self._prepared = PreparedStatements()
        self._previous = Previous()
        self._settings = PrimarySettings(state, self._servers)
        self._views = Views(shared.catalogues, state, shared.now)
        self._aftermath = Aftermath(
            *(shared, state, rules, self._servers, self._settings, self._prepared),
            *(self._previous, attributes),
        )
        self._untold = Untold(state, self._servers, self._settings, self._aftermath, shared.metrics)
        self._splits = SplitSnapshots(state, self._servers, shared.metrics)
        self._borrowing: Borrowing | None = None
        if shared.config.connection_sharing == "on":
            self._borrowing = Borrowing(
                *(shared, state, self._servers, self._prepared, self._settings),
                *(self._previous, connection_id),
            )
        self._desk = Desk(
            *(state, rules, self._servers, self._prepared, self._views, shared.classifier),
            *(shared.config, shared.kill_targets, attributes),
        )
        self._own = OwnStatements(shared, self._desk, self._aftermath, session_id, connection_id)
        self._account = shared.ledger.open(session_id, state)
        self._long = LongCommand(client)
        self._pending = pending = Pending(
            shared.waits, shared.deadlines, shared.call_later, self._silent
        )
        read = Read(state, shared.topology, shared.waits, shared.config.on_lost_writes)
        self._read = read
        self._turn = turn = Turn(Command(Code.COM_SLEEP, SIMPLE, state.rules))
        self._events = ReadEvents(shared, turn, read, pending, servers, state)
        self._own_answers = OwnAnswers(
            turn, read, client, servers, state, self._account, shared.metrics
        )
        self._taker = taker = FastAnswers(
            *(shared, turn, read, pending, state, servers, self._previous, self._account, client)
        )
        if self._borrowing is None:
            client.fast = FastRequests(
                *(shared, turn, read.standing, pending, state, servers, self._settings),
                *(self._views, self._untold, taker, attributes),
            )
        self._dispatch = Dispatch(
            *(shared, turn, read, pending, state, servers, self._prepared, self._previous),
            *(self._settings, self._views, self._untold, self._splits, self._borrowing),
            *(self._long, self._own_answers, taker, attributes),
        )
        self._task: asyncio.Task[None] | None = None  # what the client has to wait for
        self._closed = False

    # What others may know (`proxy.sessions.Member`)

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
    def keeps_waiting(self) -> ServerConnection | None:
        """The connection to a replica that the client waits for, if there is one."""
        return None if self._turn.answer.stage == DONE else self._servers.keeps_waiting

    def thread_of(self, username: str) -> int:
        """The primary's id of it, for a KILL by this user; a statement on a replica is ended.

        0 if it has none: then it is about to end.
        """
        servers, shared = self._servers, self._shared
        replica = servers.active_replica
        if replica is not None and servers.login.username == username:
            # The primary would find nothing to end.
            login = servers.replica_login()
            self._shared.start(
                kill(replica, login, shared.config, shared.materials, query_only=True),
                f"session {self._session_id}: kill its query",
            )
        if self._borrowing is not None and servers.primary is not None:
            self._borrowing.killed()
            servers.primary.keepable = False  # the KILL may come late: nobody else is to have it
        return servers.primary_thread_id

    def cut_off(self) -> None:
        """Drop the client's connection at once."""
        self._client.abort()

    def shut_down(self) -> None:
        """The proxy stops: end an idle session as a server does."""
        if self._turn.answer.stage == DONE and self._task is None and not self._waits:
            self._client.fail(
                ServerErrorCode.ER_SERVER_SHUTDOWN, "Server shutdown in progress", sequence_id=0
            )

    def leave_primary(self) -> None:
        """End, if the primary is another now, or began anew: the session was on the old one."""
        primary = self._servers.primary
        if primary is None:
            cause = "" if self._borrowing is None else self._borrowing.cause
            if cause:
                message = f"Tidegate: {cause}; connect again"
                self._client.fail(ServerErrorCode.ER_SERVER_SHUTDOWN, message, sequence_id=0)
            return
        if primary.server is not self._topology.primary:
            cause = "another server has become the primary"
        elif primary.epoch < primary.server.started_epoch:
            cause = "the primary was restarted"
        else:
            return
        primary.close()
        code = ServerErrorCode.ER_SERVER_SHUTDOWN
        message = f"Tidegate: {cause}; connect again"
        error = ErrPacket(code.code, code.sqlstate, message)
        self.server_lost(primary, message, error.serialise(self._client.capabilities))

    # Its connections are given back, and others borrowed

    def rest(self) -> None:
        """Give the connections back, if no command came since this was called last."""
        if self._borrowing is not None and self._rests:
            self._borrowing.rest(self._turn.command)

    @property
    def _rests(self) -> bool:
        """Whether its client waits for nothing."""
        return self._turn.answer.stage == DONE and not (
            self._task is not None or self._waits or self._long.going or self._client.closed
        )

    def give_way(self, server: Server) -> None:
        """Somebody waits for a connection to the server: give one back, if it is not needed."""
        borrowing = self._borrowing
        if borrowing is not None and (self._rests or borrowing.is_under_way):
            borrowing.give_way(server)

    def _let_others(self) -> None:
        """Somebody waits for connections: give back those that the session had for long enough."""
        for connection in self._servers.connections:
            slot = connection.slot
            if slot is not None and self._shared.slots.wants(slot):
                self.give_way(connection.server)

    @property
    def is_away(self) -> bool:
        """Whether it has no connection to the primary, and borrows one for its next command."""
        return self._borrowing is not None and self._borrowing.is_away

    async def wake(self) -> ErrPacket | None:
        """Have a connection to the primary again; the error of a server that is full, or None.

        Whatever else hinders ends the session, and its client is told.
        """
        try:
            error = None if self._borrowing is None else await self._borrowing.borrow()
        except ServerFullError as full:
            return full.error
        if error is not None and not self._client.closed:
            self._end_refused(error)
        return None

    async def _awake(self, then: Callable[[], None]) -> None:
        """Borrow a connection for the command that waits, and go on with it."""
        full = await self.wake()
        self._task = None
        if self._closed or self._client.closed:
            return
        if full is None:
            then()
        else:
            code = ServerErrorCode.ER_CON_COUNT_ERROR
            self._leave_read()
            self._refuse_read(Refuse(code, full.message, Reason.PROXY))

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
            self._take(kill_command(self._desk, order.command.packet, thread_id))
        else:
            self._own_answers.refuse(ServerErrorCode.ER_CON_COUNT_ERROR, full.message)

    def _end_refused(self, error: ErrPacket) -> None:
        """End the client's connection with what the server, or the proxy, says of its login."""
        waits = self._turn.answer.stage != DONE or self._task is not None
        self._leave_read()
        self._own_answers.end_refused(error, waits=waits)

    # It begins, and others log in over it (`proxy.client.change_user.Changing`)

    def take_primary(self, opened: Opened | Lent) -> None:
        """Use this connection to the primary.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        self._servers.take_primary(opened)

    @property
    def client(self) -> ClientConnection:
        """The connection to the client."""
        return self._client

    @property
    def login(self) -> Login:
        """As whom the client logged in."""
        return self._servers.login

    @property
    def rules(self) -> SessionRules:
        """Where its rules come from."""
        return self._rules

    @property
    def idle_primary(self) -> ServerConnection | None:
        """The connection to the primary, if it owes no answer."""
        primary = self._servers.primary
        return None if primary is None or primary.busy or primary.lost else primary

    def changed_user(self, login: Login, opened: Opened | Lent, rules: SessionRules) -> None:
        """The new login succeeded: what the old one had goes, what it wrote stays written.

        Raises:
            ChannelClosedError: the new connection broke meanwhile.
        """
        state, servers = self._state, self._servers
        self._task = None
        servers.was_reset = False
        self._settings.made()
        servers.login = login
        self._rules.become(rules)
        state.logged_in(login.username)
        state.initial_rules = rules.initial(login.database or "")
        state.reset()
        self._aftermath.count_pins()
        self._prepared.clear()
        servers.drop_replicas()
        servers.take_primary(opened)
        if self._borrowing is not None:
            self._borrowing.began()
        trail = self._turn.trail
        trail.reason = Reason.COMMAND
        trail.proof = Proof.PRIMARY
        self._account.enter(self._turn.command, trail, opened.connection.server, Outcome.OK)
        self._turn.answer.stage = DONE

    # A command comes (`proxy.client.connection.Commands`)

    @property
    def results(self) -> str:
        """Its character_set_results, if that is known; else empty."""
        return self._state.results

    def serve(self, packet: bytes) -> None:
        """Serve a whole command, header and payload."""
        if self._borrowing is not None and self._borrowing.holds(lambda: self.serve(packet)):
            return
        self._take(understood(self._desk, packet))

    def _take(self, asked: Command | Order) -> None:
        state = self._state
        state.plain = state.plain and isinstance(asked, Command) and asked.is_plain
        if isinstance(asked, Command):
            self._turn.begin(asked)
            self._route()
        else:
            self._obey(asked)

    def begin_stream(self, prefix: bytes) -> None:
        """Serve a command that comes in parts (`stream`); `prefix` is how it begins, with header.

        What is that long is not classified: it goes to the primary, and may do anything.
        """
        self._long.begin()
        self._serve_long(prefix)

    def _serve_long(self, prefix: bytes) -> None:
        if self._borrowing is not None and self._borrowing.holds(lambda: self._serve_long(prefix)):
            return
        self._take(understood_long(self._desk, prefix))

    def stream(self, data: bytes, done: bool) -> None:
        """Pass on a part of a long command or of a local file."""
        self._long.part(data, done)
        primary = self._servers.primary
        if done and primary is not None and self._turn.answer.stage == DONE and not primary.busy:
            self.settled(primary)  # it was answered before it had come whole

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""
        self._servers.abandon_primary()

    def _obey(self, order: Order) -> None:
        """Do what an order says."""
        if isinstance(order, ToPrimary):
            self._turn.begin(order.command)
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
            self._turn.begin(order.command)
            self._start(self._find(order), "find what to kill")
        elif isinstance(order, Take):
            if self._long.going:
                self._long.give(order.take, then=self._client.ready)
            else:
                order.take(order.packet)
                self._client.ready()
        elif isinstance(order, ToHolder):
            self._turn.begin(order.command)
            self._go_on(self._dispatch.to_holder(order.holder, order.reason))
        elif isinstance(order, Refused):
            self._turn.begin(order.command)
            self._own_answers.refuse(order.code, order.message, order.reason)
        elif isinstance(order, Done):
            self._turn.begin(order.command)
            self._previous.zeroed = True
            self._own_answers.ok()
        elif isinstance(order, Unknown):
            unknown = ToPrimary(order.command, Reason.PREPARED)
            if self._long.going:
                self._long.give(_nowhere, then=lambda: self._obey(unknown))
            else:
                self._obey(unknown)
        elif isinstance(order, ChangeUser):
            self._turn.begin(order.command)
            self._start(change_user(self._shared, self, order.command.packet), "change user")
        elif isinstance(order, Quit):
            self._client.close()
        elif isinstance(order, TooLong):
            self._client.fail(
                ServerErrorCode.ER_NET_PACKET_TOO_LARGE,
                "Got a packet bigger than this command can be",
            )
            self._long.going = False

    def _ping(self, command: Command) -> None:
        """Answer a COM_PING for the primary, if that answered the last command so lately.

        Not if that was an error, or another server, or too long ago.
        """
        primary = self._servers.primary
        decision = self._turn.trail.decision
        fresh = (
            primary is not None
            and decision is not None
            and decision.server is primary.server
            and not primary.busy
            and primary.stream.error is None
            and utc_us() - self._turn.command.arrived_us <= PING_TRUST_US
        )
        self._turn.begin(command)
        if primary is None or not fresh:
            self._to(on_primary(self._topology, Reason.COMMAND))
        else:
            self._previous.zeroed = True
            self._own_answers.ok(primary.stream.warnings)

    def _obey_own(self, command: Command) -> None:
        """Obey a statement to Tidegate, or say what is wrong with it."""
        self._own.follows(self._turn.command, self._turn.trail)
        self._turn.begin(command)
        if self._own.asks_primary(command):
            self._perform(self._read.ask(self._now()))  # `Known` goes on
        else:
            self._answer_own(None)

    def _answer_own(self, probed: GtidSet | None) -> None:
        """Answer it, now that all is known for it; `probed` is what the primary said, if asked."""
        try:
            table = self._own.answer(self._turn.command, probed)
        except WrongOwnError as error:
            code = ServerErrorCode.ER_WRONG_VALUE_FOR_VAR
            self._own_answers.refuse(code, f"Tidegate: {error}", Reason.PROXY)
            return
        if table is None:
            self._own_answers.ok()
        else:
            columns, rows = table
            self._own_answers.table(columns, rows)

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        """Do what the client has to wait for."""
        self._task = self._shared.start(work, f"session {self._session_id}: {name}")
        self._task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect, which the log tells of: the client must not wait for ever.
            self._client.abort()
            self.client_lost()
        if self._closed:
            self._part()

    # The read's machine: steps

    def _route(self) -> None:
        """Let the policy decide about the statement, and go on."""
        command = self._turn.command
        statement = command.statement
        if statement is None:
            return
        read = self._read
        step = read.begin(statement, command.rules, self._now())
        if isinstance(step, Send) and read.note is None:
            self._turn.trail.required = read.required
            self._to(step.decision)
        else:
            self._perform(step)

    def _perform(self, step: Step) -> None:
        """Turn a step into what it says."""
        trail, read, pending = self._turn.trail, self._read, self._pending
        trail.required = read.required
        if read.note is not None:
            self._events.count(read.note)
            read.note = None
        if isinstance(step, Send):
            trail.dispatched_us = utc_us()
            self._to(step.decision)
        elif isinstance(step, Ask):
            if self.is_away:
                self._start(self._awake(lambda: self._shared.probes.ask(self)), "borrow")
            else:
                self._shared.probes.ask(self)
        elif isinstance(step, Join):
            pending.join(step.wait, self)
            pending.after(step.seconds, self._out_of_time)
        elif isinstance(step, Open):
            self._start(self._open(step.server), "open replica")
        elif isinstance(step, Delay):
            pending.after(step.seconds, self._turn_came)
        elif isinstance(step, Refuse):
            self._refuse_read(step)
        elif isinstance(step, End):
            self._own_answers.end_lost(step.cause)
        elif isinstance(step, Known):
            self._answer_own(read.probed)

    def _go_on(self, step: Step | None) -> None:
        """Take the next step, if there is one already."""
        if step is not None:
            self._perform(step)

    def _refuse_read(self, step: Refuse) -> None:
        if self._turn.command.packet:
            self._own_answers.refuse(step.code, step.message, step.reason)
        else:  # when it has come whole
            answers = self._own_answers
            self._long.give(
                _nowhere, then=lambda: answers.refuse(step.code, step.message, step.reason)
            )

    # The read's machine: events

    @property
    def _waits(self) -> bool:
        """Whether the read waits for anything but its answer."""
        return self._events.awaited

    def primary_for_probe(self) -> ServerConnection | None:
        """Its connection to the primary, if that can be asked over it."""
        return self._servers.primary_for_probe()

    def probed(self, answer: ProbeAnswer | None) -> None:
        """What the primary has, by a question that was sent after `Ask`; None if it cannot say."""
        self._perform(self._events.probed(answer))

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        self._perform(self._events.released(self))

    def _out_of_time(self) -> None:
        self._perform(self._events.out_of_time(self))

    def _turn_came(self) -> None:
        self._perform(self._events.turn_came())

    async def _open(self, server: Server) -> None:
        """Open a connection to a replica."""
        failed = await self._servers.open(server)
        self._task = None
        self._perform(self._events.opened(failed))

    def _silent(self) -> None:
        """The replica did not even say that the wait's budget ran out."""
        replica = self._servers.active
        if replica is not None:
            self._taker.declined(replica)
            self._perform(self._events.silent(replica))
            self._servers.give_up(replica)

    # To a server

    def _to(self, decision: Decision) -> None:
        """Write the command to the server that was decided on."""
        away = self._servers.primary is None and self.is_away
        if away and decision.server is self._topology.primary:
            turn = self._turn
            turn.trail.decided(decision)
            turn.answer.stage = HOLDING
            self._start(self._awake(lambda: self._to(decision)), "borrow")
            return
        self._go_on(self._dispatch.to(decision))

    def _snapshot_told(self, connection: ServerConnection, purpose: Purpose) -> None:
        """A server was asked what a snapshot of the transaction's shows, or to take it."""
        primary = self._servers.primary
        if connection is primary and self._state.suspect:
            self._take_trackers(connection)  # of what failed before it
        waits = connection is self._servers.active and not connection.owes_answer
        if self._splits.told(connection, purpose) and waits and connection is primary:
            self._dispatch.to_primary(connection)

    def _rolled_back(self, primary: ServerConnection) -> None:
        """The transaction has ended whose snapshots differ: its client is to begin it again."""
        error = primary.stream.error
        if error is not None:
            self._own_answers.end(f"the primary did not roll back: {ErrPacket.parse(error)}")
            return
        self._state.rolled_back()
        self._servers.status = primary.stream.status
        self._refuse_read(refusal.split_conflict())

    def _prepared_there(self, connection: ServerConnection, *, active: bool) -> None:
        """A server was asked to prepare a statement that it did not know; perhaps it did."""
        stream = connection.stream
        number = connection.mirror.preparing.pop(0)
        if stream.head is not None:
            connection.mirror.statements[number] = PreparedHandle.of(stream.head)
        prepared = self._turn.command.prepared
        waits = active and self._turn.answer.stage != DONE
        if not waits or prepared is None or prepared.number != number:
            return
        if stream.error is None:
            self._dispatch.send(connection)
            self._dispatch.pass_parts(connection)
        elif connection is not self._servers.primary and not self._read.bound:
            self._refused(connection, Reason.REPLICA_REFUSED)
        else:
            if self._long.going:
                self._long.give(_nowhere)
            self._finish(connection)
            self._client.write(frame(stream.error, 1))

    # From a server (`proxy.server.connection.Owner`)

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Pass on bytes of the answer; what a replica says too late goes nowhere."""
        self._state.plain = False  # else it would have been taken
        servers = self._servers
        if connection is not servers.active:
            connection.drained += received
            if connection.drained > _DRAIN_LIMIT:
                servers.give_up(connection)
            return
        command, trail, answer = self._turn.command, self._turn.trail, self._turn.answer
        stream = connection.stream
        trail.received += received
        if stream.session_states:
            self._aftermath.take_trackers(connection, command, trail)
        prepares = command.prepares
        if answer.stage != PASSING and (
            connection is not servers.primary
            or prepares is not None
            or command.prepared is not None
        ):
            data = answer.held + data
            answer.held = b""
            if len(data) < (5 if prepares is None else 9):
                answer.held = data
                return
            if data[4] == 0xFF:
                if not stream.done:
                    answer.held = data
                    return
                if stream.error is not None:
                    if self._does_not_count(connection, stream.error):
                        return
                    data = as_the_client_knows_it(data, command, connection)
            elif prepares is not None:
                data = with_statement_id(data, prepares.number)
        if stream.infile and not (
            # Some clients send whichever file a server names.
            connection is servers.primary
            and self._client.capabilities & Capability.CLIENT_LOCAL_FILES
            and wants_file(command)
        ):
            raise MalformedPacketError(
                "it asked for a local file of a client that has offered none"
            )
        if stream.done:
            if connection.silent and self._untold.behind(
                connection, command, trail, going=self._long.going
            ):
                answer.ending = data
                self._aftermath.take_over(connection, stream, command, trail, told_later=True)
                return
            self._finish(connection)
        if data:
            if not answer.started:
                answer.started = True
                if answer.stage != DONE:
                    answer.stage = PASSING
                    self._read.first_byte()
            self._client.write(data)
        if stream.infile:
            connection.be_patient()
            numbers = FrameNumbers(stream.sequence_id + 1)
            self._long.begin()
            self._long.give(lambda data: connection.write(numbers.renumber(data)))
            stream.infile_sent()
            self._client.expect_infile()

    def _does_not_count(self, connection: ServerConnection, error: bytes) -> bool:
        """Whether a server's error is not for the client: the command runs again, or elsewhere."""
        command, answer = self._turn.command, self._turn.answer
        may_move = connection is not self._servers.primary and not self._read.bound
        meaning = answer.meaning(error, command, self._state, may_move=may_move)
        if meaning == "pass":
            return False
        if meaning == "again" and command.prepared is not None:
            answer.prepared_anew = True
            connection.mirror.statements.pop(command.prepared.number, None)
            self._dispatch.send(connection)
        elif meaning == "leaving":
            self._refused(connection, Reason.REPLICA_LOST)
            self._servers.give_up(connection)
        else:
            if meaning == "forbidden" and command.statement is not None:
                refusals = self._topology.refusals
                refusals.add(command.statement.digest, self._now())
            if meaning == "denied":
                connection.mirror.look_up_again()
            self._refused(connection, Reason.REPLICA_REFUSED)
        return True

    def _refused(self, replica: ServerConnection, reason: Reason) -> None:
        """A replica cannot run it, or not as the session is."""
        self._perform(self._events.refused(replica, reason))

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge the answer to a statement of the proxy's own."""
        servers, state, stream = self._servers, self._state, connection.stream
        active = connection is servers.active
        read = active and self._turn.answer.stage != DONE  # else its session has ended without it
        if purpose is Purpose.WAIT:
            if read:
                self._perform(self._events.waited(connection))
        elif purpose is Purpose.PROBE:
            if active:
                if stream.session_states:
                    self._take_trackers(connection)  # of what failed before it
                self._events.primary_told(connection)
        elif purpose is Purpose.GATHER:
            if state.suspect and not connection.silent:
                self._take_trackers(connection)  # of what failed before it
                if effects.told_late(self._turn.command, self._turn.trail, state):
                    self._settings.restore()
            self._shared.probes.answered(connection, stream)
        elif purpose is Purpose.IMITATE or purpose is Purpose.SETTLE:
            if state.suspect:
                self._take_trackers(connection)  # of what failed before it
            if purpose is Purpose.SETTLE and active:
                self._go_on(self._events.settled(connection))
        elif purpose in _OF_SNAPSHOTS:
            self._snapshot_told(connection, purpose)
        elif purpose is Purpose.ROLLBACK:
            self._rolled_back(connection)
        elif purpose is Purpose.STATEMENT:
            self._prepared_there(connection, active=active)
        elif purpose is Purpose.CONFIRM:
            if read:
                self._perform(self._events.confirmed(connection))
        elif purpose is Purpose.AUDIT:
            if read:
                self._go_on(self._events.audited(connection))
        elif purpose is Purpose.LATE:
            self._told_late(connection)
        elif purpose is Purpose.FAREWELL:
            if self._borrowing is not None:
                self._borrowing.said(connection, stream)
        elif purpose is Purpose.VIEWS:
            self._views.answered(connection, stream)
        elif stream.error is None:
            if purpose is Purpose.RESTORE:
                self._settings.restored(connection, stream)
        elif purpose is Purpose.RESTORE:
            connection.close()
            if self._turn.trail.may_write:
                state.may_have_written(self._turn.command.rules)  # it stands right behind
            self._own_answers.end(
                "the primary did not take the settings that consistency needs: "
                f"{ErrPacket.parse(stream.error)}"
            )
        elif connection is servers.primary:
            self._own_answers.end(
                "the primary did not go back to the session's schema: "
                f"{ErrPacket.parse(stream.error)}"
            )
        else:
            self._objected(connection, stream.error, active=active)
            if active:
                self._refused(connection, Reason.REPLICA_REFUSED)
            # Even if nobody waits for it any more: it has not what it was thought to have.
            servers.give_up(connection)

    def _objected(self, replica: ServerConnection, error: bytes, *, active: bool) -> None:
        """A replica did not take what the session carries: remember that, unless it may pass.

        Where the WAIT before ran out, the replica may be too old to know a schema or a role.
        """
        cause = str(ErrPacket.parse(error))
        pause = 0.0
        if active and not may_pass(error):
            state = self._state
            pause = state.objections.add(replica.server, cause, state.told, self._now())
        _log.info(
            "replica %s could not be prepared, and is left alone for %g s by session %d: %s",
            *(replica.server.name, pause, self._session_id, cause),
        )

    def _told_late(self, connection: ServerConnection) -> None:
        """What trackers could not tell before is known: the answer that waited for it may end."""
        answer = self._turn.answer
        ending = answer.ending
        behind = ending is not None
        self._untold.told(connection, self._turn.command, self._turn.trail, behind=behind)
        self._aftermath.follow_rules()
        if ending is not None:
            answer.ending = None
            self._end(connection)
            self._client.write(ending)

    def settled(self, connection: ServerConnection) -> None:
        """Take the next command, if the answer to this one is complete."""
        servers = self._servers
        if self._borrowing is not None and self._borrowing.answered(connection):
            return
        answered = self._turn.answer.stage == DONE and not self._long.going
        if answered and connection is servers.active:
            servers.settled(connection)
            if self._borrowing is not None and self._shared.slots.waiting:
                self._let_others()
            self._client.ready()

    def _take_trackers(self, connection: ServerConnection) -> None:
        self._aftermath.take_trackers(connection, self._turn.command, self._turn.trail)

    def _finish(self, connection: ServerConnection) -> None:
        """The answer is complete: take over what it changed, count it, log it."""
        stream = connection.stream
        turn = self._turn
        self._aftermath.take_over(connection, stream, turn.command, turn.trail, told_later=False)
        self._end(connection)

    def _end(self, connection: ServerConnection) -> None:
        """Count and log what the client is told the end of."""
        trail = self._turn.trail
        if self._borrowing is not None:
            self._borrowing.ended(self._turn.command, trail, connection)
        self._turn.answer.stage = DONE
        self._read.ended()
        self._aftermath.count_pins()
        outcome = Outcome.ERROR if trail.error else Outcome.OK
        self._account.enter(
            self._turn.command, trail, connection.server, outcome, trail.error, trail.rows
        )

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Run the statement elsewhere if that is safe, else end the session as a server would."""
        servers, server = self._servers, connection.server
        active = connection is servers.active and self._turn.answer.stage != DONE
        servers.lost(connection)
        if connection is servers.primary:
            self._primary_lost(connection, cause, error, active=active)
            return
        if not active:
            self.settled(connection)  # it may have broken right behind its answer
            return
        _log.info("replica %s was lost during a statement: %s", server.name, cause)
        step = self._read.lost(cause, self._now())
        if not isinstance(step, End):
            self._events.leave(connection)
            self._perform(step)
        elif not self._dispatch.reset_is_done():
            self._showed_in_part(connection)
            self._account.enter(self._turn.command, self._turn.trail, server, Outcome.LOST)
            self._own_answers.end_lost(cause)

    def _primary_lost(
        self, primary: ServerConnection, cause: str, error: bytes | None, *, active: bool
    ) -> None:
        servers, server, command = self._servers, primary.server, self._turn.command
        servers.primary = None
        if self._borrowing is not None:
            self._borrowing.left()
        pending = self._task is not None or self._waits
        self._leave_read()
        if pending or (servers.active is not None and self._turn.answer.stage != DONE):
            if active:
                self._showed_in_part(primary)
            if active and self._turn.trail.may_write:
                self._state.may_have_written(command.rules)
                self._metrics.required_unknown("lost")
                logged = self._state.logs
                self._aftermath.note_unlogged(command, self._turn.trail, server, logged=logged)
            asked = None if self._turn.answer.stage == DONE else servers.active
            answers = None if asked is None else asked.server
            self._account.enter(command, self._turn.trail, answers, Outcome.LOST)
            self._own_answers.end_lost(cause)
        elif error is not None:
            self._client.write(frame(error, 0))
            self._client.close()
        else:
            self._client.close()

    def _showed_in_part(self, connection: ServerConnection) -> None:
        """Some of an answer that will not be complete has reached the client."""
        if self._turn.answer.started:
            self._state.showed(connection.server, connection.epoch, self._turn.command.rules)

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
        shared, servers = self._shared, self._servers
        self._state.pins.clear()
        self._aftermath.count_pins()
        if self._task is not None:
            self._task.cancel()
        if self._borrowing is not None:
            self._borrowing.left()
        self._leave_read()
        active = servers.active
        answered = self._turn.answer.stage == DONE
        if active is not None and not answered:
            self._showed_in_part(active)
        if active is not None and not active.lost and active.awaiting is Purpose.WAIT:
            self._metrics.wait_killed()
            shared.start(
                kill(active, servers.replica_login(), shared.config, shared.materials),
                f"session {self._session_id}: kill its wait",
            )
        servers.leave(clean=answered and not self._long.going)
        shared.sessions.forget(self)
        self._part()

    def _leave_read(self) -> None:
        """Nobody waits for the read any more."""
        read = self._read
        self._pending.leave(self)
        asking = read.stage == ASKING
        read.left()
        self._pending.end_wait()
        if asking:
            self._shared.probes.leave(self)

    def _part(self) -> None:
        """Let go of all that holds this session, once nothing runs for it any more.

        So it is freed at once, and not by the collector, which hardly ever runs.
        """
        if self._task is not None and not self._task.done():
            return
        self._task = None
        self._client.detach()
        self._long.forget()
        self._pending.part()
        self._servers.part()


def _nowhere(data: bytes) -> None:
    """It is not to run; what is wrong with it is told when it has come whole."""
