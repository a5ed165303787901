"""Connects to servers, up to their greeting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import ProtocolError
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.response import ErrPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.errors import ServerRefusedError, ServerUnreachableError, unreachable
from proxy.server.tcp import keep_watch

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.server.slots import Slot
    from routing.servers.topology import Server

LOGIN_PACKET_LIMIT: Final = MAX_PACKET_PAYLOAD - 1
"""The longest packet of a login, or of the settings that follow it, bytes."""

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


@dataclass(slots=True)
class ConnectionAttempt:
    """A connection whose server has sent its greeting, and waits for a login.

    The login makes a `ServerConnection` of it.

    Attributes:
        server: which it leads to.
        channel: the connection.
        greeting: what the server said.
        slot: the session's right to it, if it has one.
    """

    server: Server
    channel: PacketChannel
    greeting: HandshakeV10
    slot: Slot | None = None

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more."""
        return self.channel.closed

    def give_way(self, server: Server) -> None:
        """Another session waits for a connection: the client gets a new one when it logs in."""
        self.leave()

    def leave(self) -> None:
        """The client will not log in.

        A server counts connections that end without a packet, and after some of them blocks their
        host (max_connect_errors): so it gets a login without a user.
        """
        if self.slot is not None:
            self.slot.free()
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


async def await_greeting(server: Server, config: Config) -> ConnectionAttempt:
    """Connect, and wait for the server's greeting.

    Raises:
        ServerUnreachableError: no connection, or it broke, or it took too long.
        ServerRefusedError: the server said no.
    """
    try:
        async with asyncio.timeout(config.connect_timeout):
            return await await_greeting_on(await connect(server), server)
    except (OSError, TimeoutError, ChannelClosedError, ProtocolError) as error:
        raise unreachable(error) from error


async def read_greeting(server: Server, config: Config) -> HandshakeV10:
    """Read a server's greeting, with its version and capabilities, and close.

    Raises:
        ServerUnreachableError: no connection, or no greeting.
    """
    try:
        greeted = await await_greeting(server, config)
    except ServerRefusedError as error:
        raise ServerUnreachableError(str(error)) from error
    greeted.leave()
    return greeted.greeting


async def connect(server: Server) -> PacketChannel:
    """Connect, and no more.

    Raises:
        OSError: no server answers there, or the name is not known.
    """
    host, _, port = server.name.rpartition(":")
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    channel.read_ahead()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: channel, host.strip("[]"), int(port)
        )
    except BaseException:
        # uvloop does not tell of a connection's end where it was made and then not waited for.
        channel.connection_lost(None)
        raise
    keep_watch(channel.transport)
    return channel


def login_channel(transport: asyncio.Transport, *, secure: bool) -> PacketChannel:
    """A channel over a connection to a server that belonged to another protocol object."""
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    channel.adopt(transport, 0, secure=secure)
    channel.read_ahead()
    return channel


async def await_greeting_on(channel: PacketChannel, server: Server) -> ConnectionAttempt:
    """Wait for the server's greeting; without one the connection is closed.

    Raises:
        ServerRefusedError: the server said no.
        ChannelClosedError, ProtocolError: it left, or broke the protocol.
    """
    try:
        return ConnectionAttempt(server, channel, _greeting(await channel.read_packet()))
    except BaseException:
        channel.abort()
        raise


def _greeting(payload: bytes) -> HandshakeV10:
    if payload[:1] == b"\xff":
        raise ServerRefusedError(ErrPacket.parse(payload))
    return HandshakeV10.parse(payload)
