"""Clients that write and read registers on a real cluster, and the history of what they saw.

Every client is a thread with a register of its own: only it writes there, each time a new value,
and everybody reads it. A client whose scope is wider than a connection writes on one connection and
reads on another, as applications with a pool do. The registers lie in several tables, so that a
replica applies their writes in parallel.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import itertools
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from routing.consistency import read_level
from routing.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.history import Read, ScopeKey, Stamps, Write

TABLES = 4
USERS = {APP_USER: APP_PASSWORD, "app2": "app2-secret"}
READS_PER_WRITE = 3
STALLED_S = 60
"""A run in which no read was answered for so long has failed."""

_INSERT = "INSERT INTO app.registers{table} VALUES ({register}, 0)"
_WRITE = "UPDATE app.registers{table} SET value = {value} WHERE id = {register}"
_READ = "SELECT value FROM app.registers{table} WHERE id = {register}"
_WRITTEN = re.compile(r"UPDATE app\.registers\d+ SET value = (\d+) WHERE")

Reached = Callable[[float], None]
"""Waits until clients have done this share of their reads."""


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


def clients(consistencies: Sequence[str], scopes: Sequence[Scope], each: int = 1) -> list[Client]:
    """So many clients for each consistency in each scope, of two users and two applications."""
    asked = [pair for pair in itertools.product(consistencies, scopes) for _ in range(each)]
    return [
        Client(n, consistency, scope, list(USERS)[n % 2], f"application{n // 2 % 2}")
        for n, (consistency, scope) in enumerate(asked)
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


Door = Callable[[Client, str], Session]
"""Opens a client's session, with a name that no other has."""


class ThroughTidegate:
    """One connection to a proxy, or two where the scope is wider than one."""

    def __init__(self, proxy: RunningProxy, client: Client, name: str) -> None:
        self._writer = self._connect(proxy, client)
        self._reader = self._writer
        if client.scope is not Scope.CONNECTION:
            self._reader = self._connect(proxy, client)
        shared = {
            (Scope.USER, client.user),
            (Scope.APPLICATION, client.application),
            (Scope.PROXY, ""),
        }
        same = self._reader is self._writer
        self.write_scopes = frozenset({(Scope.CONNECTION, name), *shared})
        self.read_scopes = frozenset({(Scope.CONNECTION, name if same else f"{name}r"), *shared})

    def _connect(self, proxy: RunningProxy, client: Client) -> Connection[Cursor]:
        connection = proxy.connect(client.user, USERS[client.user])
        _run(connection, f"SET tidegate_consistency = '{client.consistency}'")
        _run(connection, f"SET tidegate_scope = '{client.scope}'")
        _run(connection, f"SET tidegate_application = '{client.application}'")
        return connection

    def write(self, sql: str) -> None:
        _run(self._writer, sql)

    def read(self, sql: str) -> int:
        return _value(self._reader, sql)

    def close(self) -> None:
        for connection in {self._writer, self._reader}:
            _close(connection)


class WithoutTidegate:
    """Writes at the primary, and reads at the replicas in turn."""

    def __init__(self, cluster: Cluster, client: Client, name: str) -> None:
        password = USERS[client.user]
        self._writer = cluster.primary.connect(client.user, password)
        self._readers = [replica.connect(client.user, password) for replica in cluster.replicas]
        self._turns = itertools.cycle(self._readers)
        self.write_scopes = frozenset(
            {
                *((Scope.CONNECTION, name), (Scope.USER, client.user), (Scope.PROXY, "")),
                (Scope.APPLICATION, client.application),
            }
        )
        self.read_scopes = self.write_scopes

    def write(self, sql: str) -> None:
        _run(self._writer, sql)

    def read(self, sql: str) -> int:
        return _value(next(self._turns), sql)

    def close(self) -> None:
        for connection in (self._writer, *self._readers):
            _close(connection)


@dataclass
class Seen:
    """What the clients of a run did and saw.

    Attributes:
        history: for the checker; with the order of commits.
        errors: what statements were refused with or lost to, how often each.
    """

    history: list[Write | Read] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def reads(self) -> list[Read]:
        """The reads that were answered."""
        return [one for one in self.history if isinstance(one, Read)]


