"""Asks a server which servers it replicates from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.server.query import ask, rows

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection


async def sources(connection: ServerConnection) -> frozenset[str]:
    """Ask a server whom it is configured to replicate from (`Server.sources`).

    That takes the right REPLICATION CLIENT. Channels of Group Replication are not among them.

    Raises:
        ServerRefusedError: it may not be asked.
        ChannelClosedError, ProtocolError: as `query`.
    """
    ask(connection, b"SHOW REPLICA STATUS")
    channels = await rows(connection)
    return frozenset(
        (channel.get("Source_UUID") or b"").decode("ascii", "replace") for channel in channels
    )
