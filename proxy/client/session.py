"""One client's session: takes its commands, and turns what is to be done into I/O, in one place.

Theory of operation
===================

A command is understood first (`proxy.client.commands`): a statement becomes a `Command`, of all
else an `Order` says what is to be done. For a statement the read's machine (`routing.request.read`)
is asked; each of its steps becomes a question to the primary, a timer, a connection that is opened,
bytes to a server, or an answer (`_perform`). What goes to a server is made by `prelude`, and over
which connection `servers` knows.

Servers answer in order. `aside` takes the answers to the proxy's own statements, each of which may
be an event for the machine. `answer` passes the bytes of the client's answer on, or holds them back
as long as they may not count: a WAIT failed, or a replica refused; then the command runs elsewhere.
When it is complete, `Aftermath` takes over what the command changed, before the client is told of
its end.

The parts are given what they need; none of them has the session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.frame_numbers import FrameNumbers
from protocol.gtid import EMPTY
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from protocol.statement_execution import with_statement_id
from proxy.client import prelude, preparation, questions, replies
from proxy.client.aftermath import Aftermath
from proxy.client.answer import DONE, HOLDING, PASSING, Answer, may_pass, names_statement
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
from proxy.client.long_command import LongCommand
from proxy.client.own_statements import OwnStatements, WrongOwnError
from proxy.client.pending import Pending
from proxy.client.prepared import PreparedStatements
from proxy.client.previous import Previous
from proxy.client.primary_settings import PrimarySettings
from proxy.client.servers import Servers
from proxy.client.split_snapshots import SplitSnapshots
from proxy.client.untold import Untold
from proxy.client.views import Views
from proxy.server.connection import PROBE, Purpose, ServerConnection
from proxy.server.errors import ServerFullError
from proxy.server.gtid_question import PROBE_SQL
from proxy.server.gtid_question import parsed as parsed_probe
from proxy.server.kill import kill
from proxy.wall_clock import utc_us
from routing.consistency.decision import (
    Decision,
    Level,
    Outcome,
    Proof,
    Reason,
)
from routing.policy import on_primary
from routing.request import effects, refusal
from routing.request.command import Command
from routing.request.read import Read
from routing.request.stage import ASKING
from routing.request.step import Ask, Delay, End, Join, Known, Note, Open, Pass, Refuse, Send, Step
from routing.request.trail import Trail
from routing.session.prepared import PreparedHandle
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Literal

    from protocol.gtid import GtidSet
    from proxy.client.connection import ClientConnection
    from proxy.client.session_rules import SessionRules
    from proxy.server.gtid_question import Answer as ProbeAnswer
    from proxy.server.login import Login
    from proxy.server.opened import Lent, Opened
    from proxy.shared import Shared
    from routing.servers.topology import Server
    from routing.session.session import Session

    Joined = Literal["shared", "timeout"]

_log = logging.getLogger(__name__)

PING_TRUST_US: Final = 1_000_000
"""How long ago the primary may have spoken for a COM_PING to be answered without it."""

_DRAIN_LIMIT: Final = 1 << 20
"""Bytes of an answer that does not count which are read before the connection is given up."""

_OF_SNAPSHOTS: Final = (Purpose.BEFORE, Purpose.SNAPSHOT, Purpose.BEHIND)

_IN_TRANS: Final = 0x0001

# Members of enums, looked up once.
_INSIDE: Final = Reason.TRANSACTION
_UNPROVED: Final = Proof.NONE
_WAITED: Final = Proof.WAITED


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
        self._audits = shared.audits
        self._connect_timeout = shared.config.connect_timeout
        self._client = client
        self._session_id = session_id
        self._connection_id = connection_id
        self._state = state
        self._rules = rules
        self._query_attributes = attributes
        self._servers = Servers(shared, client, login, state, self)
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
        self._pending = Pending(shared.waits, shared.deadlines, shared.call_later)
        self._read = Read(state, shared.topology, shared.waits, shared.config.on_lost_writes)
        self._command = Command(Code.COM_SLEEP, SIMPLE, state.rules)
        self._trail = Trail(self._command)
        self._answer = Answer()
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
        return None if self._answer.stage == DONE else self._servers.keeps_waiting

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
        if self._answer.stage == DONE and self._task is None and not self._waits:
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
            self._borrowing.rest(self._command)

    @property
    def _rests(self) -> bool:
        """Whether its client waits for nothing."""
        return self._answer.stage == DONE and not (
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
            self._refuse(ServerErrorCode.ER_CON_COUNT_ERROR, full.message)

    def _end_refused(self, error: ErrPacket) -> None:
        """End the client's connection with what the server, or the proxy, says of its login."""
        self._metrics.error("server", error.code)
        self._leave_read()
        waits = self._answer.stage != DONE or self._task is not None
        if waits:
            self._trail.proof = Proof.NONE
            self._account.enter(self._command, self._trail, None, Outcome.ERROR, error.code)
        self._answer.stage = DONE
        self._read.ended()
        self._client.send_error(error, 1 if waits else 0)
        self._client.close()

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
        trail = self._trail
        trail.reason = Reason.COMMAND
        trail.proof = Proof.PRIMARY
        self._account.enter(self._command, trail, opened.connection.server, Outcome.OK)
        self._answer.stage = DONE

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
        if isinstance(asked, Command):
            self._begin(asked)
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
        if done and primary is not None and self._answer.stage == DONE and not primary.busy:
            self.settled(primary)  # it was answered before it had come whole

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""
        self._servers.abandon_primary()

    def _begin(self, command: Command) -> None:
        self._command = command
        self._trail = Trail(command)
        self._answer = Answer()

    def _obey(self, order: Order) -> None:
        """Do what an order says."""
        if isinstance(order, ToPrimary):
            self._begin(order.command)
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
            self._begin(order.command)
            self._start(self._find(order), "find what to kill")
        elif isinstance(order, Take):
            if self._long.going:
                self._long.give(order.take, then=self._client.ready)
            else:
                order.take(order.packet)
                self._client.ready()
        elif isinstance(order, ToHolder):
            self._begin(order.command)
            self._to_holder(order.holder, order.reason)
        elif isinstance(order, Refused):
            self._begin(order.command)
            self._refuse(order.code, order.message, order.reason)
        elif isinstance(order, Done):
            self._begin(order.command)
            self._previous.zeroed = True
            self._reply(self._ok())
        elif isinstance(order, Unknown):
            unknown = ToPrimary(order.command, Reason.PREPARED)
            if self._long.going:
                self._long.give(_nowhere, then=lambda: self._obey(unknown))
            else:
                self._obey(unknown)
        elif isinstance(order, ChangeUser):
            self._begin(order.command)
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
        decision = self._trail.decision
        fresh = (
            primary is not None
            and decision is not None
            and decision.server is primary.server
            and not primary.busy
            and primary.stream.error is None
            and utc_us() - self._command.arrived_us <= PING_TRUST_US
        )
        self._begin(command)
        if primary is None or not fresh:
            self._to(on_primary(self._topology, Reason.COMMAND))
        else:
            self._previous.zeroed = True
            self._reply(self._ok(primary.stream.warnings))

    def _obey_own(self, command: Command) -> None:
        """Obey a statement to Tidegate, or say what is wrong with it."""
        self._own.follows(self._command, self._trail)
        self._begin(command)
        if self._own.asks_primary(command):
            self._perform(self._read.ask(self._now()))  # `Known` goes on
        else:
            self._answer_own(None)

    def _answer_own(self, probed: GtidSet | None) -> None:
        """Answer it, now that all is known for it; `probed` is what the primary said, if asked."""
        try:
            table = self._own.answer(self._command, probed)
        except WrongOwnError as error:
            code = ServerErrorCode.ER_WRONG_VALUE_FOR_VAR
            self._refuse(code, f"Tidegate: {error}", Reason.PROXY)
            return
        if table is None:
            self._reply(self._ok())
        else:
            columns, rows = table
            self._reply(replies.table(columns, rows, self._flags, self._client.capabilities))

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
        command = self._command
        statement = command.statement
        if statement is None:
            return
        read = self._read
        step = read.begin(statement, command.rules, self._now())
        if isinstance(step, Send) and read.note is None:
            self._trail.required = read.required
            self._to(step.decision)
        else:
            self._perform(step)

    def _perform(self, step: Step) -> None:
        """Turn a step into what it says."""
        trail, read, pending = self._trail, self._read, self._pending
        trail.required = read.required
        if read.note is not None:
            self._count(read.note)
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
            self._end_lost(step.cause)
        elif isinstance(step, Known):
            self._answer_own(read.probed)

    def _refuse_read(self, step: Refuse) -> None:
        if self._command.packet:
            self._refuse(step.code, step.message, step.reason)
        else:  # when it has come whole
            self._long.give(
                _nowhere, then=lambda: self._refuse(step.code, step.message, step.reason)
            )

    def _count(self, note: Note) -> None:
        """Count and log what an event brought."""
        metrics, ledger, trail = self._metrics, self._shared.ledger, self._trail
        if note.left is not None and note.why is not None:
            said = f"{note.left.name}:{note.why.value}"
            trail.fallbacks += f",{said}" if trail.fallbacks else said
            metrics.fallback(note.left.name, note.why.value)
            if note.proved is not None:
                sent_us = trail.dispatched_us
                ledger.proved(note.left, "waited", note.proved, sent_us, sent_us + trail.wait_us)
        if note.crowded is not None:
            metrics.crowded(note.crowded)
        if note.stale:
            metrics.stale_given()
        if note.scope is not None:
            ledger.lost(note.scope, note.lost)
        if note.observation is not None:
            ledger.observed(self._topology.primary, note.observation)

    # The read's machine: events

    @property
    def _waits(self) -> bool:
        """Whether the read waits for anything but its answer."""
        return self._pending.timed or self._read.stage == ASKING

    def primary_for_probe(self) -> ServerConnection | None:
        """Its connection to the primary, if that can be asked over it."""
        return self._servers.primary_for_probe()

    def probed(self, answer: ProbeAnswer | None) -> None:
        """What the primary has, by a question that was sent after `Ask`; None if it cannot say."""
        self._trail.dispatched_us = utc_us()
        executed = None if answer is None else answer.executed
        owned = EMPTY if answer is None else answer.owned
        self._perform(self._read.probe_answered(executed, owned, self._now()))

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        if self._pending.joined:
            self._leave_joined("shared")
        self._perform(self._read.released(self._now()))

    def _out_of_time(self) -> None:
        self._leave_joined("timeout")
        self._perform(self._read.out_of_time(self._now()))

    def _leave_joined(self, result: Joined) -> None:
        """Rely on the joined WAIT no more."""
        read = self._read
        self._pending.leave(self)
        waited_us = round((self._now() - read.joined_at) * 1e6)
        self._trail.wait_us += waited_us
        if read.decision is not None:
            self._metrics.wait(read.decision.server.name, result, waited_us)

    def _turn_came(self) -> None:
        self._pending.in_time()
        self._perform(self._read.turn_came(self._now()))

    async def _open(self, server: Server) -> None:
        """Open a connection to a replica."""
        failed = await self._servers.open(server)
        self._task = None
        self._perform(self._read.opened(failed, self._now()))

    def _silent(self, replica: ServerConnection) -> None:
        """It did not even say that the wait's budget ran out."""
        self._metrics.wait(replica.server.name, "failed", self._since_dispatch())
        _log.warning("replica %s does not answer", replica.server.name)
        self._leave(replica, self._read.silent(self._now()))
        self._servers.give_up(replica)

    def _waited(self, replica: ServerConnection) -> None:
        """The WAIT in front of the statement was answered."""
        read, trail = self._read, self._trail
        trail.wait_us = waited_us = self._since_dispatch()
        self._pending.in_time()
        confirm = read.decision is not None and read.decision.confirm
        result, said = questions.waited(
            replica, waited_us, self._metrics, confirm=confirm, order=read.asks_order
        )
        step = read.wait_answered(
            *(result, said.still, said.ordered, replica.epoch),
            *(waited_us / 1e6, self._now()),
        )
        if isinstance(step, Pass) and read.note is not None and read.note.stale:
            trail.reason = Reason.WAIT_TIMEOUT
            trail.proof = Proof.NONE
            if replica.snapshot is not None and replica.snapshot is self._state.snapshot:
                self._state.snapshot.stale = True
        self._judged(replica, step)

    def _confirmed(self, replica: ServerConnection) -> None:
        """The question in front of the statement was answered."""
        said = questions.confirmed(replica, self._metrics)
        now = self._now()
        step = self._read.confirm_answered(said.still, said.ordered, replica.epoch, now)
        self._judged(replica, step)

    def _audited(self, replica: ServerConnection) -> None:
        """The replica was asked whether it has what the read that follows must see."""
        if self._trail.proof is Proof.NONE:
            return  # the answer is given openly as stale
        has = questions.audited(replica, self._trail, self._metrics)
        step = self._read.audit_answered(has, replica.epoch, self._now())
        self._judged(replica, step)

    def _judged(self, replica: ServerConnection, step: Step) -> None:
        """A replica's answer to a question of the proxy's own was judged."""
        if isinstance(step, Pass):
            self._pending.end_wait(replica.server)
            self._perform(step)
        else:
            self._leave(replica, step)

    def _settled(self, primary: ServerConnection) -> None:
        """The WAIT on the primary in front of a statement was answered: does it show what was seen?

        A statement that may write follows it on the wire, and runs in any case. Any other waits for
        what is decided here.
        """
        trail = self._trail
        shows = questions.shows_all(primary.stream)
        if primary.owes_answer:
            if shows:
                self._state.own_scope.settled(primary.server, primary.epoch)
            else:
                trail.unsettled = True
            return
        now_us = utc_us()
        trail.wait_us += now_us - trail.dispatched_us
        trail.dispatched_us = now_us
        # Of a long command nobody has the whole.
        idle = self._servers.idle if self._command.packet else []
        step = self._read.settled(shows, primary.epoch, idle, self._now())
        if not isinstance(step, Send) or step.decision.server is not primary.server:
            trail.observed = EMPTY  # the primary's, which does not answer
            self._servers.active = None
        self._perform(step)

    def _leave(self, replica: ServerConnection, step: Step) -> None:
        """A replica's answer does not count: what is next?

        The answer itself may still come, and is drained; until then the replica is not asked.
        """
        self._pending.end_wait(replica.server)
        replica.drained = 0
        snapshot = self._state.snapshot
        if snapshot is not None and snapshot is replica.snapshot:
            decision = self._trail.decision
            if decision is None or decision.reason is not _INSIDE:
                # It was to be taken by this very read.
                snapshot.server = None
                if snapshot.implied and not self._state.in_transaction:
                    self._state.snapshot = None
            preparation.end_transaction(replica)
        split = self._state.split
        if split is not None and split is replica.snapshot:
            if split.implied and not self._state.in_transaction:
                self._state.split = None
            preparation.end_transaction(replica)
        self._trail.received = 0
        self._answer.held = b""
        self._servers.active = None
        self._perform(step)

    def _since_dispatch(self) -> int:
        return utc_us() - self._trail.dispatched_us

    # To a server

    def _to(self, decision: Decision) -> None:
        """Write the command to the server that was decided on."""
        trail, command, servers = self._trail, self._command, self._servers
        trail.decision = decision
        trail.reason = reason = decision.reason
        trail.proof = decision.proof
        trail.snapshot_us = 0
        if decision.server is self._topology.primary:
            primary = servers.primary
            if primary is None and self.is_away:
                self._answer.stage = HOLDING
                self._start(self._awake(lambda: self._to(decision)), "borrow")
            elif primary is None or primary.lost:
                self._lose_client("Lost connection to MySQL server during query")
            else:
                self._to_primary(primary)
            return
        replica = servers.replica(decision.server)
        inside = reason is _INSIDE
        if inside and trail.proof is Proof.NONE and command.rules.level is not Level.BEST_EFFORT:
            trail.reason = Reason.WAIT_TIMEOUT  # as its first read was given
        if inside:
            if replica is not None and replica.snapshot is not self._state.snapshot:
                replica = None
        elif replica is None and reason is not Reason.DIAGNOSTIC:
            replica = servers.borrow(decision.server)
        if replica is None:
            self._perform(self._read.absent(self._now()))
        elif not inside and replica.is_late:
            # It still drains what came too late.
            self._perform(self._read.unfit(Reason.REPLICA_BEHIND, self._now()))
        elif (
            not inside
            and command.prepared is not None
            and not prelude.can_know(replica, command, self._state)
        ):
            self._perform(self._read.unfit(Reason.PREPARED, self._now()))
        else:
            self._to_replica(replica, decision)

    def _to_primary(self, primary: ServerConnection) -> None:
        servers, state = self._servers, self._state
        command, trail = self._command, self._trail
        if self._topology.rivals and self._withheld():
            return
        if command.prepared is not None and not prelude.can_know(primary, command, state):
            self._refuse(
                ServerErrorCode.ER_UNKNOWN_STMT_HANDLER,
                "Unknown prepared statement handler: sql_mode or character set have changed since"
                " it was prepared; prepare it again",
                Reason.PREPARED,
            )
            return
        if self._borrowing is not None and self._borrowing.asks_id(command):
            self._refuse(
                ServerErrorCode.ER_NOT_SUPPORTED_YET,
                "Tidegate: the session has another connection now (connection-sharing), and the"
                " account may not SET pseudo_thread_id, by which that would tell the client's"
                " CONNECTION_ID(); grant SESSION_VARIABLES_ADMIN, or ask before the session rests",
            )
            return
        self._answer.stage = HOLDING
        self._servers.activate(primary)
        budget = command.rules.wait_budget
        settles = not self._read.is_settled and prelude.older_than_seen(
            command, state, self._topology, servers.status, self._now()
        )
        if settles and prelude.asks_about(primary, command, state):
            settles = False  # it would be told of the WAIT
            trail.unsettled = True
        if settles and prelude.can_wait(command):
            if not command.packet:
                self._long.hold()
            primary.write(preparation.settle(primary, budget))
            return  # `_settled` goes on
        if state.snapshot is not None and self._splits.asks(primary, command, trail):
            if not command.packet:
                self._long.hold()
            return  # `_snapshot_told` goes on
        data = self._untold.before(primary, command)
        data += self._settings.in_front(primary, command, trail)
        data += self._views.in_front(primary, command)
        statement = command.statement
        if statement is not None and statement.assignments:
            data += prelude.prepare_before(primary, command, state, self._prepared)
        if settles:
            data += preparation.settle(primary, budget)
        if state.snapshot is not None:
            data += self._splits.in_front(primary, state.snapshot, command, trail)
        elif state.split is not None:
            data += preparation.begin_implied(primary, state.split)
        if statement is not None and statement.asks_previous:
            data += prelude.imitation(primary, statement, state, self._previous)
        # Only before a read: behind a probe, ROW_COUNT() and the like would tell of the probe.
        # And in no transaction, where reads stay here anyway: it would take its trackers.
        if (
            command.is_read
            and state.wants_probe
            and not servers.status & _IN_TRANS
            and command.rules.level is not Level.BEST_EFFORT
        ):
            primary.expect(PROBE)
            data += preparation.statement_packet(primary, PROBE_SQL)
        data += self._own_packet(primary)
        if primary.silent:
            data += self._untold.along(primary, command, trail)
        if data:
            primary.write(data)
        if not command.packet and prelude.knows(primary, command):
            self._pass_parts(primary)

    def _snapshot_told(self, connection: ServerConnection, purpose: Purpose) -> None:
        """A server was asked what a snapshot of the transaction's shows, or to take it."""
        primary = self._servers.primary
        if connection is primary and self._state.suspect:
            self._take_trackers(connection)  # of what failed before it
        waits = connection is self._servers.active and not connection.owes_answer
        if self._splits.told(connection, purpose) and waits and connection is primary:
            self._to_primary(connection)

    def _rolled_back(self, primary: ServerConnection) -> None:
        """The transaction has ended whose snapshots differ: its client is to begin it again."""
        error = primary.stream.error
        if error is not None:
            self._lose_client(f"the primary did not roll back: {ErrPacket.parse(error)}")
            return
        self._state.rolled_back()
        self._servers.status = primary.stream.status
        self._refuse_read(refusal.split_conflict())

    def _withheld(self) -> bool:
        """Refuse what may write while it is not clear who the primary is, as if it were read only.

        A COMMIT that a server refuses is rolled back; so the session ends here.
        """
        command = self._command
        inside = self._state.in_transaction
        if not prelude.may_be_withheld(command, self._trail, inside=inside):
            return False
        names = " and ".join(server.name for server in self._topology.rivals)
        message = (
            "The MySQL server is running with the --read-only option so it cannot execute this"
            f" statement (Tidegate: {names} take writes, and it is not clear which is the primary)"
        )
        code = ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT
        statement = command.statement
        ends = statement is not None and statement.kind is StatementClass.TRANSACTION
        if (ends and inside) or not command.packet:
            self._lose_client(message, code)
        else:
            self._refuse(code, message, Reason.WRITE)
        return True

    def _to_replica(self, replica: ServerConnection, decision: Decision) -> None:
        read, trail, command = self._read, self._trail, self._command
        self._answer.stage = HOLDING
        self._servers.activate(replica)
        trail.sent_at = read.sent_at
        audits = (
            self._audits.on
            and decision.proof is not _UNPROVED
            and bool(trail.required)
            and not read.bound
            and self._audits.due()
        )
        data = prelude.before_read(
            replica, decision, read, command, trail, self._state, self._previous, audits
        )
        gtids = decision.proof_set
        if decision.proof is _WAITED and gtids is not None:
            # The replica is not relied on to end it.
            trail.dispatched_us = utc_us()
            self._pending.begin_wait(replica.server, gtids, self._now())
            limit = read.budget + self._connect_timeout
            self._pending.limit(limit, lambda: self._silent(replica))
        replica.write(data + self._own_packet(replica))

    def _to_holder(self, holder: ServerConnection, reason: Reason) -> None:
        """Send the command where something of the session's is, that no other server has."""
        command, trail = self._command, self._trail
        if holder is self._servers.primary:
            decision = on_primary(self._topology, reason)
            self._read.bind(decision, command.rules, self._now())
            self._to(decision)
        elif holder.lost and self._reset_is_done():
            pass
        elif holder.lost or holder.owes_answer:
            # What it still owes to a read that left it would be taken for this answer.
            self._end_lost("it held an open cursor")
        else:
            decision = Decision(holder.server, reason, Proof.NONE)
            self._read.bind(decision, command.rules, self._now())
            trail.reason = reason
            trail.proof = Proof.NONE
            trail.decision = decision
            self._answer.stage = HOLDING
            self._servers.activate(holder)
            holder.write(self._own_packet(holder))

    def _reset_is_done(self) -> bool:
        """Answer COM_STMT_RESET to a replica that is gone: so is all that it would drop."""
        command = self._command
        if command.code is not Code.COM_STMT_RESET or command.prepared is None:
            return False
        self._prepared.close_cursor(command.prepared)
        self._servers.active = None
        self._answer.stage = DONE
        self._previous.zeroed = True
        self._reply(self._ok())
        return True

    def _own_packet(self, connection: ServerConnection) -> bytes:
        """The command as this server is to get it (`prelude.own_packet`)."""
        command, schema = self._command, self._state.schema
        if command.prepared is not None and not prelude.knows(connection, command):
            if connection is self._servers.primary:
                connection.schema = schema
            if not command.packet:
                self._long.hold()
        return prelude.own_packet(connection, command, schema, self._query_attributes)

    def _prepared_there(self, connection: ServerConnection, *, active: bool) -> None:
        """A server was asked to prepare a statement that it did not know; perhaps it did."""
        stream = connection.stream
        number = connection.preparing.popleft()
        if stream.head is not None:
            connection.statements[number] = PreparedHandle.of(stream.head)
        prepared = self._command.prepared
        waits = active and self._answer.stage != DONE
        if not waits or prepared is None or prepared.number != number:
            return
        if stream.error is None:
            connection.write(self._own_packet(connection))
            self._pass_parts(connection)
        elif connection is not self._servers.primary and not self._read.bound:
            self._refused(connection, Reason.REPLICA_REFUSED)
        else:
            if self._long.going:
                self._long.give(_nowhere)
            self._finish(connection)
            self._client.write(frame(stream.error, 1))

    def _pass_parts(self, connection: ServerConnection) -> None:
        """Let the parts of a long command go to the server that has been told what they are of."""
        prepared = self._command.prepared
        if prepared is None:
            self._long.give(connection.write)
            return
        handle = connection.statements[prepared.number]
        attributes = self._query_attributes
        self._long.give(connection.write, lambda part: prepared.command(part, handle, attributes))

    # From a server (`proxy.server.connection.Owner`)

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Pass on bytes of the answer; what a replica says too late goes nowhere."""
        servers = self._servers
        if connection is not servers.active:
            connection.drained += received
            if connection.drained > _DRAIN_LIMIT:
                servers.give_up(connection)
            return
        command, trail, answer = self._command, self._trail, self._answer
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
                    data = self._as_the_client_knows_it(connection, data)
            elif prepares is not None:
                data = with_statement_id(data, prepares.number)
        if stream.infile and not self._may_want_file(connection):
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

    def _may_want_file(self, connection: ServerConnection) -> bool:
        """Whether the client has asked the server to ask for a local file.

        Some clients send whichever file a server names.
        """
        command = self._command
        if (
            connection is not self._servers.primary
            or not self._client.capabilities & Capability.CLIENT_LOCAL_FILES
            or command.code != Code.COM_QUERY
        ):
            return False
        text = command.packet.upper()
        return not text or (b"LOAD" in text and b"LOCAL" in text and b"INFILE" in text)

    def _as_the_client_knows_it(self, connection: ServerConnection, data: bytes) -> bytes:
        """An ERR that names a prepared statement, by the client's id of it."""
        prepared = self._command.prepared
        handle = None if prepared is None else connection.statements.get(prepared.number)
        if prepared is None or handle is None or not names_statement(_code(data[4:])):
            return data
        payload = data[4:].replace(b"(%d)" % handle.server_id, b"(%d)" % prepared.number, 1)
        return frame(payload, data[3])

    def _does_not_count(self, connection: ServerConnection, error: bytes) -> bool:
        """Whether a server's error is not for the client: the command runs again, or elsewhere."""
        command, answer = self._command, self._answer
        may_move = connection is not self._servers.primary and not self._read.bound
        meaning = answer.meaning(_code(error), command, self._state, may_move=may_move)
        if meaning == "pass":
            return False
        if meaning == "again" and command.prepared is not None:
            answer.prepared_anew = True
            connection.statements.pop(command.prepared.number, None)
            connection.write(self._own_packet(connection))
        elif meaning == "leaving":
            self._refused(connection, Reason.REPLICA_LOST)
            self._servers.give_up(connection)
        else:
            if meaning == "forbidden" and command.statement is not None:
                refusals = self._topology.refusals
                refusals.add(command.statement.digest, self._now())
            if meaning == "denied":
                preparation.look_up_again(connection)
            self._refused(connection, Reason.REPLICA_REFUSED)
        return True

    def _refused(self, replica: ServerConnection, reason: Reason) -> None:
        """A replica cannot run it, or not as the session is."""
        self._leave(replica, self._read.refused(reason, self._now()))

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge the answer to a statement of the proxy's own."""
        servers, state, stream = self._servers, self._state, connection.stream
        active = connection is servers.active
        read = active and self._answer.stage != DONE  # else its session has ended without it
        if purpose is Purpose.WAIT:
            if read:
                self._waited(connection)
        elif purpose is Purpose.PROBE:
            if active:
                if stream.session_states:
                    self._take_trackers(connection)  # of what failed before it
                self._primary_probed(connection)
        elif purpose is Purpose.GATHER:
            if state.suspect and not connection.silent:
                self._take_trackers(connection)  # of what failed before it
                if effects.told_late(self._command, self._trail, state):
                    self._settings.restore()
            self._shared.probes.answered(connection, stream)
        elif purpose is Purpose.IMITATE or purpose is Purpose.SETTLE:
            if state.suspect:
                self._take_trackers(connection)  # of what failed before it
            if purpose is Purpose.SETTLE and active:
                self._settled(connection)
        elif purpose in _OF_SNAPSHOTS:
            self._snapshot_told(connection, purpose)
        elif purpose is Purpose.ROLLBACK:
            self._rolled_back(connection)
        elif purpose is Purpose.STATEMENT:
            self._prepared_there(connection, active=active)
        elif purpose is Purpose.CONFIRM:
            if read:
                self._confirmed(connection)
        elif purpose is Purpose.AUDIT:
            if read:
                self._audited(connection)
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
            if self._trail.may_write:
                state.may_have_written(self._command.rules)  # it stands right behind
            self._lose_client(
                "the primary did not take the settings that consistency needs: "
                f"{ErrPacket.parse(stream.error)}"
            )
        elif connection is servers.primary:
            self._lose_client(
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
        if active and not may_pass(_code(error)):
            state = self._state
            pause = state.objections.add(replica.server, cause, state.told, self._now())
        _log.info(
            "replica %s could not be prepared, and is left alone for %g s by session %d: %s",
            *(replica.server.name, pause, self._session_id, cause),
        )

    def _told_late(self, connection: ServerConnection) -> None:
        """What trackers could not tell before is known: the answer that waited for it may end."""
        answer = self._answer
        ending = answer.ending
        behind = ending is not None
        self._untold.told(connection, self._command, self._trail, behind=behind)
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
        if connection is servers.active and self._answer.stage == DONE and not self._long.going:
            servers.settled(connection)
            if self._borrowing is not None and self._shared.slots.waiting:
                self._let_others()
            self._client.ready()

    def _primary_probed(self, primary: ServerConnection) -> None:
        """The primary's `gtid_executed`; without it, what is required stays unknown."""
        answer = parsed_probe(primary.stream)
        if answer is None:
            return
        executed, server = answer.executed, primary.server
        if not answer.names:
            self._shared.sessions.stopped_naming(server)
        self._state.probed(executed, answer.owned)
        server.proved(executed, primary.epoch)
        asked_us, answered_us = self._trail.dispatched_us, utc_us()
        self._shared.ledger.proved(server, "probed", executed, asked_us, answered_us)

    def _take_trackers(self, connection: ServerConnection) -> None:
        self._aftermath.take_trackers(connection, self._command, self._trail)

    def _finish(self, connection: ServerConnection) -> None:
        """The answer is complete: take over what it changed, count it, log it."""
        stream = connection.stream
        self._aftermath.take_over(connection, stream, self._command, self._trail, told_later=False)
        self._end(connection)

    def _end(self, connection: ServerConnection) -> None:
        """Count and log what the client is told the end of."""
        trail = self._trail
        if self._borrowing is not None:
            self._borrowing.ended(self._command, trail, connection)
        self._answer.stage = DONE
        self._read.ended()
        self._aftermath.count_pins()
        outcome = Outcome.ERROR if trail.error else Outcome.OK
        self._account.enter(
            self._command, trail, connection.server, outcome, trail.error, trail.rows
        )

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Run the statement elsewhere if that is safe, else end the session as a server would."""
        servers, server = self._servers, connection.server
        active = connection is servers.active and self._answer.stage != DONE
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
            self._leave(connection, step)
        elif not self._reset_is_done():
            self._showed_in_part(connection)
            self._account.enter(self._command, self._trail, server, Outcome.LOST)
            self._end_lost(cause)

    def _primary_lost(
        self, primary: ServerConnection, cause: str, error: bytes | None, *, active: bool
    ) -> None:
        servers, server, command = self._servers, primary.server, self._command
        servers.primary = None
        if self._borrowing is not None:
            self._borrowing.left()
        pending = self._task is not None or self._waits
        self._leave_read()
        if pending or (servers.active is not None and self._answer.stage != DONE):
            if active:
                self._showed_in_part(primary)
            if active and self._trail.may_write:
                self._state.may_have_written(command.rules)
                self._metrics.required_unknown("lost")
                logged = self._state.logs
                self._aftermath.note_unlogged(command, self._trail, server, logged=logged)
            asked = None if self._answer.stage == DONE else servers.active
            answers = None if asked is None else asked.server
            self._account.enter(command, self._trail, answers, Outcome.LOST)
            self._end_lost(cause)
        elif error is not None:
            self._client.write(frame(error, 0))
            self._client.close()
        else:
            self._client.close()

    def _showed_in_part(self, connection: ServerConnection) -> None:
        """Some of an answer that will not be complete has reached the client."""
        if self._answer.started:
            self._state.showed(connection.server, connection.epoch, self._command.rules)

    def server_paused(self, connection: ServerConnection) -> None:
        """The server reads slower than the client sends: let the client wait."""
        self._client.pause_reading()

    def server_resumed(self, connection: ServerConnection) -> None:
        """The server reads again."""
        self._client.resume_reading()

    # Answers of the proxy's own

    def _ok(self, warnings: int = 0) -> bytes:
        return replies.ok(self._flags, self._client.capabilities, warnings)

    @property
    def _flags(self) -> int:
        return replies.status(self._state, self._servers.status)

    def _reply(self, data: bytes) -> None:
        """Answer the command without a server."""
        trail = self._trail
        trail.reason = Reason.PROXY
        trail.proof = Proof.NONE
        self._read.ended()
        self._account.enter(self._command, trail, None, Outcome.OK)
        self._client.write(data)
        self._client.ready()

    def _refuse(self, code: ServerErrorCode, message: str, reason: Reason = Reason.COMMAND) -> None:
        """Answer the command with an error of the proxy's own."""
        command, trail = self._command, self._trail
        trail.reason = reason
        trail.proof = Proof.NONE
        self._metrics.error("proxy", code.code)
        self._account.enter(command, trail, None, Outcome.ERROR, code.code)
        self._answer.stage = DONE
        self._servers.active = None
        self._read.ended()
        if command.prepared is not None:
            command.prepared.forget_long_data()  # as an execution that fails
        self._client.send_error(ErrPacket(code.code, code.sqlstate, message))
        self._client.ready()

    def _end_lost(self, cause: str) -> None:
        """The server is gone that the session cannot do without: as if the client's own were."""
        if self._answer.started:
            self._client.close()
        else:
            self._lose_client(f"Lost connection to MySQL server during query ({cause})")

    def _lose_client(
        self, message: str, code: ServerErrorCode = ServerErrorCode.CR_SERVER_LOST
    ) -> None:
        """End the client's connection with an error."""
        self._metrics.error("proxy", code.code)
        self._answer.stage = DONE
        self._read.ended()
        self._client.fail(code, message)

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
        answered = self._answer.stage == DONE
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
        decision = read.decision
        read.left()
        if decision is not None:
            self._pending.end_wait(decision.server)
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
        self._servers.part()


def _nowhere(data: bytes) -> None:
    """It is not to run; what is wrong with it is told when it has come whole."""


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8
