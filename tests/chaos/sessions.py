"""What a client's habit makes of its writes and reads of registers.

A register is a row of one of several tables, so that replicas apply writes in parallel. Whoever
writes and reads is told in which scopes that counted.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from itertools import cycle
from typing import Protocol

from tests.chaos.clients import Accounts, Client, Habit
from tests.chaos.links import FAILURES, ConnectorLink, Link, LoginError, PyMySQLLink
from tests.real_mysql.server import RealServer
from tests.support.history import ScopeKey

TABLES = 4
_WRITE = "UPDATE app.registers{table} SET value = {{}} WHERE id = {{}}"
_READ = "SELECT value FROM app.registers{table} WHERE id = {{}}"
_ALL = "SELECT id, value FROM app.registers{}"
_IDLE_LINKS = 2

Scopes = frozenset[ScopeKey]


def write_register(link: Link, register: int, value: int, comment: str = "") -> None:
    """Set a register; the number stands in the primary's binary log as it does here."""
    link.execute(comment + _WRITE.format(table=register % TABLES), value, register)


def read_register(link: Link, register: int, comment: str = "") -> int:
    """What a register holds; 0 where there is no such row yet."""
    rows = link.select(comment + _READ.format(table=register % TABLES), register)
    return int(str(rows[0][0])) if rows else 0


def all_registers(server: RealServer) -> dict[int, int]:
    """What a server holds in each register."""
    return {
        int(str(register)): int(str(value))
        for table in range(TABLES)
        for register, value in server.query(_ALL.format(table))
    }


class Session(Protocol):
    """A client's connections, until the first error."""

    def write(self, register: int, value: int, *, in_transaction: bool) -> Scopes:
        """Write, and tell in which scopes that counts as own."""

    def read(self, register: int) -> tuple[int, Scopes]:
        """Read, and tell in which scopes that counts as seen."""

    def begin_snapshot(self) -> bool:
        """Whether the reads up to `end_snapshot` share the state of the first of them."""

    def end_snapshot(self) -> None:
        """Let the next reads see what is new."""

    def close(self) -> None:
        """Close all connections."""


def set_rules(link: Link, client: Client) -> None:
    """Say by SET what a client asks for."""
    link.execute(
        f"SET tidegate_consistency = '{client.consistency}', tidegate_scope = '{client.scope}',"
        f" tidegate_application = '{client.application}'"
    )


