"""READ ONLY transactions: on a replica, from one snapshot, and otherwise as at a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from pymysql.err import MySQLError

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


def value(client: Connection[Cursor], sql: str) -> object:
    with client.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return None if row is None else row[0]


def served(client: Connection[Cursor]) -> str:
    """The server that the last statement ran on."""
    with client.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        return str(row[[column[0] for column in cursor.description].index("server")])


@pytest.fixture
def numbers(cluster: Cluster) -> Cluster:
    cluster.primary.query("DROP TABLE IF EXISTS app.numbers")
    cluster.primary.query("CREATE TABLE app.numbers (n INT)")
    cluster.primary.query("INSERT INTO app.numbers VALUES (1)")
    cluster.wait_caught_up()
    return cluster


COUNT = "SELECT COUNT(*) FROM numbers"


def test_reads_share_a_replica_s_snapshot(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("INSERT INTO numbers VALUES (2)")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 2  # WAIT came before the snapshot
        replica = served(client)
        assert replica != numbers.primary.address
        other.query("INSERT INTO numbers VALUES (3)")
        numbers.wait_caught_up()
        for _ in range(3):
            assert value(client, COUNT) == 2
            assert served(client) == replica
        client.query("SAVEPOINT s")
        client.query("ROLLBACK TO SAVEPOINT s")
        assert value(client, COUNT) == 2
        client.query("COMMIT AND CHAIN")
        assert value(client, COUNT) == 3
        client.query("COMMIT")
        assert value(client, COUNT) == 3
    assert running.metric("tidegate_snapshots_split_total") == 0


def test_what_a_server_refuses_is_refused_alike(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    for address in ("direct", "through"):
        with (numbers.primary if address == "direct" else running).connect() as client:
            client.select_db("app")
            client.query("START TRANSACTION READ ONLY")
            assert value(client, COUNT) == 1
            for sql in ("INSERT INTO numbers VALUES (9)", "DELETE FROM numbers"):
                with pytest.raises(MySQLError) as failed:
                    client.query(sql)
                assert failed.value.args[0] == 1792
            assert value(client, COUNT) == 1
            assert client.server_status & 0x2001 == 0x2001
            client.query("ROLLBACK")
            client.query("INSERT INTO numbers VALUES (2)")
            assert value(client, COUNT) == 2
            client.query("DELETE FROM numbers WHERE n = 2")


def test_a_snapshot_at_the_start_is_the_primary_s(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        other.query("INSERT INTO numbers VALUES (2)")
        assert value(client, COUNT) == 1
        assert served(client) == numbers.primary.address
        client.query("COMMIT")
        client.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        other.query("INSERT INTO numbers VALUES (3)")
        assert value(client, COUNT) == 2


def test_the_isolation_level_goes_along(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 2
        client.query("COMMIT")
        client.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 2
        assert served(client) == numbers.primary.address


def test_a_snapshot_dies_with_its_replica(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client:
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        for replica in numbers.replicas:
            replica.end_other_connections()
        with pytest.raises(MySQLError) as failed:
            value(client, COUNT)
        assert failed.value.args[0] == 2013


def test_replicas_end_their_part(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    open_there = "SELECT COUNT(*) FROM information_schema.innodb_trx"
    on_replicas = 0
    with running.connect() as client:
        for end in ("COMMIT", "ROLLBACK", "CREATE TABLE IF NOT EXISTS another (n INT)", "BEGIN"):
            client.query("START TRANSACTION READ ONLY")
            assert value(client, COUNT) == 1
            on_replicas += served(client) != numbers.primary.address
            client.query(end)
            while any(r.value(open_there) != "0" for r in numbers.replicas):
                time.sleep(0.05)
            assert value(client, COUNT) == 1
        client.query("COMMIT")
    assert on_replicas
