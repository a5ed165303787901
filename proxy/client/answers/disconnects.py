"""What follows when a session loses a server, its client, or its login.

A statement that a replica had may run elsewhere, as long as its client has seen nothing of the
answer. The primary's connection is the session, so the client's ends with it, as a server would end
it. When a client leaves, no WAIT of its session may be left running.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.packet import frame
from proxy.client.answers.abandoned_write import AbandonedWrite
from proxy.server.exchange import Purpose
from routing.consistency.decision import Outcome
from routing.request.stage import DONE
from routing.request.step import End

if TYPE_CHECKING:
    from proxy.client.answers.read_events import ReadEvents
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.replies.own_answers import OwnAnswers
    from proxy.client.requests.dispatch import Dispatch
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection
    from routing.request.step import Step

_log = logging.getLogger(__name__)


class Disconnects:
    """Handles the losses of one session."""

    def __init__(
        self,
        session: SessionContext,
        events: ReadEvents,
        command_effects: CommandEffects,
        lease: ConnectionLease | None,
        dispatch: Dispatch,
        own_answers: OwnAnswers,
    ) -> None:
        """`lease` is None if the session's connections are its own."""
        shared = session.shared
        self._now = shared.now
        self._metrics = shared.metrics
        self._session_id = session.session_id
        self._current = session.current
        self._read = session.read
        self._events = events
        self._state = session.state
        self._client = session.client
        self._servers = session.servers
        self._command_effects = command_effects
        self._lease = lease
        self._dispatch = dispatch
        self._long = session.long
        self._own_answers = own_answers
        self._account = session.account

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def replica(self, replica: ServerConnection, cause: str) -> Step | None:
        """The replica that was to answer is gone: the read's next step, if it can go elsewhere."""
        current, server = self._current, replica.server
        _log.info("replica %s was lost during a statement: %s", server.name, cause)
        step = self._read.lost(cause, self._now())
        if not isinstance(step, End):
            self._events.leave(replica)
            return step
        if not self._dispatch.reset_is_done():
            self._record_partial_answer(replica)
            self._account.record(current.command, current.outcome, server, Outcome.LOST)
            self._own_answers.end_lost(cause)
        return None

    def primary(
        self,
        primary: ServerConnection,
        cause: str,
        error: bytes | None,
        *,
        active: bool,
        waits: bool,
    ) -> None:
        """The primary's connection is gone, and nobody waits for the read any more.

        Args:
            primary: it.
            cause: why.
            error: the ERR packet that it ended with; None if it said nothing.
            active: it was to answer.
            waits: the client waited for something else before its answer.
        """
        servers, current = self._servers, self._current
        servers.primary = None
        holds_command = self._lease is not None and self._lease.holds_command
        if self._lease is not None:
            self._lease.left()
        if waits or (servers.active is not None and current.stage != DONE):
            command, server = current.command, primary.server
            if active and current.outcome.may_write:
                self._state.may_have_written(command.rules)
                self._metrics.required_unknown("lost")
                logged = self._state.logs
                self._command_effects.note_unlogged(command, current.outcome, server, logged=logged)
            asked_server = None if current.stage == DONE else servers.active
            answers = None if asked_server is None else asked_server.server
            self._account.record(command, current.outcome, answers, Outcome.LOST)
            self._leave_answer()
            self._own_answers.end_lost(cause)
        elif error is not None:
            # It is the answer to a command that came while the connection was being given back.
            self._client.write(frame(error, 1 if holds_command else 0))
            self._client.close()
        else:
            self._client.close()

    def client(self) -> None:
        """The client is gone, and nobody waits for the read any more (fact 4.1)."""
        servers = self._servers
        if self._lease is not None:
            self._lease.left()
        self._state.pins.clear()
        self._command_effects.count_pins()
        is_done = self._current.stage == DONE
        self._leave_write()
        self._leave_answer()
        servers.leave(clean=is_done and not self._long.going)

    def _leave_write(self) -> None:
        """The primary goes on with what may write, which its client may come back to look for."""
        command, outcome = self._current.command, self._current.outcome
        primary = self._servers.unanswered
        if primary is None or not outcome.may_write or self._long.going:
            return
        logged = self._state.logs
        self._command_effects.note_unlogged(command, outcome, primary.server, logged=logged)
        self._record_partial_answer(primary)
        self._servers.take_primary_away()
        AbandonedWrite(self._state, command.rules, self._metrics).await_end(primary)

    def _leave_answer(self) -> None:
        """What the active connection still answers is neither shown to the client nor counted."""
        servers = self._servers
        active = servers.active
        if active is None:
            return
        if self._current.stage != DONE:
            self._record_partial_answer(active)
        if not active.lost and active.awaiting is Purpose.WAIT:
            self._metrics.wait_killed()
            servers.kill_active(f"session {self._session_id}: kill its wait")
        servers.deactivate()

    def _record_partial_answer(self, connection: ServerConnection) -> None:
        """The client has received a part of an answer that will not be completed."""
        if self._current.answer.started:
            self._state.record_answer(
                connection.server, connection.epoch, self._current.command.rules
            )
