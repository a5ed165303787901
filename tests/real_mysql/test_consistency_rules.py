"""What is true of MySQL, and what follows: each test fails where one rule is ignored.

Replicas' appliers are stopped in most of them, so that a rule that is broken shows at once: the
read would be answered by a replica that cannot have the rows.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from protocol.constants import Capability
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

FOREIGN_UUID = "aaaaaaaa-0000-0000-0000-000000000001"


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy(wait_budget="50ms")


@pytest.fixture
def cursor(running: RunningProxy, cluster: Cluster) -> Iterator[Cursor]:
    """A session with an empty table `app.t` and a warm connection to a replica."""
    with running.connect() as connection, connection.cursor() as cursor:
        make_table(cursor, cluster)
        yield cursor


def make_table(cursor: Cursor, cluster: Cluster) -> None:
    """An empty table that all servers have, and that the session has read on a replica."""
    cursor.execute("DROP TABLE IF EXISTS app.t")
    cursor.execute("CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    cluster.wait_caught_up()
    assert values(cursor) == []


def stop_appliers(cluster: Cluster) -> None:
    for replica in cluster.replicas:
        replica.stop_applier()


def values(cursor: Cursor) -> list[int]:
    cursor.execute("SELECT v FROM app.t ORDER BY id")
    return [row[0] for row in cursor.fetchall()]


def last_read(running: RunningProxy, count: int) -> dict[str, object]:
    reads = [record for record in running.records() if record["class"] == "read"]
    deadline = time.monotonic() + 60
    while len(reads) < count and time.monotonic() < deadline:
        time.sleep(0.05)
        reads = [record for record in running.records() if record["class"] == "read"]
    return reads[-1]


def test_own_write_is_seen_though_the_replicas_do_not_have_it(
    cursor: Cursor, cluster: Cluster
) -> None:
    stop_appliers(cluster)
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    assert values(cursor) == [1]


def test_the_required_set_is_a_union_of_all_that_was_reported(
    running: RunningProxy, cluster: Cluster
) -> None:
    """Several UUIDs, tags and gaps; the newest GTID alone is on the replicas."""
    cluster.primary.query("CREATE USER IF NOT EXISTS tagger@'%' IDENTIFIED BY 'tagger'")
    cluster.primary.query("GRANT ALL ON *.* TO tagger@'%'")
    privileges = "REPLICATION_APPLIER, TRANSACTION_GTID_TAG, SYSTEM_VARIABLES_ADMIN"
    cluster.primary.query(f"GRANT {privileges} ON *.* TO tagger@'%'")
    with running.connect("tagger", "tagger") as connection, connection.cursor() as cursor:
        make_table(cursor, cluster)
        stop_appliers(cluster)
        cursor.execute(f"SET gtid_next = '{FOREIGN_UUID}:7'")
        cursor.execute("INSERT INTO app.t (v) VALUES (1)")
        cursor.execute("SET gtid_next = 'AUTOMATIC:tide'")
        cursor.execute("INSERT INTO app.t (v) VALUES (2)")
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
        cursor.execute("INSERT INTO app.t (v) VALUES (3)")
        uuid = cluster.primary.server_uuid
        newest = cluster.primary.gtid_executed.split(uuid)[1].split(":")[1].split("-")[-1]
        for replica in cluster.replicas:
            with closing(replica.admin()) as admin, admin.cursor() as raw:
                raw.execute("SET GLOBAL super_read_only = OFF")
                raw.execute(f"SET gtid_next = '{uuid}:{newest}'")
                raw.execute("BEGIN")
                raw.execute("COMMIT")
                raw.execute("SET gtid_next = 'AUTOMATIC'")
        assert values(cursor) == [1, 2, 3]


def test_gtids_are_taken_from_every_ok_of_a_response(
    running: RunningProxy, cursor: Cursor, cluster: Cluster
) -> None:
    """The last OK of a CALL that ends with a SELECT names none (fact 2.2)."""
    cursor.execute("DROP PROCEDURE IF EXISTS app.p")
    cursor.execute(
        "CREATE PROCEDURE app.p() BEGIN INSERT INTO app.t (v) VALUES (1); SELECT 1;"
        " INSERT INTO app.t (v) VALUES (2); SELECT 2; END"
    )
    cluster.wait_caught_up()
    assert values(cursor) == []
    stop_appliers(cluster)
    cursor.execute("CALL app.p()")
    while cursor.nextset():
        pass
    assert values(cursor) == [1, 2]


def test_multi_statements(running: RunningProxy, cursor: Cursor, cluster: Cluster) -> None:
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user=APP_USER,
            password=APP_PASSWORD,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        ) as connection,
        connection.cursor() as other,
    ):
        assert values(other) == []
        stop_appliers(cluster)
        other.execute(
            "INSERT INTO app.t (v) VALUES (1); SELECT 1; INSERT INTO app.t (v) VALUES (2); SELECT 2"
        )
        while other.nextset():
            pass
        assert values(other) == [1, 2]


def test_a_command_that_failed_after_it_committed(cursor: Cursor, cluster: Cluster) -> None:
    """No packet names these GTIDs (fact 2.3)."""
    cursor.execute("DROP PROCEDURE IF EXISTS app.q")
    cursor.execute(
        "CREATE PROCEDURE app.q() BEGIN INSERT INTO app.t (v) VALUES (1);"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'after the commit'; END"
    )
    cluster.wait_caught_up()
    assert values(cursor) == []
    stop_appliers(cluster)
    with pytest.raises(pymysql.MySQLError, match="after the commit"):
        cursor.execute("CALL app.q()")
    assert values(cursor) == [1]
    assert values(cursor) == [1], "what is required must be known again, and still be required"


def test_an_implicit_commit_before_an_error(cursor: Cursor, cluster: Cluster) -> None:
    stop_appliers(cluster)
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    with pytest.raises(pymysql.MySQLError, match="already exists"):
        cursor.execute("CREATE TABLE app.t (id INT)")
    assert values(cursor) == [1]
    assert values(cursor) == [1]


def test_a_function_that_writes_for_a_client_without_deprecate_eof(
    cursor: Cursor, cluster: Cluster
) -> None:
    """PyMySQL gets a classic EOF, which cannot carry the GTID (fact 2.3)."""
    cursor.execute("DROP FUNCTION IF EXISTS app.f")
    for server in cluster.servers:
        server.query("SET GLOBAL log_bin_trust_function_creators = ON")
    cursor.execute(
        "CREATE FUNCTION app.f() RETURNS INT BEGIN INSERT INTO app.t (v) VALUES (1); RETURN 1; END"
    )
    cluster.wait_caught_up()
    assert values(cursor) == []
    stop_appliers(cluster)
    cursor.execute("SELECT app.f()")
    assert cursor.fetchall() == ((1,),)
    assert values(cursor) == [1]


def test_a_wait_ends_when_its_client_leaves(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(wait_budget="30s")
    connection = running.connect()
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE app.w (id INT)")
    cluster.wait_caught_up()
    stop_appliers(cluster)
    cursor.execute("INSERT INTO app.w VALUES (1)")
    # The read is sent by hand, so that nothing waits for its answer.
    sql = b"SELECT * FROM app.w"
    connection._sock.sendall((len(sql) + 1).to_bytes(3, "little") + b"\x00\x03" + sql)

    def waits() -> int:
        found = (
            "SELECT COUNT(*) FROM performance_schema.processlist"
            " WHERE info LIKE %s AND id <> CONNECTION_ID()"
        )
        pattern = "SELECT WAIT\\_FOR\\_EXECUTED%"
        return sum(int(replica.value(found, pattern)) for replica in cluster.replicas)

    deadline = time.monotonic() + 60
    while waits() == 0:
        assert time.monotonic() < deadline, "the read never waited"
    connection._sock.shutdown(socket.SHUT_RDWR)
    connection._sock.close()
    while waits():
        assert time.monotonic() < deadline, "the wait goes on without its client"
        time.sleep(0.05)
    assert running.metric("tidegate_waits_killed_total") == 1


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0", "XA START 'x'"])
def test_a_transaction_reads_what_it_wrote(cursor: Cursor, begin: str) -> None:
    cursor.execute(begin)
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    assert values(cursor) == [1]


def test_a_transaction_keeps_its_snapshot(
    running: RunningProxy, cursor: Cursor, cluster: Cluster
) -> None:
    cursor.execute("BEGIN")
    assert values(cursor) == []
    with running.connect() as connection, connection.cursor() as other:
        other.execute("INSERT INTO app.t (v) VALUES (1)")
    cluster.wait_caught_up()
    assert values(cursor) == []
    cursor.execute("COMMIT")
    assert values(cursor) == [1]


def test_no_snapshot_is_older_than_the_transaction(cursor: Cursor, cluster: Cluster) -> None:
    stop_appliers(cluster)
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    for begin in ("START TRANSACTION", "START TRANSACTION READ ONLY", "SET autocommit = 0"):
        cursor.execute(begin)
        assert values(cursor) == [1]
        assert values(cursor) == [1]
        cursor.execute("COMMIT")
    cursor.execute("SET autocommit = 1")
    assert values(cursor) == [1]


def test_an_applied_set_dies_with_its_server(
    running: RunningProxy, cursor: Cursor, cluster: Cluster
) -> None:
    """A replica comes back with older data, under the same name and address."""
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    cluster.wait_caught_up()
    before = cluster.primary.gtid_executed
    cursor.execute("INSERT INTO app.t (v) VALUES (2)")
    cluster.wait_caught_up()
    for _ in range(4):
        assert values(cursor) == [1, 2]
    for replica in cluster.replicas:
        replica.stop_applier()
        with closing(replica.admin()) as admin, admin.cursor() as raw:
            raw.execute("STOP REPLICA")
            raw.execute("SET GLOBAL super_read_only = OFF")
            raw.execute("SET sql_log_bin = 0")
            raw.execute("DELETE FROM app.t WHERE v = 2")
            raw.execute("RESET BINARY LOGS AND GTIDS")
            raw.execute("SET GLOBAL gtid_purged = %s", (before,))
        replica.restart("--skip-replica-start")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert values(cursor) == [1, 2]
        with running.connect() as connection, connection.cursor() as other:
            other.execute("SELECT COUNT(*) FROM app.t")  # best effort of a session without writes
        if running.metric("tidegate_server_up") == 3:
            break
    assert values(cursor) == [1, 2]
    cluster.create()  # the replicas lack a row for good


@pytest.mark.parametrize("how", ["reset", "change user"])
def test_what_was_written_stays_required_when_a_pool_cleans_its_connection(
    running: RunningProxy, cursor: Cursor, cluster: Cluster, how: str
) -> None:
    with closing(
        mysql.connector.connect(
            host="127.0.0.1", port=running.port, user=APP_USER, password=APP_PASSWORD
        )
    ) as connection:
        connection.autocommit = True
        pooled = connection.cursor()
        pooled.execute("SELECT v FROM app.t")
        assert pooled.fetchall() == []
        stop_appliers(cluster)
        pooled.execute("INSERT INTO app.t (v) VALUES (1)")
        if how == "reset":
            connection.cmd_reset_connection()
        else:
            connection.cmd_change_user(username=APP_USER, password=APP_PASSWORD)
        connection.autocommit = True
        pooled = connection.cursor()
        pooled.execute("SELECT v FROM app.t")
        assert pooled.fetchall() == [(1,)]


@pytest.mark.parametrize("how", ["reset", "change user"])
def test_tracking_goes_on_when_a_pool_cleaned_its_connection(
    running: RunningProxy, cursor: Cursor, cluster: Cluster, how: str
) -> None:
    with closing(
        mysql.connector.connect(
            host="127.0.0.1", port=running.port, user=APP_USER, password=APP_PASSWORD
        )
    ) as connection:
        if how == "reset":
            connection.cmd_reset_connection()
        else:
            connection.cmd_change_user(username=APP_USER, password=APP_PASSWORD)
        connection.autocommit = True
        stop_appliers(cluster)
        pooled = connection.cursor()
        pooled.execute("INSERT INTO app.t (v) VALUES (1)")
        pooled.execute("SELECT v FROM app.t ORDER BY id")
        assert pooled.fetchall() == [(1,)]


def test_ddl_account_statements_and_myisam(cursor: Cursor, cluster: Cluster) -> None:
    stop_appliers(cluster)
    cursor.execute("ALTER TABLE app.t ADD COLUMN w INT DEFAULT 7")
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    cursor.execute("SELECT w FROM app.t")
    assert cursor.fetchall() == ((7,),)
    cursor.execute("CREATE TABLE app.my (id INT) ENGINE = MyISAM")
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO app.my VALUES (1)")
    cursor.execute("ROLLBACK")
    cursor.execute("SELECT * FROM app.my")
    assert cursor.fetchall() == ((1,),)


def test_xa(cursor: Cursor, cluster: Cluster) -> None:
    stop_appliers(cluster)
    cursor.execute("XA START 'a'")
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    cursor.execute("XA END 'a'")
    cursor.execute("XA PREPARE 'a'")
    cursor.execute("XA COMMIT 'a'")
    assert values(cursor) == [1]


def test_a_session_that_turns_tracking_off_for_itself_is_tracked_all_the_same(
    cursor: Cursor, cluster: Cluster
) -> None:
    stop_appliers(cluster)
    cursor.execute("SET SESSION session_track_gtids = OFF")
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    assert values(cursor) == [1]


def test_writes_without_gtids_pin_the_session(running: RunningProxy, cluster: Cluster) -> None:
    cluster.primary.query("CREATE USER IF NOT EXISTS unlogged@'%' IDENTIFIED BY 'unlogged'")
    cluster.primary.query("GRANT ALL ON *.* TO unlogged@'%'")
    with running.connect("unlogged", "unlogged") as connection, connection.cursor() as cursor:
        make_table(cursor, cluster)
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("INSERT INTO app.t (v) VALUES (1)")
        assert values(cursor) == [1]


def test_a_primary_without_gtids_answers_its_reads_itself(
    cluster: Cluster, proxy: StartProxy
) -> None:
    for server in cluster.servers:
        server.query("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    try:
        running = proxy()
        with running.connect() as connection, connection.cursor() as cursor:
            make_table(cursor, cluster)
        record = last_read(running, 1)
        assert (record["reason"], record["role"]) == ("no_gtids", "primary")
    finally:
        for server in cluster.servers:
            server.query("SET GLOBAL gtid_mode = ON")


def test_a_replica_that_dies_under_a_waiting_read(
    running: RunningProxy, cursor: Cursor, cluster: Cluster
) -> None:
    cursor.execute("INSERT INTO app.t (v) VALUES (1)")
    for replica in cluster.replicas:
        replica.kill()
    with suppress(AssertionError):
        assert values(cursor) == [1]
    assert values(cursor) == [1]


def test_a_primary_with_autocommit_off_begins_transactions(
    cluster: Cluster, proxy: StartProxy
) -> None:
    cluster.primary.query("SET GLOBAL autocommit = 0")
    running = proxy()
    with RawClient(
        running.address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF, "app"
    ) as client:
        client.query("SELECT 1")
    assert last_read(running, 1)["reason"] == "transaction"


def test_no_replica_keeps_a_snapshot_open(cluster: Cluster, proxy: StartProxy) -> None:
    """A server may have autocommit off by default, and a read would then begin a transaction."""
    for replica in cluster.replicas:
        replica.query("SET GLOBAL autocommit = 0")
    running = proxy()
    with running.connect() as connection, connection.cursor() as cursor:
        make_table(cursor, cluster)
        for value in range(20):
            cursor.execute("INSERT INTO app.t (v) VALUES (%s)", (value,))
            assert values(cursor) == list(range(value + 1))
