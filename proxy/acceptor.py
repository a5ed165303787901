"""Accepts connections at one address; where it cannot, it tries again after a while.

An event loop's own server stops for good where `accept` fails, or drops clients silently.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Final

from proxy import tasks
from proxy.address import LOCALHOST, Address
from proxy.error_text import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024

_AT_ONCE: Final = 64
"""Most connections that are accepted in one turn of the event loop."""

_REST_S: Final = 1.0
"""Pause after `accept` has failed; clients that connect meanwhile wait in the backlog."""


def lacks_ipv6(
    error: OSError, family: socket.AddressFamily, found: Sequence[tuple[object, ...]]
) -> bool:
    """Whether an address cannot be used only because IPv6 is not there, or switched off.

    `found` are all addresses of the name, each with its family first.
    """
    return (
        error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
        and family == socket.AF_INET6
        and any(other[0] == socket.AF_INET for other in found)
    )


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

    async def start(self, *, reuse_port: bool) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be used.
        """
        port = self._address.port
        found = await asyncio.get_running_loop().getaddrinfo(
            self._address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, where in dict.fromkeys(found):
                try:
                    listening = socket.create_server(
                        (where[0], port, *where[2:]),
                        family=family,
                        backlog=_BACKLOG,
                        reuse_port=reuse_port,
                    )
                except OSError as error:
                    if lacks_ipv6(error, family, found):
                        continue
                    raise
                self._sockets.append(listening)
                listening.setblocking(False)
                port = listening.getsockname()[1]
        except OSError:
            self._close()
            raise
        for listening in self._sockets:
            self._listen(listening)
        return port

    def start_at(self, listening: socket.socket) -> None:
        """Accept at a socket that listens already; it is closed at the stop."""
        listening.setblocking(False)
        self._sockets.append(listening)
        self._listen(listening)

    def stop(self) -> None:
        """Accept no more connections."""
        for listening in self._sockets:
            if listening in self._resting:
                self._resting.pop(listening).cancel()
            else:
                asyncio.get_running_loop().remove_reader(listening)
        self._close()

    def _close(self) -> None:
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
