"""A connection to a server that no session has: it waits for the next login (`proxy.server.pool`).

What the previous session left on it ends at once, as when a connection is closed: it is sent
COM_RESET_CONNECTION. That ends everything but a prepared XA transaction where xa_detach_on_prepare
is off; a ROLLBACK after it then fails (1399), and such a connection is closed. Nor does it end the
traces of the optimizer, which would show the next session the statements of the last one; setting
optimizer_trace_offset does. A connection that
may be lent is given again what its login gave (`proxy.server.verified_login`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, Protocol

from protocol.command import com_query
from protocol.packet import frame
from proxy.channel import ChannelClosedError
from proxy.server.connection import ServerConnection
from proxy.server.exchange import DEFAULTS, SETUP, Purpose
from proxy.server.verified_login import FORGET_TRACES, RESET, ROLLBACK

if TYPE_CHECKING:
    from proxy.server.slots import Slot
    from routing.servers.topology import Server

_CLEAN_UP: Final = tuple(
    RESET
    + frame(com_query(ROLLBACK, attributes), 0)
    + frame(com_query(b"SET " + FORGET_TRACES, attributes), 0)
    for attributes in (False, True)
)


class Keeper(Protocol):
    """Has all kept connections."""

    def unreserve(self, kept: IdleConnection) -> None:
        """The client that was greeted with its id has left: it is free again."""
        ...

    def drop(self, kept: IdleConnection, cause: Literal["refused", "lost", "room"]) -> None:
        """It cannot be used any more."""
        ...


class IdleConnection:
    """One such connection: the owner of its `ServerConnection`.

    Attributes:
        connection: it.
        username: the last login's user; the server counts the connection for that account until the
            next login.
        since: when it was kept, monotonic s.
        clean: nothing of the last session is left.
        as_logged_in: and it is again as the verified login left it.
        reserved: a client was greeted with its id.
        slot: the right to it, while it is not clean yet, or is reserved.
    """

    __slots__ = (
        *("_cleaned", "_pool", "as_logged_in", "clean", "connection"),
        *("reserved", "since", "slot", "username"),
    )

    def __init__(
        self, pool: Keeper, connection: ServerConnection, username: str, since: float
    ) -> None:
        """Take over a connection, which is used up; ChannelClosedError if it is gone."""
        self.clean = self.as_logged_in = connection.unused
        self.slot = connection.take_slot()
        try:
            self.connection = connection.pass_on(self)
        except ChannelClosedError:
            self.free()
            raise
        if self.slot is not None:
            self.slot.keep()
            self.slot.gives(giving=True)  # once it is clean
        self.username = username
        self.since = since
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

    def give_way(self, server: Server) -> None:
        """Another waits for one: the client that was greeted with its id gets a new one."""
        self._pool.drop(self, "room")

    def leave(self) -> None:
        """The client that was greeted with its id did not log in."""
        self._pool.unreserve(self)

    def take_slot(self) -> Slot | None:
        """Take its right, for its next session; None if it has none."""
        slot, self.slot = self.slot, None
        return slot

    def free(self) -> None:
        """It needs no right any more."""
        slot = self.take_slot()
        if slot is not None:
            slot.free()

    def clean_up(self) -> None:
        """End what the last session left, if there was anything."""
        if self.clean:
            self.free()
            return
        connection = self.connection
        connection.renewed = True
        verified = connection.verified_login
        for _ in range(3 if verified is None else verified.answers):
            connection.expect(SETUP)
        if verified is None:
            connection.write(_CLEAN_UP[connection.query_attributes])
        else:
            connection.expect(DEFAULTS)
            connection.write(verified.clean_up)

    async def wait_until_clean(self, within: float) -> None:
        """Return when it is clean, or cannot be used, or after `within` seconds."""
        if self.clean or self.closed:
            return
        self._cleaned = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._cleaned], timeout=within)

    def _wake(self) -> None:
        if self._cleaned is not None and not self._cleaned.done():
            self._cleaned.set_result(None)

    # Owner

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """No client's command is in flight."""

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge an answer to what cleans it up."""
        if connection.stream.error is not None:
            self._pool.drop(self, "refused")
        elif purpose is Purpose.DEFAULTS and connection.verified_login is not None:
            self.as_logged_in = connection.stream.row == connection.verified_login.row

    def on_idle(self, connection: ServerConnection) -> None:
        """It is clean."""
        self.clean = True
        if not self.reserved:
            self.free()
        self._wake()

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """The server has closed it."""
        self._pool.drop(self, "lost")
        self._wake()

    def server_paused(self, connection: ServerConnection) -> None:
        """The server does not even read these few bytes."""
        self._pool.drop(self, "lost")

    def server_resumed(self, connection: ServerConnection) -> None:
        """It was dropped."""
