"""WAITs in flight, shared by reads that wait for the same thing on one replica.

A read that joins sends nothing until the wait it joined has ended. That costs it a round trip
more than a WAIT of its own, which goes out with the statement in one write; so only waits are
joined that have shown to take long. Each read still has its own budget.
"""

from typing import Final, Protocol

from protocol.gtid import GtidSet
from routing.servers.topology import Server

_LONG_S: Final = 0.002
"""A wait that has lasted so long is worth joining: it dwarfs a round trip."""


class Follower(Protocol):
    """A read that relies on another one's WAIT."""

    def on_released(self) -> None:
        """The WAIT has ended, well or not."""


class Wait:
    """A WAIT in flight, and the reads that rely on it.

    A read that joins adds itself, and removes itself if it does not wait for the end.

    Attributes:
        server: where it waits.
        gtids: what it waits for.
        since: when it was sent, monotonic s.
        joined: reads that sent none of their own.
    """

    __slots__ = ("gtids", "joined", "server", "since")

    def __init__(self, server: Server, gtids: GtidSet, since: float) -> None:
        self.server = server
        self.gtids = gtids
        self.since = since
        self.joined: list[Follower] = []


class Waits:
    """All WAITs of one worker, by replica."""

    def __init__(self) -> None:
        self._waits: dict[Server, list[Wait]] = {}

    def begin(self, server: Server, gtids: GtidSet, now: float) -> Wait:
        """A WAIT is sent."""
        wait = Wait(server, gtids, now)
        waits = self._waits.get(server)
        if waits is None:
            waits = self._waits[server] = []
        waits.append(wait)
        return wait

    def find(self, server: Server, gtids: GtidSet, now: float) -> Wait | None:
        """A WAIT in flight for exactly this set, if there is one that has lasted long.

        A WAIT for more might take longer.
        """
        for wait in self._waits.get(server, ()):
            if now - wait.since >= _LONG_S and gtids == wait.gtids:
                return wait
        return None

    def end(self, wait: Wait) -> None:
        """It was answered, or nobody will hear its answer: let those who joined decide again."""
        waits = self._waits.get(wait.server, [])
        if wait in waits:
            waits.remove(wait)
        if wait.joined:
            joined, wait.joined = wait.joined, []
            for follower in joined:
                follower.on_released()
