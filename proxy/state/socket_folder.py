"""Sockets in the state directory, at which the workers of a proxy answer each other.

Only the proxy's own user may use them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from asyncio import AbstractServer, StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable

    Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]


class SocketFolder:
    """The open directory: the path of a socket must be short, so sockets are found through it."""

    def __init__(self, folder: Path) -> None:
        """Open it.

        Raises:
            StateError: it cannot be opened.
        """
        self._folder = folder
        try:
            self._fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unusable(error) from error

    def path(self, name: str) -> str:
        """Where to connect to the socket of this name."""
        return str(Path("/proc/self/fd", str(self._fd), name))

    async def listen(self, name: str, serve: Serve, backlog: int) -> AbstractServer:
        """Listen at the socket of this name, in place of whoever had it.

        Raises:
            StateError: no socket can be made in the directory.
        """
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(listening, Path(self.path(name)))
            return await asyncio.start_unix_server(serve, sock=listening, backlog=backlog)
        except OSError as error:
            listening.close()
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StateError:
        return StateError(
            f"state-dir {self._folder}: {error.strerror}; workers need sockets there: it must be a"
            " directory on a local disk that Tidegate may write"
        )

    def close(self) -> None:
        """Find no more sockets; the files stay, which by now may be a successor's."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _bind(listening: socket.socket, path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()  # an earlier worker's
    listening.bind(str(path))
    path.chmod(0o600)  # nobody can connect before it listens
