"""COM_CHANGE_USER on a connection to the primary, which keeps its id (fact 6.7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from protocol.authentication import CACHING_SHA2, ClientAuthentication
from protocol.command import ComChangeUser
from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server import attributes
from proxy.server.connection import ServerConnection
from proxy.server.errors import ServerUnreachableError
from proxy.server.login import LOGIN_PACKET_LIMIT, Settings, converse, settle
from routing.topology import Role

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.server.login import Login, Opened, Sandbox

_NO_NONCE = bytes(20)
"""The server sends the one that counts with its AuthSwitchRequest."""


async def change_user(
    connection: ServerConnection, login: Login, config: Config, tracking: str
) -> Opened | Sandbox:
    """Log in as another user; the connection is used up, and goes on as another object.

    Args:
        connection: to the primary; it awaits nothing.
        login: as whom.
        config: with which limits.
        tracking: the value of session_track_gtids.

    Raises:
        ServerUnreachableError: it broke, or took too long.
        ServerRefusedError: the server said no, and closes the connection.
    """
    transport, secure = connection.lend()
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    try:
        async with asyncio.timeout(config.connect_timeout):
            channel.adopt(transport, 0, secure=secure)
            channel.read_ahead()
            return await _change(connection, channel, login, tracking)
    except TimeoutError as error:
        channel.abort()
        raise ServerUnreachableError(
            f"no answer within {config.connect_timeout:g} s (connect-timeout)"
        ) from error
    except (OSError, ChannelClosedError, ProtocolError) as error:
        channel.abort()
        raise ServerUnreachableError(str(error) or type(error).__name__) from error
    except BaseException:
        channel.abort()
        raise


async def _change(
    old: ServerConnection, channel: PacketChannel, login: Login, tracking: str
) -> Opened | Sandbox:
    authentication = ClientAuthentication(
        login.password, CACHING_SHA2, _NO_NONCE, secure=channel.secure
    )
    command = ComChangeUser(
        username=login.username,
        auth_response=b"",
        database=login.database or "",
        character_set=login.character_set,
        auth_plugin=CACHING_SHA2,
        attributes=attributes.joined(login.attributes, login.own_attributes),
    )
    channel.write_packet(command.serialise(old.capabilities))
    await converse(channel, authentication)
    connection = ServerConnection(old.server, old.capabilities, old.thread_id)
    settings = Settings(Role.PRIMARY, tracking, login.database or "")
    return await settle(connection, channel, settings, 0)
