"""Files that the workers of a proxy map into their memory, to share what is there."""

from __future__ import annotations

import mmap
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from proxy.error_text import error_text
from proxy.state.sqlite_file import StateError, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def made(path: Path, size: int) -> Iterator[int]:
    """Make a file of this size (bytes) anew; it is in its place when the caller has filled it.

    Gives the descriptor of the file, which is all zeros. An earlier proxy's workers keep theirs.

    Raises:
        StateError: it cannot be made.
    """
    make_folder(path.parent)
    new = path.with_suffix(".new")
    try:
        with suppress(FileNotFoundError):
            new.unlink()
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # All room is taken now: a disk that becomes full later must not end a worker.
            os.posix_fallocate(file, 0, size)
            yield file
        finally:
            os.close(file)
        new.replace(path)
    except OSError as error:
        raise StateError(
            f"{path}: {error_text(error)}; state-dir must be a directory on a local disk that"
            f" Tidegate may write, with {size >> 10} KiB of room"
        ) from error


def mapped(path: Path) -> mmap.mmap:
    """The file, which stays mapped until the process ends.

    Raises:
        StateError: there is no such file.
    """
    try:
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), 0)
    except (OSError, ValueError) as error:
        raise StateError(f"{path}: {error_text(error)}; start the proxy again") from error
