"""Session variables of commit timestamps: the mocker answers as MySQL (WL#7319, F1, I4, I6)."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from mysql_mocker.server.cluster import Cluster
from tests.real_mysql.cluster import Cluster as RealCluster
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.background_cluster import BackgroundCluster

UUID = "11111111-2222-3333-4444-555555555555"
VALUES = [
    "SELECT @@session.{0}", "SELECT @@{0}", "SELECT @@global.{0}", "SET {0} = 5", "SELECT @@{0}",
    "SET {0} = -1", "SHOW WARNINGS", "SELECT @@{0}", "SET {0} = 36028797018963969",
    "SHOW WARNINGS", "SELECT @@{0}", "SET {0} = 'x'", "SET {0} = 1.5", "SET {0} = NULL",
    "SET GLOBAL {0} = 5", "SET {0} = DEFAULT", "SELECT @@{0}", "SHOW VARIABLES LIKE '{0}'",
    "SHOW GLOBAL VARIABLES LIKE '{0}'", "SET {0} = 0", "SELECT @@{0}",
]  # fmt: skip
SHOW = "SELECT @@original_commit_timestamp, @@original_server_version, @@immediate_server_version"
LIFE = [
    "DROP TABLE IF EXISTS stamps", "CREATE TABLE stamps (i INT PRIMARY KEY)",
    "SET original_commit_timestamp = 5, original_server_version = 80000", SHOW,
    "INSERT INTO stamps VALUES (1)", SHOW,
    # It is the next transaction's, whichever that is and whenever it began.
    "BEGIN", "SET original_commit_timestamp = 7", "INSERT INTO stamps VALUES (2)", SHOW, "COMMIT",
    SHOW,
    "SET original_commit_timestamp = 8", "BEGIN", "INSERT INTO stamps VALUES (3)", "ROLLBACK",
    SHOW,
    "INSERT INTO stamps VALUES (2)", SHOW, "SELECT 1", SHOW, "BEGIN", "COMMIT", SHOW,
    "CREATE TABLE IF NOT EXISTS stamps (i INT)", SHOW,
    f"SET gtid_next = '{UUID}:77'", "SET original_commit_timestamp = 9", "BEGIN",
    "INSERT INTO stamps VALUES (4)", "ROLLBACK", SHOW, "SET gtid_next = AUTOMATIC", SHOW,
    "DROP TABLE stamps",
]  # fmt: skip
NAMES = ["original_commit_timestamp", "original_server_version", "immediate_server_version"]


@pytest.fixture(scope="module")
def mocker() -> Iterator[BackgroundCluster]:
    accounts = {"root": "", APP_USER: APP_PASSWORD}
    with BackgroundCluster(lambda: Cluster(0, accounts=accounts, schemas=["app"])) as running:
        yield running


def answers(connection: Connection[Cursor], statements: list[str]) -> list[object]:
    found: list[object] = []
    with contextlib.closing(connection), connection.cursor() as cursor:
        for statement in statements:
            try:
                cursor.execute(statement)
                found.append((statement, list(cursor.fetchall())))
            except pymysql.err.Error as error:
                found.append((statement, error.args))
    return found


def both(
    cluster: RealCluster, mocker: BackgroundCluster, user: str, password: str, statements: list[str]
) -> tuple[list[object], list[object]]:
    real = cluster.primary.admin("app") if user == "root" else cluster.primary.connect()
    mock = pymysql.connect(
        host="127.0.0.1",
        port=mocker.cluster.primary.port,
        user=user,
        password=password,
        database="app",
        autocommit=True,
    )
    return answers(mock, statements), answers(real, statements)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("user", "password"), [("root", ""), (APP_USER, APP_PASSWORD)])
def test_values_ranges_and_privileges(
    cluster: RealCluster, mocker: BackgroundCluster, name: str, user: str, password: str
) -> None:
    statements = [statement.format(name) for statement in VALUES]
    if user != "root":
        # The server warns of a value before it refuses it; the mocker only refuses.
        statements = [statement for statement in statements if statement != "SHOW WARNINGS"]
    mock, real = both(cluster, mocker, user, password, statements)
    assert mock == real


def test_it_is_the_next_transactions_and_only_that_ones(
    cluster: RealCluster, mocker: BackgroundCluster
) -> None:
    mock, real = both(cluster, mocker, "root", "", LIFE)
    assert mock == real
