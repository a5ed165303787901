"""Looks up again what the servers' host names lead to, and leaves addresses that are gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from proxy import open_files, tasks
from proxy.error_text import error_text
from proxy.server.connect.lookup import look_up

if TYPE_CHECKING:
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_LONGEST_INTERVAL_S: Final = 5.0
"""Between two lookups of a name, where `monitor-interval` is longer."""
_SLOW_S: Final = 10.0


class NameWatch:
    """Watches the names of one worker's servers; it needs no account.

    A resolver that fails or hangs changes nothing: the last answer counts.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._task: asyncio.Task[None] | None = None
        self._lookups: dict[Server, tuple[float, asyncio.Task[None]]] = {}  # since when
        self._failing: set[Server] = set()  # which was logged
        self._rotating: set[Server] = set()  # likewise

    def start(self) -> None:
        """Begin to watch."""
        self._task = tasks.start(self._watch(), "names of servers")

    async def stop(self) -> None:
        """Watch no more."""
        running = [self._task] if self._task is not None else []
        await tasks.stop(*running, *(task for _, task in self._lookups.values()))

    async def _watch(self) -> None:
        while True:
            self.look()
            interval = self._shared.config.monitor_interval
            await asyncio.sleep(min(interval, _LONGEST_INTERVAL_S))

    def look(self) -> None:
        """Look up every name whose last lookup has ended."""
        now = self._shared.now()
        servers = self._shared.topology.watched
        self._failing.intersection_update(servers)
        self._rotating.intersection_update(servers)
        for server in servers:
            if server.addresses.fixed:
                continue
            self._shared.pool.drop_elsewhere(server)
            began_at, task = self._lookups.get(server, (now, None))
            if task is None:
                task = tasks.start(self._look_up(server), f"resolve {server.name}")
                self._lookups[server] = now, task
            elif now - began_at > _SLOW_S:
                self._fails(server, "the resolver does not answer")

    async def _look_up(self, server: Server) -> None:
        try:
            answer = await look_up(server)
        except OSError as error:
            if open_files.is_exhausted(error):
                open_files.report(error)
            else:
                self._fails(server, error_text(error))
        else:
            self._take(server, answer)
        finally:
            del self._lookups[server]

    def _take(self, server: Server, answer: tuple[str, ...]) -> None:
        if server in self._failing:
            self._failing.discard(server)
            _log.info("the name of server %s is known again", server.name)
        addresses = server.addresses
        gone = addresses.add(answer)
        if gone:
            self._leave(server, gone)
        if addresses.rotates and server not in self._rotating:
            self._rotating.add(server)
            _log.warning(
                "the name of server %s leads to several addresses in turn; this proxy stays with"
                " one of them as long as the name leads there: name each server by a name of its"
                " own",
                server.name,
            )

    def _leave(self, server: Server, gone: str) -> None:
        """The name does not lead to that address any more."""
        shared = self._shared
        _log.warning(
            "the name of server %s does not lead to %s any more, but to %s: connections to the old"
            " address are left",
            server.name,
            gone,
            ", ".join(server.addresses.answer),
        )
        shared.pool.drop_all(server, "moved")
        server.on_moved(shared.now())

    def _fails(self, server: Server, cause: str) -> None:
        if server in self._failing:
            return
        self._failing.add(server)
        _log.warning(
            "what the name of server %s leads to cannot be looked up: %s; %s",
            server.name,
            cause,
            "the last answer counts"
            if server.addresses.answer
            else "no connection can be made before it is known",
        )
