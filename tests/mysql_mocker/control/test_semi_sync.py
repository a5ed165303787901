"""Commits that wait for a replica: what is seen meanwhile, and what ends the wait."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from mysql_mocker import BlockingCluster, ControlError
from tests.mysql_mocker.control.conftest import Connect, comes_to, count, run
from tests.support.waiting import PATIENCE_S, until

INSERT = "INSERT INTO t VALUES (1)"

Start = Callable[..., "Future[list[tuple[Any, ...]]]"]


@pytest.fixture
def start(connect: Connect) -> Iterator[Start]:
    """Runs a statement on the primary in a thread."""
    with ThreadPoolExecutor() as threads:
        yield lambda sql, client=None: threads.submit(run, client or connect(), sql)


def waiting(cluster: BlockingCluster, point: str) -> None:
    cluster.set("replicas", ack_delay="1h")
    cluster.set("primary", semi_sync=point, semi_sync_timeout="1h")


def test_after_sync_replicas_show_what_the_primary_does_not(
    cluster: BlockingCluster, connect: Connect, start: Start
) -> None:
    waiting(cluster, "after_sync")
    answer = start(INSERT)
    comes_to(connect("replica1"), 2)
    assert count(connect()) == 1
    primary, replica, _ = cluster.state()
    assert (primary.gtid_executed[-4:], replica.gtid_executed[-4:]) == (":1-2", ":1-3")
    assert not answer.done()
    cluster.set("replica2", ack_delay=0)
    answer.result(PATIENCE_S)
    assert count(connect()) == 2
    primary, replica, _ = cluster.state()
    assert primary.gtid_executed == replica.gtid_executed
    run(connect(), INSERT)  # does not wait any more


def test_after_commit_all_see_what_the_client_was_not_told(
    cluster: BlockingCluster, connect: Connect, start: Start
) -> None:
    waiting(cluster, "after_commit")
    answer = start(INSERT)
    comes_to(connect(), 2)
    assert not answer.done()
    cluster.set("primary", semi_sync=False)
    answer.result(PATIENCE_S)


@pytest.mark.parametrize("point", ["after_sync", "after_commit"])
def test_a_transaction_waits_at_its_commit_and_ddl_behind_its_own(
    cluster: BlockingCluster, connect: Connect, start: Start, point: str
) -> None:
    waiting(cluster, point)
    client = connect(autocommit=False)
    run(client, INSERT)
    answer = start("COMMIT", client)
    comes_to(connect("replica1"), 2)
    assert not answer.done()
    cluster.set("replicas", ack_delay=0)
    answer.result(PATIENCE_S)
    cluster.set("replicas", ack_delay="1h")
    answer = start("CREATE TABLE u (n INT)")
    until(lambda: run(connect(), "SHOW TABLES LIKE 'u'") != [], "the table is there")
    assert not answer.done()
    cluster.set("replicas", ack_delay=0)
    answer.result(PATIENCE_S)


def test_a_wait_is_given_up_until_a_replica_has_caught_up(
    cluster: BlockingCluster, connect: Connect, start: Start
) -> None:
    cluster.set("replicas", running=False)
    cluster.set("primary", semi_sync="AFTER_SYNC", semi_sync_timeout="1ms")
    client = connect()
    run(client, INSERT)
    cluster.set("primary", semi_sync_timeout="1h")
    run(client, INSERT)  # it does not wait where it knows that nobody answers
    cluster.set("replica1", running=True)
    cluster.caught_up()
    run(client, INSERT)
    cluster.set("replica1", frozen=True)
    answer = start(INSERT, client)
    assert count(connect()) == 3 + 1
    assert not answer.done()
    cluster.set("replica1", frozen=False)
    answer.result(PATIENCE_S)


def test_a_primary_that_dies_meanwhile_has_it_when_it_is_back(
    cluster: BlockingCluster, connect: Connect, start: Start
) -> None:
    waiting(cluster, "after_sync")
    answer = start(INSERT)
    comes_to(connect("replica1"), 2)
    cluster.set("primary", running=False)
    with pytest.raises(pymysql.err.OperationalError):
        answer.result(PATIENCE_S)
    cluster.set("primary", running=True, semi_sync="off")
    assert count(connect()) == 2
    run(connect(), INSERT)
    cluster.caught_up()
    assert len({state.gtid_executed for state in cluster.state()}) == 1


def test_who_waits_through_a_promotion_is_not_applied_twice(
    cluster: BlockingCluster, connect: Connect, start: Start
) -> None:
    waiting(cluster, "after_sync")
    answer = start(INSERT)
    comes_to(connect("replica1"), 2)
    assert cluster.promote("replica1").stopped == []
    run(connect("replica1"), INSERT)
    cluster.set("primary", semi_sync="off")
    answer.result(PATIENCE_S)
    cluster.caught_up()
    assert [count(connect(state.name)) for state in cluster.state()] == [3, 3, 3]


def test_a_commit_on_a_server_that_became_read_only_fails(
    cluster: BlockingCluster, connect: Connect
) -> None:
    client = connect(autocommit=False)
    run(client, INSERT)
    cluster.set("primary", read_only=True)
    with pytest.raises(pymysql.err.OperationalError) as error:
        client.commit()
    assert error.value.args[0] == 1290
    cluster.set("primary", read_only=False)
    assert count(client) == 1


def test_what_is_no_wait_point(untouched: BlockingCluster) -> None:
    for value in ("on", True, 1, None, [], "AFTER"):
        with pytest.raises(ControlError, match="semi_sync: want 'off', 'after_sync' or"):
            untouched.set("primary", semi_sync=value)
    with pytest.raises(ControlError, match="only replicas have ack_delay"):
        untouched.set("primary", ack_delay=1)
