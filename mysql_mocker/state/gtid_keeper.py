"""How a server's GTIDs survive a crash: in its binary log, in its table, or both (WL#6559)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mysql_mocker.replication.binlog import Binlog
from mysql_mocker.state.engine import Engine
from mysql_mocker.state.storage import Storage
from protocol.gtid import GtidSet

FLUSH_SECONDS: Final = 0.1
"""How long committed GTIDs wait in InnoDB's undo log before they are rows (measured)."""
_FLUSHES: Final = 50
"""With a period of 0, InnoDB compresses the table after so many flushes (measured)."""

SUSPENDED: Final = "Suspending"
COMPRESSING: Final = "Compressing gtid_executed table"


@dataclass(frozen=True, slots=True)
class GtidLogging:
    """Which of the three modes of WL#6559 a server is in.

    Attributes:
        binary_log: log_bin; without it, only transactions that were given a GTID have one.
        replica_updates: log_replica_updates: what is replicated is in the binary log, too.
    """

    binary_log: bool = True
    replica_updates: bool = True


class GtidKeeper:
    """Writes `mysql.gtid_executed`, compresses it, and reads it after a crash.

    Besides, the database has a journal, the table `.gtids`: a GTID is written there in the very
    transaction that it names, as InnoDB writes it into its undo log. When the table has the GTID, a
    later transaction deletes it from the journal.

    Since 8.0.17 InnoDB writes the rows 0.1 s after the commits, one for each interval, also for the
    server's own transactions; by the worklog, each commit writes one row, within its transaction.

    Args:
        period: `gtid_executed_compression_period`.
        as_designed: whether rows are written as the worklog says.

    Attributes:
        logging: the mode.
        thread_state: of the thread that compresses.
    """

    def __init__(
        self,
        engine: Engine,
        binlog: Binlog,
        logging: GtidLogging,
        period: Callable[[], int],
        as_designed: Callable[[], bool],
    ) -> None:
        self.logging = logging
        self.thread_state = SUSPENDED
        self._engine = engine
        self._table = engine.gtid_table
        self._binlog = binlog
        self._period = period
        self._as_designed = as_designed
        self._journaled = 0  # the newest row of the journal
        self._flushed = 0  # the table has the journal's rows up to here
        self._purged = 0  # the journal's rows up to here are deleted
        self._epoch = 0  # rows of an older one are from before a reset
        self._pending = GtidSet()
        self._count = 0  # GTIDs since the last compression
        self._flushes = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # The thread.

    def start(self) -> None:
        """Starts the thread; must run inside the event loop."""
        self._wake = asyncio.Event()
        if self._pending:
            self._wake.set()
        self._task = asyncio.create_task(self._run(), name="mocker GTIDs")

    async def stop(self) -> None:
        """Ends the thread at once."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._pending:
                await asyncio.sleep(FLUSH_SECONDS)
                self.flush()
            if self.thread_state == COMPRESSING:
                self._compress()

    # Commits.

    def _at_commit(self, own: bool) -> bool:
        """Whether a commit writes its GTID down itself, or leaves that to the binary log."""
        logging = self.logging
        if not logging.binary_log:
            return True
        return not logging.replica_updates and not (own and self._as_designed())

    def prepare(self, storage: Storage, gtid: GtidSet, *, own: bool) -> None:
        """Writes a GTID into its own open transaction, which has written and is committed next."""
        if not self._at_commit(own):
            return
        self._journaled += 1
        storage.read(
            'INSERT INTO ".gtids" VALUES (?, ?, ?)', (self._journaled, self._epoch, gtid.text)
        )
        if self._purged < self._flushed:
            storage.read('DELETE FROM ".gtids" WHERE number <= ?', (self._flushed,))
            self._purged = self._flushed

    def committed(self, gtid: GtidSet, *, own: bool, prepared: bool) -> None:
        """After the commit; `prepared` says that `prepare` was called before it."""
        if not self._at_commit(own):
            return
        if self._as_designed() or not prepared:
            self._table.save(gtid)
            self._counted(1)
            return
        self._pending |= gtid
        self._wake.set()

    def flush(self) -> None:
        """Moves what was committed into the table."""
        if not self._pending:
            return
        self._table.save(self._pending)
        self._flushed = self._journaled
        self._flushes += 1
        count = len(self._pending)
        self._pending = GtidSet()
        self._counted(count)

    def _counted(self, gtids: int) -> None:
        self._count += gtids
        period = 0 if self.logging.binary_log else self._period()
        due = self._count > period if period else self._flushes >= _FLUSHES
        if due:
            self._request_compression()

    def _request_compression(self) -> None:
        self.thread_state = COMPRESSING
        self._wake.set()

    def _compress(self) -> None:
        self._table.compress()
        self._count = self._flushes = 0
        self.thread_state = SUSPENDED

    # The binary log begins a new file, or the server ends.

    def rotate(self, executed: GtidSet) -> None:
        """FLUSH BINARY LOGS: the table gets the GTIDs of the last file, and is compressed."""
        self.flush()
        if self.logging.binary_log:
            self.save(executed)
            self._binlog.rotate()
            self._request_compression()

    def save(self, gtids: GtidSet) -> None:
        """Adds what the table lacks of `gtids`."""
        self._table.save(gtids - self._table.fetch())

    def shut_down(self, executed: GtidSet) -> None:
        """The server shuts down normally."""
        self.flush()
        if self.logging.binary_log:
            self.save(executed)
        self._compress()

    def reset(self) -> None:
        """RESET BINARY LOGS AND GTIDS."""
        self._pending = GtidSet()
        self._epoch += 1
        self._table.reset()

    # After a crash.

    def recover(self) -> tuple[GtidSet, GtidSet]:
        """`gtid_executed` and `gtid_purged`, from nothing but the table, the journal and the log.

        Raises:
            MalformedGtidSetError: a client wrote rows into the table that are not GTIDs.
        """
        self._pending = self._journal() - self._table.fetch()
        self.flush()
        logged = self._binlog.gtids if self.logging.binary_log else GtidSet()
        executed = self._table.fetch() | logged
        self.save(executed)
        self._compress()
        return executed, executed - logged

    def _journal(self) -> GtidSet:
        rows = self._engine.own.read('SELECT gtid FROM ".gtids" WHERE epoch = ?', (self._epoch,))[1]
        return GtidSet.parse(",".join(str(gtid) for (gtid,) in rows))
