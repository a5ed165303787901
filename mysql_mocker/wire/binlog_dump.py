"""COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: sends a replica, or a reader of logs, a server's log.

The first begins at a position of a file, the second sends what the reader does not have yet. Unless
the reader asks for an end, the answer goes on for ever: events are sent as they are written, and
heartbeats while nothing is.

Events are sent as they stand in the files, with a checksum if they have one there. What the reader
says of checksums counts for the ROTATE in front of all others alone, and a reader that says nothing
gets no event of a log with checksums (measured on 9.7.4).
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
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
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.heartbeat import HeartbeatEvent
from protocol.binlog.log_reader import MAGIC
from protocol.binlog.rotate import RotateEvent
from protocol.gtid import EMPTY, GtidSet

_LONGEST_WAIT: Final = 30.0
_OK: Final = b"\0"


def _fatal(message: str) -> MySQLError:
    """ER_SOURCE_FATAL_ERROR_READING_BINLOG: a replica that gets it stops."""
    return MySQLError(1236, "HY000", message)


def _where(message: str, file: LogFile, position: int, event: int, byte: int) -> str:
    """What went wrong, and where: as a server ends these messages."""
    return (
        f"{message}; the first event '{file.name}' at {position}, the last event read from "
        f"'./{file.name}' at {event}, the last byte read from './{file.name}' at {byte}."
    )


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
        self._request = command
        self._has = command.executed or EMPTY
        self._flags = command.flags
        if not server.keeper.logging.binary_log:
            raise _fatal("Binary log is not open")
        period = variables.get("source_heartbeat_period") or 0
        self._period = float(period) / 1e9 if isinstance(period, int | float) else 0.0
        checksum = variables.get("source_binlog_checksum")
        if checksum is None:
            checksum = variables.get("master_binlog_checksum")
        self._understands_checksums = checksum is not None
        self._first_checksum = str(checksum).upper() == "CRC32"

    async def run(self) -> None:
        """Sends events until the reader leaves.

        Raises:
            ConnectionGoneError: it left.
            MySQLError: 1236: what it lacks was purged, it has transactions of this server that this
                server does not have, or it asks for a file or position that is not there.
        """
        file = self._first()
        changed = asyncio.Event()
        self._server.binlog.listen(changed.set)
        try:
            await self._run(file, changed)
        finally:
            self._server.binlog.forget(changed.set)

    def _check(self) -> None:
        """Whether the server can give a reader that names no file what it lacks."""
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
        held = EMPTY
        for file in self._server.logs.files:
            held |= file.own
        missing = executed - held - self._has
        if missing:
            raise _fatal(
                "Cannot replicate because the source purged required binary logs. Replicate the "
                "missing transactions from elsewhere, or provision a new replica from backup. "
                "Consider increasing the source's binary log expiration period. The GTID set sent "
                f"by the replica is '{self._has.text}', and the missing transactions are "
                f"'{missing.text}'."
            )

    async def _run(self, file: LogFile, changed: asyncio.Event) -> None:
        resets = self._server.binlog.resets
        position = self._request.position
        await self._begin(file, position, self._first_checksum)
        if not self._understands_checksums and self._server.logs.checksum:
            head = Header.parse(
                bytes(file.data[len(MAGIC) : len(MAGIC) + HEADER_BYTES])
            ).next_position
            raise _fatal(
                "Replica can not handle replication events with the checksum that source is "
                + _where("configured to log", file, position, head, head)
            )
        if position > len(MAGIC):
            await self._describe(file)
            self._check_boundary(file, position)
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
                    await self._send(file, max(begin, position), end)
            following = [other for other in files if other.number > file.number]
            if following:
                file, sent, position = following[0], 0, len(MAGIC)
                await self._begin(file, position, self._server.logs.checksum)
            elif self._flags & NON_BLOCKING:
                return
            elif not await self._new(changed):
                self._channel.add(_OK + self._heartbeat(file))
                await self._channel.flush()

    async def _new(self, changed: asyncio.Event) -> bool:
        """Whether something was written before a heartbeat is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._period or _LONGEST_WAIT):
                await changed.wait()
        return changed.is_set()

    def _first(self) -> LogFile:
        """Where to begin: the file that the reader names, or one before which it lacks nothing."""
        name, position = self._request.file.removeprefix("./"), self._request.position
        files = self._server.logs.files
        if name:
            found = [file for file in files if file.name == name]
        elif self._request.executed is None:
            found = files
        else:
            self._check()
            found = [file for file in reversed(files) if file.previous <= self._has] or files
        if not found:
            raise _fatal("Could not find first log file name in binary log index file")
        if position < len(MAGIC):
            raise _fatal("Client requested source to start replication from position < 4")
        if position > len(found[0].data):
            raise _fatal("Client requested source to start replication from position > file size")
        return found[0]

    async def _describe(self, file: LogFile) -> None:
        """Sends the file's FORMAT_DESCRIPTION to a reader that begins behind it.

        A reader by position gets it with no position and no time of creation, so that it does not
        take the server for one that has just started.
        """
        begin, end, _ = file.parts[0]
        first = Header.parse(bytes(file.data[begin : begin + HEADER_BYTES]))
        end = begin + first.length
        if self._request.executed is not None:
            await self._send(file, begin, end)
            return
        described = FormatDescription.parse(bytes(file.data[begin + HEADER_BYTES : end]))
        event = encode_event(
            EventType.FORMAT_DESCRIPTION,
            replace(described, created=0).serialise(),
            timestamp=first.timestamp,
            server_id=first.server_id,
            position=-first.length,
        )
        self._channel.add(_OK + event)
        await self._channel.flush()

    @staticmethod
    def _check_boundary(file: LogFile, position: int) -> None:
        """Whether an event begins there; a server finds out by what it reads from there."""
        at, head = len(MAGIC), 0
        while at < position:
            header = Header.parse(bytes(file.data[at : at + HEADER_BYTES]))
            at += header.length
            head = head or at
        if at != position:
            message = (
                "binlog truncated in the middle of event; consider out of disk space on source"
            )
            raise _fatal(_where(message, file, position, head, len(file.data)))

    async def _send(self, file: LogFile, begin: int, end: int) -> None:
        while begin < end:
            header = Header.parse(bytes(file.data[begin : begin + HEADER_BYTES]))
            self._channel.add(_OK + bytes(file.data[begin : begin + header.length]))
            begin += header.length
        await self._channel.flush()

    async def _begin(self, file: LogFile, position: int, checksum: bool) -> None:
        """Tells the reader the file's name, and where it begins there; events follow."""
        body = RotateEvent(file.name, position).serialise()
        self._channel.add(_OK + self._made_up(EventType.ROTATE, body, checksum))
        await self._channel.flush()

    def _heartbeat(self, file: LogFile) -> bytes:
        checksum = self._server.logs.checksum
        if self._flags & HEARTBEATS_V2:
            body = HeartbeatEvent(file.name, len(file.data)).serialise()
            return self._made_up(EventType.HEARTBEAT_V2, body, checksum)
        body = HeartbeatEvent(file.name).serialise()
        return self._made_up(EventType.HEARTBEAT, body, checksum, len(file.data))

    def _made_up(self, kind: EventType, body: bytes, checksum: bool, end: int = 0) -> bytes:
        """An event that is in no file; `end` is the position that its header names."""
        length = HEADER_BYTES + len(body) + (CHECKSUM_BYTES if checksum else 0)
        return encode_event(
            kind,
            body,
            timestamp=0,
            server_id=int(self._server.variable("server_id")),
            position=end - length,
            flags=0 if end else ARTIFICIAL,
            checksum=checksum,
        )
