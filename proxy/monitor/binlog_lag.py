"""Reads replicas' binary logs, for the lag of every transaction that they apply (WL#7319).

A replica's log has each transaction with two times: its commit on its first server, and the
replica's own. The time between the two is its lag from end to end. It is shown and counted, but
proves nothing: a log runs ahead of what a server shows.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from protocol.binlog.gtid_stream import GtidStream
from proxy import tasks
from proxy.monitor.binlog_stream import FAILURES, Retries, connect, end_of, receive, request_log
from proxy.server.query import query
from routing.servers.lag import between
from routing.servers.topology import Role

if TYPE_CHECKING:
    from protocol.binlog.gtid_event import GtidEvent
    from proxy.observe.label_values import StreamEnd
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_LOGS: Final = b"SELECT @@GLOBAL.log_bin,@@GLOBAL.log_replica_updates"


class _UnloggedError(Exception):
    """What the server replicates is not in its log."""


class _Stream:
    """What is known of one replica's stream.

    Attributes:
        task: reads it; None while nobody does.
        epoch: the server's incarnation whose log that is; None while that is not known.
        active: transactions from some moment on will come by it, if nothing fails.
        counted: it was active since the monitor's last look.
        begun_at: since when (monotonic s) it is read; None while it is not.
        retries: when it is tried again.
        logged_end: why it is not read, as last logged; None if nothing was logged.
    """

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.logged_end: StreamEnd | None = None
        self.counted = False
        self.retries = Retries()
        self.forget()

    def forget(self) -> None:
        """It is not read; the next try may be at once."""
        self.epoch: int | None = None
        self.active = False
        self.begun_at: float | None = None
        self.retries.reset()

    def ended(self, now: float) -> None:
        """It is not read any more, and is not tried again at once."""
        self.retries.failed(self.begun_at, now)
        self.active = False
        self.begun_at = self.epoch = None

    @property
    def runs(self) -> bool:
        """Whether its task has not ended."""
        return self.task is not None and not self.task.done()


class BinlogLag:
    """A connection to each replica, if `binlog-lag` is on; only the first worker has them."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._streams: dict[Server, _Stream] = {}

    def follow(self, server: Server) -> None:
        """The monitor has looked at a server: read its log if it is a replica."""
        if self._shared.worker:
            return
        if self._shared.config.binlog_lag == "off":
            self.leave(server)
            return
        if server.role is Role.PRIMARY:
            self.leave(server)
            return
        stream = self._streams.setdefault(server, _Stream())
        if stream.runs:
            if stream.epoch not in (None, server.epoch):
                self.leave(server)
        elif self._shared.now() >= stream.retries.at:
            stream.task = tasks.start(self._run(server, stream), f"binary log of {server.name}")

    def leave(self, server: Server) -> None:
        """A server does not answer, has begun anew, or is no replica."""
        stream = self._streams.get(server)
        if stream is None:
            return
        if stream.runs and stream.task is not None:
            stream.task.cancel()
        stream.forget()

    def forget(self, server: Server) -> None:
        """A server has gone for good."""
        self.leave(server)
        self._streams.pop(server, None)

    async def stop(self) -> None:
        """Read no more."""
        await tasks.stop(
            *[stream.task for stream in self._streams.values() if stream.task is not None]
        )

    def reads(self, server: Server) -> bool:
        """Whether every transaction of a server is measured now."""
        stream = self._streams.get(server)
        return stream is not None and stream.begun_at is not None

    def leaves_to_looks(self, server: Server) -> bool:
        """Whether the transactions that this look found are not counted by the stream.

        To be asked once for each look, when its answer is there.
        """
        if self._shared.config.binlog_lag == "off":
            return True
        if self._shared.worker:
            return False
        stream = self._streams.get(server)
        if stream is None:
            return True
        counted, stream.counted = stream.counted, stream.active
        return not counted

    async def _run(self, server: Server, stream: _Stream) -> None:
        try:
            # The stream counts what comes from here on; a look that comes first counts nothing.
            stream.active = stream.counted = True
            connection = await connect(server, self._shared)
            stream.epoch = connection.epoch
            try:
                async with asyncio.timeout(self._shared.config.connect_timeout):
                    await self._ask(connection)
                await self._read(server, stream, connection)
            finally:
                connection.abort()
        except _UnloggedError as error:
            self._ended(server, stream, "unlogged", str(error))
        except FAILURES as error:
            self._ended(server, stream, *end_of(error, self._shared.config.monitor_user))
        finally:
            stream.task = None  # a cancelled task keeps its frames, which know the stream

    async def _ask(self, connection: ServerConnection) -> None:
        """Send the command for the log, from what the server had at the login.

        Raises:
            _UnloggedError: there would be nothing of interest.
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        if await query(connection, _LOGS) != [b"1", b"1"]:
            raise _UnloggedError(
                "it does not log what it replicates (log_bin, log_replica_updates)"
            )
        await request_log(connection, connection.identity.executed)

    async def _read(self, server: Server, stream: _Stream, connection: ServerConnection) -> None:
        gtids = GtidStream()
        connection.channel.read_ahead()
        while True:
            for event in gtids.receive_data(await receive(connection, gtids.events)):
                self._count(server, event)
            if gtids.events.begun and stream.begun_at is None:
                self._began(server, stream)

    def _count(self, server: Server, event: GtidEvent) -> None:
        gtid, times = event.gtid, event.timestamps
        if gtid is None or times is None:
            return
        source = gtid.tsid.partition(":")[0]
        if source == server.uuid:
            return  # its own: nothing was replicated
        servers = self._shared.topology.watched
        clock = next((other.clock for other in servers if other.uuid == source), None)
        lag = between(times.original or None, times.immediate or None, server.clock, clock)
        if lag is not None:
            metrics = self._shared.metrics
            metrics.transaction_lag(server.name, source, "end_to_end", max(0, lag.us))

    def _began(self, server: Server, stream: _Stream) -> None:
        stream.begun_at = self._shared.now()
        stream.logged_end = None
        _log.info("the lag of each transaction of server %s is read in its log", server.name)

    def _ended(self, server: Server, stream: _Stream, cause: StreamEnd, text: str) -> None:
        stream.ended(self._shared.now())
        self._shared.metrics.binlog_stream_ended(server.name, cause)
        if stream.logged_end != cause:
            stream.logged_end = cause
            _log.warning(
                "the binary log of server %s does not tell the lag of its transactions: %s",
                server.name,
                text,
            )
