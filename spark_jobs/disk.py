"""Syncs files to the disk before they are renamed: no crash leaves a name without its content.

It also replaces folders together, and tells which disk is full.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

_TAIL: Final = 1 << 16
"""How many bytes of a log are its end."""


def is_full(error: Exception) -> bool:
    """Whether an error says that a disk or a quota is full; it may be of Java or of a worker."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return any(os.strerror(number) in str(error) for number in _FULL)


def tells_of_full(log: Path) -> bool:
    """Whether the end of a program's log says that a disk or a quota is full."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            end = file.read().decode(errors="replace")
    except OSError:
        return False
    return any(os.strerror(number) in end for number in _FULL)


def full_folder(error: Exception, folders: Sequence[Path]) -> Path:
    """Find the directory without space.

    An error of this process or of a worker may name it. One of Java also names what it was writing
    when a temporary file got no space; so there the directory counts that has least space left.
    """
    if isinstance(error, OSError):
        text = f"{error} {error.filename} {error.filename2}"
        named = [folder for folder in folders if str(folder) in text]
        if named:
            return max(named, key=lambda folder: len(str(folder)))  # one may be in the other
    return min(folders, key=lambda folder: shutil.disk_usage(folder).free)


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Make folders aside, which replace those of the same names when this block has ended.

    After an error, and after a signal, the earlier ones are as they were. If the replacing itself
    is cut short, some are missing: new ones are never beside old ones.

    Args:
        folder: where the folders belong; it must exist.

    Returns:
        An empty folder that takes them.

    Raises:
        OSError: they cannot be moved.
    """
    staged = folder / "_staged"
    shutil.rmtree(staged, ignore_errors=True)  # of an audit that died
    staged.mkdir()
    try:
        yield staged
        made = sorted(staged.iterdir())
        for path in made:
            if (folder / path.name).exists():
                shutil.rmtree(folder / path.name)
        for path in made:
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def sync_all(folder: Path) -> None:
    """Sync a folder and everything below it.

    Raises:
        OSError: the disk cannot write it.
    """
    for here, _, names in os.walk(folder):
        for name in names:
            sync(Path(here, name))
        sync(Path(here))


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder.

    Raises:
        OSError: the disk cannot write it.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a text file that exists whole or not at all; a ``?`` stands for unpaired surrogates.

    Raises:
        OSError: it cannot be written.
    """
    staged = path.with_name(f"{path.name}.staged")
    try:
        with staged.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
        sync(staged)
        staged.rename(path)
    finally:
        staged.unlink(missing_ok=True)
    sync(path.parent)
