"""The connections to servers of one worker that no session has.

When a client leaves, its connections to servers are not closed: `release` has them cleaned at once
(`IdleConnection`), and they wait for the next login (`proxy.server.logins`), until they expire.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from proxy.channel import ChannelClosedError
from proxy.server.connect.greeting import ALWAYS
from proxy.server.idle_connection import IdleConnection
from proxy.server.login_cache import LoginCache

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from proxy.live_config import LiveConfig
    from proxy.observe.label_values import Dropped
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from routing.servers.topology import Server

MAX_AGE_S: Final = 300.0
"""How long after it was opened a connection may be kept: what a handshake decides, such as a
certificate or the server's offers, is decided anew at least this often."""

_MOST_USERS: Final = 1024

OF_LINK: Final = int(
    Capability.CLIENT_SSL
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
"""What a server's offers and the configuration decide."""
_OF_LOGIN: Final = ~(int(ALWAYS | Capability.CLIENT_CONNECT_WITH_DB) | OF_LINK)
"""What a login decides: a connection cannot change that."""


class Pool:
    """The kept connections of one worker.

    Attributes:
        login_cache: whether what was judged still counts.
    """

    def __init__(self, live: LiveConfig, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._live = live
        self._metrics = metrics
        self._now: Callable[[], float] = time.monotonic
        self._call_later = loop.call_later
        self._closed = False
        self.login_cache = LoginCache(0.0, time.monotonic)
        self._kept: dict[Server, list[IdleConnection]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._cascading: OrderedDict[str, None] = OrderedDict()  # users
        self.configure()

    def __len__(self) -> int:
        return sum(len(kept) for kept in self._kept.values())

    @property
    def _most(self) -> int:
        """How many may be kept of each server."""
        return 0 if self._closed else self._live.config.kept_connections

    def configure(self) -> None:
        """Other options may count: close what is too much by them."""
        config = self._live.config
        self.login_cache.age = config.login_age if config.kept_connections else 0.0
        for connections in list(self._kept.values()):
            waiting = [kept for kept in connections if not kept.reserved]
            for kept in waiting[: max(0, len(connections) - self._most)]:
                self.drop(kept, "full")
        if self._sweep is not None:  # by the age of before
            self._sweep.cancel()
            self._sweep = None
            self._watch()

    # What a login finds

    def of(self, server: Server) -> list[IdleConnection]:
        """All that lead to a server."""
        return list(self._kept.get(server, ()))

    def fitting(self, server: Server, kind: int) -> Iterator[IdleConnection]:
        """Those whose id no client was greeted with, the most recently used first.

        The others expire.

        Args:
            server: where to.
            kind: the capabilities that they have, of what logins decide.
        """
        oldest = self._now() - self._live.config.kept_connection_age
        for kept in reversed(self._kept.get(server, ())):
            if not kept.reserved and kept.since > oldest and self.fits(kept, server, kind):
                yield kept

    def needs_new(self, username: str) -> bool:
        """Whether a user's sessions set enable_cascade_triggers (`cascades`)."""
        return username in self._cascading

    def cascades(self, username: str) -> None:
        """A session of this user sets enable_cascade_triggers, without effect on renewed ones.

        The user's next sessions on the primary get new connections.
        """
        self._cascading[username] = None
        self._cascading.move_to_end(username)
        if len(self._cascading) > _MOST_USERS:
            self._cascading.popitem(last=False)

    def fits(self, kept: IdleConnection, server: Server, kind: int) -> bool:
        """Whether a connection can serve a login there."""
        connection = kept.connection
        return (
            connection.server is server
            and not connection.lost
            and int(connection.capabilities) & _OF_LOGIN == kind
            and connection.epoch == server.epoch
        )

    def remove(self, kept: IdleConnection) -> None:
        """A login uses it."""
        connections = self._kept[kept.server]
        connections.remove(kept)
        self._metrics.kept(kept.server.name, len(connections))

    def make_room(self, server: Server, room: int) -> None:
        """Close those that have waited longest, until there are no more than `room` at rest."""
        waiting = [kept for kept in self._kept.get(server, ()) if kept.slot is None]
        for kept in waiting[: max(0, len(waiting) - max(0, room))]:
            self.drop(kept, "room")

    # What is kept

    def release(self, connection: ServerConnection, username: str) -> None:
        """Keep a connection whose session has ended, or close it; it awaits no answer to anybody.

        Args:
            connection: to a server; it is not the session's any more.
            username: who logged in.
        """
        now = self._now()
        if not self.may_keep(connection, username, now):
            connection.close()
            return
        if connection.verified_login is not None and not self.login_cache.trusts(
            connection.verified_login
        ):
            connection.verified_login = None
        server = connection.server
        connections = self._kept.setdefault(server, [])
        if len(connections) >= self._most:
            oldest = next((idle for idle in connections if not idle.reserved), None)
            if oldest is None:
                connection.close()
                return
            self.drop(oldest, "full")
        try:
            kept = IdleConnection(self, connection, username, now)
        except ChannelClosedError:
            connection.close()  # nobody needs to know how it ends
            return
        connections.append(kept)
        self._metrics.kept(server.name, len(connections))
        kept.clean_up()
        self._watch()

    def may_keep(self, connection: ServerConnection, username: str, now: float) -> bool:
        """Whether another session may get it: a reset makes it as new, and it is not too old."""
        return (
            self._most > 0
            and connection.keepable
            and bool(username)
            and not (connection.lost or connection.busy or connection.unsent)
            and connection.epoch == connection.server.epoch
            and not connection.server.draining
            and now - connection.opened_at < MAX_AGE_S
        )

    def unreserve(self, kept: IdleConnection) -> None:
        """The client that was greeted with it did not log in."""
        if kept.closed:
            return
        kept.reserved = False
        if kept.clean:
            kept.free()
        self._watch()

    def drop(self, kept: IdleConnection, cause: Dropped) -> None:
        """Close one."""
        connections = self._kept.get(kept.server)
        if connections is None or kept not in connections:
            return
        self.remove(kept)
        self._metrics.kept_dropped(kept.server.name, cause)
        kept.connection.close()
        kept.free()

    def drop_all(self, server: Server, cause: Dropped) -> None:
        """Close all that lead to a server."""
        for kept in list(self._kept.get(server, [])):
            self.drop(kept, cause)

    def forget(self, server: Server) -> None:
        """A server is used no more: close all that lead there."""
        self.drop_all(server, "changed")
        self._kept.pop(server, None)

    def drop_elsewhere(self, server: Server) -> None:
        """Close those that lead to another address of a server than new ones do."""
        for kept in self.of(server):
            address = kept.connection.address
            if address and not server.addresses.leads_to(address):
                self.drop(kept, "moved")

    def close(self) -> None:
        """Keep none any more."""
        self._closed = True
        for server in list(self._kept):
            self.drop_all(server, "stopped")
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _watch(self) -> None:
        """Close those that have not been needed for too long."""
        if self._sweep is not None:
            return
        waiting = [
            kept for connections in self._kept.values() for kept in connections if not kept.reserved
        ]
        if waiting:
            first = min(kept.since for kept in waiting)
            left = first + self._live.config.kept_connection_age - self._now()
            self._sweep = self._call_later(max(0.01, left), self._close_old)

    def _close_old(self) -> None:
        self._sweep = None
        oldest = self._now() - self._live.config.kept_connection_age
        for connections in list(self._kept.values()):
            for kept in list(connections):
                if kept.since <= oldest and not kept.reserved:
                    self.drop(kept, "age")
        self._watch()
