"""What the SQLite files of the state directory share: transactions, and advice on faults."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

BUSY_S: Final = 2.0
"""How long a statement waits for a lock that another connection holds."""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR})
_DISK: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


class StateError(Exception):
    """A file of the state directory cannot be used; the message says why, and what to do."""


class Transaction:
    """All of a `with` block is committed, or nothing is."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._connection.execute("ROLLBACK" if kind else "COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if kind is None:
                raise


def make_folder(folder: Path) -> None:
    """Make the state directory if it is missing.

    Raises:
        StateError: it cannot be used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"state-dir {folder}: {error.strerror}; it must be a directory that Tidegate may write"
        ) from error


def advice(error: sqlite3.Error, if_damaged: str, if_full: str) -> str:
    """What to do about a fault: if the file is damaged, if its disk is full, or otherwise."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # extended codes have details above
    if code in _DAMAGED:
        return f"move it away: {if_damaged}"
    if code in _DISK:
        return f"make room on its disk, and see that it works; {if_full}"
    if code == sqlite3.SQLITE_BUSY:
        return "another program keeps it locked; end that"
    return "state-dir must be a directory on a local disk that Tidegate may write"
