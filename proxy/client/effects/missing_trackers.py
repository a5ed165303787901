"""Asks for what results without CLIENT_DEPRECATE_EOF cannot tell, since they end with an EOF.

Theory of operation
===================

An EOF packet has no trackers. They come with the next OK packet, except GTIDs: for these it only
tells that there were some (docs/mysql-behaviour.md, *Results that end with an EOF*). COM_PING has
such an OK and changes nothing else. So a COM_PING follows

* a result outside of a transaction whose statement may have run a stored program, also through a
  view. The client is told of its end when it is known whether something was written;
* an error after which the session's state may be different, since ERR packets have no trackers
  either.

A COM_PING cannot go out between the results of one command, which only the last OK tells of. So
where the client is given the end of one while the next is awaited, as in the middle of a CALL,
something may have been written, and other sessions have the primary asked.

In a transaction most writes are committed at its end, which names them. What a function writes to
non-transactional tables is not; it is *noted* that there may be something, and the next OK shows
it. In front of a command whose own OK has trackers anyway, such as COMMIT, a COM_PING keeps the two
apart.

Of the state that a statement leaves for the next one, COM_PING only changes ROW_COUNT(), which is
made -1 again where the next statement asks for it (`routing.session.diagnostics_area`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import IN_TRANS, SESSION_STATE_CHANGED
from protocol.response_stream import RESULTS
from proxy.client.statements.tracker_ping import ASK_TRACKERS, trackers_told
from routing.request import command_properties, effects
from routing.sql.statement import StatementClass, StatementReason, may_read_tables

if TYPE_CHECKING:
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.session_context import SessionContext
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome

_WITHOUT_TRACKERS: Final = (StatementReason.DATA, StatementReason.LOCKING_READ)
"""Statements that mostly have no trackers in their OK packet while a transaction is open."""


class MissingTrackers:
    """Asks for one session.

    Attributes:
        is_pinged: a COM_PING went out with the command.
    """

    def __init__(self, session: SessionContext, command_effects: CommandEffects) -> None:
        self._state = session.state
        self._servers = session.servers
        self._settings = session.settings
        self._command_effects = command_effects
        self._metrics = session.shared.metrics
        self.is_pinged = False

    def before(self, command: Command) -> Batch:
        """What goes in front of a command, for what its OK would hide."""
        statement = command.statement
        if statement is not None:
            if statement.asks:
                return ()
            if statement.reason in _WITHOUT_TRACKERS or (
                statement.kind is StatementClass.READ and not statement.shows_tracking
            ):
                return ()
        if not self._state.result_trackers_pending or self._state.trackers.of_transactions:
            return ()  # the client's next OK, not a COM_PING's, has to report its transaction
        return self._ask()

    def along(self, command: Command, outcome: CommandOutcome) -> Batch:
        """What goes right behind a command, where its answer ends with an EOF or an ERR.

        The connection is one whose results end with an EOF.
        """
        self.is_pinged = (
            command.is_read
            and command.prepared is None
            and not self._state.transaction.status & IN_TRANS
            and _may_have_run_programs(command, outcome)
        )
        return self._ask() if self.is_pinged else ()

    def between(
        self, connection: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> None:
        """The client gets a part of an answer: the next result may be long in coming."""
        stream = connection.stream
        if not stream.missing_trackers:  # no result has ended, or its end has told
            return
        stream.missing_trackers = False  # once for each result, however long the next one is
        may_write = connection is self._servers.primary and _may_have_run_programs(command, outcome)
        if may_write and self._state.may_be_writing(command.rules):
            self._metrics.required_unknown("result")

    def behind(
        self,
        connection: ServerConnection,
        command: Command,
        outcome: CommandOutcome,
        *,
        going: bool,
    ) -> bool:
        """Ask what the complete answer did not tell; False if there can be nothing.

        The connection is one whose results end with an EOF. `going` says that the client still
        sends what the server has answered.
        """
        if connection is not self._servers.primary:
            return False
        if self.is_pinged:
            return True
        stream = connection.stream
        if stream.error is not None:
            asks = command_properties.is_suspicious(command, outcome)
        elif stream.missing_trackers:
            asks = command.shape == RESULTS and _may_have_run_programs(command, outcome)
            if asks and stream.status & IN_TRANS and not command_properties.explains(command):
                self._state.result_trackers_pending = True
                asks = False
        else:
            if self._state.result_trackers_pending and stream.status & SESSION_STATE_CHANGED:
                self._doubt(connection, command, outcome)
            self._state.result_trackers_pending = False
            return False
        if not asks:
            return False
        if going:
            self._doubt(connection, command, outcome)
            return False
        connection.send(self._ask())
        return True

    def _ask(self) -> Batch:
        self._state.result_trackers_pending = False
        return ASK_TRACKERS

    def on_ping(
        self,
        connection: ServerConnection,
        command: Command,
        outcome: CommandOutcome,
        *,
        behind: bool,
    ) -> None:
        """The COM_PING was answered; `behind` the command's answer, or before it.

        Raises:
            MalformedPacketError: its trackers contradict themselves.
        """
        state, answer = self._state, trackers_told(connection.stream)
        if behind:
            state.diagnostics.on_ping(connection.area, connection.stream.warnings)
        if answer is None:
            self._doubt(connection, command, outcome)
            return
        state.transaction.on_ping(answer.status)
        if behind and not outcome.error:
            self._command_effects.judge_names(connection, command, outcome, doubted=answer.changed)
        if not answer.changed:
            state.trackers_pending = False
            return
        self._doubt(connection, command, outcome)
        outcome.forget_changes()
        self._command_effects.take_trackers(connection, command, outcome)
        if "sql_log_bin" in outcome.tracked_variables:
            self._command_effects.note_unlogged(command, outcome, connection.server, logged=True)
        if behind:
            restore = effects.take_trackers_of_ping(command, outcome, state)
        else:
            restore = effects.take_trackers_after_error(command, outcome, state)
            outcome.forget_changes()
            outcome.untracked_change = False
        if restore:
            self._settings.restore()

    def _doubt(
        self, connection: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> None:
        """Something may have been committed that no packet names."""
        if connection.mirror.tracks_all and not outcome.may_write:
            return  # trackers were changed by each statement; what it showed is remembered
        outcome.may_write = True
        self._state.may_have_written(command.rules)
        self._metrics.required_unknown("result")


def _may_have_run_programs(command: Command, outcome: CommandOutcome) -> bool:
    """Whether a command that had a result may have run a stored program, or wrote without one."""
    statement = command.statement
    if statement is None or outcome.may_write:
        return outcome.may_write
    if statement.kind is StatementClass.DIAGNOSTIC:
        return False
    return may_read_tables(command.text)  # perhaps a view
