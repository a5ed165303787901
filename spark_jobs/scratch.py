"""A directory for the temporary files of one audit, which does not outlive it for long.

An audit locks its directory as long as it runs, and the operating system releases the lock
however the audit ends. So directories whose lock is free were left by audits that were killed.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from spark_jobs.paths import escape
from spark_jobs.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREFIX: Final = "tidegate-audit-"
_LOCK: Final = "lock"

_ABANDONED_S: Final = 24 * 3600.0
"""Age from which a directory without a lock is stale: one is made an instant before its lock."""


@contextmanager
def opened(parent: Path | None) -> Iterator[Path]:
    """Make a directory, and remove it at the end; what killed audits left is removed first.

    Args:
        parent: where; None for the system's directory for temporary files.

    Raises:
        OSError: it cannot be written.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_stale(place)
    folder, lock = _made(place)
    with lock:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            # A process that ends late may have written meanwhile.
            shutil.rmtree(folder, ignore_errors=True)


def remove_stale(place: Path) -> None:
    """Remove directories that killed audits left; what cannot be removed stays."""
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.geteuid() or folder.is_symlink() or not folder.is_dir():
                continue
            if not (folder / _LOCK).exists():
                if time.time() - status.st_mtime > _ABANDONED_S:
                    shutil.rmtree(folder)
                continue
            with (folder / _LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        except OSError:
            continue  # it is in use, or somebody else removes it


def _made(place: Path) -> tuple[Path, IO[bytes]]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        try:
            lock = (folder / _LOCK).open("wb")
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat((folder / _LOCK).stat(), os.fstat(lock.fileno())):
                return folder, lock
        except (BlockingIOError, FileNotFoundError):
            pass  # another audit has taken it for a stale one
        lock.close()


def rewritten(table: "DataFrame", folder: Folder) -> "DataFrame":
    """Write a table as Parquet, and read it: later queries are planned without what it is made of.

    Args:
        table: the table.
        folder: takes it; what is there is replaced.
    """
    table.write.mode("overwrite").parquet(str(folder))
    return table.sparkSession.read.schema(table.schema).parquet(*escape([folder]))
