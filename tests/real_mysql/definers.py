"""What others do to tables, views, rights and replicas, past the proxy, while clients read."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.counter_clients import Judge
from tests.real_mysql.counter_tables import (
    GENERATION,
    MADE_ANEW,
    ROWS,
    WHERE_VIEWS_LEAD,
    quoted_name,
)
from tests.real_mysql.routes import hang_up
from tests.real_mysql.server import RealServer

_TRIGGER: Final = (
    "CREATE TRIGGER comes AFTER UPDATE ON dtg FOR EACH ROW"
    " UPDATE dtlog SET v = NEW.v WHERE id = NEW.id"
)
_FOREIGN_KEY: Final = (
    "ALTER TABLE dchi ADD CONSTRAINT dfk FOREIGN KEY (v) REFERENCES dpar (v) ON UPDATE CASCADE"
)


@dataclass
class State:
    """What decides which definition may come next.

    Attributes:
        tv_is_view: `tv` is a view now, not a table.
        triggered: the trigger `comes` is there.
        tied: the foreign key `dfk` is there.
    """

    tv_is_view: bool = False
    triggered: bool = False
    tied: bool = True


class Definer:
    """Somebody at the primary itself, who defines things anew and anew.

    Args:
        judge: of the clients.
        primary: where.
        seed: of the choices.
        pause: between two definitions, at most, s.
        purges: whether it removes old binary logs, which a server that is away may need.

    Attributes:
        lock: whoever holds it lets nothing be defined meanwhile.
        done: how often each was done.
        refused: what the server refused.
    """

    def __init__(
        self, judge: Judge, primary: RealServer, seed: int, pause: float, *, purges: bool = True
    ) -> None:
        self.lock = threading.Lock()
        self._purges = purges
        self._judge = judge
        self._primary = primary
        self._chance = random.Random(seed)
        self._pause = pause
        self._generation = 1
        self._state = State()
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def run(self) -> None:
        """Define until all is over."""
        with contextlib.ExitStack() as self._connections:
            self._connect()
            acts: list[Callable[[], None]] = [
                *[self._redefine_view] * 5,
                *[self._exchange_names] * 4,
                *[self._make_anew] * 2,
                *[self._table_or_view] * 3,
                *[self._trigger] * 2,
                *[self._foreign_key] * 2,
                *(self._truncate, self._alter, self._rights, self._logs, self._maintain),
                *(self._exchange_partition, self._prepared_transaction, self._redefine_function),
                *(self._tagged, self._swap_in_one, self._temporary),
            ]
            while not self._judge.over.wait(self._chance.uniform(0, self._pause)):
                with self.lock:
                    self._do(self._chance.choice(acts))

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except pymysql.err.MySQLError as error:
            self.refused[f"{act.__name__}: {error!r}"] += 1
            self._run("ROLLBACK")
        else:
            self.done[act.__name__.strip("_")] += 1

    def _connect(self) -> None:
        self._connection: Connection[Cursor] = self._primary.admin("app")
        self._connections.callback(hang_up, self._connection)
        self._run("SET lock_wait_timeout = 5")

    @property
    def state(self) -> State:
        """What is defined at present; for who holds the lock."""
        return replace(self._state)

    def move(self, primary: RealServer, state: State) -> None:
        """Go on at another server, where so much is defined; for who holds the lock."""
        self._primary = primary
        self._state = state
        self._connect()

    def _run(self, *statements: str) -> None:
        with self._connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def _redefine_view(self) -> None:
        self._generation += 1
        table = quoted_name(self._chance.choice(WHERE_VIEWS_LEAD))
        offset = self._generation * GENERATION
        query = f"SELECT id, ident + {offset} AS ident, v FROM {table}"  # noqa: S608 - of the test
        self._run(
            self._chance.choice(["ALTER VIEW vr AS ", "CREATE OR REPLACE VIEW vr AS "]) + query
        )

    def _exchange_names(self) -> None:
        self._run("RENAME TABLE sw_a TO sw_c, sw_b TO sw_a, sw_c TO sw_b")

    def _swap_in_one(self) -> None:
        """A table and one of another schema change places."""
        self._run("RENAME TABLE sw_a TO other.sw_a", "RENAME TABLE sw_b TO sw_a")
        self._run("RENAME TABLE other.sw_a TO sw_b")

    def _make_anew(self) -> None:
        self._generation += 1
        ident = self._generation * GENERATION + MADE_ANEW
        make = f"(PRIMARY KEY (id)) AS SELECT id, {ident} AS ident, -id AS v FROM c0"  # noqa: S608 - of the test
        if self._chance.random() < 0.5:
            self._run("DROP TABLE d", f"CREATE TABLE d {make}")
        else:
            self._run(f"CREATE TABLE d_next {make}", "RENAME TABLE d TO d_last, d_next TO d")
            self._run("DROP TABLE d_last")

    def _table_or_view(self) -> None:
        if self._state.tv_is_view:
            self._run("DROP VIEW tv", "RENAME TABLE tv_table TO tv")
        else:
            table = self._chance.choice(["c3", "c2", "sw_a", "vr", "other.c1"])
            self._run("RENAME TABLE tv TO tv_table")
            self._run(f"CREATE VIEW tv AS SELECT id, ident, v FROM {table}")  # noqa: S608 - of the test
        self._state.tv_is_view = not self._state.tv_is_view

    def _trigger(self) -> None:
        self._run("DROP TRIGGER comes" if self._state.triggered else _TRIGGER)
        self._state.triggered = not self._state.triggered

    def _foreign_key(self) -> None:
        if self._state.tied:
            self._run("ALTER TABLE dchi DROP FOREIGN KEY dfk")
        else:
            self._run("UPDATE dchi JOIN dpar USING (id) SET dchi.v = dpar.v")
            self._run("SET foreign_key_checks = 0", _FOREIGN_KEY, "SET foreign_key_checks = 1")
        self._state.tied = not self._state.tied

    def _truncate(self) -> None:
        self._run("TRUNCATE tr")
        value = self._judge.acknowledged.value()  # larger than all that was written before
        numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION SELECT i + 1 FROM n WHERE i < {ROWS})"  # noqa: S608 - of the test
        self._run(f"INSERT INTO tr {numbers} SELECT i, 21, {value} FROM n")  # noqa: S608 - of the test

    def _alter(self) -> None:
        table = self._chance.choice(["c1", "c2", "k", "part", "sw_b"])
        self._run(f"ALTER TABLE {table} COMMENT = 'x{self._generation}'")
        if self._chance.random() < 0.3:
            self._run(f"ALTER TABLE {table} FORCE")

    def _rights(self) -> None:
        self._run("CREATE USER passing", "GRANT SELECT ON app.* TO passing", "DROP USER passing")
        self._run("REVOKE SELECT ON app.sw_a FROM app" if self._chance.random() < 0 else "DO 0")

    def _logs(self) -> None:
        self._run("FLUSH BINARY LOGS")
        if self._chance.random() < 0.3:
            with self._connection.cursor() as cursor:
                cursor.execute("SHOW BINARY LOGS")
                names = [str(row[0]) for row in cursor.fetchall()]
            if self._purges and len(names) > 4:
                self._run(f"PURGE BINARY LOGS TO '{names[-3]}'")

    def _maintain(self) -> None:
        self._run(self._chance.choice(["ANALYZE TABLE c0", "OPTIMIZE TABLE k", "FLUSH TABLES"]))

    def _exchange_partition(self) -> None:
        """A partition goes out and comes back: its rows are gone for a moment, so none of them."""
        self._run("DROP TABLE IF EXISTS piece", "CREATE TABLE piece LIKE part")
        self._run("ALTER TABLE piece REMOVE PARTITIONING", "DROP TABLE piece")

    def _prepared_transaction(self) -> None:
        last = ROWS
        self._run("XA START 'd'", f"UPDATE c0 SET v = v + 1 WHERE id = {last}", "XA END 'd'")  # noqa: S608 - of the test
        self._run("XA PREPARE 'd'")
        self._judge.over.wait(self._chance.uniform(0, 0.3))
        self._run(self._chance.choice(["XA COMMIT 'd'", "XA ROLLBACK 'd'"]))

    def _redefine_function(self) -> None:
        self._run("DROP FUNCTION IF EXISTS passing")
        self._run("CREATE FUNCTION passing() RETURNS INT DETERMINISTIC NO SQL RETURN 1")

    def _tagged(self) -> None:
        self._run("SET gtid_next = 'AUTOMATIC:blue'")
        self._run(f"UPDATE c1 SET v = v + 1 WHERE id = {ROWS}", "SET gtid_next = 'AUTOMATIC'")  # noqa: S608 - of the test

    def _temporary(self) -> None:
        self._run("CREATE TEMPORARY TABLE c0 (id INT, ident INT, v BIGINT)", "DROP TABLE c0")


class Delayer:
    """Lets replicas fall behind and catch up, each in its own time; perhaps it kills them, too.

    Args:
        judge: of the clients.
        replicas: which.
        seed: of the choices.
        kills: whether it kills them and starts them again, the first one at once.

    Attributes:
        replicas: as above; for who holds the lock.
        lock: whoever holds it finds them up and applying, and lets nothing befall them.
        killed: how often one was killed and was up again.
        stopped: how often an applier was stopped and started again.
    """

    def __init__(
        self, judge: Judge, replicas: Sequence[RealServer], seed: int, *, kills: bool = False
    ) -> None:
        self._over: threading.Event = judge.over
        self.replicas = replicas
        self._chance = random.Random(seed)
        self._kills = kills
        self.lock = threading.Lock()
        self.killed = self.stopped = 0

    def run(self) -> None:
        """Delay until all is over; then they are as late as they are."""
        while not self._over.wait(self._chance.uniform(0.05, 1.0)):
            with self.lock:
                if self.replicas:
                    self._delay(self._chance.choice(self.replicas))

    def _delay(self, replica: RealServer) -> None:
        chance = self._chance
        if self._kills and (not self.killed or chance.random() < 0.06):
            replica.kill()
            self._over.wait(chance.choice([0, 0.2, 0.5, 1.5]))
            replica.start()
            replica.wait_receiving()
            self.killed += 1
        elif chance.random() < 0.15:
            replica.set_source_delay(chance.choice([0, 0, 0, 1, 2]))
        else:
            with replica.applier_stopped():
                self._over.wait(chance.choice([0.05, 0.2, 0.5, 1.5]))
            self.stopped += 1

    def end(self) -> None:
        """Replicas are on time again."""
        for replica in self.replicas:
            with contextlib.suppress(pymysql.err.MySQLError):
                replica.set_source_delay(0)
