"""Asks a server whom it replicates from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.command import com_query
from protocol.errors import MalformedPacketError
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import RESULTS
from protocol.resultset import ColumnDefinition41, parse_text_row
from proxy.server.errors import ServerRefusedError

if TYPE_CHECKING:
    from proxy.channel import PacketChannel
    from proxy.server.connection import ServerConnection


async def sources(channel: PacketChannel, connection: ServerConnection) -> frozenset[str]:
    """Ask a server whom it is configured to replicate from: `routing.topology.Server.sources`.

    That takes the right REPLICATION CLIENT. Channels of Group Replication are not among them.

    Raises:
        ServerRefusedError: it may not be asked.
        ChannelClosedError, ProtocolError: as `query`.
    """
    channels = await _table(channel, connection, b"SHOW REPLICA STATUS")
    return frozenset((one.get("Source_UUID") or b"").decode("ascii", "replace") for one in channels)


async def _table(
    channel: PacketChannel, connection: ServerConnection, sql: bytes
) -> list[dict[str, bytes | None]]:
    """Run a statement, as `query` does; return all rows, by the names of their columns.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    channel.sequence_id = 0
    channel.write_packet(com_query(sql, connection.query_attributes))
    stream = connection.stream
    stream.begin(RESULTS)
    columns = 0
    names: list[str] = []
    found: list[dict[str, bytes | None]] = []
    while not stream.done:
        payload = await channel.read_packet()
        stream.feed(frame(payload, 0))
        if stream.infile:
            raise MalformedPacketError("it asked the proxy for a local file")
        if not columns:
            columns = int.from_bytes(payload[:1], "little")
        elif len(names) < columns:
            names.append(ColumnDefinition41.parse(payload).name)
        elif not stream.done and payload[:1] != b"\xfe":
            found.append(dict(zip(names, parse_text_row(payload, columns), strict=True)))
    if stream.error is not None:
        raise ServerRefusedError(ErrPacket.parse(stream.error))
    return found
