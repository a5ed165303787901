"""The Unix socket where clients of the same machine connect: mysqld and MySQL Router have one.

SO_REUSEPORT is not for such sockets: the first process binds it, and workers inherit it.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

LONGEST: Final = 107
"""Bytes of a path: what `sun_path` holds beside the NUL at its end (unix(7))."""

_BACKLOG: Final = 1024
_PROBE_S: Final = 1.0


class UnixSocketError(Exception):
    """The socket cannot be bound; the message names it and says what to do."""


def bind(path: Path, mode: int) -> socket.socket:
    """Listen at a path.

    A file that a killed process has left is replaced; one at which somebody listens is not.

    Args:
        path: where.
        mode: permissions of the file: who may write to it may connect (unix(7)).

    Raises:
        UnixSocketError: that cannot be.
    """
    try:
        _remove_stale(path)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(str(path))
            path.chmod(mode)  # before anybody can connect
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise UnixSocketError(
            f"socket {path}: {error.strerror}; it must be in a directory that is there and that"
            " Tidegate may write"
        ) from error
    return bound


def remove(path: Path, made: os.stat_result) -> None:
    """Remove the file, unless it is another one by now, or a successor listens there."""
    try:
        if os.path.samestat(path.lstat(), made) and not _somebody_listens(path):
            path.unlink()
    except OSError:
        return  # somebody has removed it, or its directory


def _remove_stale(path: Path) -> None:
    """Remove a socket at which nobody listens."""
    try:
        found = path.stat()
    except FileNotFoundError:
        path.unlink(missing_ok=True)  # a symbolic link that leads nowhere
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnixSocketError(
            f"socket {path}: there is a file that is no socket; remove it, or name another path"
        )
    if _somebody_listens(path):
        raise UnixSocketError(
            f"socket {path}: another process listens there; stop it, or name another path"
        )
    path.unlink(missing_ok=True)


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            pass  # its backlog is full
    return True
