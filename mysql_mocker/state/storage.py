"""One connection to a server's data: what a session, or the applier, reads and writes through."""

import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mysql_mocker.replication.binlog import Write
from mysql_mocker.replication.logged_statement import LoggedStatement
from mysql_mocker.sql import functions
from mysql_mocker.sql.value import Value

MAX_STATEMENT_SECONDS = 5.0
"""A statement that runs longer is interrupted, because it holds up the whole process."""

_STEPS_BETWEEN_CHECKS = 100_000


Parameters = Sequence[Value] | Mapping[str, Value]


class Storage:
    """A SQLite connection in WAL mode: reads have a snapshot, one connection writes at a time.

    Table `t` of schema `s` is the SQLite table ``"s.t"``.

    Attributes:
        surroundings: clock, random numbers and user variables of the running statement.
        returned: the rows of the last write's RETURNING.
        counters: the last AUTO_INCREMENT number of each temporary table.
        deadline: monotonic time after which a running statement is interrupted.
    """

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.surroundings = functions.Surroundings()
        self.deadline = float("inf")
        self.returned: list[tuple[Value, ...]] = []
        self.counters: dict[str, int] = {}
        self._monotonic = monotonic
        self._connection = sqlite3.connect(
            path, isolation_level=None, cached_statements=64,
            check_same_thread=False,  # a cluster may be made in another thread than it runs in
        )  # fmt: skip
        for pragma in ("journal_mode=WAL", "synchronous=OFF", "foreign_keys=ON",
                       "temp_store=MEMORY", "recursive_triggers=ON"):  # fmt: skip
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.set_progress_handler(self._too_long, _STEPS_BETWEEN_CHECKS)
        functions.register(self._connection, self.surroundings)

    def _too_long(self) -> bool:
        return self._monotonic() > self.deadline

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        self._connection.close()

    @property
    def in_transaction(self) -> bool:
        """Whether a SQLite transaction is open."""
        return self._connection.in_transaction

    def begin(self, *, write: bool) -> None:
        """Opens a transaction; a reading one gets its snapshot with its first read."""
        self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN DEFERRED")

    def commit(self) -> None:
        """Makes the open transaction visible to all."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undoes the open transaction."""
        self._connection.execute("ROLLBACK")

    def savepoint(self, action: str, name: str) -> None:
        """`action` is ``SAVEPOINT``, ``ROLLBACK TO`` or ``RELEASE``."""
        self._connection.execute(f'{action} "{name.replace(chr(34), chr(34) * 2)}"')

    def resolve(self, sql: str, parameters: Parameters = ()) -> None:
        """Looks up the names in a statement, without running it.

        Raises:
            sqlite3.Error: a name is unknown.
        """
        self._connection.execute(f"EXPLAIN {sql}", parameters).close()

    def read(
        self, sql: str, parameters: Parameters = ()
    ) -> tuple[list[str], list[tuple[Value, ...]]]:
        """Column names and all rows."""
        self.deadline = self._monotonic() + MAX_STATEMENT_SECONDS
        cursor = self._connection.execute(sql, parameters)
        names = [column[0] for column in cursor.description or ()]
        return names, cursor.fetchall()

    def value(self, sql: str, parameters: Parameters = ()) -> Value:
        """The first value of the first row, None without a row."""
        rows = self.read(sql, parameters)[1]
        return rows[0][0] if rows else None

    def write(self, write: Write) -> tuple[int, int]:
        """Runs a statement that changes data.

        Returns:
            The rows that it touched and the last rowid that it gave out.
        """
        self.surroundings.set(write.timestamp, write.seed)
        self.deadline = self._monotonic() + MAX_STATEMENT_SECONDS
        cursor = self._connection.execute(write.sql, write.parameters)
        self.returned = cursor.fetchall()
        return max(0, cursor.rowcount), cursor.lastrowid or 0

    def note(
        self,
        sql: str,
        parameters: Mapping[str, Value],
        timestamp: float,
        statement: LoggedStatement | None = None,
    ) -> Write:
        """A write with the clock `timestamp` and fresh random numbers, not run yet."""
        return Write(sql, dict(parameters), timestamp, random.getrandbits(62), statement)

    def apply(
        self, writes: Sequence[Write], before_commit: Callable[[], None] | None = None
    ) -> None:
        """Runs another server's transaction and commits it; all of it or nothing."""
        self.begin(write=True)
        try:
            for write in writes:
                self.write(write)
            if before_commit is not None:
                before_commit()
        except sqlite3.Error:
            self.rollback()
            raise
        self.commit()
