"""Opens connections to servers as a user whose password the proxy knows, and sets them up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from ssl import SSLError
from typing import TYPE_CHECKING, Final

from protocol.authentication import ClientAuthentication
from protocol.compression import CAPABILITY, ZLIB_LEVEL, ZSTD_LEVEL, Algorithm, Compression
from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.handshake import HandshakeResponse41, HandshakeV10, SSLRequest
from protocol.response import ErrPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.compressed import compress
from proxy.server import attributes
from proxy.server.account import SHOW, Requirement, requirement_of
from proxy.server.connection import ServerConnection
from proxy.server.errors import (
    PacketLimitLoweredError,
    ServerRefusedError,
    ServerUnreachableError,
)
from proxy.server.query import Identity, answer, ask, identify, query
from proxy.server.settings import ROOM, primary_settings, replica_settings
from proxy.server.tcp import keep_watch
from routing.topology import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.config import Config
    from proxy.server.tls import ServerContext
    from proxy.tls import Materials
    from routing.topology import Server

LOGIN_PACKET_LIMIT: Final = MAX_PACKET_PAYLOAD - 1
"""No packet of a login or of the settings that follow it is longer, bytes."""

ALWAYS: Final = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_CONNECT_ATTRS
)
"""Capabilities of every connection that the proxy opens."""

NONE: Final = Capability(0)


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and with what.

    Attributes:
        username: as the client gave it.
        password: in clear; kept only in memory.
        capabilities: what the client negotiated, as far as it concerns statements.
        character_set: collation id of the handshake.
        database: default schema, or None.
        attributes: the client's connection attributes.
        own_attributes: Tidegate's own of the session, which every connection adds.
        sql_mode: what a session on a replica begins with; None is the replica's own default.
    """

    username: str
    password: bytes = field(repr=False)
    capabilities: Capability = NONE
    character_set: int = 255
    database: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    own_attributes: Mapping[str, str] = field(default_factory=dict)
    sql_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Greeted:
    """A connection whose server has said hello, and waits for a login.

    Attributes:
        server: which it leads to.
        channel: the connection.
        greeting: what the server said.
    """

    server: Server
    channel: PacketChannel
    greeting: HandshakeV10

    def leave(self) -> None:
        """Nobody will log in.

        A server counts connections that end without a word, and after some blocks their host
        (max_connect_errors): so it gets a login, of nobody.
        """
        capabilities = ALWAYS & self.greeting.capabilities
        nobody = HandshakeResponse41(
            capabilities=capabilities & ~Capability.CLIENT_CONNECT_ATTRS,
            max_packet_size=LOGIN_PACKET_LIMIT,
            character_set=255,
            username="",
            auth_response=b"",
            database=None,
            auth_plugin=self.greeting.auth_plugin,
            attributes={},
            zstd_level=0,
        )
        try:
            self.channel.write_packet(nobody.serialise())
        except ChannelClosedError:
            return
        self.channel.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that is ready for statements.

    Attributes:
        connection: it; `attach` it to use it.
        channel: hand it over to the connection.
        identity: what the server said of itself on it.
        requirement: what the primary could not check, since it saw the proxy's TLS.
    """

    connection: ServerConnection
    channel: PacketChannel
    identity: Identity
    requirement: Requirement = Requirement.NOTHING


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A connection whose login was taken, and whose server refuses all else: the password expired.

    Attributes:
        connection, channel: as `Opened` has them.
        settings: what the server refused.
        refusal: how.
    """

    connection: ServerConnection
    channel: PacketChannel
    settings: Settings
    refusal: ErrPacket

    async def leave(self) -> Opened | None:
        """Try the settings again; None if they are refused as before.

        Raises:
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        outcome = await settle(self.connection, self.channel, self.settings, 0)
        return outcome if isinstance(outcome, Opened) else None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a connection is made fit for its purpose.

    Attributes:
        role: what it is for; the server may get another role before it is made.
        tracking: its session_track_gtids.
        schema: its default schema.
    """

    role: Role
    tracking: str
    schema: str


async def be_greeted(server: Server, config: Config) -> Greeted:
    """Connect, and wait for the server to say hello.

    Raises:
        ServerUnreachableError: no connection, or it broke, or it took too long.
        ServerRefusedError: the server said no.
    """
    try:
        async with asyncio.timeout(config.connect_timeout):
            return await be_greeted_on(await connect(server), server)
    except (OSError, TimeoutError, ChannelClosedError, ProtocolError) as error:
        raise ServerUnreachableError(str(error) or type(error).__name__) from error


