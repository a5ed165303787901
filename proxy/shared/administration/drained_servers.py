"""Which servers are drained: kept in a file of the state directory, which all workers read.

The file counts: who drains a server changes it, under a lock, and then every worker follows it. A
worker that starts reads it, and each look of the monitor does, so a worker that was not there when
it changed follows, too. Without a state directory there is one worker, which remembers by itself.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)

_FILE: Final = "tidegate-drained.json"
_LOCK: Final = "tidegate-drained.lock"
MOST: Final = 256
"""Names that are remembered: each has at most 300 characters."""
_MOST_BYTES: Final = MOST * 2048


class DrainedServers:
    """The names of the servers that are drained, as the configuration writes them.

    Attributes:
        names: as they were read last.
    """

    def __init__(self, folder: Path | None) -> None:
        """Read the file of a state directory, if there are both."""
        self.names: frozenset[str] = frozenset()
        self._folder = folder
        self._signature: tuple[int, int, int] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it has changed; return whether the names have."""
        if self._folder is None:
            return False
        path = self._folder / _FILE
        try:
            status = path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature == self._signature:
                return False
            names = self._read(path) if status.st_size <= _MOST_BYTES else None
        except FileNotFoundError:
            signature, names = None, frozenset()
        except OSError as error:
            _log.warning("%s cannot be read: %s", path, error.strerror)
            return False
        self._signature = signature
        if names is None:
            _log.warning("%s is not what Tidegate writes, and is passed over", path)
            return False
        before, self.names = self.names, names
        return names != before

    @staticmethod
    def _read(path: Path) -> frozenset[str] | None:
        try:
            found = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            return None
        return frozenset(found[:MOST])

    def change(self, name: str, *, drained: bool) -> None:
        """Add a name, or take it out.

        Raises:
            OSError: it cannot be written, and nothing has changed.
        """
        if self._folder is None:
            self.names = self.names | {name} if drained else self.names - {name}
            return
        with self._locked(self._folder):
            self._signature = None
            self.refresh()
            names = self.names | {name} if drained else self.names - {name}
            if len(names) > MOST:
                raise OSError(errno.ENOSPC, f"{MOST} servers are drained already")
            path = self._folder / _FILE
            if names != self.names or not path.exists():
                temporary = path.with_suffix(".new")
                temporary.write_text(json.dumps(sorted(names)))
                temporary.chmod(0o600)
                temporary.replace(path)
            self.refresh()

    @staticmethod
    @contextmanager
    def _locked(folder: Path) -> Iterator[None]:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for as long as it takes to write a small file
            yield
        finally:
            os.close(lock)
