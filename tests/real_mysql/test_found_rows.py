"""FOUND_ROWS() tells of the last statement with rows, wherever that and what came since ran."""

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy

BETWEEN = ["SET @x = 1", "INSERT INTO found VALUES (9)", "BEGIN", "SET NAMES utf8mb4"]


@pytest.mark.parametrize("between", BETWEEN)
def test_found_rows_behind_another_statement(
    cluster: Cluster, proxy: StartProxy, between: str
) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.found (n INT)")
    cluster.primary.query("DELETE FROM app.found")
    cluster.primary.query("INSERT INTO app.found VALUES (1),(2),(3)")
    cluster.wait_caught_up()
    running = proxy()
    answers = []
    for server in (cluster.primary, running):
        with server.connect() as client, client.cursor() as cursor:
            client.select_db("app")
            cursor.execute("SELECT SQL_CALC_FOUND_ROWS n FROM found WHERE n < 9 ORDER BY n LIMIT 1")
            cursor.execute(between)
            cursor.execute("SELECT FOUND_ROWS()")
            counted = [cursor.fetchone()]
            cursor.execute("SELECT FOUND_ROWS()")
            counted.append(cursor.fetchone())
            answers.append(counted)
            client.rollback()
        cluster.primary.query("DELETE FROM app.found WHERE n = 9")
        cluster.wait_caught_up()
    assert answers == [[(3,), (1,)]] * 2
    assert running.metric("tidegate_statements_total", role="replica") >= 1


SETTING = [
    "UPDATE found SET n = n WHERE n > 1",
    "WITH two AS (SELECT 2 AS n) UPDATE found, two SET found.n = 2 WHERE found.n = two.n",
    "DELETE f FROM found f WHERE n = 8",
    "DELETE FROM found WHERE n = (SELECT MAX(n) + 1 FROM other)",
    "INSERT INTO other SELECT n FROM found",
    "REPLACE INTO other TABLE found",
    "DO 1",
    "SELECT n FROM found WHERE n = 2 INTO @n",
    "SELECT n FROM found WHERE n = 8 FOR UPDATE",
    "SELECT CONNECTION_ID() FROM found WHERE n = 8",
    "SHOW VARIABLES LIKE 'none'",
    "SELECT ROW_COUNT() FROM found WHERE n = 8",
    "DESCRIBE found",
    "EXPLAIN ANALYZE SELECT n FROM found",
]
KEEPING = [
    "DELETE FROM found WHERE n = 8",
    "SET @n = (SELECT MAX(n) FROM found)",
    "SHOW CREATE TABLE found",
    "SHOW FULL PROCESSLIST",
    "CHECK TABLE found",
    "CHECKSUM TABLE found",
    "EXPLAIN UPDATE found SET n = 4",
    "HELP 'select'",
]


@pytest.mark.parametrize("between", SETTING + KEEPING)
def test_what_found_rows_tells_of(cluster: Cluster, proxy: StartProxy, between: str) -> None:
    for table in ("found", "other"):
        cluster.primary.query(f"CREATE TABLE IF NOT EXISTS app.{table} (n INT)")
    running = proxy()
    answers = []
    for server in (cluster.primary, running):
        cluster.primary.query("TRUNCATE app.found")
        cluster.primary.query("TRUNCATE app.other")
        cluster.primary.query("INSERT INTO app.found VALUES (1),(2),(3)")
        cluster.primary.query("INSERT INTO app.other TABLE app.found")
        cluster.wait_caught_up()
        with server.connect() as client, client.cursor() as cursor:
            client.select_db("app")
            cursor.execute("SELECT LAST_INSERT_ID() FROM found, found f")  # 9, on the primary
            cursor.execute("SELECT n FROM found UNION ALL SELECT n FROM other")  # 6
            cursor.execute(between)
            cursor.execute("SELECT FOUND_ROWS()")
            answers.append(cursor.fetchone())
    assert answers[0] == answers[1]
    assert (answers[0] == (6,)) == (between in KEEPING)


@pytest.mark.parametrize(
    "counting",
    ["SELECT FOUND_ROWS(), COUNT(*) FROM (found)", "SELECT FOUND_ROWS(), (TABLE found LIMIT 1)"],
)
def test_found_rows_beside_a_table_that_the_session_wrote(
    cluster: Cluster, proxy: StartProxy, counting: str
) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.found (n INT)")
    cluster.primary.query("DELETE FROM app.found")
    cluster.wait_caught_up()
    with proxy().connect() as client, client.cursor() as cursor:
        client.select_db("app")
        cursor.execute("SELECT n FROM found")
        for replica in cluster.replicas:
            replica.stop_applier()
        cursor.execute("INSERT INTO found VALUES (1)")
        cursor.execute(counting)
        assert cursor.fetchone() == (0, 1)
