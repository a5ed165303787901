"""Replicas apply what the primary commits, later, in order, and say so only afterwards."""

from collections.abc import Callable

from mysql_mocker.server.server import Server
from protocol.gtid import GtidSet
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

Connect = Callable[..., RawClient]


def caught_up(client: RawClient, reader: RawClient) -> None:
    wanted = client.executed()
    answer = reader.value(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted.text}', 20)")
    assert answer == "0"


def test_rows_arrive_with_their_gtids(client: RawClient, connect: Connect, replica: Server) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (1)")
    reader = connect(replica)
    caught_up(client, reader)
    assert reader.executed() == client.executed()
    assert reader.value("SELECT n FROM t") == "1"


def test_a_replica_lags_by_its_delay(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, replica: Server
) -> None:
    mocker.call(lambda: setattr(replica, "apply_delay", 3600))
    client.query("CREATE TABLE t (n INT)")
    reader = connect(replica)
    assert not reader.executed()
    assert reader.reply("SELECT * FROM t").error.code == 1146
    mocker.call(lambda: setattr(replica, "apply_delay", 0))
    caught_up(client, reader)
    assert reader.reply("SELECT * FROM t").ok


def test_a_stopped_applier_applies_nothing(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, replica: Server
) -> None:
    reader = connect(replica)
    assert reader.reply("STOP REPLICA").ok
    assert not mocker.call(lambda: replica.applying)
    client.query("CREATE TABLE t (n INT)")
    assert (
        reader.value(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{client.executed().text}', 0.05)") == "1"
    )
    assert reader.reply("START REPLICA").ok
    caught_up(client, reader)


def test_executed_sets_never_run_ahead_of_the_data(
    client: RawClient, connect: Connect, replica: Server
) -> None:
    client.query("SET session_track_gtids = OWN_GTID")
    client.query("CREATE TABLE t (n INT)")
    reader = connect(replica)
    for n in range(200):
        gtid = client.reply(f"INSERT INTO t VALUES ({n})").gtids  # noqa: S608 - a number
        assert gtid is not None
        if gtid <= reader.executed():
            assert reader.value(f"SELECT COUNT(*) FROM t WHERE n = {n}") == "1"  # noqa: S608
    caught_up(client, reader)
    assert reader.value("SELECT COUNT(*) FROM t") == "200"


def test_a_transaction_arrives_whole(client: RawClient, connect: Connect, replica: Server) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("BEGIN")
    client.query("INSERT INTO t VALUES (1)")
    client.query("SAVEPOINT s")
    client.query("INSERT INTO t VALUES (2)")
    client.query("ROLLBACK TO s")
    client.query("INSERT INTO t VALUES (3)")
    client.query("COMMIT")
    reader = connect(replica)
    caught_up(client, reader)
    assert [row[0] for row in reader.reply("SELECT n FROM t").rows] == [b"1", b"3"]


def test_what_depends_on_clock_and_chance_is_the_same_everywhere(
    client: RawClient, connect: Connect, replica: Server
) -> None:
    client.query(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u VARCHAR(36), r DOUBLE, "
        "m DATETIME(6), s TIMESTAMP DEFAULT CURRENT_TIMESTAMP, c INT, v VARCHAR(9))"
    )
    client.query("SET @v = 'mine'")
    for _ in range(3):
        client.query(
            "INSERT INTO t (u, r, m, c, v) VALUES "
            "(UUID(), RAND(), NOW(6), CONNECTION_ID(), @v), (UUID(), RAND(), NOW(6), 0, USER())"
        )
    reader = connect(replica)
    caught_up(client, reader)
    rows = client.reply("SELECT * FROM t").rows
    assert reader.reply("SELECT * FROM t").rows == rows
    assert len({row[1] for row in rows}) == len(rows)


def test_replicas_refuse_writes(client: RawClient, connect: Connect, replica: Server) -> None:
    client.query("CREATE TABLE t (n INT)")
    reader = connect(replica)
    caught_up(client, reader)
    for statement in (
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET n = 1",
        "CREATE TABLE u (n INT)",
        "DROP TABLE t",
        "SELECT * FROM t FOR UPDATE",
    ):
        error = reader.reply(statement).error
        assert (error.code, "--super-read-only" in error.message) == (1290, True)
    assert reader.reply("CREATE TEMPORARY TABLE mine (n INT)").ok
    assert reader.reply("INSERT INTO mine VALUES (1)").ok.affected_rows == 1
    assert reader.executed() == client.executed()


def test_schemas_are_replicated(client: RawClient, connect: Connect, replica: Server) -> None:
    client.query("CREATE DATABASE other")
    client.query("CREATE TABLE other.t (n INT)")
    client.query("INSERT INTO other.t VALUES (5)")
    reader = connect(replica)
    caught_up(client, reader)
    assert reader.value("SELECT n FROM other.t") == "5"
    client.query("DROP DATABASE other")
    caught_up(client, reader)
    assert reader.reply("USE other").error.code == 1049


def test_gtid_next_names_the_transaction(
    client: RawClient, connect: Connect, replica: Server
) -> None:
    named = GtidSet.parse("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:501")
    client.query("CREATE TABLE t (n INT)")
    client.query(f"SET gtid_next = '{named.text}'")
    client.query("INSERT INTO t VALUES (1)")
    assert named <= client.executed()
    reader = connect(replica)
    caught_up(client, reader)
    assert named <= reader.executed()


def test_an_applier_stops_where_the_data_contradict(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, replica: Server
) -> None:
    client.query("CREATE TABLE t (n INT PRIMARY KEY)")
    reader = connect(replica)
    caught_up(client, reader)
    mocker.call(lambda: setattr(replica, "read_only", False))
    reader.query("SET GLOBAL read_only = 0")
    reader.query("INSERT INTO t VALUES (1)")
    client.query("INSERT INTO t VALUES (1)")
    until(lambda: mocker.call(lambda: replica.apply_error) is not None, "the applier fails")
    assert not mocker.call(lambda: replica.applying)


def test_a_restarted_replica_goes_on_where_it_was(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, replica: Server
) -> None:
    client.query("CREATE TABLE t (n INT)")
    reader = connect(replica)
    caught_up(client, reader)
    mocker.run(replica.stop())
    client.query("INSERT INTO t VALUES (1)")
    mocker.run(replica.start())
    reader = connect(replica)
    caught_up(client, reader)
    assert reader.value("SELECT COUNT(*) FROM t") == "1"


def test_reset_forgets_all_gtids(client: RawClient, primary: Server) -> None:
    client.query("CREATE TABLE t (n INT)")
    assert client.reply("RESET BINARY LOGS AND GTIDS").ok
    assert not client.executed()
    client.query("INSERT INTO t VALUES (1)")
    assert client.executed().text == f"{primary.gtids.server_uuid}:1"
