"""A replica that is frozen keeps its connections open and says nothing: no read waits for it."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response_stream import PREPARED
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
EXECUTED = b"\0\1\0\0\0"
CURSOR = b"\1\1\0\0\0"
"""Of a COM_STMT_EXECUTE behind the statement: the flags, and how often."""
COUNT = "SELECT COUNT(*) FROM app.frozen"
LIMIT_S = 60
"""A read that is not answered within this is one that hangs."""
LEVELS = (
    *("BEST_EFFORT", "READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
    "BOUNDED_STALENESS(10m)",
)


@pytest.fixture(scope="module", params=["watched", "unwatched"])
def running(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[RunningProxy]:
    """A proxy before one replica, with a monitor and without."""
    cluster.primary.query(
        "CREATE TABLE IF NOT EXISTS app.frozen (a INT AUTO_INCREMENT PRIMARY KEY)"
    )
    cluster.primary.query("REPLACE INTO app.frozen VALUES (1), (2), (3)")
    options: dict[str, str | None] = {
        "replicas": cluster.replicas[0].address,
        "connect_timeout": "1s",
    }
    if request.param == "unwatched":
        options |= {"monitor_user": None, "monitor_password_file": None}
    proxy = RunningProxy(cluster, f"frozen-{request.param}", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture(autouse=True)
def caught_up(cluster: Cluster, running: RunningProxy) -> None:
    """The replica has the table, and takes part again."""
    cluster.wait_caught_up()
    eventually(lambda: on_replica(running))


def on_replica(running: RunningProxy) -> bool:
    with running.connect() as session:
        run(session, COUNT)
        return last(session)["role"] == "replica"


def last(session: Connection[Cursor]) -> dict[str, object]:
    with session.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        ((*row,),) = cursor.fetchall()
        return dict(zip([column[0] for column in cursor.description], row, strict=True))


def raw(running: RunningProxy) -> RawClient:
    return RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app")


def prepared(client: RawClient, sql: str) -> bytes:
    """The beginning of an execution of it."""
    ((_, head), *_) = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)
    return head[1:5]


def test_a_read_leaves_it_at_every_level(cluster: Cluster, running: RunningProxy) -> None:
    clients = []
    for level in LEVELS:
        clients.append(raw(running))
        clients[-1].query(f"SET tidegate_consistency = '{level}'")
        clients[-1].query(COUNT)
    clients.append(raw(running))
    execute = bytes((Command.COM_STMT_EXECUTE,)) + prepared(clients[-1], COUNT) + EXECUTED
    before = running.metric("tidegate_fallbacks_total", reason="replica_lost")
    with cluster.replicas[0].paused():
        for client in clients[:-1]:
            client.send(frame(b"\x03" + COUNT.encode(), 0))
        clients[-1].send(frame(execute, 0))
        for client in clients[:-1]:
            assert client.answer()[2][1] == b"\x013"
        assert clients[-1].answer()[2][1][-8:] == b"\x03" + bytes(7)
        left = running.metric("tidegate_fallbacks_total", reason="replica_lost") - before
        assert 1 <= left <= len(clients)
        assert b"replica_lost" in clients[1].query("SHOW TIDEGATE LAST")[-2][1]
        # Until it speaks again no read is kept waiting by it.
        with running.connect() as session:
            assert run(session, COUNT) == [(3,)]
            assert last(session)["reason"] == "no_replica"
    for client in clients:
        client.close()


def test_what_only_it_has_is_lost(cluster: Cluster, running: RunningProxy) -> None:
    with raw(running) as fetching, raw(running) as reading:
        statement = prepared(fetching, "SELECT a FROM app.frozen")
        fetching.command(Command.COM_STMT_EXECUTE, statement + CURSOR)
        reading.query("START TRANSACTION READ ONLY")
        reading.query(COUNT)
        with cluster.replicas[0].paused():
            fetching.send(frame(b"\x1c" + statement + b"\1\0\0\0", 0))
            reading.send(frame(b"\x03" + COUNT.encode(), 0))
            for client in (fetching, reading):
                with pytest.raises(ConnectionResetError):
                    client.read()


def test_a_statement_is_prepared_elsewhere(cluster: Cluster, running: RunningProxy) -> None:
    """The replica was to be told of it first."""
    with raw(running) as client:
        client.query("SELECT GET_LOCK(CONNECTION_ID(), 1)")
        statement = prepared(client, COUNT)
        client.query("SELECT RELEASE_LOCK(CONNECTION_ID())")
        client.query(COUNT)
        with cluster.replicas[0].paused():
            execution = client.command(Command.COM_STMT_EXECUTE, statement + EXECUTED)
            assert execution[2][1][-8:] == b"\x03" + bytes(7)


def test_a_long_read_of_one_that_lives_is_left_alone(
    cluster: Cluster, running: RunningProxy
) -> None:
    """It waits for a lock, longer than a server has to say that it lives."""
    before = running.metric("tidegate_fallbacks_total")
    with raw(running) as client, closing(cluster.replicas[0].admin()) as holder:
        client.query(COUNT)
        run(holder, "SET GLOBAL super_read_only = OFF")
        run(holder, "LOCK TABLES app.frozen WRITE")
        client.send(frame(b"\x03" + COUNT.encode(), 0))
        time.sleep(5)
        run(holder, "UNLOCK TABLES")
        assert client.answer()[2][1] == b"\x013"
        assert b"replica" in client.query("SHOW TIDEGATE LAST")[-2][1]
    assert running.metric("tidegate_fallbacks_total") == before
