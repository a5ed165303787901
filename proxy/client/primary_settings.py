"""The settings of a session's primary connection that the proxy needs, and clients may undo.

They are not restored at once. A SET clears the warnings, errors and ROW_COUNT() of the statement
before it, which the client may still ask for. So it is sent in front of the first command after
which they can no longer be asked for. Until then, a command that may write counts as having written
without a known GTID, and one that may run programs as having changed anything. While the server
records statements (optimizer_trace, profiling) they are restored only in front of one that may set
something: the session stays on the primary anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client.statements.restore import restore, show_client_settings
from routing.request import command_properties, effects

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.servers import Servers
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.session.session import Session


class PrimarySettings:
    """Those of one session.

    Attributes:
        undone: trackers may not report all that the proxy needs.
        untracked: GTIDs may also not be tracked as the session's level needs it. Inside a
            transaction that cannot be changed (fact 2.4): it is done after it.
    """

    def __init__(self, state: Session, servers: Servers) -> None:
        """Those of a session of which routing knows `state`, and that has `servers`."""
        self._state = state
        self._servers = servers
        self.undone = False
        self.untracked = False
        self._restoring = ""  # the session_track_gtids that is being set

    def restore(self, trackers: bool = True) -> None:
        """Restore the proxy's settings, as soon as the client loses nothing by that.

        Args:
            trackers: other trackers than that of GTIDs may be wrong, too.
        """
        state = self._state
        primary = self._servers.primary
        self.undone = self.undone or trackers
        self.untracked = True
        if primary is not None and primary.view is not None:
            primary.view.show(state.trackers.shown, state.trackers.shown_variables)
        self._servers.track()

    def on_connect(self, tracking: str) -> None:
        """The connection is a new one, with the proxy's settings and this session_track_gtids."""
        self.undone = False
        self.untracked = tracking != self._state.trackers.gtids

    def in_front(
        self, primary: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> Batch:
        """What must be set in front of a command."""
        state = self._state
        statement = command.statement
        shows = statement is not None and statement.shows_tracking
        doubtful = outcome.may_write and state.commits.wants_tracking(statement)
        lacking = self.undone or ((self.untracked or doubtful) and not state.transaction.is_open)
        if not (shows or lacking) or command_properties.may_ask_previous(command):
            return ()
        if (
            state.is_recorded
            and not shows
            and not (self.undone and command_properties.may_set(command))
        ):
            return ()  # the client would find it among its own statements
        if state.trackers_pending:
            # Trackers of an earlier failure would come with the answer to this SET.
            effects.pin_unknown(command, state)
        # Inside a transaction GTID tracking stays as it is, and the proxy's value shows.
        changes = not state.transaction.is_open
        if shows:
            self.undone = True
            self.untracked = self.untracked or changes
            return show_client_settings(
                state, gtids=changes, query_attributes=primary.query_attributes
            )
        self.undone = False
        self.untracked = self.untracked and not changes
        self._restoring = state.trackers.gtids if changes else ""
        if changes:
            state.commits.tracked()
        return restore(primary, state, self._restoring)

    def on_restore(self, primary: ServerConnection, stream: ResponseStream) -> None:
        """The settings were made; after an error only this shows if a transaction is open."""
        self._state.transaction.on_restore(stream.status)
        if self._restoring:
            primary.mirror.tracks_all = self._restoring == "ALL_GTIDS"
