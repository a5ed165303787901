"""Clients that write and read registers on a real cluster, and the history of what they saw.

Every client is a thread with a register of its own: only it writes there, each time a new value,
and everybody reads it. The registers lie in several tables, so that a replica applies their writes
in parallel.
"""

import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pymysql

from routing.consistency.adjustment import read_level
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.commit_order import CommitOrder
from tests.real_mysql.routes import USERS, Client, Route, Session, execute
from tests.support.history import Read, ScopeKey, Stamps, Write

TABLES = 4
READS_PER_WRITE = (1, 3, 30)
STALLED_S = 60
"""A run in which no read was answered for so long has failed."""

_INSERT = "INSERT INTO app.registers{table} VALUES ({register}, 0)"
_WRITE = "UPDATE app.registers{table} SET value = {value} WHERE id = {register}"
_READ = "SELECT value FROM app.registers{table} WHERE id = {register}"


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
        return [operation for operation in self.history if isinstance(operation, Read)]


During = Callable[[Cluster, "Workload"], None]
"""What is done to a cluster meanwhile."""


class Workload:
    """Clients at work until they have done so many reads and a disturbance is over.

    Attributes:
        quiet: clients only read, so that what they must see stands still; direct writers go on.
    """

    def __init__(self, cluster: Cluster, clients: list[Client], *, direct_writers: int = 0) -> None:
        """`direct_writers` threads write at the primary itself, each a register of its own."""
        self._cluster = cluster
        self._clients = clients
        self._direct_writers = range(len(clients), len(clients) + direct_writers)
        self._registers = [*range(len(clients)), *self._direct_writers]
        self._stamps = Stamps()
        self._values = itertools.count(1)
        self._seen = Seen()
        self.quiet = False
        self._reads = 0
        self._wanted = 0
        self._moved = threading.Condition()
        self._over = threading.Event()
        self._order = self._prepare()

    def _prepare(self) -> CommitOrder:
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
        return CommitOrder(primary)

    def run(self, route: Route, reads: int, during: During) -> Seen:
        """Let the clients work, and `during` disturb them.

        Raises:
            TimeoutError: the clients do not get on, or one of them failed, whose error this shows.
        """
        with ThreadPoolExecutor(len(self._registers)) as threads:
            working = [threads.submit(self._live, client, route) for client in self._clients]
            working += [threads.submit(self._write_only, number) for number in self._direct_writers]
            self._wanted = reads
            try:
                during(self._cluster, self)
                self._wait(reads)
            finally:
                self._over.set()
                for thread in working:
                    thread.result()
        self._put_in_order()
        return self._seen

    def read_on(self, share: float) -> None:
        """Wait until a further share of the reads that were asked for is done.

        Raises:
            TimeoutError: as `run`.
        """
        self._wait(self._reads + share * self._wanted)

    def _wait(self, reads: float) -> None:
        with self._moved:
            while self._reads < reads:
                if not self._moved.wait(STALLED_S):
                    raise TimeoutError(f"stuck after {self._reads} reads: {self._seen.errors}")

    # --- what clients do -----------------------------------------------------------------------

    def _live(self, client: Client, route: Route) -> None:
        """Use one session after the other; each ends with its first error."""
        chance = random.Random(client.register)
        for number in itertools.count():
            if self._over.is_set():
                return
            try:
                session = route(client, f"client{client.register}.{number}")
                with contextlib.closing(session):
                    self._use(session, client, chance)
            except (pymysql.err.MySQLError, OSError) as error:
                self._failed(error)

    def _use(self, session: Session, client: Client, chance: random.Random) -> None:
        """Write and read until an error or the end."""
        name = f"client{client.register}"
        peers = [other.register for other in self._clients if client.owns(other)]
        of_interest = [peers, list(self._direct_writers) or peers, self._registers]
        while not self._over.is_set():
            if not self.quiet:
                self._write(name, client.register, session.write_scopes, session.write)
            for _ in range(chance.choice(READS_PER_WRITE)):
                self._read(name, client, chance.choice(chance.choice(of_interest)), session)

    def _write_only(self, register: int) -> None:
        connection = self._cluster.primary.connect()
        with contextlib.closing(connection):
            while not self._over.wait(0.002):
                self._write(
                    f"direct{register}", register, frozenset(), lambda sql: execute(connection, sql)
                )

    def _write(
        self,
        name: str,
        register: int,
        scopes: frozenset[ScopeKey],
        send: Callable[[str], None],
    ) -> None:
        value = next(self._values)
        invoked = self._stamps()
        acknowledged = None
        try:
            send(_WRITE.format(table=register % TABLES, value=value, register=register))
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
        places = self._order.places()
        self._seen.history[:] = [
            replace(operation, order=places.get(operation.value))
            if isinstance(operation, Write)
            else operation
            for operation in self._seen.history
        ]
