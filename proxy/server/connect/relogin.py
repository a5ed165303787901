"""COM_CHANGE_USER: a login over a connection that has served one, and keeps its id (fact 6.7).

The server judges the password, the account and its rights as for a new connection. It asks for the
scramble each time, with a nonce of its own. What follows the login could be sent right after that
scramble, but a server that has to ask for the password itself would take it for the answer, and
count a failed login.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.connect.greeting import LOGIN_PACKET_LIMIT
from proxy.server.connect.opened import settle
from proxy.server.connect.opening import log_in_again
from proxy.server.connection import ServerConnection
from proxy.server.errors import ServerUnreachableError
from proxy.server.settings import replica_settings
from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.server.connect.opened import Opened, Sandbox
    from proxy.server.login import Login
    from proxy.server.settings import Settings


async def change_user(
    connection: ServerConnection, login: Login, settings: Settings, longest: int, within: float
) -> Opened | Sandbox:
    """Log in as another user; the connection is used up, and goes on as another object.

    Args:
        connection: it awaits nothing.
        login: as whom.
        settings: what for.
        longest: as `settle` has it.
        within: the time that it may take, s.

    Raises:
        ServerUnreachableError: it broke, or took too long.
        ServerRefusedError: the server said no, and closes the connection.
    """
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    slot = connection.take_slot()
    try:
        async with asyncio.timeout(within):
            transport, secure = connection.lend()
            channel.adopt(transport, 0, secure=secure)
            channel.read_ahead()
            outcome = await _change(connection, channel, login, settings, longest)
            outcome.connection.slot, slot = slot, None
            return outcome
    except TimeoutError as error:
        channel.abort()
        raise ServerUnreachableError(f"no answer within {within:g} s (connect-timeout)") from error
    except (OSError, ChannelClosedError, ProtocolError) as error:
        channel.abort()
        raise ServerUnreachableError(str(error) or type(error).__name__) from error
    except BaseException:
        channel.abort()
        raise
    finally:
        if slot is not None:
            slot.free()


async def _change(
    old: ServerConnection,
    channel: PacketChannel,
    login: Login,
    settings: Settings,
    longest: int,
) -> Opened | Sandbox:
    await log_in_again(channel, login, old.capabilities)
    server = old.server
    connection = ServerConnection(server, old.capabilities, old.thread_id)
    connection.opened_at = old.opened_at
    connection.kept = True
    if settings.role is Role.REPLICA:
        connection.settings = replica_settings(settings.tracking)
    present = old.epoch == server.epoch
    outcome = await settle(connection, channel, settings, longest, present)
    if not old.keepable:
        connection.keepable = False
    return outcome
