"""A cluster of the mocker's in a thread of its own, for tests that do not run an event loop."""

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.loop_thread import LoopThread

_T = TypeVar("_T")


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

    def call(self, function: Callable[[], _T]) -> _T:
        """What the function gives: ``mocker.call(lambda: mocker.cluster.primary.port)``."""

        async def inside() -> _T:
            return function()

        return self.run(inside())
