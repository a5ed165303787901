"""The mocker as replica of a real server."""

from collections.abc import Iterator

import pymysql
import pytest

from mysql_mocker.server.cluster import Cluster
from protocol.gtid import GtidSet
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import (
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    data_template,
    find_mysqld,
)
from tests.support import binlogs
from tests.support.background_cluster import BackgroundCluster
from tests.support.real_source import RealSource
from tests.support.waiting import until

TOLD = 1_600_000_000_123_456
CHANGES = [
    "CREATE TABLE t (i INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(80), w DOUBLE, d DECIMAL(10,2),"
    " s DATETIME(6), b BLOB, e ENUM('red','green'), f SET('a','b'))",
    "INSERT INTO t (v) VALUES ('one'), ('two'), ('three')",
    "BEGIN", "UPDATE t SET v = 'zwei''s', w = RAND(), s = NOW(6) WHERE i = 2",
    "DELETE FROM t WHERE i = 1",
    "INSERT INTO t VALUES (50, 'é', -2.5, -12.34, '2024-02-29 12:34:56.789', X'00ff', 'green',"
    " 'a,b')",
    "COMMIT",
    "CREATE TABLE keyless (v INT, n VARCHAR(5))", "INSERT INTO keyless VALUES (1,'a'), (1,NULL)",
    "UPDATE keyless SET v = 2 WHERE n IS NULL", "DELETE FROM keyless WHERE v = 1",
    f"SET original_commit_timestamp = {TOLD}", "INSERT INTO t (v) VALUES ('relayed')",
    "SET binlog_transaction_compression = ON", "INSERT INTO t (v) SELECT 'packed' FROM keyless",
    "SET binlog_transaction_compression = OFF",
    "SET gtid_next = '11111111-2222-3333-4444-555555555555:tag:1'",
    "INSERT INTO t (v) VALUES ('tagged')", "SET gtid_next = 'AUTOMATIC'",
    "ALTER TABLE t ADD COLUMN later INT DEFAULT 7", "FLUSH BINARY LOGS",
    "SET binlog_format = STATEMENT", "SET @x = 'of a variable'",
    "INSERT INTO t (v) VALUES (@x)", "UPDATE t SET s = NOW(6) WHERE i = 3",
    "SET binlog_format = ROW", "UPDATE t SET later = 8 WHERE i > 50",
]  # fmt: skip


@pytest.fixture(scope="module")
def source() -> Iterator[RealServer]:
    mysqld = find_mysqld()
    assert mysqld is not None
    with ScratchFolder() as scratch:
        server = RealServer("source", mysqld, scratch)
        server.create(data_template(mysqld))
        server.start("--binlog-row-metadata=FULL")  # names the words of ENUM and SET
        yield server
        server.kill()


@pytest.fixture
def mocker() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(lambda: Cluster(0, schemas=["app"])) as running:
        running.call(lambda: setattr(running.cluster.primary, "read_only", True))
        yield running


@pytest.fixture
def following(mocker: BackgroundCluster, source: RealServer) -> Iterator[RealSource]:
    applier = RealSource(
        mocker.cluster.primary, "127.0.0.1", source.port, REPLICATION_USER, REPLICATION_PASSWORD
    )
    mocker.call(applier.start)
    yield applier
    mocker.run(applier.stop())


def caught_up(mocker: BackgroundCluster, source: RealServer, following: RealSource) -> None:
    wanted = GtidSet.parse(source.gtid_executed)
    primary = mocker.cluster.primary
    until(
        lambda: (
            following.error is not None or wanted <= mocker.call(lambda: primary.gtids.executed)
        ),
        lambda: f"{wanted.text} is applied: {primary.gtids.executed}",
    )
    assert following.error is None, following.error


def run(source: RealServer, *statements: str) -> None:
    with source.admin("app") as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows(connection: object, table: str) -> list[tuple[str | None, ...]]:
    assert isinstance(connection, pymysql.Connection)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"TABLE app.{table}")
        found = [tuple(None if v is None else str(v) for v in row) for row in cursor.fetchall()]
    return sorted(found, key=str)


def here(mocker: BackgroundCluster, table: str) -> list[tuple[str | None, ...]]:
    port = mocker.cluster.primary.port
    return rows(pymysql.connect(host="127.0.0.1", port=port, user="root"), table)