async def open_connection(
    server: Server,
    login: Login,
    config: Config,
    materials: Materials,
    tracking: str = "OWN_GTID",
) -> Opened:
    """As `open_session`, where an expired password is a refusal.

    Raises:
        ServerUnreachableError, ServerRefusedError: as `open_session`.
    """
    opened = await open_session(server, login, config, materials, tracking)
    if isinstance(opened, Sandbox):
        opened.channel.abort()
        raise ServerRefusedError(opened.refusal)
    return opened


async def open_session(
    server: Server,
    login: Login,
    config: Config,
    materials: Materials,
    tracking: str,
    greeted: Greeted | None = None,
) -> Opened | Sandbox:
    """Connect, log in, apply the settings that routing needs, and learn the server's incarnation.

    Args:
        server: where to.
        login: as whom.
        config: with which limits.
        materials: for TLS.
        tracking: the value of session_track_gtids; on a replica only ALL_GTIDS makes a difference.
        greeted: a connection to that server which was opened before; it is used up.

    Raises:
        ServerUnreachableError: no connection, or it broke, or it took too long.
        ServerRefusedError: the server said no.
    """
    try:
        async with asyncio.timeout(config.connect_timeout):
            if greeted is None:
                greeted = await be_greeted(server, config)
            try:
                return await _open(greeted, login, config, materials, tracking)
            except PacketLimitLoweredError:
                greeted = await be_greeted(server, config)
                return await _open(greeted, login, config, materials, tracking)
    except TimeoutError as error:
        raise ServerUnreachableError(
            f"no answer within {config.connect_timeout:g} s (connect-timeout)"
        ) from error
    except (OSError, SSLError, ChannelClosedError, ProtocolError) as error:
        raise ServerUnreachableError(str(error) or type(error).__name__) from error


async def run_once(
    server: Server, login: Login, config: Config, materials: Materials, sql: bytes
) -> None:
    """Run one statement over a connection of its own.

    Raises:
        ServerUnreachableError, ServerRefusedError: as `open_connection`.
    """
    opened = await open_connection(server, login, config, materials)
    try:
        async with asyncio.timeout(config.connect_timeout):
            await query(opened.channel, opened.connection, sql)
    except (TimeoutError, ChannelClosedError, ProtocolError) as error:
        raise ServerUnreachableError(str(error)) from error
    finally:
        opened.channel.close()


async def greet(server: Server, config: Config) -> HandshakeV10:
    """Read a server's greeting and hang up; tells its version and capabilities.

    Raises:
        ServerUnreachableError: no connection, or no greeting.
    """
    try:
        greeted = await be_greeted(server, config)
    except ServerRefusedError as error:
        raise ServerUnreachableError(str(error)) from error
    greeted.leave()
    return greeted.greeting


async def connect(server: Server) -> PacketChannel:
    """Connect, and no more.

    Raises:
        OSError, ServerUnreachableError: nobody is there, or nobody is called so.
    """
    host, _, port = server.name.rpartition(":")
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    channel.read_ahead()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: channel, host.strip("[]"), int(port)
        )
    except UnicodeError as error:
        raise ServerUnreachableError(f"{host} cannot be a host's name: {error}") from error
    except BaseException:
        # uvloop does not tell of a connection's end where it was made and then not waited for.
        channel.connection_lost(None)
        raise
    keep_watch(channel.transport)
    return channel


async def be_greeted_on(channel: PacketChannel, server: Server) -> Greeted:
    """Wait for the server to say hello; a connection on which it does not is closed.

    Raises:
        ServerRefusedError: the server said no.
        ChannelClosedError, ProtocolError: it left, or broke the protocol.
    """
    try:
        return Greeted(server, channel, _greeting(await channel.read_packet()))
    except BaseException:
        channel.abort()
        raise


def _greeting(payload: bytes) -> HandshakeV10:
    if payload[:1] == b"\xff":
        raise ServerRefusedError(ErrPacket.parse(payload))
    return HandshakeV10.parse(payload)


