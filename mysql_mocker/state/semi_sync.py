"""Semi-synchronous replication: commits that wait until a replica has them."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

TIMEOUT_SECONDS: Final = 10.0
"""`rpl_semi_sync_source_timeout`, as a server has it."""

_LOOK_SECONDS: Final = 0.005


class WaitPoint(Enum):
    """Where a commit waits (`rpl_semi_sync_source_wait_point`), if it does."""

    OFF = "off"
    AFTER_SYNC = "after_sync"
    AFTER_COMMIT = "after_commit"


class Replica(Protocol):
    """A replica, which acknowledges transactions.

    Attributes:
        ack_delay: seconds until it does.
    """

    ack_delay: float

    @property
    def running(self) -> bool:
        """Whether it runs."""
        ...

    @property
    def frozen(self) -> bool:
        """Whether it is stopped by a signal."""
        ...


class SemiSync:
    """What a primary waits for.

    A replica that runs acknowledges a transaction `ack_delay` after it was written to the binary
    log, whether it has applied it or not. If none does within `timeout`, the primary no longer
    waits, until one has acknowledged the transaction on which the primary last gave up.

    AFTER_SYNC waits before the transaction is visible here, though replicas have it and may show
    it; AFTER_COMMIT waits after that, so that everybody sees a transaction of which its own client
    has not been told yet.

    Attributes:
        replicas: returns those that follow the server now.
        timeout: seconds.
        given_up: when the transaction on which it last gave up was logged, on the event loop's
            clock; None while it waits.
    """

    def __init__(self) -> None:
        self.replicas: Callable[[], Sequence[Replica]] = tuple
        self.point = WaitPoint.OFF
        self.timeout = TIMEOUT_SECONDS
        self.given_up: float | None = None

    async def acknowledged(self, logged: float) -> None:
        """Waits until what was logged at this moment is acknowledged, or gives up on it."""
        clock = asyncio.get_running_loop().time
        if self.given_up is not None and self._has(self.given_up, clock()):
            self.given_up = None
        end = clock() + self.timeout
        # Its settings, and those of any replica, may change at any time.
        while self.point is not WaitPoint.OFF and self.given_up is None:
            if self._has(logged, clock()):
                return
            if clock() >= end:
                self.given_up = logged
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _has(self, logged: float, now: float) -> bool:
        return any(
            replica.running and not replica.frozen and now >= logged + replica.ack_delay
            for replica in self.replicas()
        )
