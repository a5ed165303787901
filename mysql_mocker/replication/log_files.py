"""A server's binary log as files, made from its transactions when they are read."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mysql_mocker.replication.binlog import Binlog, Transaction
from mysql_mocker.replication.transaction_events import LogEvent, transaction_events
from protocol.binlog.event import IGNORABLE, EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.log_reader import MAGIC
from protocol.binlog.rotate import RotateEvent
from protocol.gtid import EMPTY, GtidSet


@dataclass(slots=True)
class LogFile:
    """One file.

    Attributes:
        number: its number, from 1 on.
        previous: the GTIDs in the files before it.
        data: its bytes.
        parts: begin, end and GTID of each transaction; None as the GTID of all other parts.
    """

    number: int
    previous: GtidSet
    data: bytearray = field(default_factory=bytearray)
    parts: list[tuple[int, int, GtidSet | None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """``binlog.000001``."""
        return f"binlog.{self.number:06d}"

    @property
    def executed(self) -> GtidSet:
        """The GTIDs in this file and in those before it."""
        return self.previous | self.own

    @property
    def own(self) -> GtidSet:
        """The GTIDs in this file."""
        held = EMPTY
        for _, _, gtid in self.parts:
            if gtid is not None:
                held |= gtid
        return held


class LogFiles:
    """The files of one server.

    A transaction is encoded when `files` is first used after it: a log that is never read costs
    nothing. After `write_to`, it is written to the directory at once.

    Args:
        binlog: the transactions.
        server_id: of the server.
        version: of the server, such as ``9.7.4``.
        version_id: the same as a number, such as 90704.
        warn: is called with each line for the error log.
        checksum: whether events have a CRC32.
    """

    def __init__(
        self,
        binlog: Binlog,
        server_id: int,
        version: str,
        version_id: int,
        warn: Callable[[str], None],
        *,
        checksum: bool = True,
    ) -> None:
        self._warn = warn
        self.checksum = checksum
        self._binlog = binlog
        self._server_id = server_id
        self._version = version
        self._version_id = version_id
        self._files: list[LogFile] = []
        self._next = 0
        self._resets = binlog.resets
        self._directory: Path | None = None

    @property
    def files(self) -> list[LogFile]:
        """All files with all transactions, the oldest first."""
        self._catch_up()
        return self._files

    def _catch_up(self) -> None:
        """Write what was committed since the last time, and rotate where that was asked for."""
        if not self._files or self._resets != self._binlog.resets:
            self._resets = self._binlog.resets
            for file in self._files:
                self._remove(file)
            self._files = []
            self._next = 0
            self._begin(1, EMPTY)
        transactions, starts = self._binlog.transactions, self._binlog.starts
        while True:
            newest = self._files[-1]
            if newest.number < len(starts) and self._next == starts[newest.number]:
                self._rotate(newest)
            elif self._next < len(transactions):
                self._add(newest, transactions[self._next])
                self._next += 1
            else:
                return

    def _add(self, file: LogFile, transaction: Transaction) -> None:
        if any(
            write.statement is not None and write.statement.unsafe for write in transaction.writes
        ):
            self._warn(f"Unsafe statement written to the binary log: {transaction.gtid.text}")
        # The head of the file is its first part, so that the numbers begin with 1.
        number = len(file.parts)
        events = transaction_events(transaction, number, self._version_id, checksum=self.checksum)
        self._append(file, events, transaction.gtid)

    def _rotate(self, file: LogFile) -> None:
        body = RotateEvent(f"binlog.{file.number + 1:06d}").serialise()
        self._append(file, [LogEvent(EventType.ROTATE, body, int(time.time()))])
        self._begin(file.number + 1, file.executed)

    def purge(self, name: str) -> GtidSet | None:
        """PURGE BINARY LOGS TO: forgets the files before `name`.

        Returns:
            The GTIDs that were in them; None if there is no file `name`.
        """
        places = [index for index, file in enumerate(self.files) if file.name == name]
        if not places:
            return None
        purged = EMPTY
        for file in self._files[: places[0]]:
            purged |= file.own
            self._remove(file)
        del self._files[: places[0]]
        return purged

    def write_to(self, directory: Path) -> None:
        """Writes the files to `directory`, too; from now on, each transaction at its commit."""
        directory.mkdir(parents=True, exist_ok=True)
        for file in self.files:
            (directory / file.name).write_bytes(file.data)
        self._directory = directory
        self._binlog.listen(self._catch_up)

    def _remove(self, file: LogFile) -> None:
        if self._directory is not None:
            (self._directory / file.name).unlink(missing_ok=True)

    def _begin(self, number: int, previous: GtidSet) -> None:
        file = LogFile(number, previous)
        self._files.append(file)
        self._extend(file, MAGIC)
        described = FormatDescription(self._version, checksum=self.checksum).serialise()
        seconds = int(time.time())
        self._append(
            file,
            [
                LogEvent(EventType.FORMAT_DESCRIPTION, described, seconds),
                LogEvent(EventType.PREVIOUS_GTIDS, previous.to_binary(), seconds, IGNORABLE),
            ],
        )

    def _append(
        self, file: LogFile, events: Sequence[LogEvent], gtid: GtidSet | None = None
    ) -> None:
        data = bytearray()
        for event in events:
            data += encode_event(
                event.type,
                event.body,
                timestamp=event.timestamp,
                server_id=self._server_id,
                position=len(file.data) + len(data),
                flags=event.flags,
                checksum=self.checksum or event.type == EventType.FORMAT_DESCRIPTION,
            )
        file.parts.append((len(file.data), len(file.data) + len(data), gtid))
        self._extend(file, bytes(data))

    def _extend(self, file: LogFile, data: bytes) -> None:
        file.data += data
        if self._directory is not None:
            with (self._directory / file.name).open("ab") as written:
                written.write(data)
