"""A server's wait_timeout ends idle clients, and those alone."""

import time

import pytest
from pymysql.err import OperationalError

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy

WAIT_TIMEOUT_S = 2
LONG = (
    "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
    " SELECT /*+ MAX_EXECUTION_TIME(4000) */ COUNT(a.i + b.i + c.i)"
    " FROM n a, n b, n c, n d WHERE a.i + b.i + c.i + d.i < 0"
)
MODULE = "tests.real_mysql.often_in_touch"


def test_who_reads_on_a_replica_is_not_idle(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(module=MODULE)
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        end = time.monotonic() + 2 * WAIT_TIMEOUT_S
        while time.monotonic() < end:
            cursor.execute("SELECT 1 UNION SELECT 2")
            time.sleep(0.05)
        cursor.execute("CREATE TABLE idle (id INT PRIMARY KEY)")
    assert running.metric("tidegate_statements_total", role="replica") > WAIT_TIMEOUT_S


def test_who_waits_for_a_replica_is_not_idle(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(module=MODULE, replicas=cluster.replicas[0].address)
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute("CREATE TABLE slow (id INT PRIMARY KEY)")
        cursor.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        with pytest.raises(OperationalError, match="3024"):  # it runs longer
            cursor.execute(LONG)
        cursor.execute("INSERT INTO slow VALUES (2)")
    assert running.metric("tidegate_statements_total", role="replica") == 1


def test_who_does_nothing_is(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(module=MODULE)
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        cursor.execute("SELECT 1 UNION SELECT 2")
        time.sleep(2 * WAIT_TIMEOUT_S)
        with pytest.raises(OperationalError, match=r"4031|2013|2006"):
            cursor.execute("SELECT 1 UNION SELECT 2")
