"""Marks of scopes that may require more than the scope file has: one byte each, in a file.

A mark must be set before a client is told of the write that makes it necessary. That takes one
`pwrite` (about a microsecond); when it returns the kernel has the mark, so a process that is killed
loses none. A crash of the machine may lose marks; see `ScopeFile`.

The process that keeps scopes in the directory has the file locked (`flock`) while it has it open,
so there is only one.
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
"""Offset of the byte that marks all scopes: another process has served clients meanwhile."""


class MarksHeldError(Exception):
    """Another process has the file locked."""


class Marks:
    """The marks of scopes 1..`count`.

    Faults other than `MarksHeldError` raise OSError.

    Attributes:
        found: what was marked when the file was opened; None if there was no file.
    """

    def __init__(self, path: Path, count: int) -> None:
        """Open the file, or make it.

        Raises:
            MarksHeldError: another process keeps scopes there; they are all marked, since this
                process may serve clients, too.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.pwrite(self._file, _SET, _FOREIGN)
                raise MarksHeldError from error
            size = os.fstat(self._file).st_size
            self.found = os.pread(self._file, size, 0) if size else None
            if size <= count:  # take the room now: the disk may be full when a mark is set
                os.pwrite(self._file, bytes(count + 1 - size), size)
        except BaseException:
            os.close(self._file)
            raise

    def is_set(self, number: int) -> bool:
        """Whether the scope of this number was marked at the opening, or all were."""
        found = self.found
        if found is None or number >= len(found):
            return True
        return found[_FOREIGN] != 0 or found[number] != 0

    def set(self, number: int) -> None:
        """Mark a scope: it may require more than is kept."""
        os.pwrite(self._file, _SET, number)

    def clear(self, number: int) -> None:
        """Remove a scope's mark: all that it requires is kept."""
        os.pwrite(self._file, _CLEAR, number)

    def clear_foreign(self) -> None:
        """Remove the mark of all scopes: what other processes did was taken into account."""
        self.clear(_FOREIGN)

    def sync(self) -> None:
        """Bring the marks to the disk, so that they survive a crash of the machine, too."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file, which unlocks it."""
        os.close(self._file)


def disown(folder: Path) -> None:
    """Mark all scopes that are kept there: this process serves clients and keeps no scopes."""
    with suppress(FileNotFoundError):
        file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(file, _SET, _FOREIGN)
        finally:
            os.close(file)
