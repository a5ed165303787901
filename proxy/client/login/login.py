"""How a client's login ends: at the primary, which decides, and with an OK or the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.constants import AUTOCOMMIT, NO_BACKSLASH_ESCAPES, SESSION_STATE_CHANGED, Capability
from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket, OkPacket
from protocol.session_track import schema_entry
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.account import Requirement
from proxy.server.connect.change_user import change_user
from proxy.server.connection_stage import READY, SANDBOX
from proxy.server.errors import (
    NoDescriptorError,
    ServerFullError,
    ServerRefusedError,
    ServerUnreachableError,
)
from proxy.server.idle_connection import IdleConnection
from proxy.server.settings import Settings
from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.client.login.authentication import Authentication
    from proxy.observe.label_values import RefusalCause
    from proxy.server.connect.greeting import ConnectionAttempt
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.server.slots import Slot
    from proxy.shared.client_limits import Refusal
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

LOGIN_PACKET_LIMIT: Final = 1 << 18
"""The longest packet of a client's login, bytes: names, a password and 64 KiB of attributes."""


class LoggedIn(NamedTuple):
    """A client whom the primary has let in, or a replica in its place.

    Attributes:
        login: as whom.
        connection: to the primary, or to that replica (`Logins.begin_on`).
        reads_only: the primary is gone.
    """

    login: Login
    connection: ServerConnection
    reads_only: bool = False


async def open_primary(
    shared: Shared,
    channel: PacketChannel,
    login: Login,
    authentication: Authentication,
    tracking: str,
    greeted: ConnectionAttempt | IdleConnection | None = None,
    current: ServerConnection | None = None,
) -> LoggedIn | None:
    """Log in at the primary; a refusal goes to the client as it is, and closes its connection.

    If the primary is gone, the client is let in by a replica (without-primary).

    Args:
        shared: whose primary.
        channel: to the client.
        login: as whom.
        authentication: how the client's password was learned.
        tracking: the value of session_track_gtids.
        greeted: the connection that the client was greeted with; it may still be usable.
        current: the session's, if it is to go on as this user; it is used up.

    Raises:
        ChannelClosedError, ProtocolError: the client left, or broke the protocol.
    """
    primary = shared.topology.primary
    greeted = _still_usable(greeted, primary)
    reads_only = _reads_on(shared) and not primary.may_be_tried(shared.now())
    tried = False  # the primary
    while True:
        try:
            if reads_only:
                connection = await _begin_on_replica(shared, login, authentication, tracking)
            else:
                tried = True
                connection = await _log_in(
                    shared, login, authentication, tracking, greeted, current
                )
            break
        except ServerRefusedError as error:
            password = await _learn_anew(shared, authentication, error)
            if password is None:
                _tell_refusal(shared, channel, error)
                return None
            login = replace(login, password=password)
        except ServerUnreachableError as error:
            if reads_only and not tried:
                reads_only = False  # nobody else lets the client in: perhaps the primary is back
            elif reads_only or isinstance(error, NoDescriptorError) or not _reads_on(shared):
                _not_connected(shared, channel, primary, error)
                return None
            else:
                _note_unreachable(shared, primary)
                reads_only = True
        current = greeted = None  # used up
    authentication.accepted()
    if connection.stage != SANDBOX and not may_enter(shared, channel, login, connection):
        return None
    return LoggedIn(login, connection, reads_only)


async def _log_in(
    shared: Shared,
    login: Login,
    authentication: Authentication,
    tracking: str,
    greeted: ConnectionAttempt | IdleConnection | None,
    current: ServerConnection | None,
) -> ServerConnection:
    """A connection to the primary; arguments and errors are as those of `open_primary`.

    Raises:
        ServerUnreachableError, ServerRefusedError: there is none.
    """
    primary = shared.topology.primary
    primary.on_try(shared.now())
    try:
        if current is not None:
            authentication.awaits = primary
            settings = Settings(Role.PRIMARY, tracking, login.database or "")
            limit = shared.config.connect_timeout
            connection = await change_user(current, login, settings, 0, limit)
        else:
            slot = await shared.logins.acquire_slot(primary, greeted)
            authentication.awaits = primary
            lent = await _lend(shared, primary, login, tracking, greeted, slot)
            if lent is not None:
                return lent
            connection = await shared.logins.log_in(primary, login, tracking, slot, greeted)
        if connection.stage == READY:
            await shared.primary_epoch.begin(connection, login)
    except ServerRefusedError as error:
        if error.error.code == ServerErrorCode.ER_SERVER_SHUTDOWN.code and _reads_on(shared):
            raise ServerUnreachableError(str(error)) from error
        raise
    shared.sessions.on_primary_back(primary)
    shared.metrics.server_up(primary.name, True)
    shared.server_greeting.version = primary.version
    return connection


