"""COM_BINLOG_DUMP_GTID: sends a replica, or a reader of logs, what it does not have yet.

Unless the reader asks for an end, the answer goes on for ever: events are sent as they are written,
and heartbeats while nothing is.
"""

import asyncio
from contextlib import suppress
from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.replication.log_files import LogFile
from mysql_mocker.state.instance import Instance
from mysql_mocker.state.session import Session
from mysql_mocker.wire.channel import Channel
from protocol.binlog.dump_request import HEARTBEATS_V2, NON_BLOCKING, DumpRequest
from protocol.binlog.event import (
    ARTIFICIAL,
    CHECKSUM_BYTES,
    HEADER_BYTES,
    EventType,
    Header,
    encode_event,
)
from protocol.binlog.heartbeat import HeartbeatEvent
from protocol.binlog.rotate import RotateEvent
from protocol.gtid import EMPTY, GtidSet

_LONGEST_WAIT: Final = 30.0
_LENGTH_AT: Final = 9
_OK: Final = b"\0"


def _fatal(message: str) -> MySQLError:
    """ER_SOURCE_FATAL_ERROR_READING_BINLOG: a replica that gets it stops."""
    return MySQLError(1236, "HY000", message)


class BinlogDump:
    """One reader of a server's log.

    Args:
        server: whose log it is.
        channel: the reader's connection.
        session: its session, whose user variables say what it can read.
        command: what it asked for.
    """

    def __init__(
        self, server: Instance, channel: Channel, session: Session, command: DumpRequest
    ) -> None:
        variables = session.storage.surroundings.user_variables
        self._server = server
        self._channel = channel
        self._has = command.executed
        self._flags = command.flags
        if not server.keeper.logging.binary_log:
            raise _fatal("Binary log is not open")
        period = variables.get("source_heartbeat_period") or 0
        self._period = float(period) / 1e9 if isinstance(period, int | float) else 0.0
        wanted = variables.get("source_binlog_checksum") or variables.get("master_binlog_checksum")
        if wanted is None and server.logs.checksum:
            raise _fatal(
                "Replica can not handle replication events with the checksum that source is "
                "configured to log; the first event '' at 4, the last event read from '' at 4, "
                "the last byte read from '' at 4."
            )
        self._checksum = str(wanted).upper() == "CRC32"

    async def run(self) -> None:
        """Sends events until the reader leaves.

        Raises:
            ConnectionGoneError: it left.
            MySQLError: 1236: what it lacks was purged, or it has transactions of this server that
                this server does not have.
        """
        self._check()
        changed = asyncio.Event()
        self._server.binlog.listen(changed.set)
        try:
            await self._run(changed)
        finally:
            self._server.binlog.forget(changed.set)

    def _check(self) -> None:
        executed = self._server.gtids.executed
        own = self._server.gtids.server_uuid
        ahead = (
            GtidSet(
                {
                    tsid: self._has.intervals(tsid)
                    for tsid in self._has.tsids
                    if tsid.partition(":")[0] == own
                }
            )
            - executed
        )
        if ahead:
            raise _fatal(
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This "
                "may indicate that the end of the binary log was truncated or that the last binary "
                "log file was lost, e.g., after a power or disk failure when sync_binlog != 1. The "
                "source may or may not have rolled back transactions that were already replicated "
                "to the replica. Suggest to replicate any transactions that source has rolled back "
                "from replica to source, and/or commit empty transactions on source to account for "
                "transactions that have been committed on source but are not included in "
                "GTID_EXECUTED."
            )
        there = EMPTY
        for file in self._server.logs.files:
            there |= file.own
        missing = executed - there - self._has
        if missing:
            raise _fatal(
                "Cannot replicate because the source purged required binary logs. Replicate the "
                "missing transactions from elsewhere, or provision a new replica from backup. "
                "Consider increasing the source's binary log expiration period. The GTID set sent "
                f"by the replica is '{self._has.text}', and the missing transactions are "
                f"'{missing.text}'."
            )

    async def _run(self, changed: asyncio.Event) -> None:
        resets = self._server.binlog.resets
        file = self._first()
        await self._begin(file)
        sent = 0
        while True:
            changed.clear()
            files = self._server.logs.files
            if resets != self._server.binlog.resets:
                raise _fatal("could not find next log; the binary logs were reset")
            while sent < len(file.parts):
                begin, end, gtid = file.parts[sent]
                sent += 1
                if gtid is None or not gtid <= self._has:
                    await self._send(file, begin, end)
            following = [other for other in files if other.number > file.number]
            if following:
                file, sent = following[0], 0
                await self._begin(file)
            elif self._flags & NON_BLOCKING:
                return
            elif not await self._new(changed):
                self._add(self._heartbeat(file))
                await self._channel.flush()

    async def _new(self, changed: asyncio.Event) -> bool:
        """Whether something was written before a heartbeat is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._period or _LONGEST_WAIT):
                await changed.wait()
        return changed.is_set()

    def _first(self) -> LogFile:
        """The newest file before which the reader lacks nothing."""
        files = self._server.logs.files
        return next((file for file in reversed(files) if file.previous <= self._has), files[0])

    async def _send(self, file: LogFile, begin: int, end: int) -> None:
        while begin < end:
            header = Header.parse(bytes(file.data[begin : begin + HEADER_BYTES]))
            self._add(bytes(file.data[begin : begin + header.length]))
            begin += header.length
        await self._channel.flush()

    async def _begin(self, file: LogFile) -> None:
        """Tells the reader the file's name; the file's own events follow."""
        body = RotateEvent(file.name).serialise()
        self._add(self._artificial(EventType.ROTATE, body))
        await self._channel.flush()

    def _heartbeat(self, file: LogFile) -> bytes:
        if self._flags & HEARTBEATS_V2:
            body = HeartbeatEvent(file.name, len(file.data)).serialise()
            return self._artificial(EventType.HEARTBEAT_V2, body)
        return self._artificial(
            EventType.HEARTBEAT, HeartbeatEvent(file.name).serialise(), len(file.data)
        )

    def _artificial(self, kind: EventType, body: bytes, position: int = 0) -> bytes:
        length = HEADER_BYTES + len(body) + CHECKSUM_BYTES
        return encode_event(
            kind,
            body,
            timestamp=0,
            server_id=int(self._server.variable("server_id")),
            position=position - length,
            flags=0 if position else ARTIFICIAL,
        )

    def _add(self, event: bytes) -> None:
        """Adds an event to those that the next flush sends."""
        keeps = self._checksum or Header.parse(event).type == EventType.FORMAT_DESCRIPTION
        if not keeps:
            length = len(event) - CHECKSUM_BYTES
            front = event[:_LENGTH_AT] + length.to_bytes(4, "little")
            event = front + event[_LENGTH_AT + 4 : length]
        self._channel.add(_OK + event)
