"""Logins of sessions at servers: over a connection that was kept, or over a new one.

Theory of operation
===================

Opening a connection costs a server and the proxy more than all else in a short session. So `log_in`
takes a kept one (`proxy.server.pool`) for the next client, of whatever user. COM_CHANGE_USER makes
a new session of it: the server judges the password and the account, looks up rights and roles, and
takes the global values of variables, as it does for a new connection (docs/mysql-behaviour.md,
*COM_CHANGE_USER*). Where it did so a moment ago for the same login, on the same connection, it is
not asked again: `lend` gives the connection as it is (`proxy.server.verified_login`).

Each connection of a session takes a slot (`proxy.server.slots`): the caller takes the slot first,
with `acquire_slot`, and hands it to `lend` or `log_in`.

Nothing depends on kept connections. Any failure that is not the server's verdict on the account,
such as a broken connection, leads to a new connection at once; so does a server that now has an
init_connect, or triggers that cascade, which it runs on new connections alone; and a user whose
sessions turn these on. On a full server the unused connections are closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.errors import ServerErrorCode
from proxy.server.connect.change_user import change_user
from proxy.server.connect.greeting import ConnectionAttempt, await_greeting
from proxy.server.connect.opening import open_session, without_sandbox
from proxy.server.connection_stage import READY
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.exchange import REPLAY_DIAGNOSTICS, SETUP
from proxy.server.idle_connection import IdleConnection
from proxy.server.login_cache import OF_ACCOUNT
from proxy.server.pool import OF_LINK
from proxy.server.repeated_logins import RepeatedLogins
from proxy.server.settings import Settings
from proxy.server.verified_login import preface
from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.live_config import LiveConfig
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.server.pool import Pool
    from proxy.server.slots import Slot, Slots
    from routing.servers.topology import Server

_TRY_S: Final = 1.0
"""How long a login over a kept connection may take; then a new one is opened."""
_CLEANED_S: Final = 0.1
"""How long a client that may log in waits until the previous session's state is gone."""
_PAUSES_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Pauses until a full server has noticed that connections were closed."""

_VERDICTS: Final = OF_ACCOUNT | {
    ServerErrorCode.ER_DBACCESS_DENIED_ERROR.code,
    ServerErrorCode.ER_BAD_DB_ERROR.code,
}
"""Errors that a login to this account gets on any connection."""
_TOO_MANY: Final = ServerErrorCode.ER_CON_COUNT_ERROR.code
FULL: Final = frozenset(
    {
        _TOO_MANY,
        ServerErrorCode.ER_TOO_MANY_USER_CONNECTIONS.code,
        ServerErrorCode.ER_USER_LIMIT_REACHED.code,
    }
)
"""There are too many connections, in total or of the account."""


class Logins:
    """The logins of one worker."""

    def __init__(self, live: LiveConfig, metrics: Metrics, pool: Pool, slots: Slots) -> None:
        self._live = live
        self._metrics = metrics
        self._pool = pool
        self._slots = slots
        self._login_cache = pool.login_cache
        self._now = asyncio.get_running_loop().time
        self._repeated = RepeatedLogins(pool.login_cache, self._now)

    async def acquire_slot(
        self, server: Server, met: ConnectionAttempt | IdleConnection | None = None
    ) -> Slot:
        """The right to a connection, as soon as it is the caller's turn.

        Args:
            server: where to.
            met: the connection that the client was greeted with, which may have a slot.

        Raises:
            ServerFullError: it took too long.
        """
        slot = None if met is None else _slot_of(met)
        return await self._slots.take(server) if slot is None else slot

    def lend(
        self,
        server: Server,
        login: Login,
        tracking: str,
        schema: str,
        slot: Slot | None = None,
        met: IdleConnection | None = None,
    ) -> ServerConnection | None:
        """A connection on which the server accepted the same login a moment ago; or None.

        Args:
            server: where to.
            login: as whom; the client has shown that it knows the password.
            tracking: the value of session_track_gtids, as `log_in` has it.
            schema: the session's, empty if it has none.
            slot: the right to it, which stays the caller's if no connection is returned; without a
                slot, one is taken if nobody waits for one.
            met: the connection that the client was greeted with; no other is lent then.
        """
        pool = self._pool
        if not self._login_cache.age or server.down_until > self._now():
            return None
        if self._needs_new(server, login):
            return None
        kind = _kind(server, login.capabilities, tracking)
        for kept in pool.fitting(server, kind) if met is None else (met,):
            connection = kept.connection
            verified = connection.verified_login
            if (
                verified is None
                or not kept.as_logged_in
                or not self._login_cache.trusts(verified)
                or not verified.is_of(login, tracking)
                or not pool.fits(kept, server, kind)
            ):
                continue
            if server.role is Role.PRIMARY:
                connection.mirror.schema = schema
            elif connection.mirror.schema and not schema:
                continue  # a selected schema cannot be unset
            slot = slot or self._slots.try_take(server)
            if slot is None:
                return None
            connection.slot = slot
            self._pool.remove(kept)
            self._metrics.kept_taken(server.name)
            self._metrics.lent(server.name)
            connection.mirror.tracks_all = tracking == "ALL_GTIDS"
            connection.begin_with(
                REPLAY_DIAGNOSTICS if server.role is Role.PRIMARY else SETUP,
                *preface(server.role, verified, login.own_attributes, connection.query_attributes),
            )
            connection.lend(verified.identity, verified.requirement)
            return connection
        return None

    async def log_in(
        self,
        server: Server,
        login: Login,
        tracking: str,
        slot: Slot,
        met: ConnectionAttempt | IdleConnection | None = None,
    ) -> ServerConnection:
        """Log in, over a kept connection if a fitting one exists.

        Args:
            server: where to.
            login: as whom.
            tracking: the value of session_track_gtids; on a replica only ALL_GTIDS makes a
                difference.
            slot: the right to the connection; it is freed if there is no connection in the end.
            met: the connection that the client was greeted with; it is used up.

        Raises:
            ServerUnreachableError, ServerRefusedError: as `open_session`.
        """
        try:
            connection = await self._log_in(server, login, tracking, met)
        except BaseException:
            slot.free()
            raise
        self._repeated.on_accepted(login)
        connection.slot = slot
        return connection

    async def log_in_again(
        self, server: Server, login: Login, tracking: str, slot: Slot
    ) -> ServerConnection:
        """As `log_in`, with a password that the client has shown earlier (`RepeatedLogins`).

        An expired password is a refusal.
        """
        try:
            connection = await self._repeated.log_in(
                server, login, lambda: self.log_in(server, login, tracking, slot)
            )
        except BaseException:
            slot.free()
            raise
        return without_sandbox(connection)

    async def _log_in(
        self,
        server: Server,
        login: Login,
        tracking: str,
        met: ConnectionAttempt | IdleConnection | None,
    ) -> ServerConnection:
        attempt = met if isinstance(met, ConnectionAttempt) else None
        if attempt is not None and not attempt.leads_there:
            attempt.leave()
            attempt = None
        if attempt is None:
            kept = self._take(
                server, login, tracking, met if isinstance(met, IdleConnection) else None
            )
            if kept is not None:
                connection = await self._log_in_on(kept, login, tracking)
                if connection is not None:
                    return connection
        connection = await self._log_in_anew(server, login, tracking, attempt)
        self._compare(server, connection)
        self._count_handshake(connection)
        return connection

    async def open_connection(
        self, server: Server, login: Login, tracking: str, schema: str, at_most: float
    ) -> ServerConnection:
        """A connection to a replica, where an expired password is a refusal.

        Who had to wait for a turn is lent what was given up for it, if the login is the same.

        Args:
            server: where to.
            login: as whom, with the session's `schema`, empty if it has none.
            tracking: as in `log_in`.
            schema: as in `lend`.
            at_most: how long to wait for a turn, s.

        Raises:
            ServerUnreachableError, ServerRefusedError: as `acquire_slot` and `log_in`.
        """
        slot = await self._slots.take(server, at_most)
        lent = self.lend(server, login, tracking, schema, slot)
        if lent is not None:
            return lent
        return await self.log_in_again(server, login, tracking, slot)

    async def begin_on(
        self, replica: Server, login: Login, tracking: str, at_most: float
    ) -> ServerConnection:
        """Let a replica judge a login in the place of the primary, and begin a session for it.

        The connection is set up as one to the primary, so it tells what the session begins with,
        and what the account requires. It is fit for nothing else; its user closes it.

        Args:
            replica: which is asked.
            login: as whom.
            tracking: as in `log_in`.
            at_most: how long to wait for a turn, s.

        Raises:
            ServerUnreachableError, ServerRefusedError: as `acquire_slot` and `open_session`; an
                expired password is a refusal.
        """
        slot = await self._slots.take(replica, at_most)
        try:
            self._leave_room(replica)
            settings = Settings(Role.PRIMARY, tracking, login.database or "")
            live = self._live
            connection = without_sandbox(
                await open_session(replica, login, live.config, live.materials, settings)
            )
        except BaseException:
            slot.free()
            raise
        connection.slot = slot
        return connection

    async def wait_until_clean(self, kept: IdleConnection) -> None:
        """Return when the connection of a greeted client is clean, or will not be soon."""
        try:
            await kept.wait_until_clean(_CLEANED_S)
        except asyncio.CancelledError:
            kept.leave()
            raise

    def reserve(
        self, server: Server, capabilities: Capability, username: str
    ) -> IdleConnection | None:
        """A connection for greeting a client that will log in with these capabilities.

        It is the client's until `log_in` or `lend` is given it, or `IdleConnection.leave` is
        called. One that can be lent to this user is preferred. None, too, where others wait for a
        connection.
        """
        found = list(self._pool.fitting(server, _kind(server, capabilities, "")))
        kept = next(
            (
                idle
                for idle in found
                if idle.connection.verified_login and idle.username == username
            ),
            found[0] if found else None,
        )
        if kept is None:
            return None
        if kept.slot is None:
            kept.slot = self._slots.try_take(server)
        if kept.slot is None:
            return None
        kept.slot.use(kept)
        kept.reserved = True
        return kept

    async def await_greeting(self, server: Server) -> ConnectionAttempt | None:
        """A new connection for a client whose user is not known yet; None where all are taken.

        Raises:
            ServerUnreachableError, ServerRefusedError: as
            `proxy.server.connect.greeting.await_greeting`.
        """
        slot = self._slots.try_take(server)
        if slot is None:
            return None
        self._leave_room(server)
        try:
            attempt = await await_greeting(server, self._live.config)
        except BaseException:
            slot.free()
            raise
        attempt.slot = slot
        slot.use(attempt)
        return attempt

    def _leave_room(self, server: Server) -> None:
        """A holder of a slot is about to open a connection."""
        room = self._slots.room(server)
        if room is not None:
            self._pool.make_room(server, room)

    def _take(
        self, server: Server, login: Login, tracking: str, reserved: IdleConnection | None
    ) -> IdleConnection | None:
        pool = self._pool
        kind = _kind(server, login.capabilities, tracking)
        if self._needs_new(server, login):
            kept = None
            if reserved is not None:
                pool.drop(reserved, "unfit")  # only this client was told its id
        elif reserved is None:
            kept = next((idle for idle in pool.fitting(server, kind) if idle.clean), None)
        elif reserved.clean and pool.fits(reserved, server, kind):
            kept = reserved
        else:
            pool.drop(reserved, "unfit")  # only this client was told its id
            kept = next((idle for idle in pool.fitting(server, kind) if idle.clean), None)
        if kept is not None:
            pool.remove(kept)
        return kept

    def _needs_new(self, server: Server, login: Login) -> bool:
        return server.role is Role.PRIMARY and self._pool.needs_new(login.username)

    async def _log_in_on(
        self, kept: IdleConnection, login: Login, tracking: str
    ) -> ServerConnection | None:
        """None if a new connection has to be opened."""
        server = kept.server
        settings = self._settings(server, login, tracking)
        within = min(_TRY_S, self._live.config.connect_timeout)
        try:
            connection = await change_user(
                kept.connection, login, settings, server.max_packet, within
            )
        except ServerRefusedError as error:
            if error.error.code in _VERDICTS:
                raise
            self._metrics.kept_dropped(server.name, "refused")
            return None
        except ServerUnreachableError:
            self._metrics.kept_dropped(server.name, "lost")
            return None
        if connection.stage == READY and not connection.identity.renewable:
            connection.channel.close()
            self._pool.drop_all(server, "changed")
            self._metrics.kept_dropped(server.name, "changed")
            return None
        connection.renewed = True
        self._metrics.kept_taken(server.name)
        return connection

    async def _log_in_anew(
        self, server: Server, login: Login, tracking: str, attempt: ConnectionAttempt | None
    ) -> ServerConnection:
        made_room = False
        if attempt is None:
            self._leave_room(server)
        for pause in (*_PAUSES_S, None):
            try:
                return await open_session(
                    server,
                    login,
                    self._live.config,
                    self._live.materials,
                    self._settings(server, login, tracking),
                    attempt,
                )
            except ServerRefusedError as error:
                made_room = self._make_room(server, login.username, error) or made_room
                # A closed connection may still count against the limit.
                made_room = made_room or self._slots.room(server) is not None
                if pause is None or not made_room or error.error.code not in FULL:
                    raise
            attempt = None
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises

    def _settings(self, server: Server, login: Login, tracking: str) -> Settings:
        remembered = login if self._login_cache.age else None
        return Settings(server.role, tracking, login.database or "", remembered, self._now())

    def _make_room(self, server: Server, username: str, error: ServerRefusedError) -> bool:
        """Close kept connections where a server has too many; False if that does not help."""
        code = error.error.code
        found = [
            kept
            for kept in self._pool.of(server)
            if not kept.reserved
            and (code == _TOO_MANY or (code in FULL and kept.username == username))
        ]
        for kept in found:
            self._pool.drop(kept, "room")
        return bool(found)

    def _count_handshake(self, connection: ServerConnection) -> None:
        channel = connection.channel
        if channel.secure and not channel.closed:
            tls = channel.transport.get_extra_info("ssl_object")
            self._metrics.tls_handshake(connection.server.name, resumed=tls.session_reused)

    def _compare(self, server: Server, new: ServerConnection) -> None:
        """Drop those that the server would no longer accept as it did."""
        for kept in self._pool.of(server):
            connection = kept.connection
            differ = (int(connection.capabilities) ^ int(new.capabilities)) & OF_LINK
            if differ or connection.epoch != server.epoch:
                self._pool.drop(kept, "changed")


def _slot_of(met: ConnectionAttempt | IdleConnection) -> Slot | None:
    """The slot of the connection that a client was greeted with, taken from it."""
    slot, met.slot = met.slot, None
    if slot is not None:
        slot.keep()
    return slot


def _kind(server: Server, capabilities: Capability, tracking: str) -> int:
    """The capabilities, of those that logins decide, that a connection must have."""
    if server.role is Role.PRIMARY or tracking == "ALL_GTIDS":
        return int(capabilities | Capability.CLIENT_SESSION_TRACK)
    return int(capabilities)
