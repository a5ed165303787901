"""Asks a server for its binary log, reads the answer, and says why that ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from protocol.binlog.dump_request import DumpRequest
from protocol.errors import ProtocolError, ServerErrorCode
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.monitor.account import login
from proxy.server.connect.opening import open_connection
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.query import query

if TYPE_CHECKING:
    from protocol.binlog.event_stream import EventStream
    from protocol.gtid import GtidSet
    from proxy.observe.label_values import StreamFailure
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

HEARTBEAT_S: Final = 5.0
"""How often a server with nothing to send sends a heartbeat."""
SILENCE_S: Final = 3 * HEARTBEAT_S
BACKOFF_FIRST_S: Final = 1.0
BACKOFF_LAST_S: Final = 60.0
FAILURES: Final = (
    ServerRefusedError,
    ProtocolError,
    ServerUnreachableError,
    ChannelClosedError,
    TimeoutError,
)
"""What can go wrong with a stream."""
_READER: Final = (
    "SET @replica_uuid='{uuid}',@slave_uuid='{uuid}',"
    "@source_heartbeat_period={period},@master_heartbeat_period={period},"
    "@source_binlog_checksum='CRC32',@master_binlog_checksum='CRC32'"
)
"""A server ends the stream of an older reader with the same UUID, or id where there is none."""


class Retries:
    """When to try again what has failed: later each time, until it has lasted for a while.

    Attributes:
        at: not before that moment, monotonic s.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The next try may be at once."""
        self.at = 0.0
        self._backoff = BACKOFF_FIRST_S

    def failed(self, begun_at: float | None, now: float) -> None:
        """It has failed now, having lasted since `begun_at`; None if it had not begun."""
        if begun_at is not None and now - begun_at > BACKOFF_LAST_S:
            self._backoff = BACKOFF_FIRST_S
        self.at = now + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_LAST_S)


async def connect(server: Server, shared: Shared) -> ServerConnection:
    """A connection of the monitor's account, of which nobody else knows.

    Raises:
        ServerRefusedError, ServerUnreachableError, ProtocolError, TimeoutError: as
            `open_connection`.
    """
    config = shared.config
    return await open_connection(server, login(config), config, shared.materials, "OFF")


async def request_log(connection: ServerConnection, executed: GtidSet) -> None:
    """Send the command for all transactions of a server's log but those of a set.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    uuid = uuid4()
    settings = _READER.format(uuid=uuid, period=round(HEARTBEAT_S * 1e9))
    await query(connection, settings.encode())
    # Few servers have so large an id; and readers with the same id are told apart by their UUIDs.
    server_id = 1 << 31 | uuid.int & (1 << 31) - 1
    connection.channel.sequence_id = 0
    connection.channel.write_packet(DumpRequest(server_id, executed).serialise())


async def receive(connection: ServerConnection, events: EventStream) -> bytes:
    """The next bytes of the answer, whose events are read by `events`.

    Raises:
        ServerRefusedError, ChannelClosedError: it has ended.
        TimeoutError: there was not even a heartbeat.
        ProtocolError: it cannot be decompressed.
    """
    if events.ended:
        if events.error is not None:
            raise ServerRefusedError(events.error)
        raise ChannelClosedError("the server has ended it")
    async with asyncio.timeout(SILENCE_S):
        return await connection.channel.read_some()


def end_of(error: BaseException, user: str | None) -> tuple[StreamFailure, str]:
    """The cause of one of `FAILURES`, and a text for people; `user` is the monitor's account."""
    if isinstance(error, ServerRefusedError):
        if error.error.code == ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR.code:
            return "denied", f"{error}; GRANT REPLICATION SLAVE ON *.* TO {user}"
        return "refused", str(error)
    if isinstance(error, ProtocolError):
        return "malformed", str(error)
    return "lost", error_text(error)