class Workload:
    """Clients at work until they have done so many reads and a disturbance is over."""

    def __init__(self, cluster: Cluster, clients: list[Client], *, other_doors: int = 0) -> None:
        """`other_doors` threads write at the primary itself, each a register of its own."""
        self._cluster = cluster
        self._clients = clients
        self._other_doors = range(len(clients), len(clients) + other_doors)
        self._registers = [*range(len(clients)), *self._other_doors]
        self._stamps = Stamps()
        self._values = itertools.count(1)
        self._seen = Seen()
        self._reads = 0
        self._moved = threading.Condition()
        self._over = threading.Event()
        self._first_log, self._first_position = self._prepare()

    def _prepare(self) -> tuple[str, str]:
        """Put the initial values on all servers; where the primary's binary log then ends."""
        primary = self._cluster.primary
        for user, password in USERS.items():
            primary.query(f"CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY '{password}'")
            primary.query(f"GRANT ALL ON app.* TO {user}@'%'")
        for table in range(TABLES):
            primary.query(f"DROP TABLE IF EXISTS app.registers{table}")
            primary.query(f"CREATE TABLE app.registers{table} (id INT PRIMARY KEY, value BIGINT)")
        for register in self._registers:
            primary.query(_INSERT.format(table=register % TABLES, register=register))
        self._cluster.wait_caught_up()
        for server in self._cluster.servers:
            server.query("SET GLOBAL binlog_rows_query_log_events = ON")
        log, position, *_ = primary.query("SHOW BINARY LOG STATUS")[0]
        return str(log), str(position)

    def run(
        self, door: Door, reads: int, during: Callable[[Cluster, Reached], None] | None = None
    ) -> Seen:
        """Let the clients work, and `during` disturb them.

        Raises:
            TimeoutError: the clients do not get on, or one of them failed, whose error this shows.
        """
        with ThreadPoolExecutor(len(self._registers)) as threads:
            working = [threads.submit(self._live, client, door) for client in self._clients]
            working += [threads.submit(self._write_only, number) for number in self._other_doors]
            try:
                if during is not None:
                    during(self._cluster, lambda share: self._wait(share * reads))
                self._wait(reads)
            finally:
                self._over.set()
                for thread in working:
                    thread.result()
        self._put_in_order()
        return self._seen

    def _wait(self, reads: float) -> None:
        with self._moved:
            while self._reads < reads:
                if not self._moved.wait(STALLED_S):
                    raise TimeoutError(f"stuck after {self._reads} reads: {self._seen.errors}")

    # --- what clients do -----------------------------------------------------------------------

    def _live(self, client: Client, door: Door) -> None:
        """Use one session after the other; each ends with its first error."""
        chance = random.Random(client.register)
        for number in itertools.count():
            if self._over.is_set():
                return
            try:
                session = door(client, f"client{client.register}.{number}")
                with contextlib.closing(session):
                    self._use(session, client, chance)
            except (pymysql.err.MySQLError, OSError) as error:
                self._failed(error)

    def _use(self, session: Session, client: Client, chance: random.Random) -> None:
        """Write and read until an error or the end."""
        name = f"client{client.register}"
        peers = [other.register for other in self._clients if _share(client, other)]
        while not self._over.is_set():
            self._write(name, client.register, session.write_scopes, session.write)
            for _ in range(READS_PER_WRITE):
                registers = peers if chance.random() < 0.7 else self._registers
                self._read(name, client, chance.choice(registers), session)

    def _write_only(self, register: int) -> None:
        connection = self._cluster.primary.connect()
        with contextlib.closing(connection):
            while not self._over.wait(0.002):
                self._write(
                    f"door{register}", register, frozenset(), lambda sql: _run(connection, sql)
                )

    def _write(
        self,
        name: str,
        register: int,
        scopes: frozenset[ScopeKey],
        run: Callable[[str], None],
    ) -> None:
        value = next(self._values)
        invoked = self._stamps()
        acknowledged = None
        try:
            run(_WRITE.format(table=register % TABLES, value=value, register=register))
            acknowledged = self._stamps()
        finally:
            write = Write(name, scopes, register, value, invoked, acknowledged)
            self._seen.history.append(write)

    def _read(self, name: str, client: Client, register: int, session: Session) -> None:
        level, staleness = read_level(client.consistency)
        scope = next(key for key in session.read_scopes if key[0] is client.scope)
        invoked = self._stamps()
        value = session.read(_READ.format(table=register % TABLES, register=register))
        returned = self._stamps()
        self._seen.history.append(
            Read(
                *(name, scope, level, register, value, invoked, returned),
                *(round((staleness or 0) * 1e9), session.read_scopes),
            )
        )
        with self._moved:
            self._reads += 1
            self._moved.notify_all()

    def _failed(self, error: Exception) -> None:
        with self._moved:
            self._seen.errors[f"{error}"] += 1
        time.sleep(0.02)

    # --- afterwards ----------------------------------------------------------------------------

    def _put_in_order(self) -> None:
        """Give each write its place in the primary's binary log."""
        logs = [str(row[0]) for row in self._cluster.primary.query("SHOW BINARY LOGS")]
        places: dict[int, int] = {}
        for log in logs[logs.index(self._first_log) :]:
            position = self._first_position if log == self._first_log else "4"
            for value in _logged_values(self._cluster.primary, log, position):
                places[value] = len(places)
        self._seen.history[:] = [
            replace(one, order=places.get(one.value)) if isinstance(one, Write) else one
            for one in self._seen.history
        ]


def _logged_values(server: RealServer, log: str, position: str) -> list[int]:
    """The values that were written to registers, in the order of a binary log."""
    events = server.query(f"SHOW BINLOG EVENTS IN '{log}' FROM {position}")
    statements = (str(event[5]) for event in events if event[2] == "Rows_query")
    found = (_WRITTEN.search(statement) for statement in statements)
    return [int(match[1]) for match in found if match]


def _share(client: Client, other: Client) -> bool:
    """Whether one client's writes are the other's own."""
    if client.scope is Scope.CONNECTION:
        return client.register == other.register
    if client.scope is Scope.USER:
        return client.user == other.user
    if client.scope is Scope.APPLICATION:
        return client.application == other.application
    return True


def _run(connection: Connection[Cursor], sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _value(connection: Connection[Cursor], sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        ((value,),) = cursor.fetchall()
    return int(value)


def _close(connection: Connection[Cursor]) -> None:
    with contextlib.suppress(pymysql.err.MySQLError, OSError):
        connection.close()
