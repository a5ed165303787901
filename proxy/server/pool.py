"""The connections to servers of one worker that no session has, and logins, which use them.

Theory of operation
===================

To open a connection costs a server and the proxy more than all else in a short session. So when a
client leaves, its connections to servers are not closed: `give` has them cleaned at once (`Kept`),
and `log_in` takes one of the same kind for the next client, whoever that is. COM_CHANGE_USER makes
a new session of it: the server judges the password and the account, looks up rights and roles, and
takes the global values of variables, as it does for a new connection (docs/mysql-behaviour.md,
*COM_CHANGE_USER*).

Nothing depends on it. What is not the server's word on the account, such as a connection that has
broken, leads to a new connection at once; so does a server that has come to run init_connect, which
it does for new connections alone. A server that is full has those closed that nobody uses.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.errors import ServerErrorCode
from proxy.channel import ChannelClosedError
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.greeting import ALWAYS, Greeted
from proxy.server.kept import Kept
from proxy.server.login import open_session
from proxy.server.opened import Opened, Sandbox, Settings
from proxy.server.relogin import change_user
from routing.servers.topology import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config
    from proxy.observe.metrics import Dropped, Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.tls import Materials
    from routing.servers.topology import Server

MAX_AGE_S: Final = 300.0
"""For so long after it was opened a connection may be kept: what a handshake decides, such as a
certificate or the server's offers, is decided anew at least so often."""
_TRY_S: Final = 1.0
"""How long a login over a kept connection may take; then a new one is opened."""
_CLEANED_S: Final = 0.1
"""How long a client waits until nothing is left of the session before, once it may log in."""
_PAUSES_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Until a server that is full has taken note that connections were closed."""

_OF_LINK: Final = int(
    Capability.CLIENT_SSL
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
"""What a server's offers and the configuration decide."""
_OF_LOGIN: Final = ~(int(ALWAYS | Capability.CLIENT_CONNECT_WITH_DB) | _OF_LINK)
"""What a login decides: a connection cannot change that."""

_VERDICTS: Final = frozenset(
    {
        *(1044, 1045, 1698),  # no access to the schema; with this password; without one
        *(1049, 1862, 3118, 3955),  # no such schema; the password expired; locked; blocked
    }
)
"""Errors that a login to this account ends in, whatever the connection."""
_TOO_MANY: Final = ServerErrorCode.ER_CON_COUNT_ERROR.code
_FULL: Final = frozenset({_TOO_MANY, 1203, 1226})
"""There are too many connections, all told or of the account."""


