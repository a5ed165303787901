"""Servers' answers to the client's commands: passed on as they come, and what follows their end.

The bytes of an answer are held back as long as they may not count: a server may have forgotten a
prepared statement, and a replica may refuse what the primary would not. Then the command runs
again, or elsewhere. When the answer is complete, `CommandEffects` takes over what the command
changed, before the client is told of its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError
from protocol.frame_numbers import FrameNumbers
from protocol.ok_packet import with_warnings
from protocol.packet import frame
from protocol.response import ERR_HEADER
from protocol.statement_execution import with_statement_id
from proxy.client.answer import as_the_client_knows_it, wants_file
from routing.consistency.decision import Outcome, Reason
from routing.request import effects
from routing.request.stage import DONE, PASSING
from routing.session.diagnostics_area import TELLING_CONDITIONS

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.answer import Meaning
    from proxy.client.answers.read_events import ReadEvents
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.effects.missing_trackers import MissingTrackers
    from proxy.client.requests.dispatch import Dispatch
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.request.step import Step
    from routing.servers.topology import Server

_DRAIN_LIMIT: Final = 1 << 20
"""Bytes of an answer that does not count which are read before the connection is given up."""


class ServerAnswers:
    """Servers' answers to one client."""

    def __init__(
        self,
        session: SessionContext,
        events: ReadEvents,
        command_effects: CommandEffects,
        missing_trackers: MissingTrackers,
        lease: ConnectionLease | None,
        dispatch: Dispatch,
    ) -> None:
        """`lease` is None if the session's connections are its own."""
        shared = session.shared
        self._topology = shared.topology
        self._now = shared.now
        self._current = session.current
        self._read = session.read
        self._events = events
        self._state = session.state
        self._client = session.client
        self._servers = session.servers
        self._command_effects = command_effects
        self._missing_trackers = missing_trackers
        self._lease = lease
        self._dispatch = dispatch
        self._long = session.long
        self._account = session.account

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def on_answer(self, connection: ServerConnection, data: bytes, received: int) -> Step | None:
        """Pass on bytes of the answer; a replica's late answer is dropped.

        Args:
            connection: who answers; its stream tells how far the answer has come.
            data: what the client is to get.
            received: how many bytes the server sent for it.

        Returns:
            The read's next step, if the answer does not count and the read goes elsewhere.

        Raises:
            MalformedPacketError: the server asks for a file that it may not have, or its trackers
                contradict themselves.
        """
        servers = self._servers
        if connection is not servers.active:
            self._drain(connection, received)
            return None
        current = self._current
        command, outcome, answer = current.command, current.outcome, current.answer
        stream = connection.stream
        outcome.received += received
        if stream.session_states:
            self._command_effects.take_trackers(connection, command, outcome)
        if current.stage != PASSING and (
            connection is not servers.primary
            or command.prepares is not None
            or command.prepared is not None
        ):
            data = answer.held + data
            answer.held = b""
            if not _says_what_it_is(data, command, stream):
                answer.held = data
                return None
            meaning = self._meaning(connection, data)
            if meaning != "pass":
                return self._does_not_count(connection, meaning)
            data = self._as_the_clients(connection, data)
        if stream.infile:
            self._check_file(connection)
        if stream.done:
            if self._ends_later(connection):
                answer.ending = data
                return None
            self._finish(connection)
            data = self._with_warnings(connection, data)
        else:
            self._missing_trackers.between(connection, command, outcome)
        self._pass_on(data)
        if stream.infile:
            self._send_file(connection)
        return None

    def _drain(self, connection: ServerConnection, received: int) -> None:
        """Drop bytes of an answer that nobody waits for; with too many, give the connection up."""
        connection.drained += received
        if connection.drained > _DRAIN_LIMIT:
            self._servers.give_up(connection)

    def _pass_on(self, data: bytes) -> None:
        """The client gets more of its answer, if there is more."""
        current = self._current
        if not data:
            return
        if not current.answer.started:
            current.answer.started = True
            if current.stage != DONE:
                current.on_first_byte()
        self._client.write(data)

    def _as_the_clients(self, connection: ServerConnection, data: bytes) -> bytes:
        """The first bytes of an answer, with the client's id of a prepared statement."""
        command = self._current.command
        if data[4] == ERR_HEADER and connection.stream.error is not None:
            return as_the_client_knows_it(data, command, connection)
        prepares = command.prepares
        return data if prepares is None else with_statement_id(data, prepares.number)

    def _ends_later(self, connection: ServerConnection) -> bool:
        """Whether the client's answer waits for what the server is asked behind the command."""
        command, outcome = self._current.command, self._current.outcome
        resets = command.code is Code.COM_RESET_CONNECTION
        if not resets and not (
            connection.silent
            and self._missing_trackers.behind(connection, command, outcome, going=self._long.going)
        ):
            return False
        self._command_effects.take_over(
            connection, connection.stream, command, outcome, told_later=not resets
        )
        return True

    def _with_warnings(self, connection: ServerConnection, data: bytes) -> bytes:
        """What ends an answer: some tell of the warnings of the last statement, wherever it ran."""
        stream = connection.stream
        if stream.error is not None or self._current.command.code not in TELLING_CONDITIONS:
            return data
        count = self._state.diagnostics.warning_count
        whole = int.from_bytes(data[:3], "little") == len(data) - 4
        return with_warnings(data, count) if whole and stream.warnings != count else data

    def _check_file(self, connection: ServerConnection) -> None:
        """Some clients send whichever file a server names.

        Raises:
            MalformedPacketError: the server asks for one that it may not have.
        """
        if not (
            connection is self._servers.primary
            and self._client.capabilities & Capability.CLIENT_LOCAL_FILES
            and wants_file(self._current.command)
        ):
            raise MalformedPacketError(
                "it asked for a local file of a client that has offered none"
            )

    def _send_file(self, connection: ServerConnection) -> None:
        """Let the client send the file that the server has asked for."""
        stream = connection.stream
        connection.be_patient()
        numbers = FrameNumbers(stream.sequence_id + 1)
        self._long.begin()
        self._long.give(lambda data: connection.write(numbers.renumber(data)))
        stream.infile_sent()
        self._client.expect_infile()

    def _meaning(self, connection: ServerConnection, data: bytes) -> Meaning:
        """What a server's error means in place of an answer, if its first bytes are one."""
        error = connection.stream.error
        if data[4] != ERR_HEADER or error is None:
            return "pass"
        command, answer = self._current.command, self._current.answer
        may_move = connection is not self._servers.primary and not self._read.bound
        return answer.meaning(error, command, self._state, may_move=may_move)

    def _does_not_count(self, connection: ServerConnection, meaning: Meaning) -> Step | None:
        """A server's error is not for the client: the command runs again, or elsewhere."""
        command, answer = self._current.command, self._current.answer
        if meaning == "again" and command.prepared is not None:
            answer.prepared_anew = True
            connection.mirror.statements.pop(command.prepared.number, None)
            self._dispatch.send(connection)
            return None
        if meaning == "leaving":
            step = self._events.on_refused(connection, Reason.REPLICA_LOST)
            self._servers.give_up(connection)
            return step
        if meaning == "forbidden" and command.statement is not None:
            self._topology.refusals.add(command.statement.digest, self._now())
        if meaning == "denied":
            connection.mirror.look_up_again(self._state)
        return self._events.on_refused(connection, Reason.REPLICA_REFUSED)

    def cannot_prepare(self, connection: ServerConnection, error: bytes) -> None:
        """The server that is to run a prepared statement refuses it: its error is the answer."""
        if self._long.going:
            self._long.discard()
        self._finish(connection)
        self._client.write(frame(error, 1))

    def on_missing_trackers(self, connection: ServerConnection) -> None:
        """What trackers could not tell is known now: the answer that waited for it may end."""
        answer = self._current.answer
        ending = answer.ending
        behind = ending is not None
        self._missing_trackers.on_ping(
            connection, self._current.command, self._current.outcome, behind=behind
        )
        self._command_effects.follow_rules()
        if ending is not None:
            answer.ending = None
            # A question to the primary that was sent meanwhile was too early for what the client
            # sees now.
            effects.record_answer(
                self._current.command,
                self._current.outcome,
                self._state,
                connection.server,
                connection.epoch,
            )
            self._end(connection)
            self._client.write(ending)

    def on_reset_done(self, connection: ServerConnection) -> None:
        """What the session has after its reset is known: the answer to that may end."""
        answer = self._current.answer
        ending, answer.ending = answer.ending, None
        if ending is not None:
            self._command_effects.on_reset_done(connection.stream)
            self._end(connection)
            self._client.write(ending)

    def _finish(self, connection: ServerConnection) -> None:
        """The answer is complete: take over what it changed, count it, log it."""
        stream = connection.stream
        current = self._current
        self._command_effects.take_over(
            connection, stream, current.command, current.outcome, told_later=False
        )
        self._end(connection)

    def _end(self, connection: ServerConnection) -> None:
        """Count and log what the client is told the end of."""
        outcome = self._current.outcome
        if self._lease is not None:
            self._lease.ended(self._current.command, outcome, connection)
        self._current.on_ended()
        self._command_effects.count_pins()
        result = Outcome.ERROR if outcome.error else Outcome.OK
        server: Server | None = connection.server
        if outcome.reason is Reason.SESSION and connection is not self._servers.primary:
            server = None  # it stood in for the primary, and nothing that is replicated was read
        self._account.record(
            self._current.command, outcome, server, result, outcome.error, outcome.rows
        )


def _says_what_it_is(data: bytes, command: Command, stream: ResponseStream) -> bool:
    """Whether the first bytes of an answer say whether it is an error, and which."""
    if len(data) < (5 if command.prepares is None else 9):
        return False
    return data[4] != ERR_HEADER or stream.done
