"""TCP ports for what tests and benchmarks start: each is handed out once on this machine."""

import contextlib
import socket
import threading
from typing import Final

FIRST: Final = 10_000
END: Final = 32_000
"""Below the ports that kernels give to outgoing connections and to listeners on port 0 (32768 and
above on Linux), so that a server which is down for a while finds its port free when it comes back.
"""

BLOCK: Final = 100
"""So many ports stand behind one socket: many systems let a process open no more than 1024."""


class Ports:
    """Ports on 127.0.0.1 that no other process draws, and this one no second time.

    A process has whole blocks of them. It owns a block as long as a socket of its own is bound to
    the first port of it: the kernel gives a port to one process, across all users and folders, and
    takes it back when the process ends, however that ends.
    """

    def __init__(self) -> None:
        self._owned: list[socket.socket] = []
        self._left: list[int] = []
        self._lock = threading.Lock()

    def reserve(self, count: int) -> list[int]:
        """Reserve so many ports in a row.

        Raises:
            ValueError: so many are in no block.
            RuntimeError: other processes own all blocks.
        """
        if not 0 < count < BLOCK:
            raise ValueError(f"{count} ports in a row: at most {BLOCK - 1} are")
        with self._lock:
            while True:
                while len(self._left) < count:
                    self._left = self._next_block()
                ports, self._left = self._left[:count], self._left[count:]
                # A process that has ended may have left a server behind, or a connection.
                if all(_is_free(port) for port in ports):
                    return ports

    def _next_block(self) -> list[int]:
        for start in range(FIRST, END, BLOCK):
            owner = socket.socket()
            try:
                owner.bind(("127.0.0.1", start))
            except OSError:
                owner.close()
                continue
            self._owned.append(owner)
            return list(range(start + 1, start + BLOCK))
        raise RuntimeError(f"no ports from {FIRST} to {END} are left: end other test runs")


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


_ports: Final = Ports()


def reserve_port() -> int:
    """Reserve a port on 127.0.0.1 for a server of this process, until the process ends."""
    return _ports.reserve(1)[0]


def reserve_ports(count: int) -> list[int]:
    """Reserve so many of them in a row."""
    return _ports.reserve(count)
