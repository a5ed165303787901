"""Syncs files to the disk before they are renamed: no crash leaves a name without its content."""

import os
from collections.abc import Iterable
from pathlib import Path


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
