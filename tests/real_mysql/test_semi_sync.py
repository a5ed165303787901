"""A primary that waits for a semi-synchronous acknowledgement shows less than its replicas.

Nobody acknowledges here: the replicas replicate asynchronously. They have the transaction at once,
and the primary, which waits before its engine's commit, does not show it.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Thread

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.constants import Capability, Command
from protocol.response import ErrPacket
from protocol.response_stream import PREPARED
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

LEVELS = ("MONOTONIC_READS", "READ_ALL_WRITES")
COUNT = "SELECT COUNT(*) FROM app.semi"
TIMED_OUT = 3024
MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    """A proxy before a primary that has the plugin, switched off."""
    primary = cluster.primary
    primary.query("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    primary.query(f"CREATE PROCEDURE app.semi_count() {COUNT}")
    proxy = RunningProxy(cluster, "semi-sync", {"self_audit": "1"})
    try:
        yield proxy
    finally:
        cluster.heal()
        cluster.primary.query("UNINSTALL PLUGIN rpl_semi_sync_source")
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture
def committing(cluster: Cluster, running: RunningProxy) -> Iterator[Callable[[], None]]:
    """A function after which both replicas have a row that the primary is still committing."""
    primary = cluster.primary
    primary.query("DROP TABLE IF EXISTS app.semi")
    primary.query("CREATE TABLE app.semi (a INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.wait_caught_up()
    threads: list[Thread] = []

    def insert() -> None:
        with closing(primary.connect()) as direct, direct.cursor() as cursor:
            cursor.execute("INSERT INTO app.semi VALUES ()")

    def begin() -> None:
        primary.query("SET GLOBAL rpl_semi_sync_source_timeout = 600000")
        primary.query("SET GLOBAL rpl_semi_sync_source_enabled = ON")
        threads.append(Thread(target=insert))
        threads[0].start()
        for replica in cluster.replicas:
            eventually(lambda replica=replica: replica.value(COUNT) == "1")  # type: ignore[misc]
        assert primary.value(COUNT) == "0", "the primary shows it, and nothing is tested"

    yield begin
    primary.query("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
    for thread in threads:
        thread.join(30)


def asks(level: str = LEVELS[0], policy: str = "primary", budget: str = "60ms") -> str:
    """What makes a session's settings."""
    return (
        f"SET tidegate_consistency = '{level}', tidegate_on_timeout = '{policy}',"
        f" tidegate_wait_budget = '{budget}'"
    )


@contextlib.contextmanager
def seen_on_a_replica(
    running: RunningProxy, committing: Callable[[], None], settings: str
) -> Iterator[Connection[Cursor]]:
    """A session that has seen the row, and from now on can read from the primary alone."""
    with running.connect() as session:
        run(session, settings)
        run(session, COUNT)
        committing()
        assert run(session, COUNT) == [(1,)]
        run(session, "SELECT GET_LOCK(CONNECTION_ID(), 1)")  # keeps it there
        yield session


def refused(session: Connection[Cursor], sql: str) -> str:
    """The sentence of the error that a statement gets."""
    with pytest.raises(pymysql.err.OperationalError) as error:
        run(session, sql)
    assert error.value.args[0] == TIMED_OUT
    return str(error.value.args[1])