async def _learn_anew(
    shared: Shared, authentication: Authentication, error: ServerRefusedError
) -> bytes | None:
    """Another password of the client's, if that may be why the server refuses it; else None."""
    shared.pool.login_cache.on_refused(authentication.username, error.error.code)
    if error.error.code != ServerErrorCode.ER_ACCESS_DENIED_ERROR.code:
        return None
    return await authentication.learn_anew()


def _tell_refusal(shared: Shared, channel: PacketChannel, error: ServerRefusedError) -> None:
    """Tell the client why a server does not let it in, and close."""
    full = isinstance(error, ServerFullError)
    shared.refusals.add("server_full" if full else "login", channel, str(error))
    shared.metrics.error("proxy" if full else "server", error.error.code)
    channel.write_packet(error.error.serialise(Capability.CLIENT_PROTOCOL_41))
    channel.close()


def _reads_on(shared: Shared) -> bool:
    """Whether clients are let in while the primary is gone."""
    return shared.config.without_primary == "read" and bool(shared.topology.replicas)


async def _begin_on_replica(
    shared: Shared, login: Login, authentication: Authentication, tracking: str
) -> ServerConnection:
    """Have the first replica that answers judge the login, since the primary is gone.

    Raises:
        ServerRefusedError: it says no.
        ServerUnreachableError: none answers.
    """
    full: ErrPacket | None = None  # not the exception, which holds this frame
    cause = "the primary cannot be reached, and no replica either"
    for replica in shared.topology.replicas:
        if replica.is_gone(shared.now()):
            continue
        authentication.awaits = replica
        try:
            return await shared.logins.begin_on(
                replica, login, tracking, shared.config.longest_wait
            )
        except ServerFullError as error:
            full = error.error
        except NoDescriptorError:
            raise
        except ServerUnreachableError as error:
            replica.set_unreachable(shared.now())
            shared.metrics.server_up(replica.name, False)
            cause = f"{cause}: {error}"
    if full is not None:
        raise ServerFullError(full)
    raise ServerUnreachableError(cause)


async def _lend(
    shared: Shared,
    primary: Server,
    login: Login,
    tracking: str,
    greeted: ConnectionAttempt | IdleConnection | None,
    slot: Slot,
) -> ServerConnection | None:
    """A connection on which the primary accepted the same login a moment ago."""
    met = greeted if isinstance(greeted, IdleConnection) else None
    if met is not None:
        await shared.logins.wait_until_clean(met)
    if (greeted is not None and met is None) or not shared.primary_epoch.has_begun():
        return None
    return shared.logins.lend(primary, login, tracking, login.database or "", slot, met)


def may_enter(
    shared: Shared, channel: PacketChannel, login: Login, connection: ServerConnection
) -> bool:
    """Enforce the account's REQUIRE clause on the client's connection; a refused client is told."""
    requirement = connection.opening.requirement
    if requirement is Requirement.NOTHING:
        return True
    if requirement is Requirement.TLS and channel.secure:
        return True
    connection.abort()
    why = (
        f"Access denied for user '{login.username}' (using password:"
        f" {'YES' if login.password else 'NO'}): the account requires"
        f" {requirement.value}, which the connection to Tidegate "
        + ("is not" if requirement is Requirement.TLS else "cannot show to the server")
    )
    cause: RefusalCause = "no_tls" if requirement is Requirement.TLS else "login"
    shared.refusals.add(cause, channel, why)
    refuse(channel, ServerErrorCode.ER_ACCESS_DENIED_ERROR, why)
    return False


def _not_connected(
    shared: Shared, channel: PacketChannel, primary: Server, error: ServerUnreachableError
) -> None:
    if not isinstance(error, NoDescriptorError):
        _unreachable(shared, channel, primary, str(error))
        return
    shared.metrics.client_refused("no_descriptor")
    shared.metrics.server_connect_failed(primary.name, "no_descriptor")
    refuse(
        channel,
        ServerErrorCode.ER_CON_COUNT_ERROR,
        f"Too many connections: Tidegate cannot connect to its primary, since {error}",
    )