def test_rows_statements_gtids_and_original_timestamps(
    mocker: BackgroundCluster, source: RealServer, following: RealSource
) -> None:
    run(source, *CHANGES)
    caught_up(mocker, source, following)
    for table in ("t", "keyless"):
        assert here(mocker, table) == rows(source.admin(), table)
    primary = mocker.cluster.primary
    transactions = mocker.call(lambda: list(primary.binlog.transactions))
    assert mocker.call(lambda: primary.gtids.executed) == GtidSet.parse(source.gtid_executed)
    found = {entry.gtid.text: entry.timestamps for entry in transactions}
    source.query("FLUSH BINARY LOGS")
    for name, *_ in source.query("SHOW BINARY LOGS"):
        for event in binlogs.gtid_events_of((source.data / str(name)).read_bytes()):
            assert event.timestamps is not None
            own = found.pop(str(event.gtid))
            assert own.original == event.timestamps.original
            assert own.immediate > event.timestamps.immediate
    assert found == {}


def test_the_mocker_stands_between_two_real_servers(
    mocker: BackgroundCluster, source: RealServer, following: RealSource
) -> None:
    run(source, "DROP TABLE IF EXISTS t, keyless", "SET original_commit_timestamp = DEFAULT")
    run(source, *(change for change in CHANGES if "tag" not in change))
    caught_up(mocker, source, following)
    mysqld = find_mysqld()
    assert mysqld is not None
    with ScratchFolder() as scratch:
        leaf = RealServer("leaf", mysqld, scratch)
        leaf.create(data_template(mysqld))
        leaf.start()
        leaf.query(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,"
            " SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 0",
            mocker.cluster.primary.port,
        )
        leaf.query("START REPLICA")
        wanted = GtidSet.parse(source.gtid_executed)
        until(
            lambda: wanted <= GtidSet.parse(leaf.gtid_executed),
            lambda: str(
                leaf.query("SELECT * FROM performance_schema.replication_applier_status_by_worker")
            ),
        )
        for table in ("t", "keyless"):
            assert rows(leaf.admin(), table) == rows(source.admin(), table)
        first, last = original_timestamps(source), original_timestamps(leaf)
        assert last.items() == first.items()
        leaf.kill()


def original_timestamps(server: RealServer) -> dict[str, int]:
    found = {}
    server.query("FLUSH BINARY LOGS")
    for name, *_ in server.query("SHOW BINARY LOGS"):
        for event in binlogs.gtid_events_of((server.data / str(name)).read_bytes()):
            assert event.timestamps is not None
            found[str(event.gtid)] = event.timestamps.original
    return found


def test_it_comes_back_by_itself_and_goes_on_where_it_was(
    mocker: BackgroundCluster, source: RealServer, following: RealSource
) -> None:
    run(source, "CREATE TABLE IF NOT EXISTS again (i INT)", "INSERT INTO again VALUES (1)")
    caught_up(mocker, source, following)
    source.restart("--binlog-row-metadata=FULL")
    run(source, "INSERT INTO again VALUES (2)")
    until(
        lambda: here(mocker, "again") == [("1",), ("2",)],
        lambda: f"the second row is there: {following.error}",
    )


def test_what_cannot_be_applied_stops_it_with_a_reason(
    mocker: BackgroundCluster, source: RealServer, following: RealSource
) -> None:
    run(source, "CREATE TABLE lost (i INT PRIMARY KEY)", "INSERT INTO lost VALUES (1)")
    caught_up(mocker, source, following)
    primary = mocker.cluster.primary
    mocker.call(lambda: primary.engine.own.read('DELETE FROM "app.lost"'))
    executed = mocker.call(lambda: primary.gtids.executed)
    run(source, "DELETE FROM lost")
    until(lambda: following.error is not None, lambda: "it stops")
    assert "Can't find record in 'lost'" in str(following.error)
    assert mocker.call(lambda: primary.gtids.executed) == executed


def test_a_wrong_password_is_told(mocker: BackgroundCluster, source: RealServer) -> None:
    applier = RealSource(mocker.cluster.primary, "127.0.0.1", source.port, "root", "wrong")
    mocker.call(applier.start)
    until(lambda: applier.error is not None, lambda: "it is refused")
    mocker.run(applier.stop())
    assert "1045" in str(applier.error)
