"""All listeners of one worker: at each address of the configuration, and the port for operators."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from proxy.address import Address
from proxy.client.admin.listener import AdminListener
from proxy.client.listener import Listener
from proxy.listening_sockets import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.listening_sockets import OpenSocket
    from proxy.shared.shared import Shared

_log = logging.getLogger(__name__)


class Listeners:
    """Those of one worker, which listen from `start_at` on."""

    def __init__(self, shared: Shared) -> None:
        config = shared.config
        addresses = list(config.addresses)
        if config.socket is not None:
            addresses.append(Address(str(config.socket.absolute()), 0))
        self._clients = [Listener(shared, address) for address in addresses]
        self._admins: AdminListener | None = None
        if config.admin_listen is not None:
            self._admins = AdminListener(shared, config.admin_listen)

    def start_at(self, sockets: Sequence[OpenSocket]) -> list[int]:
        """Listen at sockets that are bound; return the ports for clients, that of `listen` first.

        Raises:
            OSError: one cannot listen.
        """
        ports: dict[int, None] = {}
        for listener in self._clients:
            for found in _of(listener, Purpose.CLIENTS, sockets):
                listener.start_at(found)
                if found.family != socket.AF_UNIX:
                    ports[found.getsockname()[1]] = None
        if self._admins is not None:
            for found in _of(self._admins, Purpose.ADMINS, sockets):
                self._admins.start_at(found)
                _log.info("listening on port %d for admins", found.getsockname()[1])
        return list(ports)

    def pause(self) -> None:
        """Take no clients for now: they wait."""
        for listener in self._clients:
            listener.pause()

    def resume(self) -> None:
        """Take clients again."""
        for listener in self._clients:
            listener.resume()

    def stop(self, *, with_admins: bool = False) -> None:
        """Take no more clients, and maybe no more operators; those who are there may stay."""
        for listener in self._clients:
            listener.stop()
        if with_admins and self._admins is not None:
            self._admins.stop()

    def end_admins(self) -> None:
        """End the operators who are there."""
        if self._admins is not None:
            self._admins.end()


def _of(listener: Listener, purpose: Purpose, sockets: Sequence[OpenSocket]) -> list[socket.socket]:
    """The sockets at which a listener is to accept."""
    address = str(listener.address)
    return [
        found.socket for found in sockets if found.purpose is purpose and found.address == address
    ]
