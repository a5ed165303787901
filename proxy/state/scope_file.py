"""Keeps what wide scopes require, for the next start: an SQLite file, and marks beside it.

What a scope requires is kept as rows in the shape of `mysql.gtid_executed` (`gtid_rows`). New
intervals are inserted as they come; scopes that have many rows are compressed, a few at a time
(WL#6559). Rows are inserted some time after clients were told of their writes. So a scope is
*marked* (`scope_marks`) before its client is told, and the mark is cleared when all is inserted. A
scope that a start finds marked is restored as *unknown*: it may require more than was kept.

Two things are on the disk before anything relies on them: in which scopes something was written
without a GTID, and which servers have diverged.

Marks survive the end of the process, but not a crash of the machine. The kernel's boot id says
whether the machine was restarted since. If it was, or if there is no boot id, all scopes are
unknown, unless the last process ended well (`ScopeFile.end`).

All calls block, and raise `StateError`. Only one thread at a time may use a file; but
`add_unlogged` and `keep_strayed` have a connection of their own, and another thread may call them.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from protocol.errors import MalformedGtidSetError
from protocol.gtid import GtidSet
from protocol.wire import decode_text, encode_text
from proxy.state.scope_marks import FILE_NAME as MARKS_NAME
from proxy.state.scope_marks import Marks, MarksHeldError, disown
from proxy.state.scope_rows import Change, Found, ScopeRows, Written
from proxy.state.scope_schema import SCHEMA
from proxy.state.sqlite_file import BUSY_S, StateError, Transaction, advice, make_folder
from routing.consistency.decision import Scope
from routing.consistency.gtid_rows import GtidRow, from_rows, rows
from routing.consistency.scope import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_T = TypeVar("_T")

FILE_NAME: Final = "tidegate-scopes.sqlite"

_VERSION: Final = 1
"""`user_version` of the file; it is 0 in a new file."""

_ANY_SCOPE: Final = ""
"""The kind of the row in `unlogged_scopes` that stands for all scopes."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ScopeFile:
    """The file, and the marks beside it.

    Args:
        folder: the directory that holds them, made if it is missing.
        count: scopes may have the numbers 1..count.

    Attributes:
        marks: the marks of its scopes.
        scopes: what the file had when it was opened.
        unlogged: scopes in which something was written without a GTID; None for all of them.
        diverged_gtids: by `server_uuid`, GTIDs that diverged servers have and that the primary may
            have given again (`routing.servers.topology.Server.diverged_gtids`).
        doubt: why all scopes are unknown; empty if they are not.

    Raises:
        StateError: it cannot be used.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.path = folder / FILE_NAME
        self.doubt = ""
        self.scopes: list[Found] = []
        self.unlogged: frozenset[ScopeKey] | None = frozenset()
        self.diverged_gtids: dict[str, GtidSet] = {}
        self._connections: list[sqlite3.Connection] = []
        make_folder(folder)
        try:
            self.marks = Marks(folder / MARKS_NAME, count)
        except MarksHeldError as error:
            raise StateError(
                f"another process keeps its scopes in {folder}; each proxy needs a state-dir of its"
                " own"
            ) from error
        except OSError as error:
            raise _marks_error(folder, error) from error
        try:
            self._attempt(lambda: self._open(count))
        except StateError:
            with suppress(OSError):
                disown(folder)
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for connection in self._connections:
            with suppress(sqlite3.Error):  # whatever was to be kept has been committed
                connection.close()
        self._connections.clear()
        with suppress(OSError):
            self.marks.close()

    def discard(self) -> None:
        """Delete the scopes that the file had, since they were not restored at the start.

        Which scopes have writes without a GTID, and which servers have diverged, is still kept.
        """
        self._attempt(self._rows.discard)
        self.scopes = []
        self._attempt(self.marks.clear_foreign)

    def write(self, changes: Sequence[Change], removed: Sequence[int]) -> Written:
        """Write scopes; delete those with the numbers `gone`, which other scopes may then get."""
        return self._attempt(lambda: self._rows.write(changes, removed))

    def add_unlogged(self, keys: Sequence[ScopeKey]) -> None:
        """Record that something was written without a GTID in these scopes; if empty, in any.

        It is on the disk when this returns.
        """
        named = [(kind.value, encode_text(name)) for kind, name in keys] or [(_ANY_SCOPE, b"")]
        self._attempt(
            lambda: self._urgent.executemany(
                "INSERT OR IGNORE INTO unlogged_scopes VALUES (?, ?)", named
            )
        )

    def keep_strayed(self, diverged_gtids: Mapping[str, GtidSet]) -> None:
        """Replace what the file has as `diverged_gtids`; it is on the disk when this returns."""
        self._attempt(lambda: self._keep_strayed(diverged_gtids))

    def end(self, used: Iterable[tuple[int, int]]) -> None:
        """Record that nothing is missing, and when scopes were last used: (UTC µs, number)."""
        self._attempt(lambda: self._end(used))

    def abandon(self) -> None:
        """Delete the files, so that no start relies on them: marks cannot be set any more."""
        for path in (self.path.parent / MARKS_NAME, self.path):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    # Opening

    def _open(self, count: int) -> None:
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._connection = self._connect("NORMAL")
        version = self._version()
        if version > _VERSION:
            raise StateError(
                f"scope file {self.path} was written by a newer Tidegate (version {version}; this"
                f" one knows {_VERSION}): run that one, or move the file away"
            )
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StateError(
                f"scope file {self.path} cannot be shared: state-dir must be on a local disk"
            )
        self._urgent = self._connect("FULL")
        if version == 0:
            with Transaction(self._connection):
                for statement in SCHEMA:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        self._rows = ScopeRows(self._connection)
        boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
        self._read(boot_id, count)
        # From here on only the marks say which scopes may require more.
        for stored in self.scopes:
            if stored.kept.unknown:
                self.marks.set(stored.number)
        self.marks.clear_foreign()
        self._urgent.execute("UPDATE last_run SET boot_id = ?, ended_well = 0", (boot_id,))

    def _connect(self, synchronous: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._connections.append(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        return connection

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _read(self, boot_id: str, count: int) -> None:
        boot_id_then, ended_well = self._connection.execute(
            "SELECT boot_id, ended_well FROM last_run"
        ).fetchone()
        if self.marks.found is None:
            self.doubt = "their marks are gone"
        elif self.marks.found[0]:
            self.doubt = "another process has served clients meanwhile"
        elif not ended_well and not (boot_id and boot_id == boot_id_then):
            self.doubt = "the machine went down with the last process"
        self.scopes = self._rows.read(
            count, lambda number: bool(self.doubt) or self.marks.is_set(number)
        )
        self.unlogged = _unlogged(self._connection)
        self.diverged_gtids = _diverged(self._connection)

    # Writing

    def _keep_strayed(self, diverged_gtids: Mapping[str, GtidSet]) -> None:
        with Transaction(self._urgent):
            self._urgent.execute("DELETE FROM strayed_gtids")
            self._urgent.executemany(
                "INSERT INTO strayed_gtids VALUES (?, ?, ?, ?, ?)",
                [(uuid, *row) for uuid, gtids in diverged_gtids.items() for row in rows(gtids)],
            )

    def _end(self, used: Iterable[tuple[int, int]]) -> None:
        self.marks.sync()
        with Transaction(self._urgent):
            self._urgent.executemany("UPDATE scopes SET used_us = ? WHERE number = ?", used)
            self._urgent.execute("UPDATE last_run SET ended_well = 1")

    def _attempt(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except sqlite3.Error as error:
            what_to_do = advice(
                error, "scopes begin as unknown then", "scopes are unknown after the next start"
            )
            raise StateError(f"scope file {self.path}: {error}; {what_to_do}") from error
        except OSError as error:
            raise _marks_error(self.path.parent, error) from error
        except (MalformedGtidSetError, ValueError, TypeError) as error:
            raise StateError(
                f"scope file {self.path} holds what Tidegate did not write ({error}); move it away:"
                " scopes begin as unknown then"
            ) from error


def read_unlogged(folder: Path) -> frozenset[ScopeKey] | None:
    """Read in which scopes something was written without a GTID.

    Returns:
        None for all of them; no scopes where there is no file.

    Raises:
        StateError: it cannot be read.
    """
    nothing: frozenset[ScopeKey] | None = frozenset()
    return _read_beside(folder, _unlogged, nothing)


def read_diverged(folder: Path) -> dict[str, GtidSet]:
    """Read which servers have diverged (`ScopeFile.diverged_gtids`); none where there is no file.

    Raises:
        StateError: it cannot be read.
    """
    return _read_beside(folder, _diverged, {})


def _read_beside(folder: Path, read: Callable[[sqlite3.Connection], _T], nothing: _T) -> _T:
    """Read the file, which another process may have open."""
    path = folder / FILE_NAME
    if not path.exists():
        return nothing
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            return read(connection) if version == _VERSION else nothing
    except (sqlite3.Error, MalformedGtidSetError, ValueError) as error:
        raise StateError(
            f"scope file {path}: {error}; move it away: scopes begin as unknown then"
        ) from error


def _diverged(connection: sqlite3.Connection) -> dict[str, GtidSet]:
    diverged_gtids: dict[str, list[GtidRow]] = {}
    for server_uuid, uuid, tag, start, end in connection.execute(
        "SELECT server_uuid, source_uuid, gtid_tag, interval_start, interval_end FROM strayed_gtids"
    ):
        diverged_gtids.setdefault(server_uuid, []).append((uuid, tag, start, end))
    return {uuid: from_rows(found) for uuid, found in diverged_gtids.items()}


def _unlogged(connection: sqlite3.Connection) -> frozenset[ScopeKey] | None:
    keys = connection.execute("SELECT kind, name FROM unlogged_scopes").fetchall()
    if (_ANY_SCOPE, b"") in keys:
        return None
    return frozenset([(Scope(kind), decode_text(bytes(name))) for kind, name in keys])


def _marks_error(folder: Path, error: OSError) -> StateError:
    return StateError(
        f"{folder / MARKS_NAME}: {error.strerror}; state-dir must be a directory on a local disk"
        " that Tidegate may write"
    )
