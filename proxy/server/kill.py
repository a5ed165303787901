"""Ends what a server still does for a client that is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError
from proxy.server.connect.opening import open_connection
from proxy.server.errors import (
    NoDescriptorError,
    ServerRefusedError,
    ServerUnreachableError,
    unreachable,
)
from proxy.server.query import query

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.tls.materials import Materials
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)


async def kill(
    connection: ServerConnection,
    login: Login,
    config: Config,
    materials: Materials,
    *,
    query_only: bool = False,
) -> None:
    """KILL a server's thread, over a connection of its own.

    A server does not notice that the client of a WAIT has left (fact 4.1).

    Args:
        connection: whose thread to end.
        login: a user who may; the thread's own always may.
        config: for the time-outs.
        materials: for TLS.
        query_only: end its statement and leave the connection.
    """
    scope = b"QUERY" if query_only else b"CONNECTION"
    sql = b"KILL %s %d" % (scope, connection.thread_id)
    try:
        await _run_once(connection.server, login, config, materials, sql)
    except NoDescriptorError:
        return  # which was logged
    except (ServerUnreachableError, ServerRefusedError) as error:
        _log.warning("could not end what a client left on %s: %s", connection.server.name, error)


async def _run_once(
    server: Server, login: Login, config: Config, materials: Materials, sql: bytes
) -> None:
    """Run one statement over a connection of its own.

    Raises:
        ServerUnreachableError, ServerRefusedError: as `open_connection`.
    """
    connection = await open_connection(server, login, config, materials)
    try:
        async with asyncio.timeout(config.connect_timeout):
            await query(connection, sql)
    except (TimeoutError, ChannelClosedError, ProtocolError) as error:
        raise unreachable(error) from error
    finally:
        connection.channel.close()