class PairSession:
    """One connection, or one to write and one to read where the scope is wider than one."""

    def __init__(self, port: int, accounts: Accounts, client: Client, name: str) -> None:
        self._client = client
        self._links: list[Link] = []
        self._port, self._password = port, accounts.passwords[client.user]
        narrow = client.scope.value == "connection"
        try:
            self._writer = self._reader = self._open()
            if not narrow or client.habit is Habit.TOKEN:
                self._reader = self._open()
        except BaseException:
            self.close()
            raise
        # The bearer of each token reads as if on the connection that wrote.
        alone = self._reader is self._writer or client.habit is Habit.TOKEN
        self._write_scopes = client.scopes(name)
        self._read_scopes = client.scopes(name if alone else f"{name}, reading")
        rules = f"consistency={client.consistency} scope={client.scope}"
        comments = client.habit is Habit.COMMENTS
        own = f"application='{client.application}'"
        self._read_comment = f"/* tidegate {rules} {own} */ " if comments else ""
        self._write_comment = f"/* tidegate {own} */ " if comments else ""
        self._owes_token = False
        self._beginnings = cycle(("START TRANSACTION READ ONLY", "", "BEGIN", ""))
        self._in_snapshot = False

    def _open(self) -> Link:
        client, habit = self._client, self._client.habit
        link: Link
        if habit is Habit.ATTRIBUTES:
            link = ConnectorLink(
                *(self._port, client.user, self._password),
                attributes={
                    "tidegate.consistency": client.consistency,
                    "tidegate.scope": str(client.scope),
                    "tidegate.application": client.application,
                },
            )
        elif habit in (Habit.PREPARED, Habit.COMPRESSED):
            compressed = habit is Habit.COMPRESSED
            link = ConnectorLink(
                *(self._port, client.user, self._password), prepared=True, compressed=compressed
            )
        else:
            link = PyMySQLLink(self._port, client.user, self._password)
        self._links.append(link)
        if habit not in (Habit.ATTRIBUTES, Habit.COMMENTS):
            set_rules(link, client)
        if client.bend:
            link.execute(client.bend)
        return link

    def write(self, register: int, value: int, *, in_transaction: bool) -> Scopes:
        # In a transaction it is COMMIT that writes, and it would need the comment, too.
        if in_transaction and not self._write_comment:
            self._writer.execute("BEGIN")
            write_register(self._writer, register, value)
            self._writer.execute("COMMIT")
        else:
            write_register(self._writer, register, value, self._write_comment)
        self._owes_token = self._client.habit is Habit.TOKEN
        return self._write_scopes

    def read(self, register: int) -> tuple[int, Scopes]:
        if self._owes_token:
            ((token,),) = self._writer.select("SELECT @@tidegate_token")
            self._reader.execute(f"SET tidegate_token = '{token}'")
            self._owes_token = False
        return read_register(self._reader, register, self._read_comment), self._read_scopes

    def begin_snapshot(self) -> bool:
        if self._client.habit is not Habit.TRANSACTIONS:
            return False
        begin = next(self._beginnings)
        if begin:
            self._reader.execute(begin)
        self._in_snapshot = bool(begin)
        return self._in_snapshot

    def end_snapshot(self) -> None:
        if self._in_snapshot:
            self._reader.execute("COMMIT")
            self._in_snapshot = False

    def close(self) -> None:
        for link in self._links:
            link.close()


class Pool:
    """Connections of one user that clients hand on to each other, reset in between."""

    def __init__(self, port: int, accounts: Accounts, user: str) -> None:
        self._port, self._accounts, self._user = port, accounts, user
        self._idle: deque[tuple[Link, str]] = deque()
        self._lock = threading.Lock()
        self._opened = 0

    @contextlib.contextmanager
    def link(self, client: Client) -> Iterator[tuple[Link, str]]:
        """A connection under a client's rules, and its name; after an error nobody gets it."""
        with self._lock:
            taken = self._idle.popleft() if self._idle else None
            self._opened += taken is None
            name = f"{self._user}'s pooled connection {self._opened}"
        if taken is None:
            taken = self._open(), name
        link, name = taken
        try:
            set_rules(link, client)
            yield link, name
            link.reset()
        except BaseException:
            link.close()
            raise
        with self._lock:
            if len(self._idle) < _IDLE_LINKS:
                self._idle.append((link, name))
                return
        link.close()

    def _open(self) -> Link:
        try:
            return ConnectorLink(self._port, self._user, self._accounts.passwords[self._user])
        except FAILURES as error:
            raise LoginError from error

    def close(self) -> None:
        """Close the idle ones."""
        with self._lock:
            for link, _ in self._idle:
                link.close()
            self._idle.clear()


class PooledSession:
    """Takes a connection of a pool for each statement."""

    def __init__(self, pool: Pool, client: Client) -> None:
        self._pool, self._client = pool, client

    def write(self, register: int, value: int, *, in_transaction: bool) -> Scopes:
        with self._pool.link(self._client) as (link, name):
            write_register(link, register, value)
            return self._client.scopes(name)

    def read(self, register: int) -> tuple[int, Scopes]:
        with self._pool.link(self._client) as (link, name):
            return read_register(link, register), self._client.scopes(name)

    def begin_snapshot(self) -> bool:
        return False

    def end_snapshot(self) -> None:
        pass

    def close(self) -> None:
        pass
