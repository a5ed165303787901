"""A connection to a server that no session has: it waits for the next login (`proxy.server.pool`).

What the session before left on it ends at once, as with a connection that is closed: it is sent
COM_RESET_CONNECTION. That ends all but a prepared XA transaction where xa_detach_on_prepare is off,
which a ROLLBACK behind it refuses to end (1399); such a connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from protocol.command import com_query
from protocol.constants import Command
from protocol.packet import frame
from proxy.server.connection import PREPARE, Purpose, ServerConnection

if TYPE_CHECKING:
    from proxy.server.pool import Pool
    from routing.servers.topology import Server

_RESET: Final = frame(bytes((Command.COM_RESET_CONNECTION,)), 0)
_ROLLBACK: Final = b"ROLLBACK AND NO CHAIN NO RELEASE"
"""Whatever completion_type the server begins sessions with."""
_CLEAN_UP: Final = tuple(
    _RESET + frame(com_query(_ROLLBACK, attributes), 0) for attributes in (False, True)
)


class Kept:
    """One such connection: the owner of its `ServerConnection`.

    Attributes:
        connection: it.
        username: who logged in last; the server counts it for the account until the next login.
        since: when it was kept, monotonic s.
        clean: nothing of the last session is left.
        reserved: a client was greeted with its id.
    """

    __slots__ = ("_cleaned", "_pool", "clean", "connection", "reserved", "since", "username")

    def __init__(
        self, pool: Pool, connection: ServerConnection, username: str, since: float
    ) -> None:
        """Take a connection over, which is used up; ChannelClosedError if it is gone."""
        self.connection = connection.pass_on(self)
        self.username = username
        self.since = since
        self.clean = False
        self.reserved = False
        self._pool = pool
        self._cleaned: asyncio.Future[None] | None = None

    @property
    def server(self) -> Server:
        """Which it leads to."""
        return self.connection.server

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more."""
        return self.connection.lost

    def leave(self) -> None:
        """The client that was greeted with its id did not log in."""
        self._pool.give_back(self)

    def clean_up(self) -> None:
        """End what the last session left."""
        connection = self.connection
        connection.expect(PREPARE)
        connection.expect(PREPARE)
        connection.write(_CLEAN_UP[connection.query_attributes])

    async def cleaned(self, within: float) -> None:
        """Return when it is clean, or cannot be used, or after so many seconds."""
        if self.clean or self.closed:
            return
        self._cleaned = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._cleaned], timeout=within)

    def _wake(self) -> None:
        if self._cleaned is not None and not self._cleaned.done():
            self._cleaned.set_result(None)

    # Owner

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Nothing of a client's is under way."""

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge an answer to what cleans it up."""
        if connection.stream.error is not None:
            self._pool.drop(self, "refused")

    def settled(self, connection: ServerConnection) -> None:
        """It is clean."""
        self.clean = True
        self._wake()

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """The server has closed it."""
        self._pool.drop(self, "lost")
        self._wake()

    def server_paused(self, connection: ServerConnection) -> None:
        """The server does not even read so little."""
        self._pool.drop(self, "lost")

    def server_resumed(self, connection: ServerConnection) -> None:
        """It was dropped."""
