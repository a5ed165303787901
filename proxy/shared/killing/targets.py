"""Finds what a KILL is to end: the primary's thread of the session that a connection id names.

Clients know a session by the id that its client was told. Its present connection to the primary may
have another id: the session has borrowed that connection (`proxy.client.sharing.connection_lease`),
or its client was greeted with an id of the proxy's own. The session may be in any worker. The KILL
itself goes to the primary over the killing session's own connection, so the server judges whether
it is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.server.errors import ServerFullError
from proxy.shared.killing.inquiry import GONE, MOST_ID, Inquiry

if TYPE_CHECKING:
    from proxy.shared.killing.other_workers import OtherWorkers
    from proxy.shared.sessions import Sessions
    from routing.servers.topology import Topology


class KillTargets:
    """Finds the targets of KILLs for the sessions of one worker."""

    def __init__(
        self, sessions: Sessions, topology: Topology, other_workers: OtherWorkers | None
    ) -> None:
        """Look in `sessions`, and ask the other workers, if there are any."""
        self._sessions = sessions
        self._topology = topology
        self._other_workers = other_workers

    def takes_time(self, connection_id: int) -> bool:
        """Whether `find` has to ask other workers for it, or the session has to log in first."""
        session = self._sessions.known_by(connection_id)
        if session is not None:
            return session.is_away
        return self._other_workers is not None and connection_id <= MOST_ID

    def here(self, connection_id: int, username: str) -> int | None:
        """The thread of a session of this worker, `GONE`, or None if there is no such session.

        Args:
            connection_id: the id that the session's client was told.
            username: the user who sends the KILL.
        """
        session = self._sessions.known_by(connection_id)
        return None if session is None else session.thread_of(username)

    async def find(self, connection_id: int, username: str) -> int | None:
        """The same for a session of any worker; it logs in for that if it has no connection.

        Raises:
            ServerFullError: the session is this worker's, and there is no connection for it.
        """
        found = await self._awake(connection_id, username)
        if not found and self._other_workers is not None:
            primary = self._topology.primary.name
            elsewhere = await self._other_workers.ask(Inquiry(connection_id, username, primary))
            return found if elsewhere is None else elsewhere
        return found

    async def answer(self, inquiry: Inquiry) -> int | None:
        """Answer another worker. None if its primary is another one: thread ids differ there."""
        if inquiry.primary != self._topology.primary.name:
            return None
        try:
            return await self._awake(inquiry.connection_id, inquiry.username)
        except ServerFullError:
            return GONE  # the other worker could not end it, either

    async def _awake(self, connection_id: int, username: str) -> int | None:
        session = self._sessions.known_by(connection_id)
        if session is None:
            return None
        if session.is_away:
            full = await session.wake()
            if full is not None:
                raise ServerFullError(full)
        return GONE if session.is_away else session.thread_of(username)
