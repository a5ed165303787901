"""Servers' answers to the proxy's own statements: what each means for the session.

Servers answer in order, so these come before the client's answer, or after it. Those that are
events for the read's machine go to `ReadEvents`; the others are for whichever part has asked. One
table says who handles the answer to what (`HANDLERS`); how it is read is beside its SQL
(`proxy.client.statements`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from protocol.response import ErrPacket
from protocol.wire import lenenc_bytes
from proxy.client.answer import is_transient
from proxy.client.statements.found_rows import found_rows
from proxy.client.statements.prepared_statement import close_packet, note_prepared
from proxy.client.statements.restore import refusal as refusal_of_restore
from proxy.client.statements.roles import active_roles
from proxy.server.exchange import Purpose
from routing.consistency.decision import Reason
from routing.request import effects, refusal
from routing.request.stage import DONE
from routing.session.prepared import PreparedHandle

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def on_answer(self, connection: ServerConnection, purpose: Purpose) -> Step | None:
        """Judge a complete answer; the read's next step, if that was an event for its machine.

        Args:
            connection: who answered; its stream holds the answer.
            purpose: what it is for; not FORWARD.

        Raises:
            MalformedPacketError: its trackers contradict themselves.
        """
        return HANDLERS[purpose](self, connection)

    def _is_active(self, connection: ServerConnection) -> bool:
        """Whether it is the one that answers the command."""
        return connection is self._servers.active

    def _is_awaited(self, connection: ServerConnection) -> bool:
        """Whether the client waits for its answer; else the read has ended without it."""
        return connection is self._servers.active and self._current.stage != DONE

    # Before a read

    def _on_wait(self, replica: ServerConnection) -> Step | None:
        """The WAIT was answered."""
        return self._events.on_wait(replica) if self._is_awaited(replica) else None

    def _on_confirmation(self, replica: ServerConnection) -> Step | None:
        """A replica was asked whether it still has what it had proved."""
        return self._events.on_confirmation(replica) if self._is_awaited(replica) else None

    def _on_audit(self, replica: ServerConnection) -> Step | None:
        """A replica was asked whether it has what the read must see."""
        return self._events.on_audit(replica) if self._is_awaited(replica) else None

    def _on_wait_for_owned(self, primary: ServerConnection) -> Step | None:
        """The primary was to finish what it is committing."""
        self._on_replay(primary)
        if primary.late_waits:
            primary.late_waits -= 1
            return None
        return self._events.on_wait_for_owned(primary) if self._is_active(primary) else None

    def _on_probe(self, primary: ServerConnection) -> Step | None:
        """The primary was asked what it has, for a read on it."""
        if self._is_active(primary):
            if primary.stream.session_states:
                self._take_trackers(primary)  # of what failed before it
            self._events.primary_told(primary)
        return None

    def _on_shared_probe(self, primary: ServerConnection) -> Step | None:
        """The primary says what it has to all reads that wait for it."""
        state = self._state
        if state.trackers_pending and not primary.silent:
            self._take_trackers(primary)  # of what failed before it
            if effects.take_trackers_after_error(
                self._current.command, self._current.outcome, state
            ):
                self._settings.restore()
        self._probes.on_answer(primary, primary.stream)
        return None

    # For the session's state

    def _on_setup(self, connection: ServerConnection) -> Step | None:
        """A server was told something of the session for the statement behind it."""
        error = connection.stream.error
        if error is None:
            return None
        if connection is self._servers.primary:
            self._own_answers.end(
                f"the primary did not go back to the session's schema: {ErrPacket.parse(error)}"
            )
            return None
        active = self._is_active(connection)
        self._add_rejection(connection, error, active=active)
        step = self._events.on_refused(connection, Reason.REPLICA_REFUSED) if active else None
        # Even if nobody waits for it any more: its state is not what it was thought to be.
        self._servers.give_up(connection)
        return step

    def _on_restore(self, primary: ServerConnection) -> Step | None:
        """The primary was told the settings that the proxy needs."""
        reason = refusal_of_restore(primary.stream)
        if not reason:
            self._settings.on_restore(primary, primary.stream)
            return None
        primary.close()
        if self._current.outcome.may_write:
            self._state.may_have_written(self._current.command.rules)  # it follows on the wire
        self._own_answers.end(
            f"the primary did not take the settings that consistency needs: {reason}"
        )
        return None

    def _on_replay(self, connection: ServerConnection) -> Step | None:
        """A server was made to look as if it had run what another has run."""
        self._take_trackers_after_error(connection)
        head = connection.stream.head
        if head is not None:  # of a statement that nobody is to execute
            connection.write(close_packet(PreparedHandle.of(head)))
        return None

    def _on_tracker_ping(self, connection: ServerConnection) -> Step | None:
        """A COM_PING brought what trackers could not tell before."""
        self._answers.on_missing_trackers(connection)
        return None

    def _on_saved_state(self, primary: ServerConnection) -> Step | None:
        """The primary was asked what the session carries."""
        if self._lease is not None:
            self._lease.said(primary, primary.stream)
        return None

    def _on_views(self, primary: ServerConnection) -> Step | None:
        """The primary was asked which views there are."""
        self._views.on_answer(primary, primary.stream)
        return None

    def _defaults(self, connection: ServerConnection) -> Step | None:
        """A server's session was reset, and tells what it begins with now."""
        if connection is self._servers.primary:
            self._answers.on_reset_done(connection)
            return None
        if connection.stream.row == lenenc_bytes(connection.mirror.defaults.row):
            return None
        # Its defaults have changed, so what it was told is not enough: a new one will tell them.
        active = self._is_active(connection)
        step = self._events.on_refused(connection, Reason.REPLICA_REFUSED) if active else None
        self._servers.give_up(connection)
        return step

    def _roles(self, primary: ServerConnection) -> Step | None:
        """The primary was asked which roles are active."""
        self._take_trackers_after_error(primary)
        roles = active_roles(primary.stream)
        if roles is not None:
            self._state.set_active_roles(roles)
        return None

    def _on_found_rows(self, connection: ServerConnection) -> Step | None:
        """A server was asked for FOUND_ROWS()."""
        if connection is self._servers.primary:
            self._take_trackers_after_error(connection)
        number = found_rows(connection.stream)
        if number is not None:
            self._state.diagnostics.on_found_rows(connection.area, number)
        self._dispatch.on_found_rows(connection)
        return None

    def _take_trackers(self, connection: ServerConnection) -> None:
        self._command_effects.take_trackers(
            connection, self._current.command, self._current.outcome
        )

    def _take_trackers_after_error(self, connection: ServerConnection) -> None:
        """What failed before had no trackers; this answer has them."""
        if self._state.trackers_pending:
            self._take_trackers(connection)

    # Of transactions

    def _before_snapshot(self, connection: ServerConnection) -> Step | None:
        """A server was asked what it has, before a snapshot."""
        return self._snapshot_told(connection, Purpose.SNAPSHOT_BEFORE)

    def _snapshot(self, primary: ServerConnection) -> Step | None:
        """The primary was asked for a snapshot."""
        return self._snapshot_told(primary, Purpose.SNAPSHOT)

    def _after_snapshot(self, connection: ServerConnection) -> Step | None:
        """A server was asked what it has, after a snapshot."""
        return self._snapshot_told(connection, Purpose.SNAPSHOT_AFTER)

    def _snapshot_told(self, connection: ServerConnection, purpose: Purpose) -> Step | None:
        primary = self._servers.primary
        if connection is primary:
            self._take_trackers_after_error(connection)
        waits = connection is self._servers.active and not connection.owes_answer
        if self._snapshots.take_answer(connection, purpose) and waits and connection is primary:
            self._dispatch.to_primary(connection)
        return None

    def _on_rollback(self, primary: ServerConnection) -> Step | None:
        """A transaction with different snapshots was rolled back: its client is to retry it."""
        error = primary.stream.error
        if error is not None:
            self._own_answers.end(f"the primary did not roll back: {ErrPacket.parse(error)}")
            return None
        self._state.on_rollback(primary.stream.status)
        self._own_answers.refuse_whole(refusal.split_conflict())
        return None

    # Prepared statements

    def _statement(self, connection: ServerConnection) -> Step | None:
        """A server was asked to prepare a statement that it did not know; perhaps it did."""
        stream = connection.stream
        number = note_prepared(connection.mirror, stream)
        prepared = self._current.command.prepared
        if not self._is_awaited(connection) or prepared is None or prepared.number != number:
            return None
        if stream.error is None:
            self._dispatch.send(connection)
            self._dispatch.pass_parts(connection)
            return None
        if connection is not self._servers.primary and not self._read.bound:
            return self._events.on_refused(connection, Reason.REPLICA_REFUSED)
        self._answers.cannot_prepare(connection, stream.error)
        return None

    def _add_rejection(self, replica: ServerConnection, error: bytes, *, active: bool) -> None:
        """A replica refused what the session carries: remember that, unless it may be temporary.

        Where the WAIT before it timed out, the replica may be too old to know a schema or a role.
        """
        cause = str(ErrPacket.parse(error))
        pause = 0.0
        if active and not is_transient(error):
            state = self._state
            pause = state.rejections.add(replica.server, cause, state.state_versions, self._now())
        _log.info(
            "replica %s could not be prepared, and is left alone for %g s by session %d: %s",
            replica.server.name,
            pause,
            self._session_id,
            cause,
        )


