"""Which transactions a server has executed, which GTIDs are owned, and who waits for more."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from protocol.gtid import Gtid, GtidSet


class GtidState:
    """The ``gtid_executed``, ``gtid_purged`` and ``gtid_owned`` of one server.

    Attributes:
        server_uuid: the UUID under which the server numbers its own transactions.
        executed: every transaction that is committed and visible to new reads.
        purged: those of them that its binary log does not have.
        owned: GTIDs that are about to be committed, each with the thread that does it.
    """

    def __init__(self, server_uuid: str) -> None:
        self.server_uuid = server_uuid
        self.executed = GtidSet()
        self.purged = GtidSet()
        self.owned: dict[Gtid, int] = {}
        self._next: dict[str, int] = {}
        self._waiting: list[tuple[GtidSet, asyncio.Future[None]]] = []
        self._released: list[asyncio.Future[None]] = []

    def next_gtid(self, tag: str = "") -> GtidSet:
        """The GTID of the server's own next transaction: the lowest number that is free."""
        tsid = f"{self.server_uuid}:{tag}" if tag else self.server_uuid
        number = self._next.get(tsid, 1)
        while (gtid := Gtid(tsid, number)) in self.executed or gtid in self.owned:
            number += 1
        self._next[tsid] = number
        return GtidSet({tsid: [(number, number + 1)]})

    def add(self, gtids: GtidSet) -> None:
        """Notes that `gtids` are visible now, and wakes those that waited for them."""
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
        self.restore(GtidSet(), GtidSet())

    def restore(self, executed: GtidSet, purged: GtidSet) -> None:
        """Sets what the server finds when it starts."""
        self.executed = executed
        self.purged = purged
        self._next = {}

    async def wait(self, wanted: GtidSet, seconds: float) -> bool:
        """Whether `wanted` was executed in time; 0 seconds waits for ever (fact 4.1)."""
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

    # Ownership.

    async def own(self, gtid: Gtid, thread: int) -> bool:
        """Takes a GTID that is to be committed next, as soon as no other thread owns it.

        Returns:
            False if it has been executed, maybe by the thread that owned it.
        """
        while gtid in self.owned:
            released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._released.append(released)
            await released
        if gtid in self.executed:
            return False
        self.owned[gtid] = thread
        return True

    @contextmanager
    def spoken_for(self, gtids: GtidSet, thread: int) -> Iterator[None]:
        """Owns a GTID while its transaction is in the binary log, but not committed yet."""
        found = [
            Gtid(tsid, number)
            for tsid in gtids.tsids
            for start, end in gtids.intervals(tsid)
            for number in range(start, end)
        ]
        newly_owned = [gtid for gtid in found if gtid not in self.owned]
        self.owned |= dict.fromkeys(newly_owned, thread)
        try:
            yield
        finally:
            for gtid in newly_owned:
                self.release(gtid)

    def release(self, gtid: Gtid) -> None:
        """A GTID was committed, or rolled back, and is no longer owned."""
        self.owned.pop(gtid, None)
        for released in self._released:
            if not released.done():
                released.set_result(None)
        self._released.clear()

    @property
    def owned_text(self) -> str:
        """`@@GLOBAL.gtid_owned`: ``uuid:number#thread``, without separators between UUIDs."""
        groups: dict[str, str] = {}
        for (tsid, number), thread in sorted(self.owned.items()):
            groups[tsid] = f"{groups.get(tsid, '')}:{number}#{thread}"
        return "".join(f"{tsid}{numbers}" for tsid, numbers in groups.items())
