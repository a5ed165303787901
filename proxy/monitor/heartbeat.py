"""Asks servers for the heartbeat that they have (`routing.servers.heartbeat`).

The table is `pt-heartbeat`'s: ``ts`` (text or a time, in UTC) and the writer's ``server_id``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.server.query import query
from routing.servers.replication_status import MalformedStatusError, microseconds

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection

IN_UTC = b"SET time_zone='+00:00'"
"""Times are shown in the session's time zone; under this one none is ambiguous."""


async def of_primary(connection: ServerConnection, table: str) -> tuple[int, int | None]:
    """Its server_id, and its newest beat, UTC µs; None if it has none of its own.

    Args:
        connection: where to ask.
        table: ``schema.table``, quoted.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        MalformedStatusError: its answer makes no sense.
    """
    await query(connection, IN_UTC)
    row = await query(connection, b"SELECT @@server_id")
    identity = (row[0] or b"") if row else b""
    if not identity.isdigit() or len(identity) > 10:
        raise MalformedStatusError("the primary's server_id is no number")
    beat_us, _ = await of_replica(connection, table, int(identity))
    return int(identity), beat_us


async def of_replica(
    connection: ServerConnection, table: str, server_id: int
) -> tuple[int | None, int]:
    """The newest beat of the server with that id that this one has, and its clock, UTC µs.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        MalformedStatusError: as `of_primary`.
    """
    await query(connection, IN_UTC)
    question = "SELECT MAX(ts),UTC_TIMESTAMP(6) FROM %s WHERE server_id=%d"
    row = await query(connection, (question % (table, server_id)).encode())
    if len(row) != 2:
        raise MalformedStatusError(f"{table} does not tell a time")
    now_us = microseconds(row[1], "UTC_TIMESTAMP(6)")
    if now_us is None:
        raise MalformedStatusError("the server did not say what time it is")
    return microseconds(row[0], "ts"), now_us
