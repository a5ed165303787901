"""Servers' answers to the proxy's own statements: what each means for the session.

Servers answer in order, so these come before the client's answer, or after it. Those that are
events for the read's machine go to `ReadEvents`; the others are for whichever part has asked. The
session itself gives the machine the answer to a WAIT, by far the most frequent one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.response import ErrPacket
from protocol.wire import lenenc_bytes
from proxy.client.answer import DONE, may_pass
from proxy.client.prepared import close_packet
from proxy.client.statements.found_rows import found_rows
from proxy.client.statements.roles import active_roles
from proxy.server.exchange import Purpose
from routing.consistency.decision import Reason
from routing.request import effects, refusal
from routing.session.prepared import PreparedHandle

if TYPE_CHECKING:
    from proxy.client.answers.read_events import ReadEvents
    from proxy.client.answers.server_answers import ServerAnswers
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.replies.own_answers import OwnAnswers
    from proxy.client.requests.dispatch import Dispatch
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection
    from routing.request.step import Step

_log = logging.getLogger(__name__)

_OF_SNAPSHOTS: Final = (Purpose.SNAPSHOT_BEFORE, Purpose.SNAPSHOT, Purpose.SNAPSHOT_AFTER)


class ProxyQueryAnswers:
    """Takes the answers that one session's servers give to the proxy's own statements."""

    def __init__(
        self,
        session: SessionContext,
        events: ReadEvents,
        command_effects: CommandEffects,
        lease: ConnectionLease | None,
        dispatch: Dispatch,
        own_answers: OwnAnswers,
        answers: ServerAnswers,
    ) -> None:
        """`lease` is None if the session's connections are its own."""
        shared = session.shared
        self._probes = shared.probes
        self._now = shared.now
        self._session_id = session.session_id
        self._current = session.current
        self._read = session.read
        self._events = events
        self._state = session.state
        self._servers = session.servers
        self._command_effects = command_effects
        self._settings = session.settings
        self._views = session.views
        self._snapshots = session.snapshots
        self._lease = lease
        self._dispatch = dispatch
        self._own_answers = own_answers
        self._answers = answers

    def on_answer(self, connection: ServerConnection, purpose: Purpose) -> Step | None:
        """Judge a complete answer; the read's next step, if that was an event for its machine.

        Args:
            connection: who answered; its stream holds the answer.
            purpose: what it is for; neither FORWARD nor WAIT.

        Raises:
            MalformedPacketError: its trackers contradict themselves.
        """
        active = connection is self._servers.active
        read = (
            active and self._current.answer.stage != DONE
        )  # else its session has ended without it
        if purpose is Purpose.CONFIRM:
            return self._events.confirmed(connection) if read else None
        if purpose is Purpose.AUDIT:
            return self._events.audited(connection) if read else None
        if purpose is Purpose.REPLAY_DIAGNOSTICS or purpose is Purpose.WAIT_FOR_OWNED:
            self._told_of_failure(connection)
            head = connection.stream.head
            if head is not None:  # of a statement that nobody is to execute
                connection.write(close_packet(PreparedHandle.of(head)))
            if purpose is Purpose.WAIT_FOR_OWNED and active:
                return self._events.settled(connection)
        elif purpose is Purpose.PROBE:
            if active:
                if connection.stream.session_states:
                    self._take_trackers(connection)  # of what failed before it
                self._events.primary_told(connection)
        elif purpose is Purpose.SHARED_PROBE:
            self._gathered(connection)
        elif purpose in _OF_SNAPSHOTS:
            self._snapshot_told(connection, purpose)
        elif purpose is Purpose.ROLLBACK:
            self._rolled_back(connection)
        elif purpose is Purpose.STATEMENT:
            return self._prepared_there(connection, waits=read)
        elif purpose is Purpose.TRACKER_PING:
            self._answers.told_late(connection)
        elif purpose is Purpose.SAVE_STATE:
            if self._lease is not None:
                self._lease.said(connection, connection.stream)
        elif purpose is Purpose.DEFAULTS:
            return self._defaults(connection, active=active)
        elif purpose is Purpose.FOUND_ROWS:
            self._found_rows(connection)
        elif purpose is Purpose.ROLES:
            self._roles(connection)
        elif purpose is Purpose.VIEWS:
            self._views.answered(connection, connection.stream)
        elif connection.stream.error is not None:
            return self._unprepared(connection, purpose, connection.stream.error, active=active)
        elif purpose is Purpose.RESTORE:
            self._settings.restored(connection, connection.stream)
        return None

    def _defaults(self, connection: ServerConnection, *, active: bool) -> Step | None:
        """A server's session was reset, and tells what it begins with now."""
        if connection is self._servers.primary:
            self._answers.begun_anew(connection)
            return None
        if connection.stream.row == lenenc_bytes(connection.mirror.defaults.row):
            return None
        # Its defaults have changed, so what it was told is not enough: a new one will tell them.
        step = self._events.refused(connection, Reason.REPLICA_REFUSED) if active else None
        self._servers.give_up(connection)
        return step

    def _roles(self, primary: ServerConnection) -> None:
        """The primary was asked which roles are active."""
        self._told_of_failure(primary)
        roles = active_roles(primary.stream)
        if roles is not None:
            self._state.has_roles(roles)

    def _found_rows(self, connection: ServerConnection) -> None:
        """A server was asked for FOUND_ROWS()."""
        if connection is self._servers.primary:
            self._told_of_failure(connection)
        number = found_rows(connection.stream)
        if number is not None:
            self._state.diagnostics.learned(connection.area, number)
        self._dispatch.told_found_rows(connection)

    def _take_trackers(self, connection: ServerConnection) -> None:
        self._command_effects.take_trackers(
            connection, self._current.command, self._current.outcome
        )

    def _told_of_failure(self, connection: ServerConnection) -> None:
        """What failed before had no trackers; this answer has them."""
        if self._state.suspect:
            self._take_trackers(connection)

    def _gathered(self, primary: ServerConnection) -> None:
        """The primary says what it has to all reads that wait for it."""
        state = self._state
        if state.suspect and not primary.silent:
            self._take_trackers(primary)  # of what failed before it
            if effects.told_late(self._current.command, self._current.outcome, state):
                self._settings.restore()
        self._probes.answered(primary, primary.stream)

    def _snapshot_told(self, connection: ServerConnection, purpose: Purpose) -> None:
        """A server was asked to take a snapshot of the transaction's, or what it shows."""
        primary = self._servers.primary
        if connection is primary:
            self._told_of_failure(connection)
        waits = connection is self._servers.active and not connection.owes_answer
        if self._snapshots.told(connection, purpose) and waits and connection is primary:
            self._dispatch.to_primary(connection)

    def _rolled_back(self, primary: ServerConnection) -> None:
        """A transaction with different snapshots was rolled back: its client is to retry it."""
        error = primary.stream.error
        if error is not None:
            self._own_answers.end(f"the primary did not roll back: {ErrPacket.parse(error)}")
            return
        self._state.rolled_back(primary.stream.status)
        self._own_answers.refuse_whole(refusal.split_conflict())

    def _prepared_there(self, connection: ServerConnection, *, waits: bool) -> Step | None:
        """A server was asked to prepare a statement that it did not know; perhaps it did.

        `waits`: its client waits for an answer of this server's.
        """
        stream = connection.stream
        number = connection.mirror.preparing.pop(0)
        if stream.head is not None:
            connection.mirror.statements[number] = PreparedHandle.of(stream.head)
        prepared = self._current.command.prepared
        if not waits or prepared is None or prepared.number != number:
            return None
        if stream.error is None:
            self._dispatch.send(connection)
            self._dispatch.pass_parts(connection)
            return None
        if connection is not self._servers.primary and not self._read.bound:
            return self._events.refused(connection, Reason.REPLICA_REFUSED)
        self._answers.cannot_prepare(connection, stream.error)
        return None

    def _unprepared(
        self, connection: ServerConnection, purpose: Purpose, error: bytes, *, active: bool
    ) -> Step | None:
        """A server refused what prepares it for the next statement; `error` says why."""
        if purpose is Purpose.RESTORE:
            connection.close()
            if self._current.outcome.may_write:
                self._state.may_have_written(self._current.command.rules)  # it follows on the wire
            self._own_answers.end(
                "the primary did not take the settings that consistency needs: "
                f"{ErrPacket.parse(error)}"
            )
            return None
        if connection is self._servers.primary:
            self._own_answers.end(
                f"the primary did not go back to the session's schema: {ErrPacket.parse(error)}"
            )
            return None
        self._objected(connection, error, active=active)
        step = self._events.refused(connection, Reason.REPLICA_REFUSED) if active else None
        # Even if nobody waits for it any more: its state is not what it was thought to be.
        self._servers.give_up(connection)
        return step

    def _objected(self, replica: ServerConnection, error: bytes, *, active: bool) -> None:
        """A replica refused what the session carries: remember that, unless it may be temporary.

        Where the WAIT before it timed out, the replica may be too old to know a schema or a role.
        """
        cause = str(ErrPacket.parse(error))
        pause = 0.0
        if active and not may_pass(error):
            state = self._state
            pause = state.rejections.add(replica.server, cause, state.told, self._now())
        _log.info(
            "replica %s could not be prepared, and is left alone for %g s by session %d: %s",
            replica.server.name,
            pause,
            self._session_id,
            cause,
        )
