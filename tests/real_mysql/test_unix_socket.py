"""Clients at Tidegate's Unix socket, beside the same clients at the primary's own socket."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

ACCOUNTS = {"socket_open": "REQUIRE NONE", "socket_tls": "REQUIRE SSL"}


@pytest.fixture(scope="module")
def path(cluster: Cluster) -> Path:
    return cluster.scratch.path / "tidegate.sock"


@pytest.fixture(scope="module")
def running(cluster: Cluster, path: Path) -> Iterator[RunningProxy]:
    for name, clause in ACCOUNTS.items():
        cluster.primary.query(f"CREATE USER {name}@'%' IDENTIFIED BY '{name}' {clause}")
    cluster.wait_caught_up()
    proxy = RunningProxy(cluster, "unix-socket", {"socket": str(path), "client_tls": "required"})
    try:
        yield proxy
    finally:
        proxy.stop()
        for name in ACCOUNTS:
            cluster.primary.query(f"DROP USER {name}@'%'")
        assert "Traceback" not in proxy.stderr, proxy.stderr


def mysql(
    at: object, user: str, password: str, sql: str, *more: str
) -> subprocess.CompletedProcess[str]:
    mysqld = find_mysqld()
    assert mysqld is not None
    return subprocess.run(
        [str(mysqld.with_name("mysql")), "--no-defaults", "-S", str(at), f"-u{user}",
         f"-p{password}", "-N", "-e", sql, *more],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("ssl_mode", ["DISABLED", "PREFERRED", "REQUIRED"])
def test_the_command_line_client(
    cluster: Cluster, running: RunningProxy, path: Path, ssl_mode: str
) -> None:
    """A socket is a secure transport: the password goes in clear, whatever the login's cache."""
    mode = f"--ssl-mode={ssl_mode}"
    for at in (cluster.primary.socket, path):
        # An unknown password of a new user is asked for in full.
        done = mysql(at, "socket_open", "socket_open", "SELECT CURRENT_USER()", mode)
        assert (done.returncode, done.stdout) == (0, "socket_open@%\n"), done.stderr
        done = mysql(at, "socket_open", "wrong", "SELECT 1", mode)
        assert "ERROR 1045 (28000)" in done.stderr
        done = mysql(at, "socket_open", "socket_open", "status", mode, "--commands")
        assert "Localhost via UNIX socket" in done.stdout


@pytest.mark.parametrize("ssl_mode", ["DISABLED", "PREFERRED", "REQUIRED"])
@pytest.mark.parametrize("user", ACCOUNTS)
def test_require_ssl_is_about_tls_and_not_the_socket(
    cluster: Cluster, running: RunningProxy, path: Path, user: str, ssl_mode: str
) -> None:
    mode = f"--ssl-mode={ssl_mode}"
    itself = mysql(cluster.primary.socket, user, user, "SELECT 1", mode)
    through = mysql(path, user, user, "SELECT 1", mode)
    assert itself.returncode == through.returncode, (itself.stderr, through.stderr)
    assert itself.stdout == through.stdout
    assert itself.stderr.partition("user")[0] == through.stderr.partition("user")[0]


def test_client_tls_required_is_as_require_secure_transport(
    cluster: Cluster, running: RunningProxy, path: Path
) -> None:
    """A socket is good enough for both; TCP without TLS is not."""
    cluster.primary.query("SET GLOBAL require_secure_transport = ON")
    try:
        with pymysql.connect(
            unix_socket=cluster.primary.socket, user=APP_USER, password=APP_PASSWORD
        ) as connection:
            connection.ping(reconnect=False)
        with pytest.raises(pymysql.err.OperationalError) as direct:
            pymysql.connect(
                host="127.0.0.1", port=cluster.primary.port,
                user=APP_USER, password=APP_PASSWORD, ssl_disabled=True,
            )  # fmt: skip
    finally:
        cluster.primary.query("SET GLOBAL require_secure_transport = OFF")
    with pymysql.connect(
        unix_socket=str(path), user=APP_USER, password=APP_PASSWORD, ssl_disabled=True
    ) as connection:
        connection.ping(reconnect=False)
    with pytest.raises(pymysql.err.OperationalError) as through:
        pymysql.connect(
            host="127.0.0.1", port=running.port,
            user=APP_USER, password=APP_PASSWORD, ssl_disabled=True,
        )  # fmt: skip
    assert direct.value.args[0] == through.value.args[0] == 3159


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_compression_and_large_answers(running: RunningProxy, path: Path, algorithm: str) -> None:
    done = mysql(
        path, "socket_open", "socket_open", "SELECT LENGTH(REPEAT('a', 3000000))",
        f"--compression-algorithms={algorithm}",
    )  # fmt: skip
    assert done.stdout == "3000000\n", done.stderr


