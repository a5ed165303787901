"""Gives up reads that wait for a replica which does not send anything any more.

A frozen server keeps its connections open, and one that has vanished leaves them to the time-outs
of TCP. Neither greets a new connection: so a new connection is the question for a sign of life.
Reads of which the client has seen nothing then run on the primary; state that only the replica has
is lost with it, as if its connection had broken.

This costs only a regular look at all sessions; no statement has a timer of its own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from errno import EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError
from proxy import open_files, tasks
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.monitor.primary_search import PrimarySearch
from proxy.server.connect.greeting import await_greeting_on, connect
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from routing.servers.liveness_timer import QUIET_S, LivenessTimer

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_INTERVAL_S: Final = 0.5
"""Between two looks."""
_OURS: Final = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL})


class Liveness:
    """Watches all replicas of one worker."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._task: asyncio.Task[None] | None = None
        self._search = PrimarySearch(shared)
        self._timers: dict[Server, LivenessTimer] = {}
        self._questions: dict[Server, asyncio.Task[None]] = {}
        self._dead: set[Server] = set()
        # How much the connections that keep a read waiting had sent, and since when it is no more.
        self._waiting: dict[ServerConnection, tuple[int, float]] = {}

    def start(self) -> None:
        """Begin to look."""
        self._task = tasks.start(self._watch(), "signs of life")
        self._search.start()

    async def stop(self) -> None:
        """Look no more."""
        running = [self._task] if self._task is not None else []
        await tasks.stop(*running, *self._questions.values())
        await self._search.stop()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Ask servers that are in doubt, and give up those that do not answer."""
        shared = self._shared
        now = shared.now()
        patience = shared.config.connect_timeout
        waiting = self._look_at_reads(now)
        # A read under way may wait for a server that is none of the topology's any more.
        servers = dict.fromkeys((*shared.topology.servers, *waiting))
        self._timers = {
            server: self._timers[server] for server in self._timers if server in servers
        }
        self._dead &= servers.keys()
        for server in servers:
            timer = self._timers.get(server)
            if timer is None:
                timer = self._timers[server] = LivenessTimer(patience)
            timer.patience = patience
            timer.look(server.packets_received, now)
            silent = waiting.get(server, [])
            if silent and timer.is_in_question(
                min(self._waiting[connection][1] for connection in silent), now
            ):
                timer.ask(now)
                if server not in self._questions:
                    task = tasks.start(self._ask(server, timer), f"ask {server.name}")
                    self._questions[server] = task
            if timer.is_dead(now):
                self._leave(
                    server,
                    [
                        connection
                        for connection in silent
                        if now - self._waiting[connection][1] > QUIET_S
                    ],
                )
            elif server in self._dead:
                self._dead.remove(server)
                _log.info("replica %s answers again", server.name)

    def _look_at_reads(self, now: float) -> dict[Server, list[ServerConnection]]:
        """The replicas' connections on which a client waits; `_waiting` knows since when."""
        found: dict[Server, list[ServerConnection]] = {}
        waiting = {}
        for session in self._shared.sessions:
            connection = session.keeps_waiting
            if connection is None:
                continue
            received = connection.packets_received
            before = self._waiting.get(connection)
            waiting[connection] = (
                (received, now) if before is None or before[0] != received else before
            )
            found.setdefault(connection.server, []).append(connection)
        self._waiting = waiting
        return found

    def _leave(self, server: Server, connections: list[ServerConnection]) -> None:
        """It does not answer: no read may wait for it, or be sent there."""
        now = self._shared.now()
        if server not in self._dead:
            self._dead.add(server)
            _log.warning(
                "replica %s says nothing any more, nor does it answer who connects; %d reads leave",
                server.name,
                len(connections),
            )
        server.set_silent(now + 2 * _INTERVAL_S)
        self._shared.pool.drop_all(server, "lost")
        self._shared.metrics.server_up(server.name, False)
        for connection in connections:
            connection.give_up("it says nothing, and does not answer who connects")

    async def _ask(self, server: Server, timer: LivenessTimer) -> None:
        """Connect, and wait for the greeting, for as long as it takes.

        A connection that was made is not given up for another one: a server that wakes up would
            count each one that ended without a packet (max_connect_errors).
        """
        try:
            while timer.asked_at is not None:
                try:
                    await self._hear(server)
                except TimeoutError:
                    continue
                except (
                    OSError,
                    ServerUnreachableError,
                    ChannelClosedError,
                    ProtocolError,
                ) as error:
                    if _is_ours(error):
                        if open_files.is_exhausted(error):
                            open_files.report(error)
                        else:
                            _log.warning(
                                "replica %s cannot be asked: %s", server.name, error_text(error)
                            )
                        timer.withdraw()
                        return
                    timer.refused = True
                    await asyncio.sleep(_INTERVAL_S)
                else:
                    server.packets_received += 1
                    server.set_reachable()
                    self._shared.metrics.server_up(server.name, True)
                    return
        finally:
            del self._questions[server]

    async def _hear(self, server: Server) -> None:
        """Return when it has sent something.

        Raises:
            TimeoutError: the connection was not accepted.
            OSError, ServerUnreachableError, ChannelClosedError, ProtocolError: nobody will answer.
        """
        async with asyncio.timeout(self._shared.config.connect_timeout):
            channel = await connect(server)
        try:
            attempt = await await_greeting_on(channel, server)
        except ServerRefusedError:
            return  # by a server that is alive
        attempt.leave()


def _is_ours(error: Exception) -> bool:
    """Whether it is about this machine, or the server's name, and not about the server."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
        return error.errno in _OURS
    return isinstance(error, (ServerUnreachableError, socket.gaierror))
