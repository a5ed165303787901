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
from proxy.channel import ChannelClosedError
from proxy.server.connect.greeting import login_channel
from proxy.server.connect.opening import log_in_again
from proxy.server.connect.setup import set_up
from proxy.server.connection import ServerConnection
from proxy.server.connection_stage import LOGGED_IN
from proxy.server.errors import ServerUnreachableError, unreachable
from proxy.server.settings import replica_settings
from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.channel import PacketChannel
    from proxy.server.login import Login
    from proxy.server.settings import Settings


async def change_user(
    connection: ServerConnection, login: Login, settings: Settings, longest: int, within: float
) -> ServerConnection:
    """Log in as another user; the connection is used up, and goes on as another object.

    Args:
        connection: it awaits nothing.
        login: as whom.
        settings: what for.
        longest: as `set_up` has it.
        within: the time that it may take, s.

    Raises:
        ServerUnreachableError: it broke, or took too long.
        ServerRefusedError: the server said no, and closes the connection.
    """
    slot = connection.take_slot()
    try:
        async with asyncio.timeout(within):
            transport, secure = connection.detach(LOGGED_IN)
            channel = login_channel(transport, secure=secure)
            changed = await _change(connection, channel, login, settings, longest)
            changed.slot, slot = slot, None
            return changed
    except TimeoutError as error:
        raise ServerUnreachableError(f"no answer within {within:g} s (connect-timeout)") from error
    except (OSError, ChannelClosedError, ProtocolError) as error:
        raise unreachable(error) from error
    finally:
        if slot is not None:
            slot.free()


async def _change(
    old: ServerConnection,
    channel: PacketChannel,
    login: Login,
    settings: Settings,
    longest: int,
) -> ServerConnection:
    try:
        await log_in_again(channel, login, old.capabilities)
        server = old.server
        connection = ServerConnection(server, old.capabilities, old.thread_id, channel)
        connection.opened_at = old.opened_at
        connection.kept = True
        if settings.role is Role.REPLICA:
            connection.settings = replica_settings(settings.tracking)
        present = old.epoch == server.epoch
        await set_up(connection, settings, longest, present=present)
        if not old.keepable:
            connection.keepable = False
    except BaseException:
        channel.abort()
        raise
    return connection
