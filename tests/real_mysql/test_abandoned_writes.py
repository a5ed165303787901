"""Who comes back to look whether a write took effect sees what is on the primary."""

from __future__ import annotations  # Connection is generic for the type checker only

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from protocol.constants import Capability
from protocol.packet import frame
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.real_mysql.running_proxy import RunningProxy

CAPABILITIES = (
    Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_SESSION_TRACK
    | Capability.CLIENT_LOCAL_FILES
)
READ = "SELECT v FROM written WHERE id = 1"
WAITING = (
    "SELECT (SELECT COUNT(*) FROM performance_schema.data_lock_waits)"
    " + (SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE LOCK_STATUS = 'PENDING')"
)
CONNECTED = "SELECT COUNT(*) FROM performance_schema.processlist WHERE USER = %s"


@pytest.fixture
def written(cluster: Cluster) -> None:
    with closing(cluster.primary.admin("app")) as root:
        for sql in (
            "DROP TABLE IF EXISTS written",
            "CREATE TABLE written (id INT PRIMARY KEY, v INT)",
            "INSERT INTO written VALUES (1, 0), (2, 0)",
            "DROP PROCEDURE IF EXISTS writes",
            "CREATE PROCEDURE writes() UPDATE written SET v = v + 1 ORDER BY id DESC",
            "DROP PROCEDURE IF EXISTS shows",
            "CREATE PROCEDURE shows() BEGIN SELECT 1; UPDATE written SET v = v + 1; SELECT 2; END",
        ):
            run(root, sql)
    cluster.wait_caught_up()


def leave(running: RunningProxy, cluster: Cluster, statements: list[str]) -> None:
    """Send the last of these statements, which waits for a lock, and hang up."""
    client = RawClient(running.address, APP_USER, APP_PASSWORD, CAPABILITIES, "app")
    for sql in statements[:-1]:
        client.query(sql)
    client.send(frame(b"\x03" + statements[-1].encode(), 0))
    eventually(lambda: cluster.primary.value(WAITING) != "0")
    client.close()
    eventually(lambda: running.metric("tidegate_clients_connected") == 1)


@pytest.mark.parametrize("tls", ["disabled", "required"])
@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE written SET v = v + 1"],
        ["CALL writes()"],
        ["CALL shows()"],
        ["BEGIN", "SET @a = 1", "UPDATE written SET v = v + 1; COMMIT"],
    ],
    ids=["a statement", "a procedure", "a result", "a transaction"],
)
@pytest.mark.usefixtures("written", "late_replicas")
def test_a_write_whose_client_has_left_is_seen_when_it_has_ended(
    cluster: Cluster, proxy: StartProxy, statements: list[str], tls: str
) -> None:
    # So that nothing else makes reads run on the primary after a while.
    ages = {"max_lag": "1h", "view_age": "1h"}
    running = proxy(scope="user", wait_budget="10ms", server_tls=tls, **ages)
    with closing(running.connect()) as other, closing(cluster.primary.admin("app")) as root:
        run(root, "BEGIN")
        run(root, "SELECT * FROM written WHERE id = 1 FOR UPDATE")
        leave(running, cluster, statements)
        for _ in range(3):  # the primary was asked what the scope must see, and has not written yet
            assert run(other, READ) == [(0,)]
        run(root, "COMMIT")
        eventually(lambda: cluster.primary.value("SELECT v FROM app.written WHERE id = 1") == "1")
        eventually(lambda: run(other, READ) == [(1,)])


@pytest.mark.parametrize("tls", ["disabled", "required"])
@pytest.mark.usefixtures("written")
def test_a_server_waits_for_no_file_of_a_client_that_has_left(
    cluster: Cluster, proxy: StartProxy, tls: str
) -> None:
    cluster.primary.query("SET GLOBAL local_infile = ON")
    running = proxy(server_tls=tls, kept_connections="0")
    with closing(running.connect()) as other, closing(cluster.primary.admin("app")) as root:
        run(other, "SELECT 1")
        connected = cluster.primary.value(CONNECTED, APP_USER)
        run(root, "LOCK TABLES written WRITE")
        leave(running, cluster, ["LOAD DATA LOCAL INFILE 'nowhere' INTO TABLE written"])
        run(root, "UNLOCK TABLES")
        eventually(lambda: cluster.primary.value(CONNECTED, APP_USER) == connected)
        assert cluster.primary.value("SELECT COUNT(*) FROM app.written") == "2"
