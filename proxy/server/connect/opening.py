"""Logs in to servers as a user whose password the proxy knows."""

from __future__ import annotations

import asyncio
import time
from ssl import SSLError
from typing import TYPE_CHECKING, Final

from protocol.authentication import CACHING_SHA2, ClientAuthentication
from protocol.command import ComChangeUser
from protocol.compression import CAPABILITY, ZLIB_LEVEL, ZSTD_LEVEL, Algorithm, Compression
from protocol.constants import Capability
from protocol.errors import ProtocolError
from protocol.handshake import HandshakeResponse41, SSLRequest
from protocol.response import ErrPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.compressed import compress
from proxy.server import attributes
from proxy.server.connect.greeting import ALWAYS, await_greeting, login_channel
from proxy.server.connect.setup import set_up
from proxy.server.connection import ServerConnection
from proxy.server.connection_stage import LOGGED_IN, SANDBOX
from proxy.server.errors import (
    PacketLimitLoweredError,
    ServerRefusedError,
    ServerUnreachableError,
    unreachable,
)
from proxy.server.settings import Settings, replica_settings
from routing.servers.topology import Role

if TYPE_CHECKING:
    from protocol.handshake import HandshakeV10
    from proxy.config import Config
    from proxy.server.connect.greeting import ConnectionAttempt
    from proxy.server.login import Login
    from proxy.tls.materials import Materials
    from proxy.tls.server_contexts import ServerContext
    from routing.servers.topology import Server

_WIDEST: Final = 255
_UTF8MB4: Final = 255
"""utf8mb4_0900_ai_ci, which every server knows."""
_NO_NONCE: Final = bytes(20)
"""The nonce that counts comes with the server's AuthSwitchRequest."""


async def open_connection(
    server: Server,
    login: Login,
    config: Config,
    materials: Materials,
    tracking: str = "OWN_GTID",
) -> ServerConnection:
    """As `open_session`, where an expired password is a refusal.

    Raises:
        ServerUnreachableError, ServerRefusedError: as `open_session`.
    """
    settings = Settings(server.role, tracking, login.database or "")
    connection = await open_session(server, login, config, materials, settings)
    return without_sandbox(connection)


def without_sandbox(connection: ServerConnection) -> ServerConnection:
    """A connection whose login has succeeded, where an expired password is a refusal.

    Raises:
        ServerRefusedError: the password has expired; the connection is closed.
    """
    refusal = connection.opening.refusal
    if connection.stage != SANDBOX or refusal is None:
        return connection
    connection.abort()
    raise ServerRefusedError(refusal)


async def open_session(
    server: Server,
    login: Login,
    config: Config,
    materials: Materials,
    settings: Settings,
    attempt: ConnectionAttempt | None = None,
) -> ServerConnection:
    """Connect, log in, apply the settings that routing needs, and learn the server's incarnation.

    Args:
        server: where to.
        login: as whom.
        config: with which limits.
        materials: for TLS.
        settings: what for; on a replica only tracking ALL_GTIDS makes a difference.
        attempt: a connection to that server which was opened before; it is used up.

    Raises:
        ServerUnreachableError: no connection, or it broke, or it took too long.
        ServerRefusedError: the server said no.
    """
    try:
        async with asyncio.timeout(config.connect_timeout):
            if attempt is None:
                attempt = await await_greeting(server, config)
            try:
                return await _open(attempt, login, config, materials, settings)
            except PacketLimitLoweredError:
                attempt = await await_greeting(server, config)
                return await _open(attempt, login, config, materials, settings)
    except TimeoutError as error:
        raise ServerUnreachableError(
            f"no answer within {config.connect_timeout:g} s (connect-timeout)"
        ) from error
    except (OSError, SSLError, ChannelClosedError, ProtocolError) as error:
        raise unreachable(error) from error


async def _open(
    attempt: ConnectionAttempt,
    login: Login,
    config: Config,
    materials: Materials,
    settings: Settings,
) -> ServerConnection:
    server, channel, greeting = attempt.server, attempt.channel, attempt.greeting
    try:
        server.version = greeting.server_version
        server.packets_received += 1
        role, tracking = settings.role, settings.tracking
        tracks = role is Role.PRIMARY or tracking == "ALL_GTIDS"
        capabilities = _agree(login, greeting.capabilities, tracks)
        algorithm = _algorithm(greeting.capabilities, config)
        capabilities |= CAPABILITY[algorithm]
        context: ServerContext | None = None
        if materials.server_tls is not None and _offers_tls(greeting, config):
            context = materials.server_tls.to(server.name)
            capabilities |= Capability.CLIENT_SSL
            request = SSLRequest(capabilities, config.max_allowed_packet, _one_byte(login))
            channel.write_packet(request.serialise())
            await _start_tls(channel, server, context)
        await _authenticate(channel, greeting, login, capabilities, config)
        if context is not None:
            context.on_login(channel.transport.get_extra_info("ssl_object"))
        if algorithm is not Algorithm.UNCOMPRESSED:
            channel = _compressed(channel, algorithm)
        connection = ServerConnection(server, capabilities, greeting.thread_id, channel)
        connection.address = attempt.address
        connection.opened_at = time.monotonic()
        if role is Role.REPLICA:
            connection.settings = replica_settings(tracking)
        if login.character_set > _WIDEST:
            await log_in_again(channel, login, capabilities)
        await set_up(connection, settings, server.max_packet)
        if (
            role is Role.REPLICA
            and connection.stage != SANDBOX
            and connection.identity.init_connect
        ):
            # What a replica's own init_connect did is not the session's; this login runs none.
            await log_in_again(channel, login, capabilities)
            connection.enter(LOGGED_IN)
            await set_up(connection, settings, server.max_packet)
    except BaseException:
        channel.abort()
        raise
    return connection


