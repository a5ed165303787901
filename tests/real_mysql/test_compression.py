"""Compression on either side of a Tidegate before a real cluster, with ordinary clients."""

from __future__ import annotations  # Connection is generic for the type checker only

import asyncio
import itertools
import os
import subprocess
from contextlib import closing
from pathlib import Path

import mysql.connector
import pymysql
import pytest

from protocol.compression import CAPABILITY, Algorithm
from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from tests.faults.client import MODERN, change_user, finish_change, query
from tests.faults.compressed_client import CompressedClient, OddClient
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

ALGORITHMS = ("zlib", "zstd", "uncompressed")
SERVER_COMPRESSION = ("off", "zlib", "zstd")
REPEATED = (("REQUIRED", "off"), ("REQUIRED", "zstd"))
LARGE = (
    "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 1000)"
    " SELECT n, SHA2(n, 512), REPEAT(CHAR(97 + n % 26), 20000) FROM t"
)


def mysql_client(
    running: RunningProxy, *arguments: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    mysqld = find_mysqld()
    assert mysqld is not None
    client = mysqld.with_name("mysql")
    if not client.exists():
        pytest.skip("no mysql client beside mysqld")
    return subprocess.run(
        [
            *(str(client), "-h127.0.0.1", f"-P{running.port}", f"-u{APP_USER}", "-N", "-B"),
            *("--get-server-public-key", "--max-allowed-packet=64M", "app", *arguments),
        ],
        env={**os.environ, "MYSQL_PWD": APP_PASSWORD},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def of_servers(cluster: Cluster, name: str) -> list[str]:
    """A status variable of every connection of the application, through the primary."""
    rows = cluster.primary.query(
        "SELECT VARIABLE_VALUE FROM performance_schema.status_by_thread JOIN"
        " performance_schema.threads USING (THREAD_ID)"
        " WHERE PROCESSLIST_USER = %s AND VARIABLE_NAME = %s",
        APP_USER,
        name,
    )
    return [str(value) for (value,) in rows]


@pytest.mark.parametrize(
    ("mode", "server", "client"),
    [
        # TLS is below what a client compresses, and a server's compression is another connection's.
        pytest.param(*each, marks=pytest.mark.deep if each[:2] in REPEATED else ())
        for each in itertools.product(("DISABLED", "REQUIRED"), SERVER_COMPRESSION, ALGORITHMS)
    ],
)
def test_mysql_client(proxy: StartProxy, client: str, server: str, mode: str) -> None:
    running = proxy(server_compression=server)
    options = [f"--ssl-mode={mode}", f"--compression-algorithms={client}"]
    done = mysql_client(
        running,
        *options,
        "-e",
        "SHOW STATUS LIKE 'Compression_algorithm'; DO 1; SELECT 2; SELECT REPEAT('x', 60)",
    )
    assert done.returncode == 0, done.stderr
    seen = "" if server == "off" else server
    # What the server says is of the proxy's connection to it, not of the client's.
    assert done.stdout.split("\n")[0].split("\t") == ["Compression_algorithm", seen]
    assert done.stdout.split("\n")[1:] == ["2", "x" * 60, ""]
    done = mysql_client(running, *options, "-e", LARGE)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(n) for n in range(1, 1001)]
    assert all(row[2] == chr(97 + int(row[0]) % 26) * 20_000 for row in rows)
    assert running.metric("tidegate_protocol_errors_total") == 0


@pytest.mark.parametrize(
    ("client", "server"),
    [
        pytest.param(client, server, marks=() if client == "zlib" else pytest.mark.deep)
        for client, server in itertools.product(ALGORITHMS, ("off", "zlib"))
    ],
)
def test_packets_of_more_than_16_mib_and_local_files(
    proxy: StartProxy, cluster: Cluster, tmp_path: Path, client: str, server: str
) -> None:
    for node in cluster.servers:
        node.query("SET GLOBAL local_infile = ON")
    path = tmp_path / "rows.txt"
    rows = 100_000
    path.write_text("".join(f"{k}\t{str(k * k) * 20}\n" for k in range(rows)))
    assert path.stat().st_size > 1 << 24
    text = "abcdefgh" * (17 << 17)
    script = (
        "CREATE TABLE files (id INT, v VARCHAR(250)); CREATE TABLE big (v LONGTEXT);",
        "INSERT INTO big",
        f"VALUES ('{text}');",
        "DELIMITER //",
        f"SELECT 1; LOAD DATA LOCAL INFILE '{path}' INTO TABLE files; SELECT 2//",
        "DELIMITER ;",
        "SELECT COUNT(*), SUM(id) FROM files; SELECT v FROM big; DROP TABLE files, big;",
    )
    running = proxy(server_compression=server)
    done = mysql_client(
        running,
        f"--compression-algorithms={client}",
        "--local-infile=1",
        stdin="\n".join(script),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["1", "2", f"{rows}\t{rows * (rows - 1) // 2}"]
    assert lines[3] == text


@pytest.mark.parametrize("server", SERVER_COMPRESSION)
@pytest.mark.parametrize("compress", [True, False])
def test_mysql_connector(proxy: StartProxy, server: str, compress: bool) -> None:
    with closing(
        mysql.connector.connect(
            host="127.0.0.1",
            port=proxy(server_compression=server).port,
            user=APP_USER,
            password=APP_PASSWORD,
            database="app",
            autocommit=True,
            compress=compress,
            use_pure=True,
        )
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS conn")
        cursor.execute("CREATE TABLE conn (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)")
        long = "".join(chr(97 + k * k % 26) for k in range(300_000))
        cursor.executemany("INSERT INTO conn (v) VALUES (%s)", [("ä",), (long,)])
        prepared = connection.cursor(prepared=True)
        for _ in range(3):
            prepared.execute("SELECT v FROM conn WHERE id = ?", (2,))
            assert prepared.fetchall() == [(long,)]
        prepared.close()
        for key, expected in ((1, "ä"), (2, long)):
            cursor.execute("SELECT v FROM conn WHERE id = %s", (key,))
            assert cursor.fetchall() == [(expected,)]
        cursor.execute(LARGE)
        assert sum(row[0] for row in cursor) == 500_500
        if not compress:  # which this driver cannot do together
            connection.cmd_change_user(APP_USER, APP_PASSWORD, "app")
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM conn")
        assert cursor.fetchall() == [(2,)]
        cursor.execute(LARGE)
        assert sum(row[0] for row in cursor) == 500_500
        connection.cmd_reset_connection()
        connection.ping()


@pytest.mark.parametrize("server", ["zlib", "zstd"])
def test_a_client_that_does_not_compress_sees_no_odd_numbers(
    proxy: StartProxy, cluster: Cluster, server: str, tmp_path: Path
) -> None:
    """PyMySQL goes by the sequence ids of packets."""
    for node in cluster.servers:
        node.query("SET GLOBAL local_infile = ON")
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{k}\n" for k in range(400_000)))
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=proxy(server_compression=server).port,
            user=APP_USER,
            password=APP_PASSWORD,
            database="app",
            local_infile=True,
            autocommit=True,
            client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"SELECT 1; {LARGE}; DO 1; {LARGE}; SELECT 2")
        counts = [len(cursor.fetchall())]
        while cursor.nextset():
            counts.append(len(cursor.fetchall()))
        assert counts == [1, 1000, 0, 1000, 1]
        cursor.execute("DROP TABLE IF EXISTS files")
        cursor.execute("CREATE TABLE files (id INT)")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE files; SELECT 3")
        assert cursor.nextset()
        assert cursor.fetchall() == ((3,),)
        cursor.execute("SELECT COUNT(*) FROM files")
        assert cursor.fetchall() == ((400_000,),)
        cursor.execute("SELECT LENGTH(%s)", ("x" * (20 << 20),))
        assert cursor.fetchall() == ((20 << 20,),)


@pytest.mark.parametrize("server", SERVER_COMPRESSION)
@pytest.mark.parametrize("algorithm", [Algorithm.ZLIB, Algorithm.ZSTD])
def test_change_user_stays_compressed(
    proxy: StartProxy, cluster: Cluster, algorithm: Algorithm, server: str
) -> None:
    async def story(port: int) -> list[bytes | None]:
        values = []
        async with await CompressedClient.connect(port) as client:
            end = await client.log_in(
                APP_USER, APP_PASSWORD, "app", MODERN | CAPABILITY[algorithm], zstd_level=3
            )
            assert end[0] == 0x00, end
            client.begin()
            for _ in range(2):
                values.append((await client.query("SELECT REPEAT('tide', 50000)")).value)
                client.send(change_user(APP_USER, "app"))
                assert (await finish_change(client, APP_PASSWORD))[0] == 0x00
                client.heard()
                values.append((await client.query("SELECT DATABASE()")).value)
                assert client.heard() == [1]
        return values

    through = asyncio.run(story(proxy(server_compression=server).port))
    assert through == asyncio.run(story(cluster.primary.port))
    assert through == [b"tide" * 50_000, b"app"] * 2


@pytest.mark.parametrize("server", ["off", "zlib"])
def test_ids_inside_of_compressed_packets_are_of_no_account(
    proxy: StartProxy, cluster: Cluster, server: str
) -> None:
    """MariaDB's Connector/J begins some commands with 1 there, and servers do not mind."""

    async def story(port: int) -> list[object]:
        packets: list[object] = []
        capabilities = MODERN | Capability.CLIENT_COMPRESS | Capability.CLIENT_LOCAL_FILES
        async with await OddClient.connect(port) as client:
            end = await client.log_in(APP_USER, APP_PASSWORD, "app", capabilities)
            assert end[0] == 0x00, end
            client.begin()
            for size in (1, 200, MAX_PACKET_PAYLOAD + 100):
                client.send(query(f"SELECT LENGTH('{'x' * size}')"))
                packets += [(await client.read_packet()) for _ in range(4)][2:]
            client.send(query("LOAD DATA LOCAL INFILE 'x' INTO TABLE odd"))
            packets.append(await client.read_packet())
            for content in (b"1\n2\n", b"3\n", b""):
                client.send(content, 50)
            packets.append(await client.read_packet())
            client.send(change_user(APP_USER, "app"))
            packets.append((await finish_change(client, APP_PASSWORD))[0])
            client.send(query("SELECT SUM(id) FROM odd"))
            packets.append([(await client.read_packet()) for _ in range(4)][2])
        return packets

    cluster.primary.query("SET GLOBAL local_infile = ON")
    answers = []
    for port in (cluster.primary.port, proxy(server_compression=server).port):
        cluster.primary.query("DROP TABLE IF EXISTS app.odd")
        cluster.primary.query("CREATE TABLE app.odd (id INT)")
        answers.append(asyncio.run(story(port)))
    assert answers[1] == answers[0]


def test_who_may_not_choose_is_told_what_a_server_says(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(client_compression="zlib")
    cluster.primary.query("SET GLOBAL protocol_compression_algorithms = 'zlib'")
    errors = []
    for port in (running.port, cluster.primary.port):
        with pytest.raises(pymysql.err.OperationalError) as error:
            pymysql.connect(host="127.0.0.1", port=port, user=APP_USER, password=APP_PASSWORD)
        errors.append(error.value.args)
    assert errors[0] == errors[1] == (3922, "Invalid compression algorithm 'uncompressed'.")
    assert running.metric("tidegate_clients_refused_total", cause="compression") == 1
    cluster.primary.query("SET GLOBAL protocol_compression_algorithms = 'uncompressed'")
    running = proxy(server_compression="zstd,zlib", without_primary="refuse")
    with pytest.raises(pymysql.err.OperationalError, match="server-compression"):
        running.connect()
