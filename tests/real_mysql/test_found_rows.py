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
    assert running.metric("tidegate_statements_total", role="replica") >= 2


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
