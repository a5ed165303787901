"""The drivers and the command line client, by their ordinary ways in."""

from __future__ import annotations  # Connection is generic for the type checker only

import os
import ssl
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import mysql.connector
import pymysql
import pytest
from pymysql.cursors import SSCursor

from proxy.tls.materials import self_signed
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy()


def mysql_client(running: RunningProxy, *arguments: str) -> subprocess.CompletedProcess[str]:
    mysqld = find_mysqld()
    assert mysqld is not None
    client = mysqld.with_name("mysql")
    if not client.exists():
        pytest.skip("no mysql client beside mysqld")
    return subprocess.run(
        [str(client), "-h127.0.0.1", f"-P{running.port}", f"-u{APP_USER}", "-N", "-B", *arguments],
        env={**os.environ, "MYSQL_PWD": APP_PASSWORD},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED", "DISABLED"])
def test_mysql_client(running: RunningProxy, mode: str) -> None:
    sql = (
        "DROP TABLE IF EXISTS app.cli; CREATE TABLE app.cli (id INT); INSERT INTO app.cli VALUES"
        " (1), (2); SELECT SUM(id) FROM app.cli; SHOW STATUS LIKE 'Ssl_cipher'"
    )
    done = mysql_client(running, f"--ssl-mode={mode}", "--get-server-public-key", "-e", sql)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "3"


def test_mysql_client_is_told_what_the_server_says(running: RunningProxy) -> None:
    done = mysql_client(running, "-e", "SELECT * FROM nowhere.nothing")
    assert "ERROR 1142 (42000)" in done.stderr or "ERROR 1049 (42000)" in done.stderr
    done = mysql_client(running, "--password=wrong", "-e", "SELECT 1")
    assert "ERROR 1045 (28000): Access denied for user 'app'" in done.stderr


def test_mysql_connector(running: RunningProxy) -> None:
    with closing(
        mysql.connector.connect(
            host="127.0.0.1",
            port=running.port,
            user=APP_USER,
            password=APP_PASSWORD,
            database="app",
            autocommit=True,
        )
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS conn")
        cursor.execute("CREATE TABLE conn (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)")
        cursor.executemany("INSERT INTO conn (v) VALUES (%s)", [("ä",), ("b" * 100_000,)])
        cursor.execute("SELECT id, LENGTH(v) FROM conn ORDER BY id")
        assert cursor.fetchall() == [(1, 2), (2, 100_000)]
        prepared = connection.cursor(prepared=True)
        prepared.execute("SELECT v FROM conn WHERE id = ?", (1,))
        assert prepared.fetchall() == [("ä",)]
        prepared.close()
        connection.start_transaction()
        cursor.execute("DELETE FROM conn")
        connection.rollback()
        cursor.execute("SELECT COUNT(*) FROM conn")
        assert cursor.fetchall() == [(2,)]
        connection.ping()


def test_pymysql_over_tls(running: RunningProxy) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user=APP_USER,
            password=APP_PASSWORD,
            ssl=context,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT REPEAT('x', 5000000)")
        assert len(cursor.fetchall()[0][0]) == 5_000_000


@pytest.mark.parametrize(
    "size", [0, 10, 3_000_000, pytest.param(40_000_000, marks=pytest.mark.deep)]
)
def test_local_infile(running: RunningProxy, cluster: Cluster, tmp_path: Path, size: int) -> None:
    for server in cluster.servers:
        server.query("SET GLOBAL local_infile = ON")
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{k}\n" for k in range(size // 8)))
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user=APP_USER,
            password=APP_PASSWORD,
            database="app",
            local_infile=True,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("DROP TABLE IF EXISTS loaded")
        cursor.execute("CREATE TABLE loaded (id INT)")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE loaded")
        cursor.execute("SELECT COUNT(*) FROM loaded")
        assert cursor.fetchall() == ((size // 8,),)


@pytest.mark.parametrize("size", [100, 1 << 20, (1 << 20) + 1, (1 << 24) - 1, (1 << 24) + 5])
def test_statements_of_any_size(running: RunningProxy, size: int) -> None:
    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS app.big")
        cursor.execute("CREATE TABLE app.big (v LONGTEXT)")
        head, tail = "INSERT INTO app.big VALUES ('", "')"
        text = "x" * (size - len(head) - len(tail) - 1)
        cursor.execute(head + text + tail)
        cursor.execute("SELECT LENGTH(v) FROM app.big")
        assert cursor.fetchall() == ((len(text),),)
        cursor.execute("SELECT v FROM app.big")
        assert cursor.fetchall() == ((text,),)


@pytest.mark.parametrize("size", [200_000_000, pytest.param(1_000_000_000, marks=pytest.mark.deep)])
def test_a_large_result_passes_in_constant_memory(running: RunningProxy, size: int) -> None:
    def resident() -> int:
        status = Path(f"/proc/{running.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    with running.connect() as connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
        before = resident()
        cursor.execute("CREATE TABLE IF NOT EXISTS app.five (id INT)")
        cursor.execute("INSERT INTO app.five VALUES (1), (2), (3), (4), (5)")
        cursor.execute(
            "SELECT REPEAT('x', 1000000) FROM app.five a, app.five b, app.five c, app.five d,"
            " app.five e LIMIT %s",
            (size // 1_000_000,),
        )
        received = sum(len(row[0]) for row in cursor)
        assert received == size
        assert resident() - before < 32 << 20


def test_kill_by_the_id_that_the_client_knows(running: RunningProxy) -> None:
    with running.connect() as victim, running.connect() as killer:
        outcome: list[object] = []

        def sleep() -> None:
            with victim.cursor() as cursor:
                try:
                    cursor.execute("SELECT SLEEP(30)")
                    outcome.append(cursor.fetchall())
                except pymysql.MySQLError as error:
                    outcome.append(error.args[0])

        thread = threading.Thread(target=sleep)
        thread.start()
        deadline = time.monotonic() + 60
        with killer.cursor() as cursor:
            while thread.is_alive() and time.monotonic() < deadline:
                cursor.execute(f"KILL QUERY {victim.thread_id()}")
                time.sleep(0.05)
        thread.join(20)
        assert outcome in ([1317], [((1,),)]), "the server ends SLEEP in one of two ways"
        with victim.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_several_workers_serve_one_port(proxy: StartProxy) -> None:
    running = proxy(workers="2")
    for _ in range(8):
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == ((1,),)
    assert running.metric("tidegate_client_connections_total") == 8


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required"])
def test_tls_to_the_servers(proxy: StartProxy, mode: str) -> None:
    running = proxy(server_tls=mode)
    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert bool(cursor.fetchall()[0][1]) == (mode != "disabled")
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)


@pytest.mark.parametrize("mode", ["verify_ca", "verify_identity"])
def test_the_servers_certificates_are_verified(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path, mode: str
) -> None:
    good = proxy(server_tls=mode, server_tls_ca=str(cluster.primary.ca_file))
    with good.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    certificate, _ = self_signed("another authority", "127.0.0.1")
    other = tmp_path / "other.pem"
    other.write_bytes(certificate)
    bad = proxy(server_tls=mode, server_tls_ca=str(other))
    with pytest.raises(pymysql.MySQLError) as refused:
        bad.connect()
    assert refused.value.args[0] == 2003
