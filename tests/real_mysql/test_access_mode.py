"""The access mode of a transaction, and of what follows it, is that of a session at one server."""

from __future__ import annotations  # Connection is generic for the type checker only

from contextlib import closing
from itertools import product

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

READ = "SELECT a FROM app.mode ORDER BY a"
WRITE = "INSERT INTO app.mode VALUES (9)"
BEFORE = ("SET autocommit = 0", "SET autocommit = 1")
BEGINNINGS = (
    "START TRANSACTION READ ONLY",
    "SET TRANSACTION READ ONLY",
    f"START TRANSACTION READ ONLY; {READ}",
)
ENDS = ("SET autocommit = 1", "COMMIT", "ROLLBACK", "BEGIN", "SET autocommit = 0")
BETWEEN = (None, READ, "SELECT 1", "DO 1", "SET @a = 1")
CLEARING = ["ROLLBACK", "SET autocommit = 1", READ, "DELETE FROM app.mode"]


def connected(port: int) -> Connection[Cursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=APP_USER,
        password=APP_PASSWORD,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )


def answers(session: Connection[Cursor], statements: list[str]) -> list[int]:
    """The status flags behind each statement, or its error."""
    found: list[int] = []
    with session.cursor() as cursor:
        for sql in statements:
            try:
                cursor.execute(sql)
                while cursor.nextset():
                    pass
                found.append(session.server_status)
            except pymysql.MySQLError as error:
                found.append(error.args[0])
    return found


@pytest.mark.real_mysql
def test_it_lasts_as_long_as_at_a_server(cluster: Cluster, proxy: StartProxy) -> None:
    with closing(cluster.primary.connect()) as direct, direct.cursor() as cursor:
        cursor.execute("CREATE TABLE app.mode (a INT PRIMARY KEY)")
    running = proxy(wait_budget="10s")
    differ = []
    for before, beginning in product(BEFORE, BEGINNINGS):
        with connected(cluster.primary.port) as straight, connected(running.port) as through:
            for end, between in product(ENDS, BETWEEN):
                statements = [before, beginning, end, *([between] if between else []), WRITE]
                both = []
                for session in (straight, through):
                    both.append(answers(session, statements))
                    answers(session, CLEARING)
                if both[0] != both[1]:
                    differ.append((statements, *both))
    assert not differ