def _unreachable(
    shared: Shared,
    channel: PacketChannel,
    primary: Server,
    cause: str,
    capabilities: Capability = Capability.CLIENT_PROTOCOL_41,
) -> None:
    """Tell the client that the primary is to blame; `capabilities` are as in `refuse`."""
    _note_unreachable(shared, primary)
    why = f"the primary {primary.name} cannot be reached: {cause}"
    shared.refusals.add("primary_unreachable", channel, why)
    refuse(
        channel,
        ServerErrorCode.CR_CONN_HOST_ERROR,
        f"Can't connect to MySQL server on '{primary.name}' ({cause}): Tidegate cannot reach"
        " its primary",
        capabilities=capabilities,
    )


def _note_unreachable(shared: Shared, primary: Server) -> None:
    primary.set_unreachable(shared.now())
    shared.metrics.server_connect_failed(primary.name, "unreachable")
    shared.metrics.server_up(primary.name, False)


def login_ok(login: Login, capabilities: Capability, connection: ServerConnection) -> bytes:
    """The OK that ends a login; it carries the schema, as a server's does (fact 1.5)."""
    state = None
    # A session begins so; clients escape literals by what the server's sql_mode says.
    status = AUTOCOMMIT | connection.stream.status & NO_BACKSLASH_ESCAPES
    if login.database is not None and capabilities & Capability.CLIENT_SESSION_TRACK:
        state = schema_entry(login.database)
        status |= SESSION_STATE_CHANGED
    return OkPacket(
        affected_rows=0,
        last_insert_id=0,
        status=status,
        warnings=0,
        info=b"",
        session_state=state,
        header=0x00,
    ).serialise(capabilities)


def handshake_error(error: Exception) -> ServerErrorCode:
    """The code for what a client did wrong in its login; a malformed packet is a bad handshake."""
    code = getattr(error, "error", None)
    if isinstance(code, ServerErrorCode) and code is not ServerErrorCode.ER_MALFORMED_PACKET:
        return code
    return ServerErrorCode.ER_HANDSHAKE_ERROR


def timed_out(
    shared: Shared,
    channel: PacketChannel,
    awaits: Server | None,
    capabilities: Capability = Capability.CLIENT_PROTOCOL_41,
) -> None:
    """The login took too long.

    Args:
        shared: whose login.
        channel: to the client.
        awaits: the server whose answer was awaited; None if it was the client's.
        capabilities: as in `refuse`.
    """
    if awaits is not None:
        limit = f"{shared.config.handshake_timeout:g} s (handshake-timeout)"
        _unreachable(shared, channel, awaits, f"no answer within {limit}", capabilities)
        return
    why = (
        "Got timeout reading communication packets: the login took longer than"
        f" {shared.config.handshake_timeout:g} s (Tidegate's handshake-timeout)"
    )
    shared.refusals.add("timeout", channel, why)
    refuse(channel, ServerErrorCode.ER_NET_READ_INTERRUPTED, why, capabilities=capabilities)


def turn_away(
    shared: Shared,
    channel: PacketChannel,
    refusal: Refusal,
    *,
    capabilities: Capability = Capability.CLIENT_PROTOCOL_41,
) -> None:
    """Count and tell a client that a limit leaves no room for; arguments are as in `refuse`."""
    shared.refusals.add(refusal.cause, channel, refusal.message)
    refuse(channel, refusal.code, refusal.message, capabilities=capabilities)


def refuse(
    channel: PacketChannel,
    code: ServerErrorCode,
    message: str,
    *,
    capabilities: Capability = Capability.CLIENT_PROTOCOL_41,
) -> None:
    """Tell the client why, if it still listens, and close.

    Args:
        channel: to the client.
        code: what to tell.
        message: in words.
        capabilities: those known; none before the greeting.
    """
    error = ErrPacket(code.code, code.sqlstate, message)
    try:
        channel.write_packet(error.serialise(capabilities))
    except ChannelClosedError:
        return
    channel.close()


def _still_usable(
    greeted: ConnectionAttempt | IdleConnection | None, primary: Server
) -> ConnectionAttempt | IdleConnection | None:
    """The connection that a client was greeted with, unless it is closed or not the primary's."""
    if greeted is not None and (greeted.server is not primary or greeted.closed):
        greeted.leave()
        return None
    return greeted
