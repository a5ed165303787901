"""One client's session: its servers, the command it waits for, and what becomes of the answer.

Theory of operation
===================

A command goes through four rooms:

A forwarder (`proxy.client.forwarders`) knows what kind of answer follows and, for a statement, asks
the policy where it goes. `Dispatch` writes it to that server, behind whatever the server must be
told first. `Answers` passes the answer's bytes on, or holds them back where they must not count: a
WAIT failed, or a replica refused; then the command runs on the primary. When the answer is complete
it takes over what the statement changed, before the client is told of its end. `Replies` are the
answers that no server gives.

Every session has one connection to the primary, which is the session as the server knows it, and
opens its own connections to replicas as it needs them.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from protocol.tracker_view import TrackerView
from proxy.channel import ChannelClosedError
from proxy.client.answer import Answer
from proxy.client.answers import Answers
from proxy.client.change_user import change_user
from proxy.client.dispatch import Dispatch
from proxy.client.forwarders import forward, forward_long
from proxy.client.long_command import LongCommand
from proxy.client.prepared import PreparedStatements
from proxy.client.previous import Previous
from proxy.client.primary_settings import PrimarySettings
from proxy.client.reads import Reads
from proxy.client.replicas import Replicas
from proxy.client.replies import Replies
from proxy.client.untold import Untold
from proxy.client.views import Views
from proxy.observe.show import LastAnswer, Shown
from proxy.server.connection import (
    Purpose,
    ServerConnection,
)
from proxy.server.kill import kill
from proxy.server.login import Login
from routing.consistency.decision import Outcome, Proof, Reason
from routing.consistency.rules import NO_ADJUSTMENT
from routing.request.command import Command
from routing.request.trail import Trail
from routing.session.session import Session

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from proxy.client.connection import ClientConnection
    from proxy.client.session_rules import SessionRules
    from proxy.server.opened import Lent, Opened
    from proxy.server.probe import Answer as ProbeAnswer
    from proxy.shared import Shared
    from routing.consistency.rules import Adjustment, Rules
    from routing.consistency.scope import ScopeState
    from routing.session.prepared import PreparedStatement
    from routing.sql.statement import Statement

_log = logging.getLogger(__name__)


class ClientSession:
    """Serves one client.

    Attributes:
        session_id: names it in logs; no other session of this worker has it.
        connection_id: what the client was given for one: the primary's, if all went well.
        state: what routing knows of it.
        rules: where its rules come from.
        classifier: knows statements by their text.
        command: the one in flight, or the last one.
        trail: what became of it.
        answer: how far its answer has come.
        effect: run when that ended well, before the client is told; is given the connection that
            answered.
        resume: what a probe of the primary is followed by, if that is not routing.
        primary: its connection to the primary; None when that is lost.
        primary_settings: what the proxy needs of that connection.
        views: what its statements are by the views that they name.
        replicas: its connections to replicas.
        reads: drives its reads.
        read: where the one that is on its way stands.
        dispatch: writes its requests to servers.
        answers: takes what servers answer.
        replies: answers without a server.
        untold: what the primary has not told yet.
        active: the connection that answers, or is being sent, the request; None if none does.
        answered: the request's answer is complete.
        status_flags: the primary's last server status.
        paused: the client takes no more for now.
        task: what the client has to wait for, if that is not an answer.
        new_rules: it has another schema, so perhaps other rules.
        was_reset: the primary's session no longer has what the login asked for.
        previous: how its last statement ended, if that was on a replica.
        prepared: the statements that the client prepared.
        query_attributes: the client's statements begin with attributes (CLIENT_QUERY_ATTRIBUTES).
        sql_mode: that of the primary's session when it began.
        last_answer: what the statement before those to the proxy was given.
        account: what is entered of it in the ledger.
    """

    __deletable__ = (
        "primary_settings",
        "views",
        "replicas",
        "read",
        "reads",
        "dispatch",
        "answers",
        "replies",
        "untold",
        "long_command",
    )
    """What a compiled class lets go of (`_part`)."""

    def __init__(
        self,
        shared: Shared,
        connection: ClientConnection,
        login: Login,
        session_id: int,
        connection_id: int,
        state: Session,
        rules: SessionRules,
    ) -> None:
        self._shared = shared
        self.connection = connection
        self.login = login
        self.session_id = session_id
        self.connection_id = connection_id
        self.state = state
        self.rules = rules
        self.classifier = shared.classifier
        self.command = Command(Code.COM_SLEEP, SIMPLE, state.rules)
        self.trail = Trail(self.command)
        self.answer = Answer()
        self.effect: Callable[[ServerConnection], None] | None = None
        self.resume: Callable[[], None] | None = None
        self.prepared = PreparedStatements()
        self.primary: ServerConnection | None = None
        self.primary_settings = PrimarySettings(self)
        self.views = Views(shared, self)
        self.replicas = Replicas(shared, self)
        self.reads = Reads(shared, self)
        self.read = self.reads.read
        self.dispatch = Dispatch(shared, self)
        self.answers = Answers(shared, self)
        self.replies = Replies(shared, self)
        self.untold = Untold(shared, self)
        self.active: ServerConnection | None = None
        self.answered = True
        self.status_flags = 0
        self.previous = Previous()
        self.long_command = LongCommand(self)
        self.paused = False
        self.task: asyncio.Task[None] | None = None
        self.was_reset = False
        self._closed = False
        self._parted = False
        self.new_rules = False
        self.query_attributes = bool(connection.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        self.sql_mode = ""
        self.account = shared.ledger.open(session_id, state)
        self.last_answer: LastAnswer | None = None
        self.config = shared.config
        self.topology = shared.topology
        self.now = shared.now

    # Servers

    def take_primary(self, opened: Opened | Lent) -> None:
        """Use this connection to the primary, in place of one before it.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        old = self.primary
        connection = opened.connection
        if connection.server is not self._shared.topology.primary:
            opened.abort()
            raise ChannelClosedError("another server has become the primary")
        connection.view = TrackerView(
            self.connection.capabilities, self.state.shown_trackers, self.state.shown_variables
        )
        opened.hand_over(self.answers)
        self.primary = connection
        self.status_flags = connection.stream.status
        identity = opened.identity
        self.sql_mode = identity.sql_mode
        self.connection.server_allows(identity.max_allowed_packet)
        self.state.connected(identity.sql_mode, identity.autocommit, identity.character_set)
        self.state.chose_schema(connection.schema)
        if not connection.kept:
            self._shared.metrics.server_opened(connection.server.name)
        self._shared.metrics.server_connected(connection.server.name)
        if old is not None:
            self.drop(old)

    def drop(self, connection: ServerConnection) -> None:
        """Close a connection to a server."""
        connection.close()
        self.connection.resume_reading()  # it may have been this one that took no more
        self._shared.metrics.server_disconnected(connection.server.name)

    def part_from(self, connection: ServerConnection) -> None:
        """Let other logins have a connection to a server, if nothing of this session is left."""
        self._shared.metrics.server_disconnected(connection.server.name)
        self._shared.pool.give(connection, self.login.username)

    @property
    def connections(self) -> list[ServerConnection]:
        """All that are open."""
        others = self.replicas.connections
        return others if self.primary is None else [self.primary, *others]

    @property
    def primary_thread_id(self) -> int:
        """The primary's id of this session, or 0."""
        return 0 if self.primary is None else self.primary.thread_id

    @property
    def waiting_replica(self) -> ServerConnection | None:
        """The replica connection that runs this session's statement, if one does."""
        active = self.active
        return active if active is not None and active is not self.primary else None

    @property
    def keeps_waiting(self) -> ServerConnection | None:
        """The connection to a replica that the client waits for, if there is one."""
        return None if self.answered or self.paused else self.waiting_replica

    @property
    def peer(self) -> str:
        """The client's address, for the log."""
        return self.connection.peer

    @property
    def reading(self) -> ScopeState:
        """The scope that its reads read in."""
        state = self.state
        return state.reading(state.rules, self.topology.term, self.now())

    def shown(self) -> Shown:
        """What SHOW TIDEGATE shows."""
        return Shown(
            session_id=self.session_id,
            connection_id=self.connection_id,
            state=self.state,
            topology=self.topology,
            now=self.now(),
            last_answer=self.last_answer,
            views=self.views.text,
            prepared=len(self.prepared),
            cursors=self.prepared.cursors,
        )

    # A command

    def serve(self, packet: bytes) -> None:
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
        primary = self.primary
        if done and primary is not None and self.answered and not primary.busy:
            self.answers.settled(primary)  # it was answered before it had come whole

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""
        if self.primary is not None:
            self.drop(self.primary)
            self.primary = None

    def begin(
        self,
        code: Code,
        shape: int,
        packet: bytes = b"",
        statement: Statement | None = None,
        *,
        rules: Rules | None = None,
        may_write: bool = False,
        prepared: PreparedStatement | None = None,
        number: int = 0,
        effect: Callable[[ServerConnection], None] | None = None,
    ) -> None:
        """Begin a command, as the forwarders understand it (`routing.request.command`).

        `rules` are those of its own, if it has any.
        """
        self.command = command = Command(
            code,
            shape,
            self.state.rules if rules is None else rules,
            packet,
            statement,
            may_write,
            rules is not None,
            prepared,
            number,
            time.time_ns() // 1000,
        )
        self.trail = Trail(command)
        self.answer = Answer()
        self.effect = effect
        self.resume = None

    def start(self, work: Coroutine[object, object, None], name: str) -> None:
        """Do what the client has to wait for."""
        self.task = self._shared.start(work, f"session {self.session_id}: {name}")
        self.task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect, which the log tells of: the client must not wait for ever.
            self.connection.abort()
            self.client_lost()
        if self._closed:
            self._part()

    def deactivate(self) -> None:
        """What the active connection still answers to the request does not count."""
        self.active = None

    def primary_for_probe(self) -> ServerConnection | None:
        """The primary connection, if it can ask the primary for what it has."""
        primary = self.primary
        usable = primary is not None and not primary.lost and not primary.overdue
        if not usable or primary is None or primary.server is not self._shared.topology.primary:
            return None
        return primary

    # The answer

    # The end

    # The session as a whole

    def adjust(self, chosen: Adjustment) -> None:
        """Let these settings of the client's count, in place of those before."""
        self.rules.chosen = chosen
        self.follow_rules(self.rules.present(self.state.schema))

    def follow_rules(self, rules: Rules) -> None:
        """Let these rules count from now on."""
        if self.state.adjust(rules):
            self.primary_settings.restore(trackers=False)

    def reset(self) -> None:
        """The primary did a COM_RESET_CONNECTION: the rest follows."""
        self.rules.chosen = NO_ADJUSTMENT
        self.state.reset()
        self.answers.count_pins()
        self.was_reset = True
        self.prepared.clear()
        self.replicas.reset(self.state.variables_version)
        self.primary_settings.restore()

    def change_user(self, packet: bytes) -> None:
        """COM_CHANGE_USER: a new login over the same client connection."""
        self.begin(Code.COM_CHANGE_USER, SIMPLE, packet)
        self.start(change_user(self._shared, self, packet), "change user")

    def changed_user(self, login: Login, opened: Opened | Lent, rules: SessionRules) -> None:
        """The new login succeeded: what the old one had goes, what it wrote stays written.

        Raises:
            ChannelClosedError: the new connection broke meanwhile.
        """
        self.task = None
        self.was_reset = False
        self.primary_settings.made()
        self.login = login
        self.rules = rules
        self.state.logged_in(login.username)
        self.state.initial_rules = rules.initial(login.database or "")
        self.state.reset()
        self.answers.count_pins()
        self.prepared.clear()
        self.replicas.drop_all()
        self.take_primary(opened)
        trail = self.trail
        trail.reason = Reason.COMMAND
        trail.proof = Proof.PRIMARY
        self.account.enter(self.command, trail, opened.connection.server, Outcome.OK)
        self.answered = True

    def server_thread_id(self, connection_id: int) -> int | None:
        """The primary's id of the session that a client knows by this one, or None."""
        target = self._shared.sessions.known_by(connection_id)
        return None if target is None else target.thread_of(self.login.username)

    def thread_of(self, username: str) -> int:
        """The primary's id of this session, for a KILL by this user; 0 if it has none."""
        replica = self.waiting_replica
        if replica is not None and self.login.username == username:
            # Its statement runs on a replica; the primary would find nothing to end.
            self._shared.start(
                kill(
                    replica,
                    self.replicas.login(),
                    self._shared.config,
                    self._shared.materials,
                    query_only=True,
                ),
                f"session {self.session_id}: kill its query",
            )
        return self.primary_thread_id

    def cut_off(self) -> None:
        """Drop the client's connection at once."""
        self.connection.abort()

    def probed(self, answer: ProbeAnswer | None) -> None:
        """What the primary has, by a question that was asked for the session's read."""
        self.reads.probed(answer)

    def shut_down(self) -> None:
        """The proxy stops: end an idle session as a server does."""
        if self.answered and self.task is None and not self.reads.pending:
            self.connection.fail(
                ServerErrorCode.ER_SERVER_SHUTDOWN, "Server shutdown in progress", sequence_id=0
            )

    def leave_primary(self) -> None:
        """End, if the primary is another now, or began anew: the session was on the old one."""
        primary = self.primary
        if primary is None:
            return
        if primary.server is not self._shared.topology.primary:
            cause = "another server has become the primary"
        elif primary.epoch < primary.server.started_epoch:
            cause = "the primary was restarted"
        else:
            return
        primary.close()
        code = ServerErrorCode.ER_SERVER_SHUTDOWN
        message = f"Tidegate: {cause}; connect again"
        error = ErrPacket(code.code, code.sqlstate, message)
        self.answers.server_lost(primary, message, error.serialise(self.connection.capabilities))

    # The client

    def client_lost(self) -> None:
        """The client is gone: let go of its servers, and do not leave a WAIT behind (fact 4.1)."""
        if self._closed:
            return
        self._closed = True
        self.state.pins.clear()
        self.answers.count_pins()
        if self.task is not None:
            self.task.cancel()
        self.reads.leave()
        active = self.active
        if active is not None and not self.answered:
            self.answers.showed_in_part(active)
        if active is not None and not active.lost and active.awaiting is Purpose.WAIT:
            self._shared.metrics.wait_killed()
            self._shared.start(
                kill(active, self.replicas.login(), self._shared.config, self._shared.materials),
                f"session {self.session_id}: kill its wait",
            )
        if self.answered and not self.long_command.going:
            self.replicas.part_from_all()
            if self.primary is not None:
                self.part_from(self.primary)
        else:
            self.replicas.drop_all()
            if self.primary is not None:
                self.drop(self.primary)
        self._shared.sessions.forget(self)
        self._part()

    def _part(self) -> None:
        """Let go of all that holds this session, once nothing runs for it any more.

        So it is freed at once, and not by the collector, which hardly ever runs.
        """
        if self._parted or (self.task is not None and not self.task.done()):
            return
        self._parted = True
        self.connection.detach()
        self.task = None
        self.effect = self.resume = None
        self.command = Command(Code.COM_SLEEP, SIMPLE, self.state.rules)
        self.trail = Trail(self.command)
        self.answer = Answer()
        del self.primary_settings, self.views, self.replicas, self.read, self.reads
        del self.dispatch, self.answers, self.replies, self.untold, self.long_command

    def client_paused(self) -> None:
        """The client reads slower than the server sends: let the server wait."""
        self.paused = True
        if self.active is not None:
            self.active.pause_reading()

    def client_resumed(self) -> None:
        """The client reads again."""
        self.paused = False
        if self.active is not None:
            self.active.resume_reading()


def _nowhere(data: bytes) -> None:
    """What is wrong with it is told when it has come whole."""


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8
