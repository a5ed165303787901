"""The sockets at which a proxy accepts connections: its own, or those that somebody else opened.

The first process opens them, and its workers inherit them. So they can be handed over to a
successor, which goes on accepting where this process stops: a socket that is closed while clients
wait in its queue resets them, one that lives on in another process does not. The service manager
may have opened them, too (`sd_listen_fds(3)`): then it keeps them while no process runs.

With several workers each has a socket of its own for a TCP address, among which the kernel spreads
the connections (SO_REUSEPORT). Of sockets that were handed over there may be more or fewer than
there are workers: then a worker has several, or workers share one, as they share a Unix socket.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy import unix_socket
from proxy.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from proxy.config import Config

_log = logging.getLogger(__name__)

_FIRST: Final = 3
"""The first descriptor that a service manager passes: SD_LISTEN_FDS_START."""
_COUNT: Final = "LISTEN_FDS"
_PROCESS: Final = "LISTEN_PID"
_NAMES: Final = "LISTEN_FDNAMES"


class CannotServeError(Exception):
    """An address cannot be listened on."""


class Purpose(StrEnum):
    """Who connects to a socket."""

    CLIENTS = "clients"
    ADMINS = "admins"
    METRICS = "metrics"
    ANY = "any"
    """Whoever the configuration has at its address: the service manager opened it."""


class OpenSocket(NamedTuple):
    """A socket that listens, or will.

    Attributes:
        purpose: who connects to it.
        address: as the configuration names it; empty if that is not known.
        socket: the socket.
        activated: the service manager opened it, and keeps it.
    """

    purpose: Purpose
    address: str
    socket: socket.socket
    activated: bool = False


class ListeningSockets:
    """Those of one proxy, in its first process.

    Attributes:
        port: the one of `listen`.
    """

    def __init__(self) -> None:
        self.port = 0
        self._sockets: list[OpenSocket] = []
        self._file: tuple[Path, os.stat_result] | None = None  # of the Unix socket, to be removed
        self._mode = 0  # the permissions that it is to have

    def open(self, config: Config, inherited: Iterable[OpenSocket] = ()) -> None:
        """Have sockets for all addresses: the inherited ones where they fit, or else new ones.

        Inherited sockets that fit no address are closed. The one for metrics, which is not for
        workers, is only kept if it was inherited.

        Raises:
            CannotServeError: an address cannot be used.
        """
        left = list(inherited)
        for address in config.addresses:
            self._open_tcp(Purpose.CLIENTS, address, config.workers, left)
        self.port = _port(self._sockets[0].socket)
        if config.admin_listen is not None:
            self._open_tcp(Purpose.ADMINS, config.admin_listen, config.workers, left)
        if config.metrics is not None:
            self._sockets += _take(Purpose.METRICS, config.metrics, left)[:1]
        if config.socket is not None:
            self._open_unix(config.socket.absolute(), int(config.socket_mode, 8), left)
        for found in left:
            _log.warning(
                "the socket at %s is closed: no address of the configuration is there",
                found.address or _name(found.socket),
            )
            found.socket.close()

    def all(self) -> list[OpenSocket]:
        """All of them, for a successor."""
        return list(self._sockets)

    def for_metrics(self) -> socket.socket | None:
        """The inherited socket for metrics, if there was one."""
        for found in self._sockets:
            if found.purpose is Purpose.METRICS:
                return found.socket
        return None

    def set_socket_mode(self) -> None:
        """Give the file of a Unix socket that was inherited its permissions (`socket-mode`).

        To be called once this process accepts the clients: until then its predecessor's count.
        """
        if self._file is None:
            return
        path, made = self._file
        try:
            if os.path.samestat(path.lstat(), made):
                path.chmod(self._mode)
        except OSError as error:
            _log.error("socket %s: its permissions stay as they were: %s", path, error.strerror)

    def of_worker(self, worker: int, workers: int) -> tuple[OpenSocket, ...]:
        """Those at which a worker accepts: at each address one at least, maybe with others."""
        found: list[OpenSocket] = []
        for at_address in self._by_address():
            if at_address[0].purpose is not Purpose.METRICS:
                found += at_address[worker::workers] or [at_address[worker % len(at_address)]]
        return tuple(found)

    def on_worker_ended(self, worker: int, workers: int) -> None:
        """Let no client wait for a worker that has ended: the kernel gives its share to others.

        It listens again when it accepts again. Where workers share a socket, others accept.
        """
        for at_address in self._by_address():
            if len(at_address) >= workers > 1:
                for found in at_address[worker::workers]:
                    if not found.activated:
                        with suppress(OSError):  # it does not listen
                            found.socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Close them; where another process has one, too, that goes on listening.

        The one for metrics is the HTTP server's.
        """
        for found in self._sockets:
            if found.purpose is not Purpose.METRICS:
                found.socket.close()
        self._sockets.clear()

    def remove_file(self) -> None:
        """Remove the Unix socket's file, once no process listens there."""
        if self._file is not None:
            unix_socket.remove(*self._file)
            self._file = None

    def _by_address(self) -> list[list[OpenSocket]]:
        found: dict[object, list[OpenSocket]] = {}
        for entry in self._sockets:
            where = entry.purpose, entry.address, entry.socket.getsockname()
            found.setdefault(where, []).append(entry)
        return list(found.values())

    def _open_tcp(
        self, purpose: Purpose, address: Address, workers: int, inherited: list[OpenSocket]
    ) -> None:
        fitting = _take(purpose, address, inherited)
        if not fitting:
            option = "admin-listen" if purpose is Purpose.ADMINS else "listen"
            try:
                fitting = [
                    OpenSocket(purpose, str(address), each) for each in _bind(address, workers)
                ]
            except OSError as error:
                raise CannotServeError(f"{option} {address}: {error.strerror}") from error
        self._sockets += fitting

    def _open_unix(self, path: Path, mode: int, inherited: list[OpenSocket]) -> None:
        fitting = _take(Purpose.CLIENTS, Address(str(path), 0), inherited)[:1]
        if fitting and not fitting[0].activated and not path.is_socket():
            fitting.pop().socket.close()  # somebody has removed the file: no client finds it
        if not fitting:
            try:
                bound = unix_socket.bind(path, mode)
            except unix_socket.UnixSocketError as error:
                raise CannotServeError(str(error)) from error
            fitting = [OpenSocket(Purpose.CLIENTS, str(path), bound)]
        self._sockets += fitting
        if not fitting[0].activated:
            with suppress(OSError):  # somebody has removed it
                self._file = path, path.lstat()
            self._mode = mode