@pytest.mark.parametrize("policy", ["error", "primary"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_read_does_not_go_back(
    committing: Callable[[], None], running: RunningProxy, level: str, policy: str
) -> None:
    before = running.metric("tidegate_stale_reads_total")
    with seen_on_a_replica(running, committing, asks(level, policy)) as session:
        assert "is still committing" in refused(session, COUNT)
        # Nothing of it stays: the next statements get their own answers.
        assert len(run(session, "SELECT @@server_id")) == 1
    assert running.metric("tidegate_stale_reads_total") == before


def test_a_read_that_is_given_openly_as_stale(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    with seen_on_a_replica(running, committing, asks(policy="stale")) as session:
        before = running.metric("tidegate_stale_reads_total")
        assert run(session, COUNT) == [(0,)]
        assert running.metric("tidegate_stale_reads_total") == before + 1
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW TIDEGATE LAST")
            (last,) = cursor.fetchall()
        assert (last["role"], last["proof"], last["reason"]) == ("primary", "none", "wait_timeout")


def test_a_read_waits_for_the_acknowledgement(
    cluster: Cluster, committing: Callable[[], None], running: RunningProxy
) -> None:
    def waits() -> bool:
        waiting = (
            "SELECT COUNT(*) FROM performance_schema.processlist"
            " WHERE INFO LIKE '%gtid_owned%' AND ID <> CONNECTION_ID()"
        )
        return cluster.primary.value(waiting) != "0"

    def acknowledge() -> None:
        eventually(waits)
        cluster.primary.query("SET GLOBAL rpl_semi_sync_source_enabled = OFF")

    with seen_on_a_replica(running, committing, asks(budget="20s")) as session:
        thread = Thread(target=acknowledge)
        thread.start()
        assert run(session, COUNT) == [(1,)]
        thread.join()


def test_no_transaction_begins_where_it_would_go_back(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    with seen_on_a_replica(running, committing, asks()) as session:
        refused(session, "START TRANSACTION")
        refused(session, COUNT)
        run(session, "COMMIT")
        run(session, "SET autocommit = 0")
        refused(session, COUNT)


def test_a_transaction_that_has_read_on_a_replica_does_not_go_back(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    with running.connect() as session:
        run(session, asks())
        run(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        run(session, "BEGIN")
        run(session, COUNT)
        committing()
        assert run(session, COUNT) == [(1,)]
        run(session, "SAVEPOINT s")  # from here on it reads from the primary
        refused(session, COUNT)
        run(session, "ROLLBACK")


def test_what_may_write_runs_and_what_it_shows_is_counted(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    with seen_on_a_replica(running, committing, asks(policy="error")) as session:
        before = running.metric("tidegate_stale_reads_total")
        run(session, "DO SLEEP(0)")
        assert running.metric("tidegate_stale_reads_total") == before
        assert run(session, "CALL app.semi_count()") == [(0,)]
        assert running.metric("tidegate_stale_reads_total") == before + 1


def test_a_read_behind_a_failed_write_does_not_go_back(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    """Nobody knows then if a transaction is open."""
    with running.connect() as session:
        run(session, asks())
        run(session, COUNT)
        committing()
        assert run(session, COUNT) == [(1,)]
        with pytest.raises(pymysql.err.ProgrammingError):
            run(session, "INSERT INTO app.semi_nowhere VALUES (1)")
        refused(session, COUNT)


def test_a_prepared_read_does_not_go_back(
    committing: Callable[[], None], running: RunningProxy
) -> None:
    with RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app") as client:
        client.query(asks())
        ((_, head), *_) = client.command(Command.COM_STMT_PREPARE, COUNT.encode(), PREPARED)
        execute = head[1:5] + b"\x00\x01\x00\x00\x00"
        client.command(Command.COM_STMT_EXECUTE, execute)
        committing()
        assert client.command(Command.COM_STMT_EXECUTE, execute)[2][1][-8:] == b"\x01" + bytes(7)
        client.query("SELECT GET_LOCK(CONNECTION_ID(), 1)")
        ((_, error),) = client.command(Command.COM_STMT_EXECUTE, execute)
        assert ErrPacket.parse(error).code == TIMED_OUT
        assert len(client.query("SELECT @@server_id")) == 4


def test_the_other_replica_may_answer_where_the_primary_may_not(
    cluster: Cluster, committing: Callable[[], None], running: RunningProxy
) -> None:
    """What another replica shows is no error; what nobody else shows is one."""
    with running.connect() as session:
        run(session, asks())
        run(session, COUNT)
        committing()
        assert run(session, COUNT) == [(1,)]
        cluster.replicas[0].kill()
        assert run(session, COUNT) == [(1,)]
        cluster.replicas[1].kill()
        refused(session, COUNT)


def test_a_replica_that_has_it_earlier_has_not_diverged(
    cluster: Cluster, committing: Callable[[], None], proxy: StartProxy
) -> None:
    running = proxy(monitor_interval="50ms")
    with running.connect() as session:
        run(session, COUNT)
        committing()
        time.sleep(1)  # twenty looks of the monitor
        assert running.metric("tidegate_errant_transactions") == 0
        cluster.primary.query("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        before = running.metric("tidegate_statements_total", role="replica", reason="read")
        assert run(session, COUNT) == [(1,)]
        assert running.metric("tidegate_statements_total", role="replica", reason="read") > before
    assert "the primary has not" not in running.stderr
    assert "made anew" not in running.stderr
