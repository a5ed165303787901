"""Locks that transactions of parallel workers hold until they are committed."""

import asyncio

from mysql_mocker.error import lock_wait_timeout
from mysql_mocker.replication.commit_order import CommitOrder, CurrentCommand, deadlock
from mysql_mocker.replication.footprint import Footprint


class RowLocks:
    """Which transactions hold the rows of which footprints, and which wait for them.

    If the commit order is kept, a transaction that waits for its turn can hold what an older one
    needs; neither would ever go on. Then the younger one is rolled back, as in the server.
    """

    def __init__(self, order: CommitOrder) -> None:
        self._order = order
        self._held: dict[CurrentCommand, Footprint] = {}
        self._waiting: dict[CurrentCommand, Footprint] = {}
        self._released = asyncio.Event()

    async def acquire(self, current: CurrentCommand, wanted: Footprint, seconds: float) -> None:
        """Waits until no other transaction holds what is wanted, and no older one waits for it.

        Raises:
            MySQLError: 1205 after `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._is_blocked(current, wanted):
                    self._waiting[current] = wanted
                    for holder in self._holders(current, wanted):
                        if holder.waiting and holder.number > current.number:
                            holder.fail(deadlock())
                    self._released.clear()
                    await self._released.wait()
        except TimeoutError:
            raise lock_wait_timeout() from None
        finally:
            if self._waiting.pop(current, None) is not None:
                self._released.set()
        self._held[current] = wanted

    def _is_blocked(self, current: CurrentCommand, wanted: Footprint) -> bool:
        older = (want for other, want in self._waiting.items() if other.number < current.number)
        return bool(self._holders(current, wanted)) or any(want.overlaps(wanted) for want in older)

    def _holders(self, current: CurrentCommand, wanted: Footprint) -> list[CurrentCommand]:
        return [
            holder
            for holder, held in self._held.items()
            if holder is not current and held.overlaps(wanted)
        ]

    def check(self, current: CurrentCommand) -> None:
        """Checks a transaction before it waits for its turn.

        Raises:
            MySQLError: 1213 if an older one waits for what this one holds.
        """
        held = self._held.get(current)
        if not self._order.kept or held is None:
            return
        for older, wanted in self._waiting.items():
            if older.number < current.number and held.overlaps(wanted):
                raise deadlock()

    def release(self, current: CurrentCommand) -> None:
        """A transaction was committed or rolled back: frees what it held."""
        if self._held.pop(current, None) is not None:
            self._released.set()
