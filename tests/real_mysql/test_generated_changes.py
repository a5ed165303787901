"""Generated transactions: what the log says that they touched has all that they changed."""

from __future__ import annotations  # Connection is generic for the type checker only

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from random import Random

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.gtid import GtidSet
from routing.servers.transaction_tables import TableName
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.required_mysqld import required_mysqld
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import MONITOR_USER, data_template
from tests.real_mysql.test_transaction_tables import Follower, reading
from tests.support.seeds import seeds

CHANGED = (
    *("c_top", "c_middle", "c_bottom", "c_nulled", "c_log", "c_parts", "c_kept", "c_wide"),
    "c_counted",
)
CHANGES = """
CREATE TABLE c_top (id INT PRIMARY KEY, v INT);
CREATE TABLE c_middle (id INT PRIMARY KEY, top INT, v INT,
  FOREIGN KEY (top) REFERENCES c_top (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE c_bottom (id INT PRIMARY KEY, middle INT, v INT,
  FOREIGN KEY (middle) REFERENCES c_middle (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE c_nulled (id INT PRIMARY KEY, top INT,
  FOREIGN KEY (top) REFERENCES c_top (id) ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE c_log (id INT PRIMARY KEY AUTO_INCREMENT, v INT);
CREATE TABLE c_parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE c_kept (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE = MyISAM;
CREATE TABLE c_wide (id INT PRIMARY KEY, v JSON, w INT AS (JSON_LENGTH(v)) STORED);
CREATE TABLE c_counted (id INT PRIMARY KEY, n INT);
CREATE TRIGGER c_logs AFTER DELETE ON c_bottom FOR EACH ROW INSERT INTO c_log (v) VALUES (OLD.id);
CREATE TRIGGER c_counts AFTER INSERT ON c_log FOR EACH ROW
  INSERT INTO c_counted VALUES (NEW.v % 7, 1) ON DUPLICATE KEY UPDATE n = n + 1;
CREATE VIEW c_seen AS SELECT id, v FROM c_middle WHERE v < 50;
CREATE PROCEDURE c_moves (a INT) BEGIN
  UPDATE c_parts SET v = a WHERE id % 3 = a % 3; INSERT INTO c_kept (v) VALUES (a); END;
"""
SETTINGS = (
    "SET binlog_transaction_compression = ON",
    "SET binlog_row_image = MINIMAL",
    "SET binlog_row_value_options = PARTIAL_JSON",
    "SET binlog_rows_query_log_events = ON",
    "SET foreign_key_checks = OFF",
    "SET enable_cascade_triggers = ON",
    "SET enable_cascade_triggers = OFF",
    "SET binlog_format = MIXED",
    "SET binlog_format = STATEMENT",
    "SET gtid_next = 'AUTOMATIC:blue'",
)
STATEMENTS = (
    "INSERT IGNORE INTO c_top VALUES ({a}, {b}), ({b}, {a})",
    "INSERT INTO c_middle VALUES ({a}, {b}, {a}) ON DUPLICATE KEY UPDATE v = {b}",
    "REPLACE INTO c_top VALUES ({a}, {b})",
    "REPLACE INTO c_middle SELECT id + {b}, id, {a} FROM c_top WHERE id < {a}",
    "INSERT IGNORE INTO c_bottom SELECT id + {a}, id, {b} FROM c_middle",
    "INSERT IGNORE INTO c_nulled SELECT id + {a}, id FROM c_top",
    "UPDATE c_top SET id = id + 100 WHERE id = {a}",
    "UPDATE c_top SET v = v + 1 WHERE id > {a}",
    "UPDATE c_middle, c_bottom SET c_middle.v = {a}, c_bottom.v = {b}"
    " WHERE c_bottom.middle = c_middle.id",
    "UPDATE c_seen SET v = {a} WHERE id > {b}",
    "DELETE FROM c_top WHERE id % 5 = {a} % 5",
    "DELETE FROM c_middle WHERE id = {a}",
    "DELETE c_bottom, c_nulled FROM c_bottom JOIN c_nulled WHERE c_bottom.id = {a}",
    "INSERT IGNORE INTO c_parts VALUES ({a}, 1), ({b}, 2)",
    "INSERT INTO c_kept (v) VALUES ({a})",
    "INSERT INTO c_wide (id, v) VALUES ({a}, JSON_OBJECT('k', {b}))"
    " ON DUPLICATE KEY UPDATE v = JSON_SET(c_wide.v, '$.k', {b}, '$.x{a}', 1)",
    "CALL c_moves({a})",
    "TRUNCATE c_log",
    "ALTER TABLE c_parts EXCHANGE PARTITION p0 WITH TABLE c_swapped WITHOUT VALIDATION",
    "CREATE TABLE IF NOT EXISTS c_swapped SELECT 3 AS id, {a} AS v",
    "RENAME TABLE c_kept TO c_other, c_log TO c_kept, c_other TO c_log",
    "SAVEPOINT s",
    "ROLLBACK TO s",
)


