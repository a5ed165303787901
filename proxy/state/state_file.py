"""Keeps who the primary is, for all workers of a host and for the next start: one SQLite file.

Each row is a *term*: from some moment on, a server is the primary. A term is added only as the one
that follows the last, so two workers that see a promotion at the same time agree on its result.
Rows are never changed.

The file is in WAL mode, in which readers never wait. All calls here block, and their errors say
what to do; `proxy.shared.primary_epoch_file` calls them outside the event loop.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from proxy.state.sqlite_file import BUSY_S, StateError, Transaction, advice, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")

FILE_NAME: Final = "tidegate-state.sqlite"

_VERSION: Final = 1
"""`user_version` of the file; it is 0 in a new file."""

_SCHEMA: Final = """
CREATE TABLE primary_terms (
  number INTEGER PRIMARY KEY,
  address TEXT NOT NULL,
  server_uuid TEXT NOT NULL,
  since_us INTEGER NOT NULL
)
"""
_LIMIT: Final = 1000
"""How many terms are read, from the last one back."""


@dataclass(frozen=True, slots=True)
class PrimaryTerm:
    """A server is the primary from a moment on.

    Attributes:
        number: one more than the term before has; from 1.
        address: ``host:port``, as it is configured.
        server_uuid: its `@@server_uuid`.
        since_us: when that was found, UTC µs.
    """

    number: int
    address: str
    server_uuid: str
    since_us: int


class StateFile:
    """One connection to the file.

    Args:
        folder: the directory that holds it, made if it is missing; None keeps all in memory.

    Raises:
        StateError: it cannot be used.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = ":memory:" if folder is None else str(folder / FILE_NAME)
        if folder is not None:
            make_folder(folder)
        self._connection: sqlite3.Connection | None = None
        try:
            self._attempt(self._open)
        except StateError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):  # whatever was to be kept has been committed
                self._connection.close()
            self._connection = None

    def terms(self) -> list[PrimaryTerm]:
        """All terms, the last one last.

        Raises:
            StateError: they cannot be read.
        """
        return self._attempt(self._terms)

    def add(self, term: PrimaryTerm) -> PrimaryTerm:
        """Add a term if its number is the next one; return the last one, whoever added it.

        Raises:
            StateError: it cannot be kept.
        """
        return self._attempt(lambda: self._add(term))

    def _open(self) -> None:
        # Python's sqlite3 begins no transaction by itself; threads take turns.
        self._connection = sqlite3.connect(
            self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        version = self._version()
        if version > _VERSION:
            raise StateError(
                f"state file {self.path} was written by a newer Tidegate (version {version}; this"
                f" one knows {_VERSION}): run that one, or move the file away"
            )
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise StateError(
                f"state file {self.path} cannot be shared: state-dir must be on a local disk"
            )
        self._connection.execute("PRAGMA synchronous = FULL")
        if version == 0:
            with Transaction(self._connection):
                if self._version() == 0:  # no other process has made it meanwhile
                    self._connection.execute(_SCHEMA)
                    self._connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _version(self) -> int:
        (version,) = self._used.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _terms(self) -> list[PrimaryTerm]:
        rows = self._used.execute(
            "SELECT number, address, server_uuid, since_us FROM primary_terms"
            " ORDER BY number DESC LIMIT ?",
            (_LIMIT,),
        ).fetchall()
        return [PrimaryTerm(*row) for row in reversed(rows)]

    def _add(self, term: PrimaryTerm) -> PrimaryTerm:
        with Transaction(self._used):
            terms = self._terms()
            if term.number == (terms[-1].number if terms else 0) + 1:
                self._used.execute(
                    "INSERT INTO primary_terms VALUES (?, ?, ?, ?)",
                    (term.number, term.address, term.server_uuid, term.since_us),
                )
                terms.append(term)
        return terms[-1]

    @property
    def _used(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StateError(f"state file {self.path} is closed")
        return self._connection

    def _attempt(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except sqlite3.Error as error:
            what_to_do = advice(
                error,
                "then the primary is found by looking at the servers",
                "until then no promotion is followed",
            )
            raise StateError(f"state file {self.path}: {error}; {what_to_do}") from error
