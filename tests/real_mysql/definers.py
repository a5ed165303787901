"""What others do to tables, views, rights and replicas, past the proxy, while clients read."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.counter_clients import Judge
from tests.real_mysql.counter_tables import (
    GENERATION,
    MADE_ANEW,
    ROWS,
    WHERE_VIEWS_LEAD,
    quoted_name,
)
from tests.real_mysql.server import RealServer

_TRIGGER: Final = (
    "CREATE TRIGGER comes AFTER UPDATE ON dtg FOR EACH ROW"
    " UPDATE dtlog SET v = NEW.v WHERE id = NEW.id"
)
_FOREIGN_KEY: Final = (
    "ALTER TABLE dchi ADD CONSTRAINT dfk FOREIGN KEY (v) REFERENCES dpar (v) ON UPDATE CASCADE"
)


class Definer:
    """Somebody at the primary itself, who defines things anew and anew.

    Args:
        judge: of the clients.
        primary: where.
        seed: of the choices.
        pause: between two definitions, at most, s.

    Attributes:
        done: how often each was done.
        refused: what the server refused.
    """

    def __init__(self, judge: Judge, primary: RealServer, seed: int, pause: float) -> None:
        self._judge = judge
        self._primary = primary
        self._chance = random.Random(seed)
        self._pause = pause
        self._generation = 1
        self._tv_is_view = self._triggered = False
        self._tied = True
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def run(self) -> None:
        """Define until all is over."""
        with closing(self._primary.admin("app")) as connection:
            self._connection: Connection[Cursor] = connection
            self._run("SET lock_wait_timeout = 5")
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
                act = self._chance.choice(acts)
                try:
                    act()
                except pymysql.err.MySQLError as error:
                    self.refused[f"{act.__name__}: {error!r}"] += 1
                    self._run("ROLLBACK")
                else:
                    self.done[act.__name__.strip("_")] += 1

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
        if self._tv_is_view:
            self._run("DROP VIEW tv", "RENAME TABLE tv_table TO tv")
        else:
            table = self._chance.choice(["c3", "c2", "sw_a", "vr", "other.c1"])
            self._run("RENAME TABLE tv TO tv_table")
            self._run(f"CREATE VIEW tv AS SELECT id, ident, v FROM {table}")  # noqa: S608 - of the test
        self._tv_is_view = not self._tv_is_view

    def _trigger(self) -> None:
        self._run("DROP TRIGGER comes" if self._triggered else _TRIGGER)
        self._triggered = not self._triggered

    def _foreign_key(self) -> None:
        if self._tied:
            self._run("ALTER TABLE dchi DROP FOREIGN KEY dfk")
        else:
            self._run("UPDATE dchi JOIN dpar USING (id) SET dchi.v = dpar.v")
            self._run("SET foreign_key_checks = 0", _FOREIGN_KEY, "SET foreign_key_checks = 1")
        self._tied = not self._tied

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
            if len(names) > 4:
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
    """Lets replicas fall behind and catch up, each in its own time.

    Args:
        judge: of the clients.
        cluster: whose replicas.
        seed: of the choices.
    """

    def __init__(self, judge: Judge, cluster: Cluster, seed: int) -> None:
        self._over: threading.Event = judge.over
        self._cluster = cluster
        self._chance = random.Random(seed)

    def run(self) -> None:
        """Delay until all is over; then they are as late as they are."""
        chance = self._chance
        while not self._over.wait(chance.uniform(0.05, 1.0)):
            replica = chance.choice(self._cluster.replicas)
            if chance.random() < 0.15:
                replica.set_source_delay(chance.choice([0, 0, 0, 1, 2]))
                continue
            with replica.applier_stopped():
                self._over.wait(chance.choice([0.05, 0.2, 0.5, 1.5]))

    def end(self) -> None:
        """Replicas are on time again."""
        for replica in self._cluster.replicas:
            with contextlib.suppress(pymysql.err.MySQLError):
                replica.set_source_delay(0)