def test_the_host_of_its_clients_is_localhost(
    cluster: Cluster, running: RunningProxy, path: Path
) -> None:
    with pymysql.connect(
        unix_socket=str(path), user=APP_USER, password=APP_PASSWORD, database="app"
    ) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            (found,) = cursor.fetchone() or ()
        shown = cluster.primary.value(
            "SELECT attr_value FROM performance_schema.session_connect_attrs"
            " WHERE processlist_id = %s AND attr_name = 'tidegate_client'",
            found,
        )
    assert shown == "localhost"
    mysql(path, APP_USER, "wrong", "SELECT 1")
    assert f"client localhost as '{APP_USER}' was refused (login)" in running.stderr


def test_a_change_of_user_over_the_socket(running: RunningProxy, path: Path) -> None:
    """The new user's password goes in clear again; COM_CHANGE_USER keeps to the same socket."""
    connector = pytest.importorskip("mysql.connector")
    connection = connector.connect(
        unix_socket=str(path), user=APP_USER, password=APP_PASSWORD, ssl_disabled=True,
        use_pure=True,
    )  # fmt: skip
    connection.cmd_change_user("socket_open", "socket_open")
    cursor = connection.cursor()
    cursor.execute("SELECT CURRENT_USER()")
    assert cursor.fetchone() == ("socket_open@%",)
    connection.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_file_from_start_to_stop(cluster: Cluster, proxy: StartProxy, workers: str) -> None:
    path = cluster.scratch.path / f"tidegate-{workers}.sock"
    first = proxy(socket=str(path), socket_mode="0660", workers=workers)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    for _ in range(4):
        done = mysql(path, APP_USER, APP_PASSWORD, "SELECT 'here'")
        assert done.stdout == "here\n", done.stderr

    # A second proxy leaves the socket of one that lives alone.
    with pytest.raises(RuntimeError, match="another process listens there"):
        proxy(socket=str(path), workers=workers)
    done = mysql(path, APP_USER, APP_PASSWORD, "SELECT 'here'")
    assert done.stdout == "here\n", done.stderr

    first.kill()  # with several workers: only their parent, and they end by themselves
    assert path.exists()
    second = wait_for_start(proxy, path, workers)
    done = mysql(path, APP_USER, APP_PASSWORD, "SELECT 'here'")
    assert done.stdout == "here\n", done.stderr
    second.stop()
    assert not path.exists()


def wait_for_start(proxy: StartProxy, path: Path, workers: str) -> RunningProxy:
    """Workers of a killed supervisor still listen for a moment."""
    while True:
        try:
            return proxy(socket=str(path), workers=workers)
        except RuntimeError as error:
            if "another process listens there" not in str(error):
                raise


def test_it_refuses_while_sessions_have_time_to_end(cluster: Cluster, proxy: StartProxy) -> None:
    """As a port does: nobody waits in the backlog of a proxy that stops."""
    path = cluster.scratch.path / "tidegate-stops.sock"
    running = proxy(socket=str(path), workers="2", drain_timeout="20s")
    with pymysql.connect(
        unix_socket=str(path), user=APP_USER, password=APP_PASSWORD, autocommit=False
    ) as connection:
        connection.begin()
        running.signal(signal.SIGTERM)
        while True:
            with contextlib.suppress(BlockingIOError), socket.socket(socket.AF_UNIX) as client:
                client.settimeout(10)
                try:
                    client.connect(str(path))
                    if not client.recv(1):
                        continue
                except (ConnectionError, FileNotFoundError):
                    break
        with connection.cursor() as cursor:
            cursor.execute("SELECT 'still here'")
            assert cursor.fetchone() == ("still here",)
        connection.commit()
    running.wait()
    assert not path.exists()