@pytest.fixture(scope="module")
def lone(cluster: Cluster) -> Iterator[RealServer]:
    """A primary without a replica: statements that are not safe to replicate run there, too."""
    mysqld = required_mysqld()
    server = RealServer("lone", mysqld, cluster.scratch)
    server.create(data_template(mysqld))
    server.start()
    try:
        server.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_what_changed_is_among_what_was_touched(
    cluster: Cluster, lone: RealServer, seed: int
) -> None:
    """Checksums of the tables say what a transaction changed, whatever the log says."""
    random = Random(seed)
    precise = 0

    async def story() -> None:
        nonlocal precise
        # To this primary, a server of another cluster is a replica that has nothing.
        async with reading(lone, cluster.replicas[:1]) as follower:
            await follower.active()
            with closing(lone.admin("app")) as watch:
                had, sums = await follower.executed(), checksums(watch)
                for _ in range(60):
                    done = await asyncio.to_thread(transaction, lone, random)
                    has, new_sums = await follower.executed(), checksums(watch)
                    changed = {name for name in CHANGED if sums[name] != new_sums[name]}
                    touched = touched_by(follower, has - had, has)
                    assert changed <= touched, done
                    precise += bool(changed) and len(touched) < len(CHANGED)
                    had, sums = has, new_sums

    with closing(lone.admin("app")) as connection, connection.cursor() as cursor:
        for name in ("c_bottom", "c_nulled", "c_middle", "c_swapped", *CHANGED):
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute("DROP VIEW IF EXISTS c_seen")
        cursor.execute("DROP PROCEDURE IF EXISTS c_moves")
        for statement in filter(str.strip, CHANGES.split(";\n")):
            cursor.execute(statement)
    asyncio.run(story())
    assert precise >= 5


def touched_by(follower: Follower, new: GtidSet, executed: GtidSet) -> set[str]:
    """The tables whose readers must wait for these at a replica that has all else."""
    return {
        name
        for name in CHANGED
        if follower.tables.still_required(new, executed - new, frozenset({TableName("app", name)}))
    }


def checksums(connection: Connection[Cursor]) -> dict[str, object]:
    """Of the rows of each table."""
    with connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {', '.join(CHANGED)} EXTENDED")
        return {str(name).removeprefix("app."): value for name, value in cursor.fetchall()}


def transaction(server: RealServer, random: Random) -> list[str]:
    """Some statements on a connection of their own, of which some fail; returns them."""
    done = random.sample(SETTINGS, random.choice((0, 0, 1, 2)))
    statements = [
        random.choice(STATEMENTS).format(a=random.randint(1, 30), b=random.randint(1, 30))
        for _ in range(random.choice((1, 1, 2, 4)))
    ]
    done += ["BEGIN", *statements, random.choice(("COMMIT", "COMMIT", "ROLLBACK"))]
    with closing(server.admin("app")) as connection, connection.cursor() as cursor:
        for statement in done:
            with suppress(pymysql.err.MySQLError):
                cursor.execute(statement)
    return done
