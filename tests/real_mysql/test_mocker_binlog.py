"""The mocker's binary log, read by MySQL's own programs: mysqlbinlog and a replica."""

from __future__ import annotations  # Connection is generic for the type checker only

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from protocol.gtid import GtidSet
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import data_template, find_mysqld
from tests.support import binlogs
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

TAGGED = "11111111-2222-3333-4444-555555555555:tag:1"
TOLD = 1_600_000_000_123_456
STATEMENTS = [
    "CREATE DATABASE shop", "USE shop",
    "CREATE TABLE t (i INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(80), w DOUBLE, s DATETIME(6))",
    "INSERT INTO t (v) VALUES ('a'), ('b')",
    "BEGIN", "UPDATE t SET s = NOW(6) WHERE i = 1", "SET @x = 'it''s é', @y = -5, @z = 2.5",
    "INSERT INTO t (v, w) VALUES (@x, RAND()), (@y, RAND())", "DELETE FROM t WHERE i = 2",
    "INSERT INTO t (w) VALUES (@z)", "COMMIT",
    "INSERT INTO t (i, v) VALUES (50, 'told which')",
    "PREPARE s FROM 'INSERT INTO t (v) VALUES (CONCAT(?, LAST_INSERT_ID()))'",
    "EXECUTE s USING @x",
    "INSERT INTO t (v) VALUES ('a text that is longer than what stays in the text as it was')",
    "FLUSH BINARY LOGS",
    f"SET gtid_next = '{TAGGED}'", "INSERT INTO t (v) VALUES ('tagged')",
    "SET gtid_next = 'AUTOMATIC'",
    f"SET original_commit_timestamp = {TOLD}", "INSERT INTO t (v) VALUES ('relayed')",
    "CREATE VIEW v AS SELECT i FROM t", "FLUSH BINARY LOGS",
    "ALTER TABLE t ADD COLUMN later INT DEFAULT 7", "UPDATE t SET later = 8 WHERE i > 50",
]  # fmt: skip
HEARTBEATS = (
    "SELECT COUNT_RECEIVED_HEARTBEATS FROM performance_schema.replication_connection_status"
)
CONNECT = """
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s, SOURCE_USER = 'repl',
  SOURCE_PASSWORD = 'secret', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_SSL = 0,
  SOURCE_CONNECT_RETRY = 1, SOURCE_HEARTBEAT_PERIOD = 0.2
"""


@pytest.fixture(scope="module")
def mocker() -> Iterator[BackgroundCluster]:
    accounts = {"root": "", "repl": "secret"}
    with BackgroundCluster(lambda: Cluster(0, accounts=accounts)) as running:
        yield running


@pytest.fixture(scope="module")
def source(mocker: BackgroundCluster) -> Server:
    return mocker.cluster.primary


@pytest.fixture(scope="module")
def session(source: Server) -> Iterator[Cursor]:
    connection = pymysql.connect(
        host="127.0.0.1", port=source.port, user="root", database="test", autocommit=True
    )
    with connection, connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
        yield cursor


@pytest.fixture(scope="module")
def replica(source: Server) -> Iterator[RealServer]:
    mysqld = find_mysqld()
    assert mysqld is not None
    with ScratchFolder() as scratch:
        server = RealServer("mockers", mysqld, scratch)
        server.create(data_template(mysqld))
        server.start()
        server.query(CONNECT, source.port)
        yield server
        server.kill()


def executed(mocker: BackgroundCluster) -> GtidSet:
    return mocker.call(lambda: mocker.cluster.primary.gtids.executed)


def caught_up(mocker: BackgroundCluster, replica: RealServer) -> None:
    wanted = executed(mocker)
    until(
        lambda: wanted <= GtidSet.parse(replica.gtid_executed),
        f"the replica has {wanted.text}: {replica.replica_status()}",
    )


def rows(session: Cursor) -> list[tuple[str | None, ...]]:
    session.execute("SELECT * FROM shop.t ORDER BY i")
    return [tuple(None if v is None else str(v) for v in row) for row in session.fetchall()]


