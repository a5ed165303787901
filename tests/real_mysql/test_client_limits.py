"""Limits of clients beside the server's own, and over several workers."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

OWN, DBA = "limited", "limits_dba"


@pytest.fixture(autouse=True)
def accounts(cluster: Cluster) -> Iterator[None]:
    primary = cluster.primary
    for name, clause in ((OWN, "WITH MAX_USER_CONNECTIONS 2"), (DBA, "")):
        primary.query(f"CREATE USER {name}@'%' IDENTIFIED BY '{name}' {clause}")
    primary.query(f"GRANT CONNECTION_ADMIN ON *.* TO {DBA}@'%'")
    cluster.wait_caught_up()
    yield
    for name in (OWN, DBA):
        primary.query(f"DROP USER {name}@'%'")


def enter(stack: ExitStack, port: int, user: str, password: str) -> tuple[int, str]:
    """Log in for as long as the stack is open; give the error, or 0."""
    try:
        connection: Connection[Cursor] = pymysql.connect(
            host="127.0.0.1", port=port, user=user, password=password
        )
    except pymysql.err.MySQLError as error:
        return int(error.args[0]), str(error.args[1])
    stack.callback(connection.close)
    return 0, ""


def test_the_errors_are_the_servers(cluster: Cluster, proxy: StartProxy) -> None:
    primary = cluster.primary
    config = cluster.scratch.path / "limits.toml"
    config.write_text(f"[users.{OWN}]\nmax-user-connections = 2\n")
    running = proxy(max_user_connections="1", admins=DBA, config=str(config))
    logins = (
        (APP_USER, APP_PASSWORD, [0, 1203]),
        (APP_USER, "wrong", [1045]),
        (DBA, DBA, [0, 0, 0]),
        (OWN, OWN, [0, 0, 1226]),
    )
    primary.query("SET GLOBAL max_user_connections = 1")
    try:
        itself = _logins(primary.port, logins)
    finally:
        primary.query("SET GLOBAL max_user_connections = 0")
    primary.query(f"ALTER USER {OWN}@'%' WITH MAX_USER_CONNECTIONS 0")
    through = _logins(running.port, logins)
    for (user, _, codes), own, ours in zip(logins, itself, through, strict=True):
        assert [code for code, _ in ours] == codes, user
        # Administrators of the server are held to it, those of Tidegate are not.
        assert [code for code, _ in own] == ([0, 1203, 1203] if user == DBA else codes), user
        for (code, server_text), (_, text) in zip(own, ours, strict=True):
            if code in (1203, 1226) and text:  # ours says besides whose limit it is
                assert text.startswith(server_text.rstrip(")")), (server_text, text)


def _logins(
    port: int, logins: tuple[tuple[str, str, list[int]], ...]
) -> list[list[tuple[int, str]]]:
    with ExitStack() as stack:
        return [
            [enter(stack, port, user, password) for _ in codes] for user, password, codes in logins
        ]


def test_the_last_connection_is_for_administrators_as_at_a_server(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(max_connections="3", admins=DBA)
    with ExitStack() as stack:
        for _ in range(3):
            assert enter(stack, running.port, APP_USER, APP_PASSWORD) == (0, "")
        code, text = enter(stack, running.port, APP_USER, APP_PASSWORD)
        assert (code, text[:20]) == (1040, "Too many connections")
        assert enter(stack, running.port, DBA, DBA) == (0, "")
        assert enter(stack, running.port, DBA, DBA)[0] == 1040


def test_they_hold_over_all_workers(cluster: Cluster, proxy: StartProxy) -> None:
    """Whichever workers the kernel gives the clients to; a killed worker's count no more."""
    running = proxy(workers="3", max_connections="8", max_user_connections="6", admins=DBA)
    for _ in range(2):
        with ExitStack() as stack:
            # One after the other: clients that come at the same moment may be too many by a few.
            found = [enter(stack, running.port, APP_USER, APP_PASSWORD)[0] for _ in range(9)]
            assert found == [0] * 6 + [1203] * 3
            found = [enter(stack, running.port, DBA, DBA)[0] for _ in range(5)]
            assert found == [0] * 3 + [1040] * 2
        while True:
            with ExitStack() as stack, contextlib.suppress(pymysql.err.MySQLError):
                if running.metric("tidegate_clients_connected") == 0:
                    break
