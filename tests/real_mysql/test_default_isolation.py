"""Servers whose sessions begin with another isolation level than MySQL's own default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import mysql.connector
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.real_mysql.test_read_only_transactions import COUNT, numbers, served, value

__all__ = ["numbers"]

ISOLATION = "SELECT @@SESSION.transaction_isolation"


@pytest.fixture
def default(cluster: Cluster) -> Iterator[Callable[[str, str], None]]:
    """Sets what the sessions of the primary begin with, and those of its replicas."""

    def begin_with(primary: str, replicas: str = "REPEATABLE-READ") -> None:
        for server in (cluster.primary, *cluster.replicas):
            level = primary if server is cluster.primary else replicas
            server.query(f"SET GLOBAL transaction_isolation = '{level}'")

    yield begin_with
    begin_with("REPEATABLE-READ")


def test_read_committed_by_default(
    numbers: Cluster, proxy: StartProxy, default: Callable[[str, str], None]
) -> None:
    """Each statement has its snapshot, on replicas of any default."""
    default("READ-COMMITTED", "REPEATABLE-READ")
    running = proxy()
    primary = numbers.primary.address
    with running.connect() as client, running.connect() as other:
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        assert served(client) != primary
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 2
        assert served(client) != primary
        client.query("COMMIT")
        client.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        client.query("BEGIN")
        assert value(client, COUNT) == 2
        assert served(client) == primary
        client.query("COMMIT")
        client.query("SET SESSION transaction_isolation = DEFAULT")
        client.query("BEGIN")
        assert value(client, COUNT) == 2
        assert served(client) != primary


def test_a_snapshot_on_a_replica_is_one(
    numbers: Cluster, proxy: StartProxy, default: Callable[[str, str], None]
) -> None:
    """Where the primary's sessions have snapshots of transactions, and the replica's have not."""
    default("REPEATABLE-READ", "READ-COMMITTED")
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address


def test_serializable_by_default(
    numbers: Cluster, proxy: StartProxy, default: Callable[[str, str], None]
) -> None:
    default("SERIALIZABLE", "REPEATABLE-READ")
    running = proxy()
    with running.connect() as client:
        for begin in ("BEGIN", "START TRANSACTION READ ONLY"):
            client.query(begin)
            assert value(client, COUNT) == 1
            assert served(client) == numbers.primary.address
            client.query("COMMIT")


@pytest.mark.parametrize("how", ["reset", "change of user"])
@pytest.mark.parametrize("then", ["READ-COMMITTED", "REPEATABLE-READ"])
def test_a_session_begins_anew_with_the_default_of_then(
    numbers: Cluster,
    proxy: StartProxy,
    default: Callable[[str, str], None],
    then: str,
    how: str,
) -> None:
    default("READ-COMMITTED", "REPEATABLE-READ")
    running = proxy()
    with closing(
        mysql.connector.connect(
            *(),
            host="127.0.0.1",
            port=running.port,
            user=APP_USER,
            password=APP_PASSWORD,
            database="app",
            use_pure=True,
        )
    ) as client:
        cursor = client.cursor()

        def row(sql: str) -> dict[str, object]:
            cursor.execute(sql)
            rows = cursor.fetchall()
            return dict(zip(cursor.column_names, rows[0], strict=True)) if rows else {}

        row("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        default(then, "REPEATABLE-READ")
        if how == "reset":
            client.cmd_reset_connection()
        else:
            client.cmd_change_user(username=APP_USER, password=APP_PASSWORD, database="app")
        row("SET autocommit = 1")
        for _ in range(2):
            row("BEGIN")
            assert row(COUNT) == {"COUNT(*)": 1}
            server = row("SHOW TIDEGATE LAST")["server"]
            assert (server != numbers.primary.address) == (then == "READ-COMMITTED")
            assert row(ISOLATION) == {"@@SESSION.transaction_isolation": then}
            row("COMMIT")


@pytest.mark.parametrize("then", ["READ-COMMITTED", "REPEATABLE-READ"])
def test_a_lent_login_begins_with_what_its_connection_has(
    numbers: Cluster, proxy: StartProxy, default: Callable[[str, str], None], then: str
) -> None:
    default("READ-COMMITTED", "REPEATABLE-READ")
    running = proxy(login_age="1h", kept_connection_age="1h")
    for _ in range(3):
        with running.connect() as client:
            value(client, COUNT)
    default(then, "REPEATABLE-READ")
    with running.connect() as client:
        before = value(client, ISOLATION)
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        assert (served(client) != numbers.primary.address) == (before == "READ-COMMITTED")


def test_a_session_keeps_what_it_began_with(
    numbers: Cluster, proxy: StartProxy, default: Callable[[str, str], None]
) -> None:
    default("READ-COMMITTED", "REPEATABLE-READ")
    running = proxy()
    with running.connect() as client:
        default("REPEATABLE-READ", "REPEATABLE-READ")
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address
