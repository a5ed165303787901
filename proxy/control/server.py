"""The control socket, as the proxy serves it.

It has mode 0600, and the peer's user is checked, too: only the proxy's own user and root may
connect.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proxy.control.connection import (
    PROTOCOL,
    ControlConnection,
    ControlError,
    Hello,
    Message,
    short_path,
)
from proxy.error_text import error_text
from proxy.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


Command = Callable[[ControlConnection, Message], None]
"""Does what was asked for; it may raise `ControlError` to be answered with its text."""

_log = logging.getLogger(__name__)

_BACKLOG: Final = 16
_CONNECTIONS: Final = 16
"""Most connections at a time; further ones wait."""
_REST_S: Final = 1.0
"""Pause after `accept` has failed."""


class ControlServer:
    """Takes commands for this process.

    Args:
        path: of the socket.
        commands: what is done at which command, in a thread of its own.
        stopping: says whether this process lets its sessions go.
    """

    def __init__(
        self, path: Path, commands: Mapping[str, Command], stopping: Callable[[], bool]
    ) -> None:
        self._path = path
        self._commands = commands
        self._stopping = stopping
        self._listening: socket.socket | None = None
        self._made: os.stat_result | None = None
        self._free = threading.BoundedSemaphore(_CONNECTIONS)

    def start(self) -> None:
        """Listen from now on; whoever listened there before does so no more.

        Raises:
            OSError: the path cannot be used.
        """
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Made beside it, and then put in its place: there is no moment without one while one proxy
        # follows another, and none in which others than the owner may connect.
        made = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}")
        try:
            with short_path(made) as short:
                listening.bind(short)
            made.chmod(0o600)  # nobody can connect before it listens
            listening.listen(_BACKLOG)
            if self._path.exists() and not stat.S_ISSOCK(self._path.stat().st_mode):
                raise FileExistsError(17, "there is a file that is no socket")
            self._made = made.lstat()
            made.rename(self._path)
        except OSError:
            listening.close()
            with suppress(OSError):
                made.unlink()
            raise
        self._listening = listening
        threading.Thread(
            target=self._accept, args=(listening,), name="control socket", daemon=True
        ).start()

    def stop(self) -> None:
        """Listen no more, and remove the file, unless it is another proxy's by now."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)  # ends the thread's wait
        listening.close()
        with suppress(OSError):
            if self._made is not None and os.path.samestat(self._path.lstat(), self._made):
                self._path.unlink()

    def _accept(self, listening: socket.socket) -> None:
        while self._listening is listening:
            self._free.acquire()
            try:
                connected, _ = listening.accept()
            except OSError as error:
                self._free.release()
                if self._listening is listening:  # it was not closed: no descriptor is left
                    _log.warning("control socket: %s", error_text(error))
                    time.sleep(_REST_S)
                continue
            threading.Thread(
                target=self._serve, args=(connected,), name="control connection", daemon=True
            ).start()

    def _serve(self, connected: socket.socket) -> None:
        try:
            self._talk(ControlConnection(connected))
        finally:
            connected.close()
            self._free.release()

    def _talk(self, connection: ControlConnection) -> None:
        if connection.peer_uid not in (os.geteuid(), 0):
            _log.warning("control socket: a process of user %d was refused", connection.peer_uid)
            return
        try:
            hello = Hello(PROTOCOL, VERSION, os.getpid(), int(self._stopping()))
            connection.send(hello._asdict())
            message = connection.receive_plain()
            self._command_of(message)(connection, message)
        except ControlError as error:
            with suppress(ControlError):
                connection.send({"error": str(error)})

    def _command_of(self, message: Message) -> Command:
        command = self._commands.get(str(message.get("command")))
        if command is None:
            raise ControlError(
                "this Tidegate has no such command: it has " + ", ".join(sorted(self._commands))
            )
        return command