class Pool:
    """Those of one worker."""

    def __init__(
        self,
        config: Config,
        materials: Materials,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._config = config
        self._materials = materials
        self._metrics = metrics
        self._now: Callable[[], float] = loop.time
        self._call_later = loop.call_later
        self._most = config.kept_connections
        self._kept: dict[Server, list[Kept]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(kept) for kept in self._kept.values())

    # Logins

    async def log_in(
        self, server: Server, login: Login, tracking: str, met: Greeted | Kept | None = None
    ) -> Opened | Sandbox:
        """Log in, over a connection that was kept if there is one of the kind.

        Args:
            server: where to.
            login: as whom.
            tracking: the value of session_track_gtids; on a replica only ALL_GTIDS makes a
                difference.
            met: the connection that the client was greeted with; it is used up.

        Raises:
            ServerUnreachableError, ServerRefusedError: as `open_session`.
        """
        greeted = met if isinstance(met, Greeted) else None
        if greeted is None:
            if isinstance(met, Kept) and not met.clean:
                try:
                    await met.cleaned(_CLEANED_S)
                except asyncio.CancelledError:
                    met.leave()
                    raise
            kept = self._take(server, login, tracking, met if isinstance(met, Kept) else None)
            if kept is not None:
                opened = await self._log_in_on(kept, login, tracking)
                if opened is not None:
                    return opened
        opened = await self._log_in_anew(server, login, tracking, greeted)
        self._compare(server, opened.connection)
        self._count_handshake(server, opened)
        return opened

    async def open_connection(self, server: Server, login: Login, tracking: str) -> Opened:
        """As `log_in`, where an expired password is a refusal.

        Raises:
            ServerUnreachableError, ServerRefusedError: as `log_in`.
        """
        opened = await self.log_in(server, login, tracking)
        if isinstance(opened, Sandbox):
            opened.channel.abort()
            raise ServerRefusedError(opened.refusal)
        return opened

    def reserve(self, server: Server, capabilities: Capability) -> Kept | None:
        """One whose id a client can be greeted with that will log in with these capabilities.

        It is the client's until `log_in` is given it, or `Kept.leave` is called.
        """
        kept = self._find(server, _kind(server, capabilities, ""), clean=False)
        if kept is not None:
            kept.reserved = True
        return kept

    def _take(
        self, server: Server, login: Login, tracking: str, reserved: Kept | None
    ) -> Kept | None:
        kind = _kind(server, login.capabilities, tracking)
        if reserved is not None:
            if reserved.server is server and reserved.clean and self._fits(reserved, kind):
                self._remove(reserved)
                return reserved
            self.drop(reserved, "unfit")  # its id was told to this client, and to no other
        kept = self._find(server, kind)
        if kept is not None:
            self._remove(kept)
        return kept

    def _find(self, server: Server, kind: int, *, clean: bool = True) -> Kept | None:
        """The one that was used last; the others come of age."""
        now = self._now()
        for kept in reversed(self._kept.get(server, [])):
            if kept.reserved or (clean and not kept.clean) or not self._fits(kept, kind):
                continue
            if now - kept.since < self._config.kept_connection_age:
                return kept
        return None

    def _fits(self, kept: Kept, kind: int) -> bool:
        connection = kept.connection
        return (
            not connection.lost
            and int(connection.capabilities) & _OF_LOGIN == kind
            and connection.epoch == connection.server.epoch
        )

    async def _log_in_on(self, kept: Kept, login: Login, tracking: str) -> Opened | Sandbox | None:
        """None if a new connection has to be opened."""
        server = kept.server
        connection = kept.connection
        settings = Settings(server.role, tracking, login.database or "")
        within = min(_TRY_S, self._config.connect_timeout)
        try:
            opened = await change_user(connection, login, settings, server.max_packet, within)
        except ServerRefusedError as error:
            if error.error.code in _VERDICTS:
                raise
            self._metrics.kept_dropped(server.name, "refused")
            return None
        except ServerUnreachableError:
            self._metrics.kept_dropped(server.name, "lost")
            return None
        if isinstance(opened, Opened) and opened.identity.init_connect:
            opened.channel.close()
            self.drop_all(server, "changed")
            self._metrics.kept_dropped(server.name, "changed")
            return None
        self._metrics.kept_taken(server.name)
        return opened

    async def _log_in_anew(
        self, server: Server, login: Login, tracking: str, greeted: Greeted | None
    ) -> Opened | Sandbox:
        made_room = False
        for pause in (*_PAUSES_S, None):
            try:
                return await open_session(
                    server, login, self._config, self._materials, tracking, greeted
                )
            except ServerRefusedError as error:
                made_room = self._make_room(server, login.username, error) or made_room
                if pause is None or not made_room or error.error.code not in _FULL:
                    raise
            greeted = None
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises

    def _make_room(self, server: Server, username: str, error: ServerRefusedError) -> bool:
        """Close what makes a server say that it has too many connections; False if none does."""
        code = error.error.code
        found = [
            kept
            for kept in self._kept.get(server, [])
            if not kept.reserved
            and (code == _TOO_MANY or (code in _FULL and kept.username == username))
        ]
        for kept in found:
            self.drop(kept, "room")
        return bool(found)

    def _count_handshake(self, server: Server, opened: Opened | Sandbox) -> None:
        if opened.channel.secure and not opened.channel.closed:
            tls = opened.channel.transport.get_extra_info("ssl_object")
            self._metrics.tls_handshake(server.name, resumed=tls.session_reused)

    def _compare(self, server: Server, new: ServerConnection) -> None:
        """Drop those that the server would not let in as it did any more."""
        for kept in list(self._kept.get(server, [])):
            connection = kept.connection
            differ = (int(connection.capabilities) ^ int(new.capabilities)) & _OF_LINK
            if differ or connection.epoch != server.epoch:
                self.drop(kept, "changed")

    # What is kept

    def give(self, connection: ServerConnection, username: str) -> None:
        """Keep a connection whose session has ended, or close it; it awaits no answer to anybody.

        Args:
            connection: to a server; it is not the session's any more.
            username: who logged in.
        """
        now = self._now()
        if not self._may_keep(connection, username, now):
            connection.close()
            return
        server = connection.server
        there = self._kept.setdefault(server, [])
        if len(there) >= self._most:
            oldest = next((one for one in there if not one.reserved), None)
            if oldest is None:
                connection.close()
                return
            self.drop(oldest, "full")
        try:
            kept = Kept(self, connection, username, now)
        except ChannelClosedError:
            return
        there.append(kept)
        self._metrics.kept(server.name, len(there))
        kept.clean_up()
        self._watch()

    def _may_keep(self, connection: ServerConnection, username: str, now: float) -> bool:
        return (
            self._most > 0
            and connection.keepable
            and bool(username)
            and not (connection.lost or connection.busy or connection.unsent)
            and connection.epoch == connection.server.epoch
            and now - connection.opened_at < MAX_AGE_S
        )

    def give_back(self, kept: Kept) -> None:
        """Nobody logged in."""
        if kept.closed:
            return
        kept.reserved = False
        self._watch()

    def drop(self, kept: Kept, cause: Dropped) -> None:
        """Close one."""
        there = self._kept.get(kept.server)
        if there is None or kept not in there:
            return
        self._remove(kept)
        self._metrics.kept_dropped(kept.server.name, cause)
        kept.connection.close()

    def drop_all(self, server: Server, cause: Dropped) -> None:
        """Close all that lead to a server."""
        for kept in list(self._kept.get(server, [])):
            self.drop(kept, cause)

    def close(self) -> None:
        """Keep none any more."""
        self._most = 0
        for server in list(self._kept):
            self.drop_all(server, "stopped")
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _remove(self, kept: Kept) -> None:
        there = self._kept[kept.server]
        there.remove(kept)
        self._metrics.kept(kept.server.name, len(there))

    def _watch(self) -> None:
        """Have those closed that nobody needs for too long."""
        if self._sweep is not None:
            return
        waiting = [kept for there in self._kept.values() for kept in there if not kept.reserved]
        if waiting:
            first = min(kept.since for kept in waiting)
            left = first + self._config.kept_connection_age - self._now()
            self._sweep = self._call_later(max(0.01, left), self._close_old)

    def _close_old(self) -> None:
        self._sweep = None
        oldest = self._now() - self._config.kept_connection_age
        for there in list(self._kept.values()):
            for kept in list(there):
                if kept.since <= oldest and not kept.reserved:
                    self.drop(kept, "age")
        self._watch()


def _kind(server: Server, capabilities: Capability, tracking: str) -> int:
    """What a connection must have been opened with, of what logins decide."""
    if server.role is Role.PRIMARY or tracking == "ALL_GTIDS":
        return int(capabilities | Capability.CLIENT_SESSION_TRACK)
    return int(capabilities)