Handler: TypeAlias = "Callable[[ProxyQueryAnswers, ServerConnection], Step | None]"

HANDLERS: Final[dict[Purpose, Handler]] = {
    Purpose.SETUP: ProxyQueryAnswers._on_setup,
    Purpose.WAIT: ProxyQueryAnswers._on_wait,
    Purpose.PROBE: ProxyQueryAnswers._on_probe,
    Purpose.SHARED_PROBE: ProxyQueryAnswers._on_shared_probe,
    Purpose.CONFIRM: ProxyQueryAnswers._on_confirmation,
    Purpose.AUDIT: ProxyQueryAnswers._on_audit,
    Purpose.REPLAY_DIAGNOSTICS: ProxyQueryAnswers._on_replay,
    Purpose.FOUND_ROWS: ProxyQueryAnswers._on_found_rows,
    Purpose.WAIT_FOR_OWNED: ProxyQueryAnswers._on_wait_for_owned,
    Purpose.PREPARE_STATEMENT: ProxyQueryAnswers._statement,
    Purpose.VIEWS: ProxyQueryAnswers._on_views,
    Purpose.RESTORE: ProxyQueryAnswers._on_restore,
    Purpose.DEFAULTS: ProxyQueryAnswers._defaults,
    Purpose.ROLES: ProxyQueryAnswers._roles,
    Purpose.SAVE_STATE: ProxyQueryAnswers._on_saved_state,
    Purpose.SNAPSHOT_BEFORE: ProxyQueryAnswers._before_snapshot,
    Purpose.SNAPSHOT: ProxyQueryAnswers._snapshot,
    Purpose.SNAPSHOT_AFTER: ProxyQueryAnswers._after_snapshot,
    Purpose.ROLLBACK: ProxyQueryAnswers._on_rollback,
    Purpose.TRACKER_PING: ProxyQueryAnswers._on_tracker_ping,
}
"""Who handles the answer to which question; FORWARD is the client's own
(`proxy.client.answers.server_answers`)."""
