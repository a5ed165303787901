"""A cluster for programs and tests that do not run an event loop."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from mysql_mocker.control.control import Control, Promotion
from mysql_mocker.control.state import ServerState
from mysql_mocker.server.loop_thread import LoopThread
from mysql_mocker.server.server import Server


class BlockingCluster:
    """The cluster of ``with MockCluster(…) as cluster``: in a thread, with blocking verbs.

    Each verb does, and raises, the same as that of `Control`.

    Args:
        control: changes the cluster.
        life: the context in which the cluster runs.
        url: returns the URL of the HTTP interface.
    """

    def __init__(
        self, control: Control, life: AbstractAsyncContextManager[object], url: Callable[[], str]
    ) -> None:
        self._cluster = control
        self._life = life
        self._url = url
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._thread.run(self._enter())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._thread.run(self._leave())
        finally:
            self._thread.stop()

    async def _enter(self) -> None:
        await self._life.__aenter__()

    async def _leave(self) -> None:
        await self._life.__aexit__(None, None, None)

    @property
    def servers(self) -> list[Server]:
        """All servers, as they were made; only `name`, `host`, `port` and `address` are safe."""
        return self._cluster.servers

    @property
    def primary(self) -> Server:
        """The server that takes writes: another one after a promotion."""
        return self._cluster.primary

    @property
    def replicas(self) -> list[Server]:
        """All other servers."""
        return self._cluster.replicas

    @property
    def url(self) -> str:
        """The URL of the HTTP interface; empty if there is none."""
        return self._url()

    def state(self) -> list[ServerState]:
        """The state of all servers."""
        return self._thread.run(self._cluster.state())

    def server(self, name: str) -> ServerState:
        """The state of one server."""
        return self._thread.run(self._cluster.server(name))

    def statements(self, server: str) -> list[str]:
        """The newest statements that clients sent to a server, the oldest first."""
        return self._thread.run(self._cluster.statements(server))

    def set(self, server: str, /, **settings: object) -> None:
        """Changes settings: ``set("replica1", lag="300ms")``."""
        self._thread.run(self._cluster.set(server, **settings))

    def fault(self, server: str, /, **fields: object) -> dict[str, str | int]:
        """Arms a fault: ``fault("primary", match="INSERT", error=1213)``."""
        return self._thread.run(self._cluster.fault(server, **fields))

    def clear(self, server: str = "all", number: int | None = None) -> None:
        """Ends faults."""
        self._thread.run(self._cluster.clear(server, number))

    def disconnect(self, server: str) -> int:
        """Breaks all connections to a server."""
        return self._thread.run(self._cluster.disconnect(server))

    def promote(self, server: str, lose: object = 0) -> Promotion:
        """Makes a replica the primary."""
        return self._thread.run(self._cluster.promote(server, lose))

    def reset(self) -> None:
        """Undoes what `set` and `fault` did."""
        self._thread.run(self._cluster.reset())

    def caught_up(self, within: object = "10s") -> None:
        """Waits until every replica that runs has what the primary has now."""
        self._thread.run(self._cluster.caught_up(within))
