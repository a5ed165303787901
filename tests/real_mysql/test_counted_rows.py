"""Rows that are counted, and that FOUND_ROWS() shows only behind a later statement."""

import itertools

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.diagnostics_session import DiagnosticsSession

BEFORE = ("SELECT n FROM many", "UPDATE many SET n = n", "CREATE TABLE early SELECT n FROM many")
COUNTING = (
    "SET @x = 1",
    "CREATE TABLE made SELECT n FROM counted",
    "CREATE TABLE made AS SELECT n FROM counted WHERE n < 0",
    "CREATE TABLE made AS SELECT n FROM counted LIMIT 1, 2",
    "CREATE TABLE made TABLE counted",
    "CREATE TABLE made VALUES ROW(1), ROW(2)",
    "CREATE TABLE made (n INT)",
    "CREATE TABLE made (n INT) PARTITION BY RANGE (n) (PARTITION p VALUES LESS THAN (9))",
    "CREATE TABLE IF NOT EXISTS counted SELECT 1 AS n",
    "CREATE TABLE IF NOT EXISTS made SELECT n FROM counted",
    "CREATE TABLE counted SELECT 1 AS n",
    "CREATE TEMPORARY TABLE made SELECT n FROM counted",
    "CREATE VIEW made AS SELECT n FROM counted",
    "SET @a = (SELECT n FROM counted WHERE n < 0)",
    "SET @a = EXISTS (SELECT n FROM counted)",
    "SET @a = IF(0, (SELECT MAX(n) FROM counted), 1)",
    "SET @a = (SELECT 1)",
    "SET @a = (SELECT n FROM counted)",
    "UPDATE keyed SET n = 9",
    "INSERT INTO keyed SELECT n FROM keyed",
    "INSERT INTO sink VALUES (1)",
    "DELETE FROM sink",
    "DELETE FROM keyed WHERE n IN (TABLE sink)",
    "EXPLAIN SELECT n FROM counted",
    "EXPLAIN SELECT n FROM keyed WHERE n = (SELECT MAX(n) FROM keyed)",
    "EXPLAIN DELETE FROM keyed WHERE n = (SELECT MAX(n) FROM keyed)",
    "EXPLAIN SELECT * FROM (SELECT 1) AS derived",
    "CALL fails()",
    "CALL sets()",
    "PREPARE p FROM 'CREATE TABLE made SELECT n FROM counted'; EXECUTE p",
    "CREATE TABLE made SELECT n FROM counted; SET @x = 1",
    "CREATE TABLE made SELECT n FROM counted; INSERT INTO sink VALUES (1)",
    "INSERT INTO sink VALUES (1); CREATE TABLE made SELECT n FROM counted",
    "CREATE TABLE made SELECT n FROM counted; SELECT n FROM counted LIMIT 1",
)
TAKING = (
    "SET @x = 1",
    "COMMIT",
    "SHOW CREATE TABLE many",
    "INSERT INTO keyed VALUES (1)",
    "EXPLAIN SELECT n FROM many WHERE n = 1",
    "EXPLAIN UPDATE many SET n = 1",
    "INSERT INTO sink VALUES (1)",
    "DELETE FROM sink",
    "CALL nothing()",
    "SELECT n FROM many LIMIT 2",
    "INSERT INTO missing VALUES (1)",
)
COUNTED = (
    "CREATE TABLE IF NOT EXISTS many (n INT)",
    "CREATE TABLE IF NOT EXISTS counted (n INT)",
    "CREATE TABLE IF NOT EXISTS sink (n INT)",
    "CREATE TABLE IF NOT EXISTS keyed (n INT PRIMARY KEY)",
    "INSERT INTO many VALUES (1), (2), (3), (4), (5), (6), (7)",
    "INSERT INTO counted VALUES (1), (2), (3), (4)",
    "INSERT INTO keyed VALUES (1), (2), (3)",
    "CREATE PROCEDURE nothing() BEGIN END",
    "CREATE PROCEDURE sets() SET @a = (SELECT MAX(n) FROM many)",
    "CREATE PROCEDURE fails() BEGIN CALL sets(); SIGNAL SQLSTATE '45000'; END",
)
READ_COMMITTED = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET autocommit = 0",
)
NOT_CARRIED = {("CREATE TABLE early SELECT n FROM many", "CALL fails()")}
"""A procedure that fails may have shown the count that was there before it, or not."""


@pytest.fixture(scope="module")
def counted(cluster: Cluster) -> None:
    """What statements count."""
    with cluster.primary.connect() as client, client.cursor() as cursor:
        client.select_db("app")
        for sql in COUNTED:
            cursor.execute(sql)
        client.commit()
    cluster.wait_caught_up()


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    ("settings", "taking"),
    [
        pytest.param((), ("EXPLAIN SELECT n FROM many", "INSERT INTO sink VALUES (1)"), id="usual"),
        pytest.param((), TAKING, id="all", marks=pytest.mark.deep),
        pytest.param(READ_COMMITTED, TAKING, id="read-committed", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("before", BEFORE)
def test_what_a_later_statement_shows(
    cluster: Cluster,
    proxy: StartProxy,
    before: str,
    settings: tuple[str, ...],
    taking: tuple[str, ...],
) -> None:
    """FOUND_ROWS() shows some counts only behind another statement."""
    running = proxy()
    different = []
    for counting, last in itertools.product(COUNTING, taking):
        direct, through = (
            found_rows(server.address, (*settings, before, counting, last))
            for server in (cluster.primary, running)
        )
        if direct != through and (before, counting) not in NOT_CARRIED:
            different.append((counting, last, direct, through))
    assert not different


def found_rows(address: str, statements: tuple[str, ...]) -> int:
    """FOUND_ROWS() in a session behind these statements, of which some fail."""
    session = DiagnosticsSession(address)
    try:
        for sql in statements:
            session.text(sql)
        row = session.text("SELECT FOUND_ROWS()")[2]
        for sql in (
            "ROLLBACK",
            "DROP TABLE IF EXISTS early, made",
            "DROP VIEW IF EXISTS made",
        ):
            session.text(sql)
    finally:
        session.client.close()
    return int(row[1:])
