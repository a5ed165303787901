"""One session's connections to replicas: opened when a read first needs them, its own alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.constants import Capability
from protocol.tracker_view import TrackerView
from proxy.channel import ChannelClosedError
from proxy.client import preparation
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.login import Login
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.session import ClientSession
    from proxy.server.connection import ServerConnection
    from proxy.server.opened import Lent, Opened
    from proxy.shared import Shared
    from routing.servers.topology import Server
    from routing.session.session import Session

_log = logging.getLogger(__name__)


class Replicas:
    """The connections, by server."""

    def __init__(self, shared: Shared, session: ClientSession) -> None:
        self._shared = shared
        self._session = session
        self._connections: dict[Server, ServerConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def connections(self) -> list[ServerConnection]:
        """All that are open."""
        return list(self._connections.values())

    @property
    def busy(self) -> bool:
        """Whether one of them awaits an answer."""
        return any(connection.busy for connection in self._connections.values())

    @property
    def idle(self) -> list[Server]:
        """Those that a statement could be sent to at once."""
        found = [self.get(server) for server in self._connections]
        return [one.server for one in found if one is not None and not one.busy]

    def put(self, connection: ServerConnection) -> None:
        """Use a connection that was opened."""
        self._connections[connection.server] = connection

    def get(self, server: Server) -> ServerConnection | None:
        """The connection to this incarnation of a server, fit for the session's schema."""
        connection = self._connections.get(server)
        if connection is None or connection.epoch != server.epoch:
            return None
        if connection.schema and not self._session.state.schema:
            return None  # a schema cannot be left again
        return connection

    def borrow(self, server: Server) -> ServerConnection | None:
        """One that the server need not be asked for (`proxy.server.judged`), or None."""
        session = self._session
        state = session.state
        tracking = self._tracking(state)
        lent = self._shared.logins.lend(server, self.login(), tracking, state.schema)
        if lent is None:
            return None
        self._drop_stale(server)
        self._shared.metrics.server_connected(server.name)
        return self._put(lent)

    def _drop_stale(self, server: Server) -> None:
        stale = self._connections.pop(server, None)
        if stale is not None:
            self._session.drop(stale)

    async def open(self, server: Server) -> Reason | None:
        """Connect; the reason why the server cannot be used, or None."""
        shared = self._shared
        login = self.login()
        server.trying(shared.now() + shared.config.connect_timeout)
        self._drop_stale(server)
        try:
            opened = await shared.logins.open_connection(
                server, login, self._tracking(self._session.state)
            )
            connection = self._put(opened)
        except (ServerUnreachableError, ChannelClosedError) as error:
            server.unreachable(shared.now())
            shared.metrics.server_connect_failed(server.name, "unreachable")
            shared.metrics.server_up(server.name, False)
            _log.warning("replica %s cannot be reached: %s", server.name, error)
            return Reason.REPLICA_LOST
        except ServerRefusedError as error:
            shared.pool.lending.refused(login.username, error.error.code)
            self._session.state.avoided |= {server}
            shared.metrics.server_connect_failed(server.name, "refused")
            _log.warning("replica %s refused user %r: %s", server.name, login.username, error)
            return Reason.REPLICA_REFUSED
        server.reached()
        if not connection.kept:
            shared.metrics.server_opened(server.name)
        shared.metrics.server_connected(server.name)
        shared.metrics.server_up(server.name, True)
        shared.ledger.identified(server, opened.identity)
        return None

    def _put(self, opened: Opened | Lent) -> ServerConnection:
        """Use a connection; ChannelClosedError if it is gone."""
        connection = opened.connection
        session = self._session
        if connection.tracks_all:
            # It has CLIENT_SESSION_TRACK, whether the client has or not.
            connection.view = TrackerView(
                session.connection.capabilities, session.state.shown_trackers
            )
        opened.hand_over(session.answers)
        connection.needs_reset = session.was_reset
        connection.has_roles = opened.identity.has_roles
        preparation.look_up_again(connection)  # it may have found less than a read must see
        self.put(connection)
        return connection

    def login(self) -> Login:
        """How this session logs in to replicas: the schema is chosen behind the WAIT."""
        login = self._session.login
        return Login(
            username=login.username,
            password=login.password,
            capabilities=login.capabilities,
            character_set=login.character_set,
            database=None,
            attributes=login.attributes,
            own_attributes=login.own_attributes,
            sql_mode=self._session.sql_mode,
        )

    def reset(self, variables_version: int) -> None:
        """The session was reset; each connection follows before its next statement."""
        for connection in self._connections.values():
            connection.needs_reset = True
            connection.variables_version = variables_version

    def lost(self, connection: ServerConnection) -> None:
        """A connection broke."""
        if self._connections.get(connection.server) is connection:
            del self._connections[connection.server]

    def give_up(self, connection: ServerConnection) -> None:
        """Close one whose state is not known, or not worth reading on for."""
        self.lost(connection)
        if not connection.lost:
            self._session.drop(connection)

    def track(self, state: Session) -> None:
        """Show the client what it asked for now; those that track too little or too much close."""
        tracks_all = self._tracking(state) == "ALL_GTIDS"
        for connection in list(self._connections.values()):
            if connection.tracks_all is not tracks_all:
                self.give_up(connection)
            elif connection.view is not None:
                connection.view.show(state.shown_trackers, state.shown_variables)

    def _tracking(self, state: Session) -> str:
        """The session_track_gtids of these connections.

        Without CLIENT_DEPRECATE_EOF a read's end tells no GTIDs. That the server showed something
        is remembered all the same, and by that later reads are led (`routing.consistency.scope`).
        """
        tells = self._session.login.capabilities & Capability.CLIENT_DEPRECATE_EOF
        return state.tracking if tells else "OFF"

    def end_transactions(self) -> None:
        """The client's READ ONLY transaction has ended."""
        for connection in self._connections.values():
            preparation.end_transaction(connection)

    def part_from_all(self) -> None:
        """The client has left."""
        for connection in self._connections.values():
            self._session.part_from(connection)
        self._connections.clear()

    def drop_all(self) -> None:
        """Close all; they are opened again, as another user's."""
        for connection in self._connections.values():
            self._session.drop(connection)
        self._connections.clear()
