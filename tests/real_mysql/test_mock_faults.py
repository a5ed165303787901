"""What `tidegate mock` does on demand is what a server does."""

import contextlib
import socket

import pytest
from pymysql.err import OperationalError

from mysql_mocker import MockCluster
from mysql_mocker.control.faults import _ERRORS
from tests.real_mysql.cluster import Cluster


def test_errors_have_the_servers_sqlstates(cluster: Cluster) -> None:
    known = dict(
        cluster.primary.query(
            "SELECT error_number, sql_state"
            " FROM performance_schema.events_errors_summary_global_by_error"
            " WHERE error_number IS NOT NULL"
        )
    )
    assert {code: state for code, (state, _) in _ERRORS.items()} == {
        code: known[code] for code in _ERRORS
    }


def test_a_commit_on_a_server_that_became_read_only_fails_and_rolls_back(cluster: Cluster) -> None:
    primary = cluster.primary
    primary.query("CREATE TABLE app.mock_commit (n INT)")
    with primary.connect() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO app.mock_commit VALUES (1)")
        primary.query("SET GLOBAL super_read_only = ON")
        with pytest.raises(OperationalError) as error:
            cursor.execute("COMMIT")
        assert error.value.args[0] == 1290
        primary.query("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF")
        cursor.execute("SELECT COUNT(*) FROM app.mock_commit")
        assert cursor.fetchone() == (0,)


def first_packet(connection: socket.socket) -> bytes:
    """With its header."""
    connection.settimeout(20)
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:3], "little"):
        received = connection.recv(4096)
        assert received
        data += received
    return data


def test_a_full_server_says_so_in_place_of_its_greeting(cluster: Cluster) -> None:
    replica = cluster.replicas[0]
    replica.query("SET GLOBAL max_connections = 1")
    with contextlib.ExitStack() as opened:
        for _ in range(10):
            connection = socket.create_connection(("127.0.0.1", replica.port))
            opened.enter_context(contextlib.closing(connection))
            real = first_packet(connection)
            if real[4] == 0xFF:
                break
    with MockCluster(replicas=0) as mock:
        mock.fault("primary", on="login", error=1040)
        with socket.create_connection(("127.0.0.1", mock.primary.port)) as connection:
            assert first_packet(connection) == real
