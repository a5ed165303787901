"""Accepts connections at one address; where it cannot, it tries again after a while.

An event loop's own server stops for good where `accept` fails, or drops clients silently.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from proxy import tasks
from proxy.address import LOCALHOST, Address
from proxy.error_text import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024

_AT_ONCE: Final = 64
"""Most connections that are accepted in one turn of the event loop."""

_REST_S: Final = 1.0
"""Pause after `accept` has failed; clients that connect meanwhile wait in the backlog."""


class Acceptor:
    """Hands each connection to `take`, as a task of its own, with its client's ``HOST:PORT``.

    A client at a Unix socket is `LOCALHOST`. The address is told here: a client that has left
    already can no longer be asked for it.
    """

    def __init__(
        self,
        address: Address,
        take: Callable[[socket.socket, str], Coroutine[object, object, None]],
    ) -> None:
        self._address = address
        self._take = take
        self._sockets: list[socket.socket] = []
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._lacking = False  # `accept` failed, which was logged
        self._paused = False

    def start_at(self, listening: socket.socket) -> None:
        """Accept at a socket that is bound; it is closed at the stop.

        Raises:
            OSError: it cannot listen.
        """
        listening.setblocking(False)
        if listening.family != socket.AF_UNIX:
            # A later start binds beside connections that this one has closed.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.listen(_BACKLOG)
        self._sockets.append(listening)
        self._listen(listening)

    def pause(self) -> None:
        """Accept no connections for now; they wait in the backlog."""
        if self._paused:
            return
        self._paused = True
        for listening in self._sockets:
            if listening in self._resting:
                self._resting.pop(listening).cancel()
            else:
                asyncio.get_running_loop().remove_reader(listening)

    def resume(self) -> None:
        """Accept connections again."""
        if self._paused:
            self._paused = False
            for listening in self._sockets:
                self._listen(listening)

    def stop(self) -> None:
        """Accept no more connections."""
        self.pause()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    def _listen(self, listening: socket.socket) -> None:
        self._resting.pop(listening, None)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, client = listening.accept()
            except BlockingIOError:  # no more connections wait
                if self._lacking:
                    self._lacking = False
                    _log.info("clients are accepted at %s again", self._address)
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            accepted.setblocking(False)
            unix = listening.family == socket.AF_UNIX
            peer = LOCALHOST if unix else str(Address(client[0], client[1]))
            tasks.start(self._take(accepted, peer), "welcome a client")

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Pause: what is lacking, most likely open files (EMFILE, ENFILE), may be free later."""
        if not self._lacking:
            self._lacking = True
            _log.error(
                "no client can be accepted at %s: %s; trying again every %g s",
                self._address,
                error_text(error),
                _REST_S,
            )
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._resting[listening] = loop.call_later(_REST_S, self._listen, listening)
