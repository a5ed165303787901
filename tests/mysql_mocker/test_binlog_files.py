"""The files of the mocker's binary logs."""

from pathlib import Path

import pytest

from mysql_mocker.server.cluster import Cluster, ClusterLogs
from protocol.binlog.decode import decode
from protocol.binlog.event import EventType
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent
from protocol.gtid import GtidSet
from tests.mysql_mocker.raw_client import RawClient
from tests.support import binlogs
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

ACCOUNTS = {"demo": "demo"}


def test_files_are_written_rotated_purged_and_reset(tmp_path: Path) -> None:
    with BackgroundCluster(
        lambda: Cluster(1, accounts=ACCOUNTS, logs=ClusterLogs(directory=tmp_path))
    ) as mocker:
        client = RawClient(mocker.cluster.primary.port)
        client.query("CREATE TABLE t (n INT)")
        client.query("FLUSH BINARY LOGS")
        client.query("INSERT INTO t VALUES (1)")
        folder = tmp_path / "primary"
        assert sorted(file.name for file in folder.iterdir()) == ["binlog.000001", "binlog.000002"]
        first, second = (binlogs.events((folder / f"binlog.00000{n}").read_bytes()) for n in (1, 2))
        assert first[-1].type == EventType.ROTATE
        previous = decode(second[1])
        assert isinstance(previous, GtidSet)
        assert previous.count() == 1
        assert [row[0] for row in client.reply("SHOW BINARY LOGS").rows] == [
            b"binlog.000001", b"binlog.000002",
        ]  # fmt: skip
        assert client.reply("PURGE BINARY LOGS TO 'binlog.000009'").error.code == 1373
        client.query("PURGE BINARY LOGS TO 'binlog.000002'")
        assert [file.name for file in folder.iterdir()] == ["binlog.000002"]
        assert client.value("SELECT @@gtid_purged") == previous.text
        client.query("RESET BINARY LOGS AND GTIDS")
        client.query("INSERT INTO t VALUES (2)")
        assert [file.name for file in folder.iterdir()] == ["binlog.000001"]
        client.close()


def test_a_replica_logs_the_statements_that_it_applied(tmp_path: Path) -> None:
    with BackgroundCluster(
        lambda: Cluster(1, accounts=ACCOUNTS, logs=ClusterLogs(directory=tmp_path))
    ) as mocker:
        client = RawClient(mocker.cluster.primary.port)
        client.query("CREATE TABLE t (n INT)")
        client.query("INSERT INTO t VALUES (1)")
        replica = mocker.cluster.replicas[0]
        until(
            lambda: mocker.call(lambda: len(replica.binlog.transactions)) == 2,
            "the replica has both",
        )
        client.close()
    decoded = {
        name: [
            decode(event)
            for event in binlogs.events((tmp_path / name / "binlog.000001").read_bytes())
        ]
        for name in ("primary", "replica1")
    }
    queries, gtids = (
        [[event for event in events if isinstance(event, kind)] for events in decoded.values()]
        for kind in (QueryEvent, GtidEvent)
    )
    assert queries[0] == queries[1]
    assert [event.gtid for event in gtids[0]] == [event.gtid for event in gtids[1]]


def test_a_statement_that_cannot_be_repeated_is_told(tmp_path: Path) -> None:
    with BackgroundCluster(
        lambda: Cluster(0, accounts=ACCOUNTS, logs=ClusterLogs(directory=tmp_path))
    ) as mocker:
        primary = mocker.cluster.primary
        client = RawClient(primary.port)
        client.query("CREATE TABLE t (v VARCHAR(40))")
        client.query("CREATE TABLE user (version VARCHAR(40))")
        client.query("INSERT INTO t VALUES (RAND()), (NOW(6))")
        client.query("INSERT INTO user (version) VALUES ('x')")
        assert mocker.call(lambda: list(primary.error_log)) == []
        client.query("INSERT INTO t VALUES (uuid())")
        (message,) = mocker.call(lambda: list(primary.error_log))
        assert message.endswith(f"{primary.gtids.server_uuid}:5")
        client.close()


@pytest.mark.parametrize("words", ["DO 1", "SELECT 1", "SET @a = 1"])
def test_who_changes_nothing_is_not_logged(tmp_path: Path, words: str) -> None:
    with BackgroundCluster(
        lambda: Cluster(0, accounts=ACCOUNTS, logs=ClusterLogs(directory=tmp_path))
    ) as mocker:
        client = RawClient(mocker.cluster.primary.port)
        client.query(words)
        client.close()
    log = (tmp_path / "primary" / "binlog.000001").read_bytes()
    assert [event.type for event in binlogs.events(log)] == [
        EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS,
    ]  # fmt: skip