def activated_sockets(environment: Mapping[str, str]) -> list[OpenSocket]:
    """The sockets that the service manager has opened for this process."""
    count = environment.get(_COUNT, "")
    if not count.isdigit() or environment.get(_PROCESS) != str(os.getpid()):
        return []
    found = []
    names = environment.get(_NAMES, "").split(":")
    for number in range(int(count)):
        descriptor = _FIRST + number
        try:
            os.set_inheritable(descriptor, False)
            listening = socket.socket(fileno=descriptor)
        except OSError:
            name = names[number] if number < len(names) else str(descriptor)
            _log.warning("what the service manager passed as %s is no socket", name)
            continue
        found.append(OpenSocket(Purpose.ANY, "", listening, activated=True))
    return found


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


def _bind(listen: Address, workers: int) -> list[socket.socket]:
    """Bind a socket for each worker.

    Two proxies of one user could share a port by SO_REUSEPORT without noticing; so no other process
    may listen on it when this one starts.
    """
    port = listen.port
    sockets: list[socket.socket] = []
    found = socket.getaddrinfo(listen.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            try:
                if workers > 1:
                    alone = _bound(family, (where[0], port, *where[2:]), shared=False)
                    port = _port(alone)
                    alone.close()
                for _ in range(workers):
                    bound = _bound(family, (where[0], port, *where[2:]), shared=workers > 1)
                    sockets.append(bound)
                    port = _port(bound)
            except OSError as error:
                if not lacks_ipv6(error, family, found):
                    raise
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def _bound(
    family: socket.AddressFamily, where: tuple[object, ...], *, shared: bool
) -> socket.socket:
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        # While it binds, beside connections that an earlier run has closed; then not until it
        # listens, so that nobody else can bind to the port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(where)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except OSError:
        bound.close()
        raise
    return bound


def _take(purpose: Purpose, address: Address, inherited: list[OpenSocket]) -> list[OpenSocket]:
    """Take the inherited sockets for an address from the list."""
    fitting = [found for found in inherited if _fits(found, purpose, address)]
    for found in fitting:
        inherited.remove(found)
    return [found._replace(purpose=purpose, address=str(address)) for found in fitting]


def _fits(found: OpenSocket, purpose: Purpose, address: Address) -> bool:
    """Whether a socket is one for an address: it was opened for that, or is bound to it."""
    if found.purpose not in (purpose, Purpose.ANY):
        return False
    if found.address == str(address):
        return True
    where = found.socket.getsockname()
    if found.socket.family == socket.AF_UNIX or address.host.startswith("/"):
        return str(where) == str(address)
    host, port = where[:2]
    if port != address.port:
        return False
    try:
        known = socket.getaddrinfo(
            address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        return False
    return host in [where[0] for *_, where in known]


def _port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def _name(listening: socket.socket) -> str:
    name = listening.getsockname()
    return str(Address(name[0], name[1])) if isinstance(name, tuple) else str(name)
