"""The commit order manager (WL#6813): what was committed first at the source comes first here."""

import asyncio
from typing import Final

from mysql_mocker.error import MySQLError

STOPPED_BY_OLDER: Final = MySQLError(
    3030,
    "HY000",
    "Replica worker has stopped after at least one previous worker encountered an error when "
    "replica-preserve-commit-order was enabled. To preserve commit order, the last transaction "
    "executed by this thread has not been committed. When restarting replication after fixing any "
    "failed threads, you should fix this worker as well.",
)


def deadlock() -> MySQLError:
    """1213: the transaction is rolled back and tried again."""
    return MySQLError(
        1213, "40001", "Deadlock found when trying to get lock; try restarting transaction"
    )


class CurrentCommand:
    """The place of one transaction in the queue."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.called: asyncio.Future[None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether the transaction has run and waits for older ones."""
        return self.called is not None

    def fail(self, error: MySQLError) -> None:
        """Ends its waiting in an error."""
        if self.called is not None and not self.called.done():
            self.called.set_exception(error)


class CommitOrder:
    """The queue of transactions that are being applied, the oldest first.

    Attributes:
        kept: replica_preserve_commit_order; if it is off, no transaction waits.
    """

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        self._queue: list[CurrentCommand] = []
        self._count = 0
        self._failed: int | None = None  # transactions younger than this are rolled back

    def register(self) -> CurrentCommand:
        """A transaction is given to a worker; the coordinator calls this in the source's order."""
        self._count += 1
        current = CurrentCommand(self._count)
        self._queue.append(current)
        return current

    async def wait(self, current: CurrentCommand) -> None:
        """Waits until all older transactions were committed.

        Raises:
            MySQLError: 3030 because an older one failed, or what `CurrentCommand.fail` was given.
        """
        if not self.kept:
            return
        if self._is_behind_failure(current):
            raise STOPPED_BY_OLDER
        if self._queue[0] is current:
            return
        current.called = asyncio.get_running_loop().create_future()
        try:
            await current.called
        finally:
            current.called = None

    def signal(self, current: CurrentCommand, *, failed: bool) -> None:
        """A transaction was committed, or given up: the next one may commit, or none any more."""
        self._queue.remove(current)
        if failed and self.kept:
            self._failed = min(current.number, self._failed or current.number)
        for other in self._queue:
            if self._is_behind_failure(other):
                other.fail(STOPPED_BY_OLDER)
        if self._queue and self._queue[0].called is not None and not self._queue[0].called.done():
            self._queue[0].called.set_result(None)

    def stop(self) -> None:
        """STOP REPLICA: the oldest is finished, those that wait for it are rolled back."""
        if self.kept and self._queue:
            self._failed = min(self._queue[0].number, self._failed or self._queue[0].number)
            for current in self._queue[1:]:
                current.fail(STOPPED_BY_OLDER)

    def _is_behind_failure(self, current: CurrentCommand) -> bool:
        return self._failed is not None and current.number > self._failed
