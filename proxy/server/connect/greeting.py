"""Connects to servers, up to their greeting."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import ProtocolError
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.response import ErrPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.connect.lookup import look_up
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

_ATTEMPT_S: Final = 0.5
"""How long one address may take to accept a connection while others are left to try."""


@dataclass(slots=True)
class ConnectionAttempt:
    """A connection whose server has sent its greeting, and waits for a login.

    The login makes a `ServerConnection` of it.

    Attributes:
        server: which it leads to.
        channel: the connection.
        greeting: what the server said.
        address: which of the server's addresses it leads to.
        slot: the session's right to it, if it has one.
    """

    server: Server
    channel: PacketChannel
    greeting: HandshakeV10
    address: str = ""
    slot: Slot | None = None

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more."""
        return self.channel.closed

    @property
    def leads_there(self) -> bool:
        """Whether it leads to the server still, whose name may have moved meanwhile."""
        return not self.address or self.server.addresses.leads_to(self.address)

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
    """Connect to the server's current address, or to another one if that cannot be reached.

    Raises:
        OSError: no server answers there, or the name is not known.
    """
    addresses = server.addresses
    if not addresses.answer:
        answer = await look_up(server)
        if not addresses.answer:  # nobody has taken it meanwhile
            addresses.add(answer)
    former = addresses.current
    *first, last = addresses.candidates
    for address in first:
        with suppress(OSError):  # and TimeoutError, which is one
            async with asyncio.timeout(_ATTEMPT_S):
                return await _connect(server, address, former)
    return await _connect(server, last, former)


async def _connect(server: Server, address: str, former: str) -> PacketChannel:
    """Connect to one address of a server; `former` was current when the first one was tried.

    Raises:
        OSError: no server answers there.
    """
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    channel.read_ahead()
    port = int(server.name.rpartition(":")[2])
    try:
        await asyncio.get_running_loop().create_connection(lambda: channel, address, port)
    except BaseException as error:
        server.refuses = isinstance(error, ConnectionRefusedError)
        # uvloop does not tell of a connection's end where it was made and then not waited for.
        channel.connection_lost(None)
        raise
    server.refuses = False
    keep_watch(channel.transport)
    channel.address = address
    server.addresses.use(address, former)
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
        greeting = _greeting(await channel.read_packet())
        return ConnectionAttempt(server, channel, greeting, channel.address)
    except BaseException:
        channel.abort()
        raise


def _greeting(payload: bytes) -> HandshakeV10:
    if payload[:1] == b"\xff":
        raise ServerRefusedError(ErrPacket.parse(payload))
    return HandshakeV10.parse(payload)
