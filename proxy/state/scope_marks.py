"""Marks of scopes of which more is required than what is kept: one byte each, in a file.

A mark has to be there before a client is told of the write that makes it necessary. It is one
`pwrite` (about a microsecond), which the kernel has when it returns: a process that is killed loses
none. A machine that goes down may; see `ScopeFile`.

The file is held under a lock (`flock`) by the one process that keeps its scopes beside it, from
when it is opened until the process ends.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "tidegate-scopes.marks"

_SET: Final = b"\1"
_CLEAR: Final = b"\0"
_FOREIGN: Final = 0
"""Where the byte is that counts for all: another process has served clients meanwhile."""


class MarksHeldError(Exception):
    """Another process has the file."""


class Marks:
    """The marks of scopes 1..`count`.

    All but `MarksHeldError` that goes wrong here raises OSError.

    Attributes:
        found: what was marked when the file was opened; None if there was no file.
    """

    def __init__(self, path: Path, count: int) -> None:
        """Open the file, or make it.

        Raises:
            MarksHeldError: another process keeps scopes there; it is told not to rely on them.
        """
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.pwrite(self._file, _SET, _FOREIGN)
                raise MarksHeldError from error
            size = os.fstat(self._file).st_size
            self.found = os.pread(self._file, size, 0) if size else None
            if size <= count:  # room is taken now, so that no disk is too full for a mark later
                os.pwrite(self._file, bytes(count + 1 - size), size)
        except BaseException:
            os.close(self._file)
            raise

    def is_set(self, number: int) -> bool:
        """Whether this one was marked, or all were."""
        found = self.found
        if found is None or number >= len(found):
            return True
        return found[_FOREIGN] != 0 or found[number] != 0

    def set(self, number: int) -> None:
        """What is kept of this one may be too small."""
        os.pwrite(self._file, _SET, number)

    def clear(self, number: int) -> None:
        """All that this one requires is kept."""
        os.pwrite(self._file, _CLEAR, number)

    def clear_foreign(self) -> None:
        """What others did meanwhile was taken into account."""
        self.clear(_FOREIGN)

    def sync(self) -> None:
        """Let them survive the machine, too."""
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def remove(self) -> None:
        """Take the file away: without it nobody relies on what is kept."""
        self._path.unlink(missing_ok=True)


def disown(folder: Path) -> None:
    """Let nobody rely on what is kept there: this process serves clients and keeps nothing."""
    with suppress(FileNotFoundError):
        file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(file, _SET, _FOREIGN)
        finally:
            os.close(file)
