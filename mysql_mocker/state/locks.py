"""GET_LOCK(): named locks of a server."""

import asyncio


class NamedLocks:
    """Which session holds which lock, and how often it took it."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}
        self._waiting: list[asyncio.Future[None]] = []

    async def acquire(self, name: str, session: int) -> bool:
        """Waits until the lock is free or the session's own, and takes it."""
        while self.holder(name) not in (None, session):
            released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(released)
            await released
        count = self._held.get(name, (session, 0))[1]
        self._held[name] = (session, count + 1)
        return True

    def holder(self, name: str) -> int | None:
        """The session that holds the lock."""
        held = self._held.get(name)
        return None if held is None else held[0]

    def release(self, name: str, session: int) -> int | None:
        """1 if it was released, 0 if another session holds it, None if nobody does."""
        held = self._held.get(name)
        if held is None:
            return None
        if held[0] != session:
            return 0
        if held[1] > 1:
            self._held[name] = (session, held[1] - 1)
        else:
            del self._held[name]
            self._wake()
        return 1

    def release_all(self, session: int) -> int:
        """Releases all locks of a session; returns how many there were."""
        own = [name for name, (holder, _) in self._held.items() if holder == session]
        count = sum(self._held.pop(name)[1] for name in own)
        self._wake()
        return count

    def _wake(self) -> None:
        for released in self._waiting:
            if not released.done():
                released.set_result(None)
        self._waiting.clear()
