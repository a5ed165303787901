"""What a session finds: two schemas, an account and roles, made alike before each run of it."""

import contextlib
import time

import pymysql

from tests.real_mysql.cluster import Cluster

USER, PASSWORD = "differ", "differ-secret"
OTHER_USER, OTHER_PASSWORD = "other", "other-secret"

GLOBALS = (
    # Statistics that a background thread renews at its own time would change plans between runs.
    "innodb_stats_auto_recalc = OFF",
    "innodb_lock_wait_timeout = 1",
    "lock_wait_timeout = 1",
)

ACCOUNTS = (
    f"CREATE USER {USER} IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'",
    f"CREATE USER {OTHER_USER} IDENTIFIED WITH caching_sha2_password BY '{OTHER_PASSWORD}'",
    "CREATE ROLE reader, writer",
    "GRANT SELECT ON side.* TO reader",
    "GRANT ALL ON side.* TO writer",
    f"GRANT ALL ON app.* TO {USER}",
    f"GRANT SELECT ON app.* TO {OTHER_USER}",
    f"GRANT reader, writer TO {USER}",
)

SCHEMA = (
    "DROP DATABASE IF EXISTS app",
    "DROP DATABASE IF EXISTS side",
    "CREATE DATABASE app",
    "CREATE DATABASE side CHARACTER SET latin1",
    """CREATE TABLE app.items (
      id INT AUTO_INCREMENT PRIMARY KEY,
      name VARCHAR(20) UNIQUE,
      qty INT NOT NULL DEFAULT 0 CHECK (qty >= 0),
      price DECIMAL(10,2),
      note TEXT,
      doc JSON,
      data BLOB,
      made DATETIME(3),
      kind ENUM('a', 'b', 'c'),
      flags SET('x', 'y', 'z'),
      total DECIMAL(12,2) AS (qty * price) STORED,
      half DOUBLE AS (qty / 2) VIRTUAL,
      KEY (kind))""",
    """CREATE TABLE app.parts (
      id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
      item INT,
      label VARCHAR(10) CHARACTER SET latin1,
      w FLOAT,
      FOREIGN KEY (item) REFERENCES items (id) ON DELETE CASCADE)""",
    """CREATE TABLE app.plain
      (a INT, b VARCHAR(10), c BIT(5), y YEAR, t TIME(2), d DATE, s TIMESTAMP NULL)""",
    # The function `adds` writes here: 9.7.4 crashes where a function meets a foreign key under
    # LOCK TABLES.
    "CREATE TABLE app.counted (id INT AUTO_INCREMENT PRIMARY KEY, n INT)",
    "CREATE TABLE side.words (id INT PRIMARY KEY, word VARCHAR(20))",
    """INSERT INTO app.items (name, qty, price, note, doc, data, made, kind, flags) VALUES
      ('one', 1, 1.10, 'first', '{"a": 1}', x'00ff', '2024-01-01 00:00:00.123', 'a', 'x'),
      ('two', 2, 2.20, NULL, '[1, 2]', NULL, NULL, 'b', 'x,y'),
      ('three', 3, NULL, '', NULL, '', '2024-02-29', NULL, ''),
      ('vier ä', 0, -4.44, 'ünïcödé', '"s"', 'abc', '1999-12-31', 'c', NULL)""",
    """INSERT INTO app.parts (item, label, w) VALUES
      (1, 'p', 0.5), (1, 'q', NULL), (2, 'ä', 1e10), (NULL, NULL, 0)""",
    """INSERT INTO app.plain VALUES
      (1, 'x', b'101', 2024, '12:34:56.78', '2024-02-29', '2024-06-01 12:00:00'),
      (2, NULL, NULL, NULL, NULL, NULL, NULL),
      (2, 'y', b'1', 1999, '-01:00:00', '2000-01-01', '2001-01-01')""",
    "INSERT INTO side.words VALUES (1, 'été'), (2, 'wort')",
    # So that it has one plan, whatever a server's statistics say.
    """CREATE VIEW app.joined AS SELECT i.id, name, label
      FROM app.items i STRAIGHT_JOIN app.parts p FORCE INDEX (item) ON p.item = i.id""",
    "CREATE TRIGGER app.noted BEFORE INSERT ON app.plain FOR EACH ROW SET NEW.a = NEW.a + 1000",
    "CREATE FUNCTION app.twice(n INT) RETURNS INT DETERMINISTIC NO SQL RETURN n * 2",
    """CREATE FUNCTION app.adds(n INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA
      BEGIN INSERT INTO app.counted (n) VALUES (n); RETURN LAST_INSERT_ID(); END""",
    "CREATE PROCEDURE app.results() BEGIN SELECT 1; SELECT name AS b FROM items ORDER BY id; END",
    """CREATE PROCEDURE app.out_params(IN a INT, OUT b INT, INOUT c VARCHAR(20))
      BEGIN SET b = a + 1; SET c = CONCAT(c, '!'); SELECT a; END""",
    """CREATE PROCEDURE app.writes(n INT)
      BEGIN INSERT INTO parts (item, label) VALUES (1, n); SELECT COUNT(*) FROM parts; END""",
    """CREATE PROCEDURE app.fails() BEGIN SELECT 1; INSERT INTO plain (a) VALUES (7);
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'failed', MYSQL_ERRNO = 1644; END""",
    """CREATE PROCEDURE app.commits() BEGIN START TRANSACTION; INSERT INTO plain (a) VALUES (8);
      COMMIT; SIGNAL SQLSTATE '45000'; END""",
    "CREATE PROCEDURE app.sets() BEGIN SET @from_procedure = 5; SET SESSION sql_mode = 'ANSI'; END",
    "CREATE PROCEDURE app.makes_temporary() CREATE TEMPORARY TABLE made_inside SELECT 1 AS a",
    "CREATE PROCEDURE app.warns() BEGIN SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'careful'; END",
    "ANALYZE TABLE app.items, app.parts, app.plain, side.words",
)


def prepare_cluster(cluster: Cluster) -> None:
    """Once per cluster: accounts, and globals that make runs alike."""
    for sql in ACCOUNTS:
        cluster.primary.query(sql)
    for assignment in GLOBALS:
        cluster.primary.query(f"SET GLOBAL {assignment}")
    for replica in cluster.replicas:
        replica.query(f"SET GLOBAL {GLOBALS[0]}")


def prepare_schema(cluster: Cluster) -> None:
    """Before each run: everything as new, on all three servers."""
    for sql in SCHEMA:
        cluster.primary.query(sql)
    cluster.wait_caught_up()


def end_sessions(cluster: Cluster) -> None:
    """End what earlier runs left: their connections, kept ones, too, and prepared XA branches."""
    for server in cluster.servers:
        sessions = "SELECT ID FROM performance_schema.processlist WHERE USER IN (%s, %s)"
        for (connection,) in server.query(sessions, USER, OTHER_USER):
            with contextlib.suppress(pymysql.err.OperationalError):  # gone by itself
                server.query(f"KILL {connection}")
        while server.query(sessions, USER, OTHER_USER):
            time.sleep(0.001)
    for _, _, _, xid in cluster.primary.query("XA RECOVER"):
        cluster.primary.query("XA ROLLBACK %s", xid)