async def _start_tls(channel: PacketChannel, server: Server, context: ServerContext) -> None:
    try:
        await channel.start_tls(
            context,
            server_side=False,
            hostname=server.name.rpartition(":")[0].strip("[]"),
        )
    except (OSError, ChannelClosedError):
        context.forget()
        raise


def _compressed(channel: PacketChannel, algorithm: Algorithm) -> PacketChannel:
    """A channel over the compressed connection; the first one is used up."""
    level = ZSTD_LEVEL if algorithm is Algorithm.ZSTD else ZLIB_LEVEL
    transport = compress(channel, Compression(algorithm, level, server=False))
    return login_channel(transport, secure=channel.secure)


def _agree(login: Login, offered: Capability, tracks: bool) -> Capability:
    """The capabilities of a connection."""
    needed = login.capabilities
    if tracks:
        needed |= Capability.CLIENT_SESSION_TRACK
    missing = needed & ~offered
    if missing:
        raise ServerUnreachableError(f"the server lacks {missing.name}, which is needed")
    capabilities = (needed | ALWAYS) & offered
    if login.database is not None:
        capabilities |= Capability.CLIENT_CONNECT_WITH_DB
    return capabilities


def _algorithm(offered: Capability, config: Config) -> Algorithm:
    """The first of the wanted algorithms that the server knows."""
    for algorithm in config.server_compression:
        if algorithm is Algorithm.UNCOMPRESSED or CAPABILITY[algorithm] & offered:
            return algorithm
    if config.server_compression:
        raise ServerUnreachableError(
            f"the server offers none of server-compression ({', '.join(config.server_compression)})"
        )
    return Algorithm.UNCOMPRESSED


def _offers_tls(greeting: HandshakeV10, config: Config) -> bool:
    if greeting.capabilities & Capability.CLIENT_SSL:
        return True
    if config.server_tls != "preferred":
        raise ServerUnreachableError(
            f"the server offers no TLS and server-tls is {config.server_tls}"
        )
    return False


async def _authenticate(
    channel: PacketChannel,
    greeting: HandshakeV10,
    login: Login,
    capabilities: Capability,
    config: Config,
) -> None:
    authentication = ClientAuthentication(
        login.password, greeting.auth_plugin, greeting.nonce, secure=channel.secure
    )
    response = HandshakeResponse41(
        capabilities=capabilities,
        max_packet_size=config.max_allowed_packet,
        character_set=_one_byte(login),
        username=login.username,
        auth_response=authentication.initial_response(),
        database=login.database,
        auth_plugin=authentication.plugin,
        attributes=attributes.join(login.attributes, login.own_attributes),
        zstd_level=ZSTD_LEVEL,
    )
    channel.write_packet(response.serialise())
    await converse(channel, authentication)


async def log_in_again(channel: PacketChannel, login: Login, capabilities: Capability) -> None:
    """A COM_CHANGE_USER over a connection that awaits nothing: nothing of the last login stays.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `converse`.
    """
    authentication = ClientAuthentication(
        login.password, CACHING_SHA2, _NO_NONCE, secure=channel.secure
    )
    command = ComChangeUser(
        username=login.username,
        auth_response=b"",
        database=login.database or "",
        character_set=login.character_set,
        auth_plugin=CACHING_SHA2,
        attributes=attributes.join(login.attributes, login.own_attributes),
    )
    channel.sequence_id = 0
    channel.write_packet(command.serialise(capabilities))
    await converse(channel, authentication)


def _one_byte(login: Login) -> int:
    """The character set for a handshake, which has one byte for it.

    Wider ids, of collations and of none, come with COM_CHANGE_USER, and are told so again
    (`log_in_again`): the server knows what an id stands for.
    """
    return login.character_set if login.character_set <= _WIDEST else _UTF8MB4


async def converse(channel: PacketChannel, authentication: ClientAuthentication) -> None:
    """Answer what the server asks until it lets us in.

    Raises:
        ServerRefusedError: it does not.
        ChannelClosedError, ProtocolError: it left, or broke the protocol.
    """
    while True:
        payload = await channel.read_packet()
        if payload[:1] == b"\x00":
            return
        if payload[:1] == b"\xff":
            raise ServerRefusedError(ErrPacket.parse(payload))
        reply = authentication.receive(payload)
        if reply is not None:
            channel.write_packet(reply)
