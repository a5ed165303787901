"""A cluster of the product's own making, and its clients."""

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from mysql_mocker import BlockingCluster, MockCluster
from tests.support.waiting import until

INIT = "CREATE TABLE t (n INT); INSERT INTO t VALUES (0)"

Connect = Callable[..., "Connection[Any]"]


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with MockCluster(replicas=2, init=INIT, http=0) as running:
        yield running


@pytest.fixture(scope="module")
def untouched() -> Iterator[BlockingCluster]:
    """One for all of a module's tests that change nothing."""
    with MockCluster(replicas=2, http=0) as running:
        yield running


@pytest.fixture
def connect(cluster: BlockingCluster) -> Iterator[Connect]:
    """Connects to a server by its name."""
    connections: list[Connection[Any]] = []

    def start(name: str = "primary", **options: Any) -> "Connection[Any]":
        server = cluster.server(name)
        settings = {"autocommit": True, "database": "test", "read_timeout": 20, **options}
        connections.append(
            pymysql.connect(host=server.host, port=server.port, user="root", **settings)
        )
        return connections[-1]

    yield start
    for connection in connections:
        if connection.open:
            connection.close()


def run(connection: "Connection[Any]", sql: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def count(connection: "Connection[Any]") -> int:
    return int(run(connection, "SELECT COUNT(*) FROM t")[0][0])


def comes_to(connection: "Connection[Any]", wanted: int) -> None:
    until(lambda: count(connection) == wanted, f"there are {wanted} rows")
