"""SIGTERM: the port goes on for `drain-delay`, and transactions have `drain-timeout` to end."""

import contextlib
import signal
from collections.abc import Iterator

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.waiting import eventually

SHUTDOWN = 1053


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> Iterator[None]:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.drained (a INT)")
    yield
    cluster.primary.query("DROP TABLE app.drained")


def stops(running: RunningProxy) -> bool:
    return "is stopping" in running.health("/readyz")[1]


def refuses(running: RunningProxy) -> bool:
    try:
        running.connect().close()
    except pymysql.OperationalError:
        return True
    return False


@pytest.mark.parametrize("workers", [None, "2"])
def test_a_transaction_is_not_cut(proxy: StartProxy, cluster: Cluster, workers: str | None) -> None:
    running = proxy(workers=workers, drain_timeout="1m")
    with running.connect() as idle, running.connect() as working:
        with working.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO drained VALUES (1)")
            running.signal(signal.SIGTERM)
            with pytest.raises(pymysql.OperationalError) as ended:
                eventually(lambda: idle.ping(reconnect=False) and None)
            assert ended.value.args[0] in (SHUTDOWN, 2013, 2006)
            assert running.health("/readyz")[0] == 503
            assert running.health("/livez")[0] == 200
            eventually(lambda: refuses(running))
            cursor.execute("INSERT INTO drained VALUES (2)")
            cursor.execute("COMMIT")
        assert running.wait() == 0
    assert cluster.primary.value("SELECT COUNT(*) FROM app.drained") == "2"


@pytest.mark.parametrize("workers", [None, "2"])
def test_clients_are_taken_until_the_delay_is_over(proxy: StartProxy, workers: str | None) -> None:
    running = proxy(workers=workers, drain_delay="1h", drain_timeout="1m")
    with running.connect() as before:
        running.signal(signal.SIGTERM)
        eventually(lambda: stops(running))
        assert running.health("/readyz")[0] == 503
        assert running.health("/livez")[0] == 200
        with running.connect() as after, after.cursor() as cursor:
            cursor.execute("INSERT INTO drained VALUES (1)")
            cursor.execute("SELECT COUNT(*) FROM drained")
            assert cursor.fetchone() == (1,)
        before.ping(reconnect=False)
        running.signal(signal.SIGTERM)  # a second one ends it at once
        running.stop()
        with contextlib.suppress(pymysql.Error):
            before.ping(reconnect=False)
            pytest.fail("it is served still")


def test_a_statement_that_takes_too_long_is_cut_off(proxy: StartProxy) -> None:
    running = proxy(drain_timeout="100ms")
    with running.connect() as client:
        client._execute_command(3, "DO SLEEP(60)")  # type: ignore[attr-defined] # no answer is read
        eventually(lambda: running.metric("tidegate_clients_connected") == 1)
        assert running.stop() == 0
        assert "are cut off" in running.stderr
