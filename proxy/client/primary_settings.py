"""The settings of a session's primary connection that the proxy needs, and clients may undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client import preparation
from proxy.server.connection import IMITATE, RESTORE
from proxy.server.login import primary_settings

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.server.connection import ServerConnection


class PrimarySettings:
    """Those of one session.

    Attributes:
        untracked: GTID tracking may be off until the transaction ends.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.untracked = False
        self._restoring = ""  # the session_track_gtids that is being set

    def as_the_client_set(self, primary: ServerConnection) -> bytes:
        """What makes the client's own settings, for a statement that shows them.

        Inside a transaction GTID tracking cannot be changed (fact 2.4): it shows the proxy's value.
        """
        state = self._session.state
        primary.expect(IMITATE)
        settings = state.tracking_of_client(gtids=not state.in_transaction)
        return preparation.statement_packet(primary, f"SET SESSION {settings}".encode())

    def restore(self, changed: bool = True) -> None:
        """Make the proxy's settings of the primary connection again, behind the command.

        Args:
            changed: the command may have changed GTID tracking, also inside a transaction.
        """
        session = self._session
        primary = session.primary
        if primary is None:
            return
        if primary.translation is not None:
            primary.translation.show(session.state.shown_trackers, session.state.shown_variables)
        session.replicas.track(session.state)
        primary.expect(RESTORE)
        # Inside a transaction GTID tracking cannot be changed (fact 2.4): it is done behind it.
        self.untracked = session.state.in_transaction and (changed or self.untracked)
        self._restoring = session.state.tracking
        shown = session.state.shown_variables
        tracking = "" if session.state.in_transaction else session.state.tracking
        sql = primary_settings(tracking, shown)
        primary.write(preparation.statement_packet(primary, sql))

    def restored(self, stream: ResponseStream) -> None:
        """The settings were made; behind an error it is known only now if a transaction is open."""
        session = self._session
        session.state.in_transaction = stream.status & 0x0001 != 0
        if not self.untracked and session.primary is not None:
            session.primary.tracks_all = self._restoring == "ALL_GTIDS"
        if self.untracked and not session.state.in_transaction:
            self.restore()
