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
from proxy.client.preparation import PING
from proxy.server.exchange import LATE
from routing.request import effects, traits
from routing.sql.statement import StatementClass, Touch, may_read_tables

if TYPE_CHECKING:
    from proxy.client.aftermath import Aftermath
    from proxy.client.primary_settings import PrimarySettings
    from proxy.client.servers import Servers
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.trail import Trail
    from routing.session.session import Session

_ASK: Final = ((LATE, PING),)
_WITHOUT_TRACKERS: Final = (Touch.DATA, Touch.LOCKING_READ)
"""Statements that mostly have no trackers in their OK packet while a transaction is open."""


class Untold:
    """Asks for one session.

    Attributes:
        pinged: a COM_PING went out with the command.
    """

    def __init__(
        self,
        state: Session,
        servers: Servers,
        settings: PrimarySettings,
        aftermath: Aftermath,
        metrics: Metrics,
    ) -> None:
        """The parts of the session that an answer may concern."""
        self._state = state
        self._servers = servers
        self._settings = settings
        self._aftermath = aftermath
        self._metrics = metrics
        self.pinged = False

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
        if not self._state.noted or self._state.trackers.of_transactions:
            return ()  # the client's next OK, not a COM_PING's, has to report its transaction
        return self._ask()

    def along(self, command: Command, trail: Trail) -> Batch:
        """What goes right behind a command, where its answer ends with an EOF or an ERR.

        The connection is one whose results end with an EOF.
        """
        self.pinged = (
            command.is_read
            and command.prepared is None
            and not self._state.transaction.status & IN_TRANS
            and _may_have_run_programs(command, trail)
        )
        return self._ask() if self.pinged else ()

    def behind(
        self, connection: ServerConnection, command: Command, trail: Trail, *, going: bool
    ) -> bool:
        """Ask what the complete answer did not tell; False if there can be nothing.

        The connection is one whose results end with an EOF. `going` says that the client still
        sends what the server has answered.
        """
        if connection is not self._servers.primary:
            return False
        if self.pinged:
            return True
        stream = connection.stream
        if stream.error is not None:
            asks = traits.is_suspicious(command, trail)
        elif stream.untold:
            asks = command.shape == RESULTS and _may_have_run_programs(command, trail)
            if asks and stream.status & IN_TRANS and not traits.explains(command):
                self._state.noted = True
                asks = False
        else:
            if self._state.noted and stream.status & SESSION_STATE_CHANGED:
                self._doubt(connection, command, trail)
            self._state.noted = False
            return False
        if not asks:
            return False
        if going:
            self._doubt(connection, command, trail)
            return False
        connection.send(self._ask())
        return True

    def _ask(self) -> Batch:
        self._state.noted = False
        return _ASK

    def told(
        self, connection: ServerConnection, command: Command, trail: Trail, *, behind: bool
    ) -> None:
        """The COM_PING was answered; `behind` the command's answer, or before it.

        Raises:
            MalformedPacketError: its trackers contradict themselves.
        """
        state, stream = self._state, connection.stream
        if behind:
            state.diagnostics.counted_by_ping(connection.area)
        if stream.error is not None:
            self._doubt(connection, command, trail)
            return
        state.transaction.pinged(stream.status)
        tells = bool(stream.session_states)
        if behind and not trail.error:
            self._aftermath.judge_names(connection, command, trail, doubted=tells)
        if not tells:
            state.suspect = False
            return
        self._doubt(connection, command, trail)
        trail.forget_changes()
        self._aftermath.take_trackers(connection, command, trail)
        if "sql_log_bin" in trail.told:
            self._aftermath.note_unlogged(command, trail, connection.server, logged=True)
        if behind:
            restore = effects.told_behind(command, trail, state)
        else:
            restore = effects.told_late(command, trail, state)
            trail.forget_changes()
            trail.blank = False
        if restore:
            self._settings.restore()

    def _doubt(self, connection: ServerConnection, command: Command, trail: Trail) -> None:
        """Something may have been committed that no packet names."""
        if connection.mirror.tracks_all and not trail.may_write:
            return  # trackers were changed by each statement; what it showed is remembered
        trail.may_write = True
        self._state.may_have_written(command.rules)
        self._metrics.required_unknown("result")


def _may_have_run_programs(command: Command, trail: Trail) -> bool:
    """Whether a command that had a result may have run a stored program, or wrote without one."""
    statement = command.statement
    if statement is None or trail.may_write:
        return trail.may_write
    if statement.kind is StatementClass.DIAGNOSTIC:
        return False
    return may_read_tables(command.text)  # perhaps a view
