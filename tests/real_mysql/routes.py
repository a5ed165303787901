"""The clients of a workload, and the ways by which they come to the servers.

A client whose scope is wider than a connection writes on one connection and reads on another, as
applications with a pool do.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from routing.consistency.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.history import ScopeKey

_FIRST_ID = 0x4000_0000
_IDS_OF_A_WORKER = 0x0100_0000

USERS = {APP_USER: APP_PASSWORD, "app2": "app2-secret"}


@dataclass(frozen=True, slots=True)
class Client:
    """One thread of an application.

    Attributes:
        register: the one that it writes.
        consistency: what it asks for, as SET writes it.
        scope: in which scope.
        user: its account.
        application: its application's key.
    """

    register: int
    consistency: str
    scope: Scope
    user: str
    application: str

    def scopes(self, connection: str) -> frozenset[ScopeKey]:
        """All to which something on one of its connections belongs."""
        own = {(Scope.CONNECTION, connection), (Scope.PROXY, "")}
        return frozenset({*own, (Scope.USER, self.user), (Scope.APPLICATION, self.application)})

    def owns(self, other: Client) -> bool:
        """Whether what another client writes counts as this one's own."""
        if self.scope is Scope.CONNECTION:
            return self.register == other.register
        if self.scope is Scope.USER:
            return self.user == other.user
        if self.scope is Scope.APPLICATION:
            return self.application == other.application
        return True


def clients(consistencies: Sequence[str], scopes: Sequence[Scope], each: int = 1) -> list[Client]:
    """So many clients for each consistency in each scope, of two users and two applications."""
    combinations = [pair for pair in itertools.product(consistencies, scopes) for _ in range(each)]
    return [
        Client(n, consistency, scope, list(USERS)[n % 2], f"application{n // 2 % 2}")
        for n, (consistency, scope) in enumerate(combinations)
    ]


class Session(Protocol):
    """A client's connections.

    Attributes:
        write_scopes: in which its writes count as own.
        read_scopes: in which its reads count as seen.
    """

    write_scopes: frozenset[ScopeKey]
    read_scopes: frozenset[ScopeKey]

    def write(self, sql: str) -> None:
        """Run a statement that writes."""

    def read(self, sql: str) -> int:
        """The value that a statement selects."""

    def close(self) -> None:
        """Close all connections."""


Route = Callable[[Client, str], Session]
"""Opens a client's session, with a name that no other has."""


class ThroughTidegate:
    """One connection to a proxy, or two where the scope is wider than one."""

    def __init__(self, proxy: RunningProxy, client: Client, name: str) -> None:
        self._writer = self._connect(proxy, client)
        self._reader = self._writer
        if client.scope is not Scope.CONNECTION:
            self._reader = self._connect(proxy, client)
        reader = name if self._reader is self._writer else f"{name}, reading"
        self.write_scopes = client.scopes(name)
        self.read_scopes = client.scopes(reader)

    def _connect(self, proxy: RunningProxy, client: Client) -> Connection[Cursor]:
        connection = proxy.connect(client.user, USERS[client.user])
        execute(connection, f"SET tidegate_consistency = '{client.consistency}'")
        execute(connection, f"SET tidegate_scope = '{client.scope}'")
        execute(connection, f"SET tidegate_application = '{client.application}'")
        return connection

    def write(self, sql: str) -> None:
        execute(self._writer, sql)

    def read(self, sql: str) -> int:
        return select(self._reader, sql)

    def close(self) -> None:
        for connection in {self._writer, self._reader}:
            hang_up(connection)


class InSnapshots(ThroughTidegate):
    """Each read is the first of a READ ONLY transaction; those behind it find what it found."""

    def read(self, sql: str) -> int:
        execute(self._reader, "START TRANSACTION READ ONLY")
        first = select(self._reader, sql)
        later = [select(self._reader, sql) for _ in range(2)]
        execute(self._reader, "COMMIT")
        assert later == [first] * 2
        return first


class WithoutTidegate:
    """Writes at the primary, and reads at the replicas in turn."""

    def __init__(self, cluster: Cluster, client: Client, name: str) -> None:
        password = USERS[client.user]
        self._writer = cluster.primary.connect(client.user, password)
        self._readers = [replica.connect(client.user, password) for replica in cluster.replicas]
        self._turns = itertools.cycle(self._readers)
        self.write_scopes = self.read_scopes = client.scopes(name)

    def write(self, sql: str) -> None:
        execute(self._writer, sql)

    def read(self, sql: str) -> int:
        return select(next(self._turns), sql)

    def close(self) -> None:
        for connection in (self._writer, *self._readers):
            hang_up(connection)


def execute(connection: Connection[Cursor], sql: str) -> None:
    """Run a statement that has no rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql)


def select(connection: Connection[Cursor], sql: str) -> int:
    """The only value of a result."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        ((value,),) = cursor.fetchall()
    return int(value)


def worker_of(session: Connection[Cursor]) -> int:
    """The number of the worker that serves a session."""
    with session.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SCOPES")
        own, *_ = cursor.fetchall()
    return (int(str(own[1])) - _FIRST_ID) // _IDS_OF_A_WORKER


def hang_up(connection: Connection[Cursor]) -> None:
    """Close a connection, whatever state it is in."""
    with contextlib.suppress(pymysql.err.MySQLError, OSError):
        connection.close()