def test_mysqlbinlog_prints_its_files(
    mocker: BackgroundCluster, source: Server, session: Cursor, tmp_path: Path
) -> None:
    mocker.call(lambda: source.logs.write_to(tmp_path))
    session.execute("INSERT INTO shop.t (v) VALUES ('written at once')")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"binlog.00000{n}" for n in (1, 2, 3)]
    mysqld = find_mysqld()
    assert mysqld is not None
    done = subprocess.run(
        [mysqld.with_name("mysqlbinlog"), "--verify-binlog-checksum", *files],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    printed = done.stdout
    assert f"SET @@SESSION.GTID_NEXT= '{TAGGED}'" in printed
    assert f"SET @@session.original_commit_timestamp={TOLD}*/" in printed
    assert "'written at once'" in printed
    assert printed.count("Rotate to") == 2
    for file in files:
        assert binlogs.events(file.read_bytes())


def test_a_real_server_replicates_from_the_mocker(
    mocker: BackgroundCluster, source: Server, session: Cursor, replica: RealServer
) -> None:
    replica.query("START REPLICA")
    caught_up(mocker, replica)
    with replica.admin() as admin, admin.cursor() as cursor:
        assert rows(cursor) == rows(session)
    definers = "SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'shop'"
    assert replica.value(definers) == "root@%"
    # Heartbeats hold the connection, and what comes later arrives by the same one.
    until(lambda: int(replica.value(HEARTBEATS)) > 1, "heartbeats come")
    session.execute("INSERT INTO shop.t (v) VALUES ('later')")
    session.execute("FLUSH BINARY LOGS")
    session.execute("INSERT INTO shop.t (v) VALUES ('in the next file')")
    caught_up(mocker, replica)
    status = replica.replica_status()
    assert (status["Replica_IO_Running"], status["Last_Error"]) == ("Yes", "")
    with replica.admin() as admin, admin.cursor() as cursor:
        assert rows(cursor) == rows(session)


def test_the_replica_keeps_the_original_timestamps(
    mocker: BackgroundCluster, source: Server, session: Cursor, replica: RealServer
) -> None:
    caught_up(mocker, replica)
    wanted = {
        entry.gtid.text: entry.timestamps.original
        for entry in mocker.call(lambda: list(source.binlog.transactions))
    }
    found = {}
    replica.query("FLUSH BINARY LOGS")
    for name, *_ in replica.query("SHOW BINARY LOGS"):
        for event in binlogs.gtid_events_of((replica.data / str(name)).read_bytes()):
            assert event.timestamps is not None
            found[str(event.gtid)] = event.timestamps.original
            assert event.timestamps.immediate > TOLD
    assert found == wanted


def test_it_goes_on_where_it_was(
    mocker: BackgroundCluster, session: Cursor, replica: RealServer
) -> None:
    replica.query("STOP REPLICA")
    session.execute("INSERT INTO shop.t (v) VALUES ('meanwhile')")
    mocker.run(mocker.cluster.primary.restart())
    replica.query("START REPLICA")
    caught_up(mocker, replica)
    assert replica.value("SELECT COUNT(*) FROM shop.t WHERE v = 'meanwhile'") == "1"


def failed_with(replica: RealServer, message: str) -> None:
    until(lambda: bool(replica.replica_status()["Last_IO_Errno"]), "the receiver stops")
    status = replica.replica_status()
    assert status["Replica_IO_Running"] == "No"
    assert "1236" in str(status["Last_IO_Error"])
    assert message in str(status["Last_IO_Error"])
    replica.query("STOP REPLICA")


def test_a_replica_that_lacks_what_was_purged_or_has_what_never_was_is_refused(
    mocker: BackgroundCluster, source: Server, session: Cursor, replica: RealServer
) -> None:
    caught_up(mocker, replica)
    replica.query("STOP REPLICA")
    newest = mocker.call(lambda: source.logs.files[-1].name)
    never = f"{source.gtids.server_uuid}:1000000"
    for statement in (f"SET gtid_next = '{never}'", "BEGIN", "COMMIT", "SET gtid_next = AUTOMATIC"):
        replica.query(statement)
    replica.query("START REPLICA")
    failed_with(replica, "more GTIDs than the source has")
    replica.query("RESET REPLICA")  # what it received counts as what it has
    replica.query("RESET BINARY LOGS AND GTIDS")
    with pymysql.connect(host="127.0.0.1", port=source.port, user="root") as connection:
        connection.cursor().execute(f"PURGE BINARY LOGS TO '{newest}'")
    replica.query("START REPLICA")
    failed_with(replica, "purged required binary logs")
