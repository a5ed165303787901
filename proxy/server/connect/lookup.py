"""Looks up what the host names of servers lead to (`routing.servers.host_addresses`).

A resolver may take half a minute to say that it knows nothing, and cannot be interrupted. So each
lookup has a thread of its own, which does not hold up the end of the process; and for each server
there is at most one: who asks meanwhile waits for the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from errno import EAGAIN
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from routing.servers.topology import Server

_Answer = tuple[str, ...]

_lookups: Final[dict[Server, asyncio.Future[_Answer]]] = {}  # those under way


async def look_up(server: Server) -> _Answer:
    """The addresses that a server's name leads to now, at least one, in the resolver's order.

    Raises:
        OSError: the resolver does not know, or failed.
    """
    lookup = _lookups.get(server)
    if lookup is None:
        lookup = _lookups[server] = _start(server)
        lookup.add_done_callback(lambda _: _lookups.pop(server, None))
    return await asyncio.shield(lookup)


def _start(server: Server) -> asyncio.Future[_Answer]:
    loop = asyncio.get_running_loop()
    lookup: asyncio.Future[_Answer] = loop.create_future()
    host = server.addresses.host

    def end(answer: _Answer, error: OSError | None) -> None:
        if lookup.done():
            return
        if error is None:
            lookup.set_result(answer)
        else:
            lookup.set_exception(error)
            lookup.exception()  # nobody may be waiting any more

    def run() -> None:
        answer: _Answer = ()
        failure: OSError | None = None
        try:
            answer = _resolve(host)
        except OSError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(end, answer, failure)

    try:
        Thread(target=run, name=f"resolve {host}", daemon=True).start()
    except RuntimeError as error:
        end((), OSError(EAGAIN, f"no thread to look the name up: {error}"))
    return lookup


def _resolve(host: str) -> _Answer:
    """Ask the resolver, and wait.

    Raises:
        OSError: it does not know, or failed.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
    addresses = [str(entry[4][0]) for entry in found if entry[0] in _FAMILIES]
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
    return tuple(dict.fromkeys(addresses))


_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