async def _open(
    greeted: Greeted, login: Login, config: Config, materials: Materials, tracking: str
) -> Opened | Sandbox:
    server, channel, greeting = greeted.server, greeted.channel, greeted.greeting
    try:
        server.version = greeting.server_version
        role = server.role
        tracks = role is Role.PRIMARY or tracking == "ALL_GTIDS"
        capabilities = _agree(login, greeting.capabilities, tracks)
        algorithm = _algorithm(greeting.capabilities, config)
        capabilities |= CAPABILITY[algorithm]
        context: ServerContext | None = None
        if materials.server_tls is not None and _offers_tls(greeting, config):
            context = materials.server_tls.to(server.name)
            capabilities |= Capability.CLIENT_SSL
            request = SSLRequest(capabilities, config.max_allowed_packet, login.character_set)
            channel.write_packet(request.serialise())
            try:
                await channel.start_tls(
                    context,
                    server_side=False,
                    hostname=server.name.rpartition(":")[0].strip("[]"),
                    within=config.connect_timeout,
                )
            except (OSError, ChannelClosedError):
                context.forget()
                raise
        await _authenticate(channel, greeting, login, capabilities, config)
        if context is not None:
            context.logged_in(channel.transport.get_extra_info("ssl_object"))
        if algorithm is not Algorithm.UNCOMPRESSED:
            level = ZSTD_LEVEL if algorithm is Algorithm.ZSTD else ZLIB_LEVEL
            transport = compress(channel, Compression(algorithm, level, server=False))
            secure = channel.secure
            channel = PacketChannel(LOGIN_PACKET_LIMIT)
            channel.adopt(transport, 0, secure=secure)
            channel.read_ahead()
        connection = ServerConnection(server, capabilities, greeting.thread_id)
        if role is Role.REPLICA:
            connection.settings = replica_settings(tracking, login.sql_mode)
        settings = Settings(role, tracking, login.database or "")
        return await settle(connection, channel, settings, server.max_packet)
    except BaseException:
        channel.abort()
        raise


async def settle(
    connection: ServerConnection, channel: PacketChannel, settings: Settings, longest: int
) -> Opened | Sandbox:
    """Learn who the server is, make the settings, and learn what the account requires.

    Args:
        connection: to the server, which has taken the login.
        channel: likewise.
        settings: what for.
        longest: packets of so many bytes should be allowed, and all of it goes out in one write; 0
            where that is not known, and the server is asked first.

    Raises:
        PacketLimitLoweredError: it is less now, and the server may have closed the connection.
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    server = connection.server
    connection.schema = settings.schema
    requirement = Requirement.NOTHING
    behind = _behind(connection, channel, settings, longest) if longest else []
    awaited = len(behind)
    try:
        identity = await identify(channel, connection, server, *behind)
        connection.max_packet = server.max_packet = identity.max_allowed_packet
        lowered = connection.max_packet < longest
        if lowered and len(connection.settings) + ROOM > connection.max_packet:
            raise PacketLimitLoweredError("its max_allowed_packet was lowered meanwhile")
        if not behind:
            behind = _behind(connection, channel, settings, connection.max_packet)
            ask(channel, connection, *behind)
            awaited = len(behind)
        awaited -= 1
        await answer(channel, connection)
        if SHOW in behind:
            awaited -= 1
            requirement = await requirement_of(channel, connection)
    except ServerRefusedError as error:
        if error.error.code != ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code:
            raise
        await _refused(channel, connection, awaited)
        return Sandbox(connection, channel, settings, error.error)
    except ChannelClosedError:
        server.max_packet = 0  # if it was lowered, the end may have overtaken the word of it
        raise
    connection.tracks_all = settings.tracking == "ALL_GTIDS"
    return Opened(connection, channel, identity, requirement)


def _behind(
    connection: ServerConnection, channel: PacketChannel, settings: Settings, longest: int
) -> list[bytes]:
    """What follows the question who the server is: the settings, and the account's clause."""
    if settings.role is not Role.PRIMARY:
        return [connection.settings]
    connection.settings = primary_settings(longest, settings.tracking)
    return [connection.settings, SHOW] if channel.secure else [connection.settings]


async def _refused(channel: PacketChannel, connection: ServerConnection, count: int) -> None:
    """Read the answers to what was sent behind a statement that a sandbox refused.

    Raises:
        ServerRefusedError: one was refused for another reason.
        ChannelClosedError, ProtocolError: as `query`.
    """
    for _ in range(count):
        try:
            await answer(channel, connection)
        except ServerRefusedError as error:
            if error.error.code != ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code:
                raise


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
    """The first of those that are wanted which the server knows."""
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
        character_set=login.character_set,
        username=login.username,
        auth_response=authentication.initial_response(),
        database=login.database,
        auth_plugin=authentication.plugin,
        attributes=attributes.joined(login.attributes, login.own_attributes),
        zstd_level=ZSTD_LEVEL,
    )
    channel.write_packet(response.serialise())
    await converse(channel, authentication)


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
