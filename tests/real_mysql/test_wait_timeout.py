"""A server's wait_timeout ends idle clients, and those alone."""

import time
from contextlib import ExitStack
from typing import Any

import pytest
from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from protocol.constants import Command
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_USER

WAIT_TIMEOUT_S = 2
LONG = (
    "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
    " SELECT /*+ MAX_EXECUTION_TIME(4000) */ COUNT(a.i + b.i + c.i)"
    " FROM n a, n b, n c, n d WHERE a.i + b.i + c.i + d.i < 0"
)


def reset(connection: Any) -> None:
    connection._execute_command(Command.COM_RESET_CONNECTION, b"")
    assert connection._read_packet().is_ok_packet()


def test_who_reads_on_a_replica_is_not_idle(cluster: Cluster, proxy: StartProxy) -> None:
    """Whatever has made its wait_timeout short: each way has a session of its own."""
    running = proxy()
    primary = cluster.primary
    with ExitStack() as stack:

        def connect() -> Cursor:
            return stack.enter_context(stack.enter_context(running.connect()).cursor())

        by_client, by_program, by_reset = connect(), connect(), connect()
        by_client.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        by_program.execute(f"SET @s = CONCAT('SET wait_timeout = ', {WAIT_TIMEOUT_S})")
        for sql in ("PREPARE s FROM @s", "EXECUTE s"):
            by_program.execute(sql)
        by_reset.execute("SET wait_timeout = 1000")
        try:
            primary.query(f"SET GLOBAL wait_timeout = {WAIT_TIMEOUT_S}")
            by_server = connect()
            reset(by_reset.connection)
            primary.query("SET GLOBAL wait_timeout = DEFAULT")
            primary.query(f"SET GLOBAL init_connect = 'SET wait_timeout = {WAIT_TIMEOUT_S}'")
            by_init_connect = connect()
        finally:
            primary.query("SET GLOBAL wait_timeout = DEFAULT")
            primary.query("SET GLOBAL init_connect = ''")
        short = primary.query(
            "SELECT COUNT(*) FROM performance_schema.variables_by_thread JOIN"
            " performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_USER = %s AND"
            " VARIABLE_NAME = 'wait_timeout' AND VARIABLE_VALUE = %s",
            APP_USER,
            str(WAIT_TIMEOUT_S),
        )
        assert list(short) == [(5,)]
        sessions = [by_client, by_program, by_reset, by_server, by_init_connect]
        end = time.monotonic() + 2 * WAIT_TIMEOUT_S
        while time.monotonic() < end:
            for cursor in sessions:
                cursor.execute("SELECT 1 UNION SELECT 2")
            time.sleep(0.05)
        for number, cursor in enumerate(sessions):
            cursor.execute(f"CREATE TABLE idle{number} (id INT PRIMARY KEY)")
    assert running.metric("tidegate_statements_total", role="replica") > WAIT_TIMEOUT_S


def test_who_waits_for_a_replica_is_not_idle(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(replicas=cluster.replicas[0].address)
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute("CREATE TABLE slow (id INT PRIMARY KEY)")
        cursor.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        with pytest.raises(OperationalError, match="3024"):  # it runs longer
            cursor.execute(LONG)
        cursor.execute("INSERT INTO slow VALUES (2)")
    assert running.metric("tidegate_statements_total", role="replica") == 1


def test_who_does_nothing_is(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, client.cursor() as cursor:
        cursor.execute(f"SET wait_timeout = {WAIT_TIMEOUT_S}")
        cursor.execute("SELECT 1 UNION SELECT 2")
        time.sleep(2 * WAIT_TIMEOUT_S)
        with pytest.raises(OperationalError, match=r"4031|2013|2006"):
            cursor.execute("SELECT 1 UNION SELECT 2")
