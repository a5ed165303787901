"""Asks servers what they have executed, and what they are about to commit."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.server.binary_log_question import binary_log
from proxy.server.connect.opening import open_connection
from proxy.server.errors import ServerRefusedError, ServerUnreachableError, unreachable
from proxy.server.query import identify
from routing.servers.topology import Held

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.live_config import LiveConfig
    from proxy.server.connection import ServerConnection
    from proxy.server.identity import Identity
    from proxy.server.login import Login
    from routing.servers.topology import Server, Topology

_log = logging.getLogger(__name__)

_REPLICA_S: Final = 1.0
"""How long a replica may take to say what it has; after that the set it is known to have is
used."""


class ExecutedGtids:
    """Asks the servers of one worker."""

    def __init__(self, live: LiveConfig, now: Callable[[], float]) -> None:
        """Connects as the configuration says; `now` is monotonic, s."""
        self._live = live
        self._now = now

    async def of_primary(self, connection: ServerConnection) -> Identity:
        """Ask the primary over a connection that awaits nothing.

        Raises:
            ServerUnreachableError: it does not answer.
        """
        limit = self._live.config.connect_timeout
        try:
            async with asyncio.timeout(limit):
                return await identify(connection)
        except TimeoutError as error:
            raise ServerUnreachableError(
                f"no answer within {limit:g} s (connect-timeout)"
            ) from error
        except (ChannelClosedError, ProtocolError) as error:
            raise unreachable(error) from error

    async def of_replicas(self, topology: Topology, login: Login) -> list[Held]:
        """Ask all replicas that are not known to be down; those that do not answer are left out."""
        now = self._now()
        answers = await asyncio.gather(
            *(
                self._of_replica(replica, login)
                for replica in topology.replicas
                if not replica.is_unreachable(now)
            )
        )
        return [answer for answer in answers if answer is not None]

    async def _of_replica(self, replica: Server, login: Login) -> Held | None:
        live = self._live
        deadline = asyncio.get_running_loop().time() + _REPLICA_S
        try:
            async with asyncio.timeout_at(deadline):
                connection = await open_connection(
                    replica, replace(login, database=None), live.config, live.materials, "OFF"
                )
        except (ServerUnreachableError, ServerRefusedError, TimeoutError) as error:
            _log.info(
                "replica %s is compared by what it is known to have: %s",
                replica.name,
                error_text(error),
            )
            return None
        uuid, identity = replica.uuid, connection.identity
        number = await _binary_log_number(connection, deadline)
        return Held(replica, uuid, identity.executed | identity.owned, connection.epoch, number)


async def _binary_log_number(connection: ServerConnection, deadline: float) -> int:
    """That of a server's newest file; 0 if it does not say in time. Ends the connection."""
    try:
        async with asyncio.timeout_at(deadline):
            return (await binary_log(connection)).number
    except (ServerRefusedError, ChannelClosedError, ProtocolError, TimeoutError):
        return 0
    finally:
        connection.channel.close()
