"""The mocker keeps its GTIDs as MySQL 9.7 does (WL#6559)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mysql_mocker.server.cluster import Cluster, ClusterLogs
from mysql_mocker.server.server import Server
from mysql_mocker.state.gtid_keeper import SUSPENDED, GtidLogging
from protocol.gtid import GtidSet
from tests.mysql_mocker.gtid_table_matrix import (
    LOGGED,
    MODES,
    SCRIPTS,
    TABLE_CHECKS,
    A,
    Mode,
    Peer,
    Script,
    check_script,
    insert,
    rows,
    run,
    stored,
    two_sessions_want_the_same,
)
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until


class MockPeer:
    """A server of the mocker."""

    def __init__(self, mocker: BackgroundCluster) -> None:
        self.mocker = mocker
        self.server = mocker.cluster.primary

    def connect(self) -> RawClient:
        return RawClient(self.server.port, database="app")

    def crash(self) -> None:
        self.mocker.run(self.server.crash())
        self.mocker.run(self.server.start())

    def restart(self) -> None:
        self.mocker.run(self.server.restart())


@contextmanager
def mock(
    logging: GtidLogging | None = None, replica: GtidLogging | None = None
) -> Iterator[MockPeer]:
    def make() -> Cluster:
        return Cluster(
            replicas=int(replica is not None),
            accounts={"demo": "demo"},
            schemas=("app",),
            logs=ClusterLogs(logging, replica),
        )

    with BackgroundCluster(make) as mocker:
        yield MockPeer(mocker)


def logging_of(mode: Mode) -> GtidLogging:
    return GtidLogging(mode.binary_log, mode.replica_updates)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("check", TABLE_CHECKS, ids=lambda check: check.__name__)
def test_table(check: Callable[[Peer, Mode], None], mode: Mode) -> None:
    with mock(logging_of(mode)) as peer:
        check(peer, mode)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_script(script: Script) -> None:
    with mock(logging_of(LOGGED)) as peer:
        check_script(peer, script)


def test_two_sessions_want_the_same() -> None:
    with mock() as peer:
        two_sessions_want_the_same(peer)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_what_a_replica_applied_survives_its_crash(mode: Mode) -> None:
    with mock(replica=logging_of(mode)) as peer, peer.connect() as client:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        executed = client.executed()
        replica = peer.mocker.cluster.replicas[0]
        until(lambda: peer.mocker.call(lambda: replica.gtids.executed) == executed, "applied")
        peer.mocker.run(replica.crash())
        peer.mocker.run(replica.start())
        with RawClient(replica.port, database="app") as reader:
            assert reader.executed() == stored(reader) == executed
            assert reader.value("SELECT n FROM t") == "1"
            kept = GtidSet() if mode is LOGGED else executed
            assert GtidSet.parse(reader.value("SELECT @@GLOBAL.gtid_purged") or "") == kept
            run(client, "INSERT INTO t VALUES (2)")
            executed = client.executed()
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed.text}', 20)"
            assert reader.value(wait) == "0"
            assert reader.value("SELECT COUNT(*) FROM t") == "2"


# As the worklog has it: one row for each commit, within it.


def follow_worklogs(mocker: BackgroundCluster, server: Server) -> None:
    mocker.call(lambda: setattr(server, "follows_worklogs", True))


def test_rows_as_they_were_designed() -> None:
    with mock(GtidLogging(binary_log=False)) as peer, peer.connect() as client:
        follow_worklogs(peer.mocker, peer.server)
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        run(client, "SET GLOBAL gtid_executed_compression_period = 3")
        for number in (1, 2, 3):
            insert(client, number)
        assert rows(client) == [(A, n, n, "") for n in ("1", "2", "3")]
        insert(client, 4)
        until(lambda: rows(client) == [(A, "1", "4", "")], "compressed")
        assert peer.mocker.call(lambda: peer.server.keeper.thread_state) == SUSPENDED
        run(client, "SET GLOBAL gtid_executed_compression_period = 0")
        for number in range(5, 60):
            insert(client, number)
        peer.crash()
        with peer.connect() as again:
            assert stored(again) == GtidSet.parse(f"{A}:1-59")


def test_own_transactions_as_designed_wait_for_rotation() -> None:
    with mock(replica=GtidLogging(replica_updates=False)) as peer, peer.connect() as client:
        replica = peer.mocker.cluster.replicas[0]
        follow_worklogs(peer.mocker, replica)
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        peer.mocker.call(lambda: replica.set_variable("read_only", False))
        with RawClient(replica.port, database="app") as reader:
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{client.executed().text}', 20)"
            assert reader.value(wait) == "0"
            run(reader, "CREATE TABLE own (n INT)")
            assert stored(reader) == client.executed()
            run(reader, "FLUSH BINARY LOGS")
            assert stored(reader) == reader.executed()
