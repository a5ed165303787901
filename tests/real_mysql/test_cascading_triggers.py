"""Triggers that cascade run for each client, whether its connection to the primary was kept or not.

On MySQL 9.7.4 enable_cascade_triggers has no effect on a connection that was reset.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.constants import Command
from protocol.response import ErrPacket
from protocol.response_stream import PREPARED, SIMPLE
from proxy.shared.client_profile import ALIKE
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_kept_connections import Client, kept, taken
from tests.support.waiting import eventually

SET_GLOBAL = "SET GLOBAL enable_cascade_triggers = "
ENABLE = "SET SESSION enable_cascade_triggers = ON"
OBJECTS = (
    "CREATE TABLE app.parent (id INT PRIMARY KEY)",
    "CREATE TABLE app.child (id INT PRIMARY KEY, parent INT,"
    " FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE app.deleted (id INT AUTO_INCREMENT PRIMARY KEY, child INT)",
    "CREATE TRIGGER app.deleting AFTER DELETE ON app.child FOR EACH ROW"
    " INSERT INTO app.deleted (child) VALUES (OLD.id)",
    "CREATE USER alike@'%' IDENTIFIED BY 'a'",
    "GRANT ALL ON *.* TO alike@'%'",
)


@pytest.fixture(scope="module", autouse=True)
def _objects(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    if not cluster.primary.query("SHOW VARIABLES LIKE 'enable_cascade_triggers'"):
        pytest.skip("the server has no enable_cascade_triggers")
    for sql in OBJECTS:
        cluster.primary.query(sql)
    cluster.wait_caught_up()
    yield
    cluster.primary.query("DROP USER alike@'%'")


@pytest.fixture
def primary(cluster: Cluster) -> Iterator[RealServer]:
    yield cluster.primary
    cluster.primary.query(SET_GLOBAL + "OFF")


def runs_triggers(client: Client) -> bool:
    """Whether the trigger runs for a row that a foreign key deletes."""
    for sql in ("DELETE FROM app.deleted", "REPLACE INTO app.parent VALUES (1)"):
        client.rows(sql)
    client.rows("INSERT INTO app.child VALUES (1, 1)")
    client.rows("DELETE FROM app.parent")
    return client.value("SELECT COUNT(*) FROM app.deleted FOR UPDATE") == b"1"


KEEPING = {
    "lent": {"login_age": "1h"},
    "changed user": {"login_age": "0"},
    "shared": {"login_age": "1h", "connection_sharing": "on", "connection_sharing_delay": "50ms"},
}


@pytest.fixture(params=KEEPING)
def running(proxy: StartProxy, request: pytest.FixtureRequest) -> RunningProxy:
    return proxy(
        replicas=None, kept_connection_age="1h", server_tls="disabled", **KEEPING[request.param]
    )


def test_triggers_run_for_every_client(running: RunningProxy, primary: RealServer) -> None:
    primary.query(SET_GLOBAL + "ON")
    ran = []
    for _ in range(ALIKE + 3):
        client = Client(running, "alike", "a")
        client.rows("DO 1")
        client.quit()
        client = Client(running, "alike", "a")
        ran.append(runs_triggers(client))
        client.quit()
    assert ran == [True] * len(ran)


def held(running: RunningProxy, server: RealServer) -> float:
    return running.metric("tidegate_server_connections", server=server.address)


def come_and_go(running: RunningProxy, primary: RealServer) -> None:
    """So many clients that the next one gets a connection that was kept."""
    for _ in range(ALIKE + 1):
        eventually(lambda: held(running, primary) == 0)
        least = max(1, kept(running, primary))
        client = Client(running, "alike", "a")
        client.rows("DO 1")
        client.quit()
        # It may have given its connection back before it left, and have taken a kept one.
        eventually(
            lambda least=least: held(running, primary) == 0 and kept(running, primary) >= least
        )


def test_triggers_that_are_turned_on_meanwhile_run(
    running: RunningProxy, primary: RealServer
) -> None:
    """A session that says that they run runs them."""
    come_and_go(running, primary)
    primary.query(SET_GLOBAL + "ON")
    for _ in range(ALIKE + 1):
        client = Client(running, "alike", "a")
        client.rows("DO 1")
        shown = client.value("SELECT @@SESSION.enable_cascade_triggers")
        assert runs_triggers(client) is (shown == b"1")
        client.quit()
    eventually(lambda: kept(running, primary) == 0)
    with Client(running, "alike", "a") as client:
        assert runs_triggers(client)


def as_text(client: Client) -> bytes:
    return client.query(ENABLE)[-1][1]


def as_one_of_several(client: Client) -> bytes:
    return client.query("SET @x = 1, autocommit = 1, enable_cascade_triggers = 1")[-1][1]


def prepared_by_text(client: Client) -> bytes:
    client.rows(f"PREPARE enabling FROM '{ENABLE}'")
    return client.query("EXECUTE enabling")[-1][1]


def prepared(client: Client) -> bytes:
    head = client.command(Command.COM_STMT_PREPARE, ENABLE.encode(), PREPARED)[0][1]
    return client.command(Command.COM_STMT_EXECUTE, head[1:5] + b"\0\1\0\0\0")[-1][1]


@pytest.mark.parametrize("enable", [as_text, as_one_of_several, prepared_by_text, prepared])
def test_what_has_no_effect_on_a_kept_connection_is_refused_and_has_on_the_next(
    proxy: StartProxy, primary: RealServer, enable: object
) -> None:
    assert callable(enable)
    running = proxy(
        *(), replicas=None, kept_connection_age="1h", login_age="1h", server_tls="disabled"
    )
    come_and_go(running, primary)
    before = taken(running, primary)
    client = Client(running, "alike", "a")
    client.rows("SET SESSION enable_cascade_triggers = OFF")
    error = ErrPacket.parse(enable(client))
    assert taken(running, primary) > before
    assert error.code == 1235
    assert "connect again" in error.message
    assert not runs_triggers(client)
    client.quit()
    client = Client(running, "alike", "a")
    assert enable(client)[0] == 0
    assert runs_triggers(client)
    # A client that resets its session has what the server gives it.
    client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
    assert enable(client)[0] == 0
    client.quit()
