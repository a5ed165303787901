"""What a KILL is to end: the primary's thread of the session that a client's id names.

A client knows its session by the id that it was told, and that may be another than that of its
connection to the primary: it has borrowed one (`proxy.client.borrowing`), or was greeted with the
proxy's own. The session may be any worker's. The KILL itself goes to the primary over the killing
session's own connection, so the server judges who may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.killing.inquiry import GONE, MOST_ID, Inquiry
from proxy.server.errors import ServerFullError

if TYPE_CHECKING:
    from proxy.killing.other_workers import OtherWorkers
    from proxy.sessions import Sessions
    from routing.servers.topology import Topology


class KillTargets:
    """Those that the sessions of one worker can name."""

    def __init__(
        self, sessions: Sessions, topology: Topology, other_workers: OtherWorkers | None
    ) -> None:
        """Those of `sessions`, and of the other workers, if there are any."""
        self._sessions = sessions
        self._topology = topology
        self._other_workers = other_workers

    def takes_time(self, connection_id: int) -> bool:
        """Whether to `find` it somebody has to be asked, or a session has to log in."""
        session = self._sessions.known_by(connection_id)
        if session is not None:
            return session.is_away
        return self._other_workers is not None and connection_id <= MOST_ID

    def here(self, connection_id: int, username: str) -> int | None:
        """The thread of a session of this worker, `GONE`, or None if there is none.

        Args:
            connection_id: what its client was told.
            username: who kills.
        """
        session = self._sessions.known_by(connection_id)
        return None if session is None else session.thread_of(username)

    async def find(self, connection_id: int, username: str) -> int | None:
        """The same of any worker's session, which logs in for that if it has no connection.

        Raises:
            ServerFullError: it would be this worker's, and there is no connection for it.
        """
        found = await self._awake(connection_id, username)
        if not found and self._other_workers is not None:
            primary = self._topology.primary.name
            elsewhere = await self._other_workers.ask(Inquiry(connection_id, username, primary))
            return found if elsewhere is None else elsewhere
        return found

    async def answer(self, inquiry: Inquiry) -> int | None:
        """What another worker is told: a thread of another primary would be somebody else's."""
        if inquiry.primary != self._topology.primary.name:
            return None
        try:
            return await self._awake(inquiry.connection_id, inquiry.username)
        except ServerFullError:
            return GONE  # for all that the other can do

    async def _awake(self, connection_id: int, username: str) -> int | None:
        session = self._sessions.known_by(connection_id)
        if session is None:
            return None
        if session.is_away:
            full = await session.wake()
            if full is not None:
                raise ServerFullError(full)
        return GONE if session.is_away else session.thread_of(username)
