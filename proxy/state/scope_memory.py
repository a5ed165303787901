"""The memory that the workers of a proxy share (`routing.consistency.scope_board`): a mapped file.

The first process makes it anew at each start, before any worker runs: after a start all wide scopes
are unknown. Only what is never forgotten is taken over: in which scopes something was written
without a GTID. That is written to the disk at once.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from proxy.error_text import error_text
from proxy.state import shared_file
from proxy.state.scope_file import read_unlogged
from proxy.state.sqlite_file import StateError, make_folder
from routing.consistency.scope_board import ScopeBoard, prepare, size, unlogged_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from routing.consistency.scope import ScopeKey

_log = logging.getLogger(__name__)

FILE_NAME: Final = "tidegate-scopes.shared"


class ScopeMemory(ScopeBoard):
    """One worker's view of the file, which stays mapped until the process ends.

    Args:
        folder: the state directory; `make` was called for it.
        workers: how many there are.
        worker: the number of this one, from 0.

    Raises:
        StateError: there is no such file.
    """

    def __init__(self, folder: Path, workers: int, worker: int) -> None:
        path = folder / FILE_NAME
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


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Keep other proxies with several workers out of the directory meanwhile.

    Else a worker that is started again would use another proxy's file, and miss what its own
    proxy's workers write.

    Raises:
        StateError: another proxy has it, or it cannot be used.
    """
    make_folder(folder)
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"state-dir {folder}: {error.strerror}; let Tidegate read it") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(directory)
        raise StateError(
            f"state-dir {folder}: another proxy with several workers uses it; each proxy needs one"
            " of its own"
        ) from error
    except OSError as error:
        _log.warning(
            "whether another proxy uses state-dir %s is not known: %s", folder, error_text(error)
        )
    try:
        yield
    finally:
        os.close(directory)


def make(folder: Path, workers: int) -> None:
    """Make the file, with what earlier files say of writes without a GTID.

    Raises:
        StateError: it cannot be made.
    """
    flags = kept_flags(folder)
    with (
        shared_file.made(folder / FILE_NAME, size(workers)) as file,
        mmap.mmap(file, size(workers)) as memory,
        memoryview(memory) as view,
    ):
        prepare(view, flags)
        board = ScopeBoard(view, workers, 0)
        keys = _unlogged_by_one(folder)
        if keys is None or keys:
            board.add_unlogged(keys or ())
        board.close()


def _unlogged_by_one(folder: Path) -> frozenset[ScopeKey] | None:
    """What a run with one worker recorded; a damaged file prevents no start, as it does there."""
    try:
        return read_unlogged(folder)
    except StateError as error:
        _log.error("earlier writes without a GTID are not known: %s", error)
        return frozenset()


def kept_flags(folder: Path) -> bytes:
    """What a run with several workers recorded of writes without a GTID; empty if nothing.

    Raises:
        StateError: the file cannot be read.
    """
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            return unlogged_flags(file.read(size(0)))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StateError(
            f"{path}: {error.strerror}; it has the record of writes without a GTID: let Tidegate"
            " read it"
        ) from error
