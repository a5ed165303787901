"""The memory that the workers of a proxy share (`routing.consistency.scope_board`): a mapped file.

The first process makes it anew at each start, before any worker runs: after a start all wide scopes
are unknown. A proxy that takes over from one that still runs has a file beside that one's. Only
what is never forgotten is taken over: in which scopes something was written without a GTID. That is
written to the disk at once.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import operator
import os
from typing import TYPE_CHECKING

from proxy.error_text import error_text
from proxy.state import shared_file
from proxy.state.scope_file import read_unlogged
from proxy.state.shared_names import ALL_SCOPES, PLAIN
from proxy.state.sqlite_file import StateError, make_folder
from routing.consistency.scope_board import (
    READER,
    ScopeBoard,
    absorb_flags,
    prepare,
    size,
    unlogged_flags,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from routing.consistency.scope import ScopeKey

_log = logging.getLogger(__name__)


class ScopeMemory(ScopeBoard):
    """One worker's view of the file, which stays mapped until the process ends.

    Args:
        folder: the state directory; `make` was called for it.
        workers: how many there are.
        worker: the number of this one, from 0; `READER` for another proxy's.
        name: of the file.

    Raises:
        StateError: there is no such file.
    """

    def __init__(self, folder: Path, workers: int, worker: int, name: str = PLAIN.scopes) -> None:
        path = folder / name
        self._map = shared_file.mapped(path)
        try:
            super().__init__(memoryview(self._map), workers, worker)
        except ValueError as error:
            raise StateError(f"{path}: {error_text(error)}; start the proxy again") from error

    def add_unlogged(self, keys: Iterable[ScopeKey]) -> None:
        """As the base class does; when this returns it is on the disk, or the log has an error."""
        super().add_unlogged(keys)
        try:
            self._map.flush()
        except OSError as error:  # the other workers see it all the same
            _log.error(
                "the record of writes without a GTID is not on the disk, and a crash of the machine"
                " may lose it: %s; see that the disk of state-dir works",
                error_text(error),
            )


class FolderLock:
    """Keeps other proxies with several workers out of the directory while it is held.

    Else a worker that is started again would use another proxy's file, and miss what its own
    proxy's workers write. A proxy that takes over from another gets it when that has gone.

    Raises:
        StateError: the directory cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        try:
            self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StateError(
                f"state-dir {folder}: {error.strerror}; let Tidegate read it"
            ) from error

    def take(self, *, wait: bool = False) -> None:
        """Take the lock; if need be wait for it.

        Raises:
            StateError: another proxy has it.
        """
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise StateError(
                f"state-dir {self._folder}: another proxy with several workers uses it; each proxy"
                " needs one of its own, or takes over (run --take-over)"
            ) from error
        except OSError as error:
            _log.warning(
                "whether another proxy uses state-dir %s is not known: %s",
                self._folder,
                error_text(error),
            )

    def release(self) -> None:
        """Let others take it."""
        os.close(self._directory)


def make(folder: Path, workers: int, name: str = PLAIN.scopes) -> None:
    """Make the file, with what earlier files say of writes without a GTID.

    Raises:
        StateError: it cannot be made.
    """
    flags = kept_flags(folder)
    with (
        shared_file.made(folder / name, size(workers)) as file,
        mmap.mmap(file, size(workers)) as memory,
        memoryview(memory) as view,
    ):
        prepare(view, flags)
        board = ScopeBoard(view, workers, READER)
        keys = _unlogged_by_one(folder)
        if keys is None or keys:
            board.add_unlogged(keys or ())
        board.close()


def keep_only(folder: Path, name: str) -> None:
    """Delete the files of other proxies, which have gone; what they never forget goes into `name`.

    Raises:
        StateError: a file cannot be read or written.
    """
    try:
        flags = kept_flags(folder)
        with (folder / name).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            with memoryview(memory) as view:
                absorb_flags(view, flags)
            memory.flush()
        for path in folder.glob(ALL_SCOPES):
            if path.name != name:
                path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise StateError(f"{folder / name}: {error_text(error)}") from error


def _unlogged_by_one(folder: Path) -> frozenset[ScopeKey] | None:
    """What a run with one worker recorded; a damaged file prevents no start, as it does there."""
    try:
        return read_unlogged(folder)
    except StateError as error:
        _log.error("earlier writes without a GTID are not known: %s", error)
        return frozenset()


def kept_flags(folder: Path) -> bytes:
    """What runs with several workers recorded of writes without a GTID; empty if nothing.

    Raises:
        StateError: a file cannot be read.
    """
    kept = b""
    for path in sorted(folder.glob(ALL_SCOPES)):
        try:
            with path.open("rb") as file:
                flags = unlogged_flags(file.read(size(0)))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StateError(
                f"{path}: {error.strerror}; it has the record of writes without a GTID: let"
                " Tidegate read it"
            ) from error
        if not kept:
            kept = flags
        elif flags:
            kept = bytes(map(operator.or_, kept, flags))
    return kept
