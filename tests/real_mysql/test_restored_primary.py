"""The primary comes back without its last transactions, and gives their names to others."""

import shutil
from collections.abc import Callable
from contextlib import closing, suppress

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.waiting import eventually

LOST = 20
INSERT = "INSERT INTO restored (v) VALUES ('{}')"
COUNT = "SELECT COUNT(*) FROM restored WHERE v = '{}'"
MONITORLESS = {"monitor_user": None, "monitor_password_file": None}
DIVERGED = "until it is made anew"


def _run(running: RunningProxy, statements: list[str]) -> list[object]:
    """Run statements over one new connection; the first value of each that has rows."""
    found: list[object] = []
    with closing(running.connect()) as connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
            found += [row[0] for row in cursor.fetchall()[:1]]
    return found


def _writes(running: RunningProxy) -> bool:
    """Whether new sessions reach the primary; it is written nothing."""
    with suppress(pymysql.MySQLError):
        _run(running, ["SELECT COUNT(*) FROM restored FOR UPDATE"])
        return True
    return False


@pytest.fixture
def loses(cluster: Cluster) -> Callable[[RunningProxy], None]:
    """A function that writes through the proxy, and puts back the primary as it was before that."""
    primary = cluster.primary
    data = cluster.scratch.path / primary.name
    kept = cluster.scratch.path / "kept"

    def lose(running: RunningProxy) -> None:
        primary.query("DROP TABLE IF EXISTS app.restored")
        primary.query("CREATE TABLE app.restored (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)")
        cluster.wait_caught_up()
        primary.stop()
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(data, kept)
        primary.start()
        eventually(lambda: _writes(running))  # a monitor may have seen it stop, and not start yet
        for _ in cluster.replicas:  # sessions take turns
            _run(running, [INSERT.format("old"), COUNT.format("old")] * (LOST // 2))
        cluster.wait_caught_up()
        primary.kill()
        shutil.rmtree(data)
        shutil.copytree(kept, data)
        primary.start()

    return lose


@pytest.mark.parametrize("options", [MONITORLESS, {"monitor_interval": "1s"}], ids=str)
def test_what_is_written_then_is_read(
    cluster: Cluster,
    proxy: StartProxy,
    loses: Callable[[RunningProxy], None],
    options: dict[str, str | None],
) -> None:
    running = proxy(**options)
    loses(running)
    if options is not MONITORLESS:  # the monitor may have seen it stop, and not start yet
        eventually(lambda: _writes(running))
    for client in range(1, 5):
        # As many names as were lost: then no set tells any more.
        seen = _run(running, [*[INSERT.format(client)] * LOST, COUNT.format(client)])
        assert seen == [LOST]
    for replica in cluster.replicas:
        assert f"replica {replica.address}" in running.stderr
    assert DIVERGED in running.stderr


def test_what_was_acknowledged_and_is_gone_is_named(
    cluster: Cluster, proxy: StartProxy, loses: Callable[[RunningProxy], None]
) -> None:
    running = proxy(scope="user", **MONITORLESS)
    loses(running)
    with closing(running.connect()) as connection, connection.cursor() as cursor:
        for _ in range(LOST):
            cursor.execute(INSERT.format("new"))
        with pytest.raises(pymysql.err.OperationalError, match="acknowledged writes are gone"):
            cursor.execute(COUNT.format("new"))
        cursor.execute(COUNT.format("new"))
        assert cursor.fetchall() == ((LOST,),)
    assert running.metric("tidegate_lost_transactions_total") == LOST
