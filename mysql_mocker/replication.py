"""The applier of a replica: takes the source's transactions and runs them after a delay."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from mysql_mocker.binlog import Binlog, Transaction
from mysql_mocker.error import MySQLError
from mysql_mocker.gtid_state import GtidState


class Applier:
    """Applies a source's transactions in their commit order.

    Attributes:
        error: why it stopped by itself, if it did.
    """

    def __init__(
        self,
        source: Binlog,
        state: GtidState,
        apply: Callable[[Transaction], Awaitable[None]],
        delay: float,
    ) -> None:
        self.error: MySQLError | None = None
        self._source = source
        self._state = state
        self._apply = apply
        self._delay = delay
        self._position = 0
        self._resets = source.resets
        self._running = True
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

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
        """Whether transactions are applied (STOP REPLICA and START REPLICA change it)."""
        return self._running

    @running.setter
    def running(self, running: bool) -> None:
        self._running = running
        if running:
            self.error = None
        self._changed.set()

    @property
    def pending(self) -> int:
        """Transactions of the source that were not looked at yet."""
        return len(self._source.transactions) - self._position

    def start(self) -> None:
        """Begins to apply; must run inside the event loop."""
        self._source.listen(self._changed.set)
        self._task = asyncio.create_task(self._run(), name="mocker applier")

    async def stop(self) -> None:
        """Ends the task; what was not applied stays where it is."""
        self._source.forget(self._changed.set)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def follow(self, source: Binlog) -> None:
        """Takes another source; what this server already executed is skipped."""
        was_started = self._task is not None
        await self.stop()
        self._source = source
        self._position = 0
        self._resets = source.resets
        if was_started:
            self.start()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            transaction = self._next()
            wait: float | None = None
            if transaction is not None and self._running:
                wait = transaction.committed_at + self._delay - loop.time()
                if wait <= 0:
                    await self._apply_one(transaction)
                    continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _next(self) -> Transaction | None:
        transactions = self._source.transactions
        if self._resets != self._source.resets:
            self._resets = self._source.resets
            self._position = 0
        while self._position < len(transactions):
            transaction = transactions[self._position]
            if not transaction.gtid <= self._state.executed:
                return transaction
            self._position += 1
        return None

    async def _apply_one(self, transaction: Transaction) -> None:
        try:
            await self._apply(transaction)
        except MySQLError as error:
            # As the server's applier: it stops where the data contradict the transaction.
            self.error = error
            self._running = False
        else:
            self._position += 1
