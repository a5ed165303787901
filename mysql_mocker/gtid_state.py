"""Which transactions a server has executed, and who waits for more of them."""

import asyncio

from protocol.gtid import GtidSet


class GtidState:
    """The ``gtid_executed`` of one server.

    Attributes:
        server_uuid: the UUID under which the server numbers its own transactions.
        executed: every transaction that is committed and visible to new reads.
    """

    def __init__(self, server_uuid: str) -> None:
        self.server_uuid = server_uuid
        self.executed = GtidSet()
        self._next = 1
        self._waiting: list[tuple[GtidSet, asyncio.Future[None]]] = []

    def next_gtid(self) -> GtidSet:
        """The GTID of the next own transaction: the lowest number that is free."""
        while f"{self.server_uuid}:{self._next}" in self.executed:
            self._next += 1
        return GtidSet.parse(f"{self.server_uuid}:{self._next}")

    def add(self, gtids: GtidSet) -> None:
        """Says that `gtids` are visible now, and wakes who waited for them."""
        self.executed |= gtids
        still_waiting = []
        for wanted, future in self._waiting:
            if future.done():
                continue
            if wanted <= self.executed:
                future.set_result(None)
            else:
                still_waiting.append((wanted, future))
        self._waiting = still_waiting

    def reset(self) -> None:
        """RESET BINARY LOGS AND GTIDS: the server knows of no transaction."""
        self.executed = GtidSet()
        self._next = 1

    async def wait(self, wanted: GtidSet, seconds: float) -> bool:
        """Whether `wanted` was executed in time; 0 seconds wait for ever (fact 4.1)."""
        if wanted <= self.executed:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        try:
            async with asyncio.timeout(seconds or None):
                await future
        except TimeoutError:
            return False
        finally:
            future.cancel()
        return True
