"""The socket at which `tidegate reload` asks a running proxy.

It is a Unix socket that only the proxy's user, and root, can connect to. A client sends one line,
`reload`, and gets one line of JSON (`proxy.reload.answer`).
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proxy.error_text import error_text
from proxy.reload.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELOAD: Final = b"reload\n"
_LONGEST_REQUEST: Final = 64
_LONGEST_ANSWER: Final = 1 << 20
_REQUEST_S: Final = 5.0
"""How long a client may take to send its line."""
ANSWER_S: Final = 120.0
"""How long a client waits for the answer."""
_BACKLOG: Final = 8

_log = logging.getLogger(__name__)


class ControlSocket:
    """Serves one proxy's clients, one after the other, in a thread."""

    def __init__(self, path: Path, reload: Callable[[], Answer]) -> None:
        """Listen.

        Raises:
            OSError: the path cannot be used.
        """
        self._path = path
        self._reload = reload
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Made beside it, and then put in its place: there is no moment without one while one proxy
        # follows another, and none in which others than the owner may connect.
        made = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                made.unlink()
            _in_folder(made, self._listening.bind)
            made.chmod(0o600)  # nobody can connect before it listens
            self._listening.listen(_BACKLOG)
            self._inode = made.stat().st_ino
            if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
                made.unlink()
                raise FileExistsError(17, "there is a file that is no socket")
            made.rename(path)
        except OSError:
            self._listening.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="control socket", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more, and remove the file, unless it is another proxy's by now."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._listening.close()
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # it was closed
            with client:
                try:
                    self._answer(client)
                except OSError as error:
                    _log.info("control socket: the client has left: %s", error_text(error))

    def _answer(self, client: socket.socket) -> None:
        client.settimeout(_REQUEST_S)
        request = _read_line(client, _LONGEST_REQUEST)
        if request == RELOAD:
            answer = self._reload()
        else:
            answer = Answer(errors=("the control socket takes one line, reload",))
        client.sendall(answer.to_json().encode() + b"\n")


def ask(path: Path) -> Answer:
    """Ask the proxy whose socket that is for a reload.

    Raises:
        OSError: nobody answers there.
        ValueError, TypeError: something else does.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(ANSWER_S)
        _in_folder(path, client.connect)
        client.sendall(RELOAD)
        return Answer.from_json(_read_line(client, _LONGEST_ANSWER).decode())


def _in_folder(path: Path, use: Callable[[str], None]) -> None:
    """Use a path, however long it is: that of a Unix socket has no more than 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _read_line(peer: socket.socket, longest: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < longest:
        received = peer.recv(4096)
        if not received:
            break
        line += received
    return line
