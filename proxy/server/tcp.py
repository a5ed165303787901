"""When TCP itself gives up a connection to a server, so that a vanished one is noticed.

Without these settings a connection that waits for an answer is never checked, and one with
unacknowledged data is given up after a quarter of an hour.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    import asyncio

GIVEN_UP_S: Final = 75
"""After so long without a sign from the server's machine a connection is gone.

Linux also counts how long a server reads nothing of what was sent (a window of size zero). A server
may rightly do so during a WAIT, for up to a minute
(`routing.consistency.adjustment.MAX_WAIT_BUDGET`).
"""
_IDLE_S: Final = 15
_AGAIN_S: Final = 5

_NAMED: Final = (
    ("TCP_KEEPIDLE", _IDLE_S),
    ("TCP_KEEPALIVE", _IDLE_S),  # what macOS calls it
    ("TCP_KEEPINTVL", _AGAIN_S),
    ("TCP_KEEPCNT", (GIVEN_UP_S - _IDLE_S) // _AGAIN_S),
    ("TCP_USER_TIMEOUT", GIVEN_UP_S * 1000),  # of Linux, ms
)
_OPTIONS: Final = [
    (getattr(socket, name), value) for name, value in _NAMED if hasattr(socket, name)
]


class _Socket(Protocol):
    """What a transport shows of its socket."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """As `socket.socket` has it."""

    def fileno(self) -> int:
        """Likewise."""


def keep_watch(transport: asyncio.BaseTransport) -> None:
    """Let TCP probe an idle server, and give up one that does not respond."""
    found = _socket(transport)
    if found is None:
        return
    # What uvloop shows makes a socket object, and asks the kernel of it, for each single option.
    end = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, found.fileno())
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _OPTIONS:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
    finally:
        end.detach()


def be_patient(transport: asyncio.BaseTransport) -> None:
    """Let a server read nothing for as long as it likes, as while a local file waits for a lock."""
    found = _socket(transport)
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if found is not None and option is not None:
        found.setsockopt(socket.IPPROTO_TCP, option, 0)


def _socket(transport: asyncio.BaseTransport) -> _Socket | None:
    return cast("_Socket | None", transport.get_extra_info("socket"))
