"""More sessions than connections to servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.waiting import eventually

MOST = 3
CLIENTS = 12
WAITS = "tidegate_server_connection_waits_total"
BORROWED = "tidegate_connections_borrowed_total"
LENT = "tidegate_logins_lent_total"


@pytest.fixture(scope="module", autouse=True)
def _tables(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    primary.query("CREATE USER crowd@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO crowd@'%'")
    primary.query("CREATE TABLE app.counts (id INT PRIMARY KEY, n INT)")
    for number in range(CLIENTS):
        primary.query("INSERT INTO app.counts VALUES (%s, 0)", number)
    cluster.wait_caught_up()
    yield
    primary.query("DROP USER crowd@'%'")


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy(
        connection_sharing="on",
        connection_sharing_delay="1h",
        max_server_connections=str(MOST),
        server_connection_timeout="30s",
        wait_budget="5s",
    )


def connect(running: RunningProxy) -> pymysql.Connection[pymysql.cursors.Cursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=running.port,
        user="crowd",
        password="a",
        database="app",
        autocommit=True,
        read_timeout=60,
    )


@contextmanager
def never_more_than(most: int, *servers: RealServer) -> Iterator[None]:
    """Ask servers over and over how many connections the account has."""
    stop, found = threading.Event(), [0]

    def look() -> None:
        while not stop.is_set():
            for server in servers:
                count = server.value(
                    "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_USER ="
                    " 'crowd'"
                )
                found[0] = max(found[0], int(count))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert 0 < found[0] <= most


def work(running: RunningProxy, number: int) -> None:
    """Write, read, and hold transactions, as a session with settings of its own."""
    with connect(running) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = %s", (f"+{number:02}:00",))
        for current in range(1, 16):
            cursor.execute("UPDATE counts SET n = n + 1 WHERE id = %s", (number,))
            cursor.execute("SELECT n, @@time_zone FROM counts WHERE id = %s", (number,))
            assert cursor.fetchall() == ((2 * current - 1, f"+{number:02}:00"),)
            connection.begin()
            cursor.execute("SELECT n FROM counts WHERE id = %s FOR UPDATE", (number,))
            cursor.execute("UPDATE counts SET n = n + 1 WHERE id = %s", (number,))
            connection.commit()


def test_many_take_turns(cluster: Cluster, running: RunningProxy) -> None:
    # One that is being closed may still be seen beside the one that takes its place.
    with (
        never_more_than(2 * MOST, cluster.primary, *cluster.replicas),
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        for done in [pool.submit(work, running, number) for number in range(CLIENTS)]:
            done.result(timeout=120)
    assert running.metric(WAITS, result="timeout") == 0
    assert running.metric(BORROWED) > CLIENTS
    assert running.metric(LENT) > 0


def test_who_waits_in_vain_is_told_so_and_may_come_back(
    proxy: StartProxy, cluster: Cluster
) -> None:
    running = proxy(
        replicas=None,
        connection_sharing="on",
        max_server_connections="1",
        server_connection_timeout="300ms",
    )
    with connect(running) as first:
        first.begin()
        with pytest.raises(pymysql.OperationalError) as refused:
            connect(running)
        assert refused.value.args[0] == 1040
        first.commit()
        with connect(running) as other, other.cursor() as cursor:
            cursor.execute("SELECT 2")
            first.begin()
            with pytest.raises(pymysql.OperationalError) as refused:
                cursor.execute("UPDATE counts SET n = 0")
            assert refused.value.args[0] == 1040
            first.rollback()
            cursor.execute("SELECT 3")
            assert cursor.fetchall() == ((3,),)


def test_a_server_that_is_itself_full_is_tried_again(proxy: StartProxy, cluster: Cluster) -> None:
    """Its own limit is lower than Tidegate's: those that rest are closed for others."""
    primary = cluster.primary
    running = proxy(replicas=None, connection_sharing="on", connection_sharing_delay="20ms")
    before = primary.value("SELECT @@max_connections")
    held = [connect(running) for _ in range(3)]
    eventually(lambda: running.metric("tidegate_clients_resting") == 3)
    try:
        count = primary.value(
            "SELECT COUNT(*) FROM performance_schema.threads WHERE TYPE='FOREGROUND'"
        )
        primary.query(f"SET GLOBAL max_connections = {max(10, int(count))}")
        for client in held:
            with client.cursor() as cursor:
                cursor.execute("SELECT 4")
                assert cursor.fetchall() == ((4,),)
    finally:
        primary.query(f"SET GLOBAL max_connections = {before}")
        for client in held:
            client.close()
