"""Keeps what wide scopes require, for the next start: an SQLite file, and marks beside it.

What a scope requires is rows in the shape of `mysql.gtid_executed` (`gtid_rows`). What is
new is inserted as it comes; where rows have become many they are compressed, a few scopes at a time
(WL#6559). It is inserted some time after clients were told. So a scope is *marked* (`scope_marks`)
before they are, and its mark is taken away when all is inserted. A scope that is found marked comes
back with what is kept, and *unknown*: more may be required.

Two things are on the disk before anybody relies on them: in which scopes something without a name
was written, and which servers have diverged.

Marks survive the process, not the machine. Whether the machine was started since is told by the
kernel's boot id; after that, and where there is none, all scopes are unknown unless the last
process ended well (`ScopeFile.end`).

All calls block, and raise `StateError`. One thread at a time may use a file; `add_unlogged` has a
connection of its own and may be called beside.
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
"""`user_version` of the file; 0 is a file that nobody has written yet."""

_ANY_SCOPE: Final = ""
"""The kind of the row in `unlogged_scopes` that stands for all scopes."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ScopeFile:
    """The file, and the marks beside it.

    Args:
        folder: the directory that holds them, made if it is missing.
        count: numbers that scopes may have: 1..count.

    Attributes:
        marks: those of its scopes.
        scopes: what was kept when it was opened.
        unlogged: scopes in which something without a name was written; None for all of them.
        strayed: what servers were found to have that the primary may have given again, by their
            `server_uuid` (`routing.servers.topology.Server.strayed`).
        doubt: why all scopes are unknown; empty if they are not.

    Raises:
        StateError: it cannot be used.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.path = folder / FILE_NAME
        self.doubt = ""
        self.scopes: list[Found] = []
        self.unlogged: frozenset[ScopeKey] | None = frozenset()
        self.strayed: dict[str, GtidSet] = {}
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
        """Let go of the files."""
        for connection in self._connections:
            with suppress(sqlite3.Error):  # whatever was to be kept has been committed
                connection.close()
        self._connections.clear()
        with suppress(OSError):
            self.marks.close()

    def discard(self) -> None:
        """Keep nothing of what was found but what has no name: it was not read at the start."""
        self._attempt(self._rows.discard)
        self.scopes = []
        self._attempt(self.marks.clear_foreign)

    def write(self, changes: Sequence[Change], gone: Sequence[int]) -> Written:
        """Keep scopes, and forget those of these numbers, which others may have then."""
        return self._attempt(lambda: self._rows.write(changes, gone))

    def add_unlogged(self, keys: Sequence[ScopeKey]) -> None:
        """Something without a name was written in these; none of them: in any.

        It is on the disk when this returns.
        """
        named = [(kind.value, encode_text(name)) for kind, name in keys] or [(_ANY_SCOPE, b"")]
        self._attempt(
            lambda: self._urgent.executemany(
                "INSERT OR IGNORE INTO unlogged_scopes VALUES (?, ?)", named
            )
        )

    def keep_strayed(self, strayed: Mapping[str, GtidSet]) -> None:
        """Keep this instead of `strayed`; it is on the disk when this returns."""
        self._attempt(lambda: self._keep_strayed(strayed))

    def end(self, used: Iterable[tuple[int, int]]) -> None:
        """Say that nothing is missing, with when scopes were last used: (UTC µs, number)."""
        self._attempt(lambda: self._end(used))

    def abandon(self) -> None:
        """Let nobody rely on what is kept, since marks cannot be made any more."""
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
        # From here on only marks tell what is missing.
        for one in self.scopes:
            if one.kept.unknown:
                self.marks.set(one.number)
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

        strayed: dict[str, list[GtidRow]] = {}
        for server_uuid, uuid, tag, start, end in self._connection.execute(
            "SELECT server_uuid, source_uuid, gtid_tag, interval_start, interval_end"
            " FROM strayed_gtids"
        ):
            strayed.setdefault(server_uuid, []).append((uuid, tag, start, end))
        self.strayed = {uuid: from_rows(found) for uuid, found in strayed.items()}

    # Writing

    def _keep_strayed(self, strayed: Mapping[str, GtidSet]) -> None:
        with Transaction(self._urgent):
            self._urgent.execute("DELETE FROM strayed_gtids")
            self._urgent.executemany(
                "INSERT INTO strayed_gtids VALUES (?, ?, ?, ?, ?)",
                [(uuid, *row) for uuid, gtids in strayed.items() for row in rows(gtids)],
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
    """In which scopes something without a name was written, by a file that nobody has open.

    Returns:
        None for all of them; no scopes where there is no file.

    Raises:
        StateError: it cannot be read.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return frozenset()
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            return _unlogged(connection) if version == _VERSION else frozenset()
    except (sqlite3.Error, ValueError) as error:
        raise StateError(
            f"scope file {path}: {error}; move it away: scopes begin as unknown then"
        ) from error


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
