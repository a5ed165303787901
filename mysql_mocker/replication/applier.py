"""The applier of a replica: a coordinator that gives the source's transactions to workers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mysql_mocker.error import MySQLError
from mysql_mocker.replication.binlog import Binlog, Transaction
from mysql_mocker.replication.commit_order import STOPPED_BY_OLDER, CommitOrder, CurrentCommand
from mysql_mocker.replication.footprint import Footprint
from mysql_mocker.replication.gtid_state import GtidState
from mysql_mocker.replication.row_locks import RowLocks
from protocol.gtid import Gtid

_TRANSIENT: Final = frozenset((1205, 1213))
_FIRST_THREAD: Final = 11


@dataclass(frozen=True, slots=True)
class ApplierSettings:
    """How a replica applies.

    Attributes:
        workers: replica_parallel_workers.
        in_order: replica_preserve_commit_order.
        retries: replica_transaction_retries.
        lock_seconds: innodb_lock_wait_timeout.
    """

    workers: int = 4
    in_order: bool = True
    retries: int = 10
    lock_seconds: float = 50.0


def _now_us() -> int:
    return time.time_ns() // 1000


class Applied(NamedTuple):
    """A transaction, and when its application began and ended, in microseconds UTC."""

    transaction: Transaction
    began_us: int
    ended_us: int
    retries: int = 0


@dataclass(slots=True, eq=False)
class Job:
    """A transaction in the hands of a worker.

    Attributes:
        position: its place in the source's binary log.
        depends: what it depends on, as the source sees it.
        worker: number of the worker, from 0.
        began_us: UTC, when it was given the transaction.
        retries: how often it was rolled back and begun anew.
    """

    transaction: Transaction
    position: int
    current: CurrentCommand
    depends: Footprint
    worker: int
    began_us: int
    retries: int = 0
    task: asyncio.Task[None] | None = field(default=None)


class Applier:
    """Applies a source's transactions; those that do not overlap are applied at the same time.

    Args:
        source: the log whose transactions are applied.
        state: the replica's GTIDs.
        apply: makes a transaction visible, with its GTID; all of it or nothing.
        delay: seconds between a commit on the source and its commit here.
        settings: asked when the applier starts.
        has_key: whether a table of the replica has a primary key.
        held: is awaited before a transaction takes its locks.

    Attributes:
        source: the log that it reads.
        applied: what each worker has applied last; empty after a stop.
        jobs: what is being applied.
        settings: those in force since it was started.
        error: why it stopped by itself, if it did.
        retried: how often transactions were begun anew.
    """

    def __init__(
        self,
        source: Binlog,
        state: GtidState,
        apply: Callable[[Transaction], Awaitable[None]],
        delay: float,
        settings: Callable[[], ApplierSettings] = ApplierSettings,
        has_key: Callable[[str], bool] = lambda _table: True,
        held: Callable[[Transaction], Awaitable[None]] | None = None,
    ) -> None:
        self.error: MySQLError | None = None
        self.applied: dict[int, Applied] = {}
        self.retried = 0
        self.source = source
        self._state = state
        self._apply = apply
        self._delay = delay
        self._ask_settings = settings
        self._has_key = has_key
        self._held = held
        self._position = 0
        self._resets = source.resets
        self._running = True
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.jobs: list[Job] = []
        self._begin()

    def _begin(self) -> None:
        self.settings = self._ask_settings()
        self._order = CommitOrder(self.settings.in_order)
        self._locks = RowLocks(self._order)

    @property
    def delay(self) -> float:
        """Seconds between a transaction's commit on the source and its commit here."""
        return self._delay

    @delay.setter
    def delay(self, seconds: float) -> None:
        self._delay = seconds
        self._changed.set()

    @property
    def running(self) -> bool:
        """Whether transactions are applied (STOP REPLICA and START REPLICA change it).

        Without a commit order, the transactions that workers have begun are still finished, so that
        a stop leaves no gap; with one, those that wait for their turn are rolled back.
        """
        return self._running

    @running.setter
    def running(self, running: bool) -> None:
        if running and not self._running:
            self.error = None
            if not self.jobs:
                self._begin()
        self._running = running
        if not running:
            self.applied = {}
            self._order.stop()
        self._changed.set()

    async def settled(self) -> None:
        """Waits until no worker has anything to do, after a stop."""
        while self.jobs:
            self._idle.clear()
            await self._idle.wait()

    @property
    def pending(self) -> int:
        """Transactions of the source that were not applied yet, or not looked at."""
        return len(self.source.transactions) - self._position + len(self.jobs)

    def start(self) -> None:
        """Begins to apply; must run inside the event loop."""
        self.source.listen(self._changed.set)
        self._begin()
        self._task = asyncio.create_task(self._run(), name="mocker applier")

    async def stop(self) -> None:
        """Ends the tasks; what was not applied stays where it is."""
        self.source.forget(self._changed.set)
        tasks = [job.task for job in self.jobs if job.task is not None]
        if self._task is not None:
            tasks.append(self._task)
            self._task = None
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def follow(self, source: Binlog) -> None:
        """Takes another source; transactions that this server has executed are skipped."""
        was_started = self._task is not None
        await self.stop()
        self.source = source
        self._position = 0
        self._resets = source.resets
        if was_started:
            self.start()

    # The coordinator.

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            transaction = self._next()
            wait: float | None = None
            if transaction is not None and self._running:
                wait = transaction.committed_at + self._delay - loop.time()
                if wait <= 0:
                    wait = None
                    if self._give(transaction):
                        continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _next(self) -> Transaction | None:
        transactions = self.source.transactions
        if self._resets != self.source.resets:
            self._resets = self.source.resets
            self._position = 0
        while self._position < len(transactions):
            transaction = transactions[self._position]
            if not transaction.gtid <= self._state.executed:
                return transaction
            self._position += 1
        return None

    def _give(self, transaction: Transaction) -> bool:
        """Gives a transaction to a worker, if one is free and the transaction overlaps no job."""
        busy = {job.worker for job in self.jobs}
        free = [worker for worker in range(self.settings.workers) if worker not in busy]
        depends = Footprint.of(transaction.writes, lambda _table: True)
        if not free or any(job.depends.overlaps(depends) for job in self.jobs):
            return False
        job = Job(transaction, self._position, self._order.register(), depends, free[0], _now_us())
        self._position += 1
        self.jobs.append(job)
        job.task = asyncio.create_task(self._work(job), name=f"mocker worker {free[0]}")
        return True

    # The workers.

    async def _work(self, job: Job) -> None:
        failed = True
        tsid = job.transaction.gtid.tsids[0]
        gtid = Gtid(tsid, job.transaction.gtid.intervals(tsid)[0][0])
        self._state.owned.setdefault(gtid, _FIRST_THREAD + job.worker)
        try:
            await self._until_applied(job)
            failed = False
        except MySQLError as error:
            self._fail(error)
        else:
            self.applied[job.worker] = Applied(
                job.transaction, job.began_us, _now_us(), job.retries
            )
        finally:
            self._state.release(gtid)
            self.jobs.remove(job)
            self._order.signal(job.current, failed=failed)
            if failed:
                self._position = min(self._position, job.position)
            self._changed.set()
            self._idle.set()

    async def _until_applied(self, job: Job) -> None:
        while True:
            try:
                await self._apply_once(job)
            except MySQLError as error:
                if error.code not in _TRANSIENT or job.retries >= self.settings.retries:
                    raise
                job.retries += 1
                self.retried += 1
            else:
                return

    async def _apply_once(self, job: Job) -> None:
        """Runs a transaction, waits for its turn, and commits it.

        The storage has one writer, so a transaction writes all its rows in one go at its commit.
        Until then it only holds the locks.
        """
        if self._held is not None:
            await self._held(job.transaction)
        locked = Footprint.of(job.transaction.writes, self._has_key)
        try:
            await self._locks.acquire(job.current, locked, self.settings.lock_seconds)
            self._locks.check(job.current)
            await self._order.wait(job.current)
            await self._apply(job.transaction)
        finally:
            self._locks.release(job.current)

    def _fail(self, error: MySQLError) -> None:
        """Stops the applier if the data contradict a transaction, as the server's does."""
        if error is STOPPED_BY_OLDER:
            return
        self.error = error
        self._running = False
