"""The mocker's replicas apply in parallel, with and without a commit order (WL#6813)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mysql_mocker.server.cluster import Cluster
from tests.mysql_mocker.commit_order_matrix import (
    CHECKS,
    HELD,
    Pair,
    gaps,
    lay_out,
    run,
    state,
    wait_caught_up,
    write,
)
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until


class MockPair:
    """A primary and its replica in the mocker."""

    def __init__(self, mocker: BackgroundCluster) -> None:
        self.mocker = mocker
        self.server = mocker.cluster.replicas[0]
        mocker.call(lambda: self.server.set_variable("read_only", False))
        self.primary = RawClient(mocker.cluster.primary.port, database="app")
        self.replica = RawClient(self.server.port, database="app")

    @contextmanager
    def holding(self, number: int) -> Iterator[None]:
        matching = f"`app.held` AS `held` SET `v` = {number}"
        gate = self.mocker.call(lambda: self.server.faults.hold_apply(matching))
        yield
        self.mocker.call(gate.open)

    def error_code(self) -> int:
        error = self.mocker.call(lambda: self.server.apply_error)
        return 0 if error is None else error.code

    def retried(self) -> int:
        applier = self.server.applier
        assert applier is not None
        return self.mocker.call(lambda: applier.retried)


@pytest.fixture
def pair() -> Iterator[MockPair]:
    def make() -> Cluster:
        return Cluster(replicas=1, accounts={"demo": "demo"}, schemas=("app",))

    with BackgroundCluster(make) as mocker:
        running = MockPair(mocker)
        yield running
        running.primary.close()
        running.replica.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_order(check: Callable[[Pair], None], pair: MockPair) -> None:
    check(pair)


def test_a_crash_leaves_a_gap_that_fills(pair: MockPair) -> None:
    lay_out(pair, "OFF")
    with pair.holding(2001):
        states = write(pair, 2001)
        until(lambda: gaps(pair.replica) == 1, "there is a gap")
        executed = pair.replica.executed()
        pair.mocker.run(pair.server.crash())
    pair.mocker.run(pair.server.start())
    pair.replica = RawClient(pair.server.port, database="app")
    assert executed <= pair.replica.executed()
    wait_caught_up(pair)
    assert gaps(pair.replica) == 0
    assert state(pair.replica) == states[-1]


def test_a_client_that_holds_the_lock_is_waited_for_so_often(pair: MockPair) -> None:
    lay_out(pair, "ON")
    run(pair.replica, "STOP REPLICA", "SET GLOBAL replica_transaction_retries = 2")
    pair.mocker.call(lambda: pair.server.set_variable("innodb_lock_wait_timeout", 0.05))
    run(pair.replica, "START REPLICA", "BEGIN", "UPDATE held SET v = 5 WHERE id = 1")
    run(pair.primary, "UPDATE t SET v = 1 WHERE id = 1")
    until(lambda: pair.error_code() == 1205, "the applier gives up")
    assert pair.retried() == 2
    run(pair.replica, "ROLLBACK", "START REPLICA")
    wait_caught_up(pair)
    assert state(pair.replica) == (1, 0, 0)


@pytest.mark.parametrize(
    "younger",
    [
        "UPDATE t SET v = v + 1",
        "UPDATE t SET v = 5 WHERE id > 1",
        "UPDATE t SET v = 5 WHERE id = 1",
        "INSERT INTO held SELECT 7, v FROM t WHERE id = 1",
        "DELETE FROM held WHERE id IN (SELECT v FROM t)",
        "ALTER TABLE t ADD COLUMN w INT",
        "INSERT INTO held SELECT 8, v FROM seen WHERE id = 1",
    ],
)
def test_what_depends_on_an_older_one_waits_for_it(pair: MockPair, younger: str) -> None:
    lay_out(pair, "OFF")
    run(pair.primary, "CREATE VIEW seen AS SELECT * FROM t")
    wait_caught_up(pair)
    before = pair.replica.executed()
    with pair.holding(3001):
        run(pair.primary, "BEGIN", HELD.format(3001), "UPDATE t SET v = 9 WHERE id = 1", "COMMIT")
        run(pair.primary, younger)
        run(pair.primary, "DROP VIEW seen")
        assert pair.replica.value("SELECT SLEEP(0.1)") == "0"
        assert pair.replica.executed() == before
    wait_caught_up(pair)
    for table in ("t", "held"):
        rows = f"SELECT * FROM {table} ORDER BY id"  # noqa: S608 - a constant
        assert pair.replica.reply(rows).rows == pair.primary.reply(rows).rows
