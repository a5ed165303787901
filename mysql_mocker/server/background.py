"""An event loop in a thread of its own, for programs that do not run one, and a cluster in it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self, TypeVar

from mysql_mocker.server.cluster import Cluster

_T = TypeVar("_T")


class LoopThread:
    """Runs an event loop in a thread, from `start` to `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mysql_mocker", daemon=True
        )

    def start(self) -> None:
        """Begins; once only."""
        self._thread.start()

    def stop(self) -> None:
        """Ends for good."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        """What the coroutine gives: ``mocker.run(mocker.cluster.primary.restart())``."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, function: Callable[[], _T]) -> _T:
        """What the function gives: ``mocker.call(lambda: mocker.cluster.primary.port)``."""

        async def inside() -> _T:
            return function()

        return self.run(inside())


class BackgroundCluster(LoopThread):
    """Runs a `Cluster` in a thread, for as long as the context lasts.

    Everything about the cluster belongs to that thread: look at it and change it through `call`
    and `run`.

    Args:
        make: makes the cluster, in its thread.

    Attributes:
        cluster: set inside the context.
    """

    cluster: Cluster

    def __init__(self, make: Callable[[], Cluster]) -> None:
        super().__init__()
        self._make = make

    def __enter__(self) -> Self:
        self.start()
        self.cluster = self.run(self._enter())
        return self

    async def _enter(self) -> Cluster:
        return await self._make().__aenter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(self.cluster.__aexit__(kind, error, traceback))
        self.stop()
