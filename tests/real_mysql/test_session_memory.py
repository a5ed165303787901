"""The ceiling of a session's memory, beside a server's own (connection_memory_limit)."""

import contextlib
from itertools import count

import pymysql
import pytest
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

LIMIT = 4 << 20


def ended(port: int) -> tuple[int, str, bool]:
    """Prepare statements by text until the session ends: the error, and whether more can be run."""
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user=APP_USER, password=APP_PASSWORD, autocommit=True
    )
    cursor = connection.cursor()
    with pytest.raises(pymysql.err.OperationalError) as caught:
        prepare_statements(cursor)
    code, message = caught.value.args
    with contextlib.suppress(pymysql.err.MySQLError):
        cursor.execute("SELECT 1")
        return code, message, True
    return code, message, False


def prepare_statements(cursor: Cursor) -> None:
    for turn in count():
        cursor.execute(f"PREPARE s{turn} FROM 'SELECT {turn}'")


def test_it_ends_as_at_a_server(cluster: Cluster, proxy: StartProxy) -> None:
    primary = cluster.primary
    running = proxy(max_session_memory=str(LIMIT))
    through = ended(running.port)
    primary.query(
        f"SET GLOBAL connection_memory_limit = {LIMIT}, GLOBAL connection_memory_chunk_size = 1024"
    )
    try:
        itself = ended(primary.port)
    finally:
        primary.query("SET GLOBAL connection_memory_limit = DEFAULT")
        primary.query("SET GLOBAL connection_memory_chunk_size = DEFAULT")
    assert (through[0], through[2]) == (itself[0], itself[2]) == (4082, False)
    start = f"Connection closed. Connection memory limit {LIMIT} bytes exceeded. Consumed "
    assert through[1].startswith(start)
    assert itself[1].startswith(start)
    assert running.metric("tidegate_clients_ended_total", cause="max_session_memory") == 1
