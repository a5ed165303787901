"""No read misses a write that its connection was told had committed, whatever the replicas do."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.pairs import write_then_read

PAIRS = 1_600
DEEP_PAIRS = 10_000


@contextmanager
def replicas_free(cluster: Cluster) -> Iterator[None]:
    yield


@contextmanager
def one_second_late(cluster: Cluster) -> Iterator[None]:
    for replica in cluster.replicas:
        replica.set_source_delay(1)
    yield


@contextmanager
def applier_stopped(cluster: Cluster) -> Iterator[None]:
    for replica in cluster.replicas:
        replica.stop_applier()
    yield


@contextmanager
def binlog_not_synced(cluster: Cluster) -> Iterator[None]:
    for server in cluster.servers:
        server.query("SET GLOBAL sync_binlog = 0")
    yield


Condition = Callable[[Cluster], AbstractContextManager[None]]

CONDITIONS: list[Condition] = [replicas_free, one_second_late, applier_stopped, binlog_not_synced]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "pairs", [PAIRS, pytest.param(DEEP_PAIRS, marks=[pytest.mark.deep, pytest.mark.timeout(900)])]
)
def test_read_own_writes(
    cluster: Cluster, proxy: StartProxy, condition: Condition, pairs: int
) -> None:
    running = proxy(consistency="READ_OWN_WRITES", wait_budget="250ms")
    with condition(cluster):
        seen = write_then_read(running.connect, pairs)
        on_replicas = running.metric("tidegate_statements_total", role="replica", reason="read")
    assert seen.stale == 0
    assert running.metric("tidegate_stale_reads_total") == 0
    if condition in (replicas_free, binlog_not_synced):
        # How many depends on the machine: where a disk stalls, the primary answers.
        assert on_replicas > 0


@pytest.mark.parametrize("condition", [replicas_free, one_second_late])
def test_read_own_writes_while_waits_are_weighed(
    cluster: Cluster, proxy: StartProxy, condition: Condition
) -> None:
    running = proxy(wait_budget="auto")
    with condition(cluster):
        seen = write_then_read(running.connect, PAIRS)
        on_replicas = running.metric("tidegate_statements_total", role="replica", reason="read")
    assert seen.stale == 0
    assert running.metric("tidegate_stale_reads_total") == 0
    # How many go where depends on the machine; of late replicas the first wait runs out.
    left = sum(
        running.metric("tidegate_statements_total", role="primary", reason=reason)
        for reason in ("wait_dearer", "replica_behind", "wait_timeout")
    )
    assert left + on_replicas >= seen.reads
    assert (on_replicas if condition is replicas_free else left) > 0


@pytest.mark.parametrize("condition", [one_second_late, applier_stopped])
def test_best_effort_shows_what_is_prevented(
    cluster: Cluster, proxy: StartProxy, condition: Condition
) -> None:
    running = proxy(consistency="BEST_EFFORT")
    with condition(cluster):
        seen = write_then_read(running.connect, PAIRS // 4)
    assert seen.stale > seen.reads / 2


def test_policy_error_fails_the_read_and_says_what_to_do(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(on_timeout="error", wait_budget="50ms")
    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE app.late (id INT)")
        cluster.wait_caught_up()
        for replica in cluster.replicas:
            replica.stop_applier()
        cursor.execute("INSERT INTO app.late VALUES (1)")
        with pytest.raises(Exception, match="wait budget of 50 ms") as refused:
            cursor.execute("SELECT * FROM app.late")
        assert refused.value.args[0] == 3024
        for replica in cluster.replicas:
            replica.start_applier()
        cluster.wait_caught_up()
        cursor.execute("SELECT * FROM app.late")
        assert cursor.fetchall() == ((1,),)


def test_policy_stale_is_counted_and_logged(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(on_timeout="stale", wait_budget="50ms")
    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE app.stale (id INT)")
        cluster.wait_caught_up()
        for replica in cluster.replicas:
            replica.stop_applier()
        cursor.execute("INSERT INTO app.stale VALUES (1)")
        cursor.execute("SELECT * FROM app.stale")
        assert cursor.fetchall() == ()
    assert running.metric("tidegate_stale_reads_total") == 1
    (record,) = [
        record for record in running.records(at_least=4) if record["reason"] == "wait_timeout"
    ]
    assert record["proof"] == "none"
    assert record["outcome"] == "ok"
