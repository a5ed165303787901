"""Commit timestamps of the mocker's transactions (WL#7319)."""

from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from mysql_mocker.state.commit_clock import INVALID, NORMAL, CommitClock
from protocol.binlog.commit_timestamps import UNDEFINED, CommitTimestamps
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

Connect = Callable[..., RawClient]
TOLD = 1_600_000_000_123_456
VARIABLE = "SELECT @@original_commit_timestamp"


@pytest.fixture(autouse=True)
def _may_set_them(primary: Server) -> None:
    primary.administrators.add("demo")


def times(mocker: BackgroundCluster, server: Server) -> list[CommitTimestamps]:
    return mocker.call(lambda: [entry.timestamps for entry in server.binlog.transactions])


def test_on_the_first_server_both_are_the_same(
    mocker: BackgroundCluster, primary: Server, client: RawClient
) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (1)")
    first, second = times(mocker, primary)
    assert first.original == first.immediate
    assert TOLD < first.immediate <= second.immediate


def test_a_replica_keeps_the_original_and_has_an_immediate_one_of_its_own(
    mocker: BackgroundCluster, primary: Server, replica: Server, client: RawClient
) -> None:
    mocker.call(lambda: setattr(replica.clock, "ahead", 7_000_000))
    client.query("CREATE TABLE t (n INT)")
    until(lambda: len(times(mocker, replica)) == 1, "the replica applies it")
    (on_primary,), (on_replica,) = times(mocker, primary), times(mocker, replica)
    assert on_replica.original == on_primary.original
    lag = on_replica.lag
    assert lag is not None
    assert lag >= 7_000_000


@pytest.mark.parametrize("timestamp", [TOLD, 0])
def test_a_session_tells_of_one_first_commit(
    mocker: BackgroundCluster, primary: Server, replica: Server, client: RawClient, timestamp: int
) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query(f"SET original_commit_timestamp = {timestamp}")
    client.query("INSERT INTO t VALUES (1)")
    client.query("INSERT INTO t VALUES (2)")
    until(lambda: len(times(mocker, replica)) == 3, "the replica applies them")
    for server in (primary, replica):
        _, with_told, without = times(mocker, server)
        assert with_told.original == timestamp
        assert without.original > TOLD
    assert client.value(VARIABLE) == str(UNDEFINED)


def test_a_rollback_keeps_it_as_the_server_does_or_forgets_it_as_the_worklog_says(
    mocker: BackgroundCluster, primary: Server, client: RawClient
) -> None:
    client.query("CREATE TABLE t (n INT)")
    for worklog, left in ((False, TOLD), (True, UNDEFINED)):
        mocker.call(lambda worklog=worklog: setattr(primary, "follows_worklogs", worklog))
        client.query(f"SET original_commit_timestamp = {TOLD}")
        client.query("BEGIN")
        client.query("INSERT INTO t VALUES (1)")
        client.query("ROLLBACK")
        assert client.value(VARIABLE) == str(left)


def test_it_needs_a_privilege(
    mocker: BackgroundCluster, primary: Server, client: RawClient
) -> None:
    mocker.call(lambda: primary.administrators.discard("demo"))
    error = client.reply("SET original_commit_timestamp = 5").error
    assert error.code == 1227
    assert "REPLICATION_APPLIER" in error.message


def test_a_first_commit_in_the_future_is_told_once_and_its_end_once() -> None:
    warnings: list[str] = []
    clock = CommitClock(warnings.append)
    future = clock.stamp(UNDEFINED, by_applier=False).immediate + 3_600_000_000
    for session_value in (future, future, TOLD, UNDEFINED, 0, future, TOLD):
        clock.stamp(session_value, by_applier=True)
    assert warnings == [INVALID, NORMAL, INVALID, NORMAL]


def test_a_clock_that_is_behind_is_in_the_error_log(
    mocker: BackgroundCluster, replica: Server, client: RawClient
) -> None:
    mocker.call(lambda: setattr(replica.clock, "ahead", -3_600_000_000))
    client.query("CREATE TABLE t (n INT)")
    until(lambda: bool(mocker.call(lambda: list(replica.error_log))), "the replica warns")
    assert mocker.call(lambda: list(replica.error_log)) == [INVALID]
