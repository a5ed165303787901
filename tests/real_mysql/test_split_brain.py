"""Two servers take writes: which is the primary, and who gets a write meanwhile."""

from __future__ import annotations  # Connection is generic for the type checker only

from collections.abc import Callable
from contextlib import closing

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.statements import run
from tests.real_mysql.template import MONITOR_USER
from tests.support.waiting import eventually

OPTIONS: dict[str, str | None] = {
    "failover": "read_only",
    "monitor_interval": "100ms",
    "connect_timeout": "1s",
}
READ_ONLY = 1290
WRITABLE = ("--read-only=OFF", "--super-read-only=OFF")


def open_for_writes(server: RealServer) -> None:
    server.query("STOP REPLICA")
    server.query("RESET REPLICA ALL")
    server.query("SET GLOBAL super_read_only = OFF")
    server.query("SET GLOBAL read_only = OFF")


def close_to_writes(server: RealServer) -> None:
    server.query("SET GLOBAL super_read_only = ON")


def rows_on(server: RealServer) -> str:
    return server.value("SELECT COUNT(*) FROM app.split")


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.split")
    cluster.primary.query("CREATE TABLE app.split (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.wait_caught_up()


INSERT = "INSERT INTO split VALUES ()"


def is_refused(running: RunningProxy) -> bool:
    with closing(running.connect()) as session:
        try:
            run(session, INSERT)
        except pymysql.err.OperationalError as error:
            return bool(error.args[0] == READ_ONLY)
    return False


def is_gone(running: RunningProxy, server: RealServer) -> Callable[[], bool]:
    return lambda: running.metric("tidegate_server_up", server=server.address) == 0


def is_writable(running: RunningProxy, server: RealServer) -> Callable[[], bool]:
    """Whether the monitor has seen that; it has judged what it means, too."""
    return lambda: running.metric("tidegate_server_writable", server=server.address) == 1


def test_a_replica_that_restarts_writable_is_no_primary(
    cluster: Cluster, proxy: StartProxy
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS)
    primary.pause()
    eventually(is_gone(running, primary))
    replica.restart(*WRITABLE)
    eventually(is_writable(running, replica))
    assert running.metric("tidegate_promotions_total") == 0
    primary.resume()
    eventually(is_writable(running, primary))
    with closing(running.connect()) as session:
        run(session, INSERT)
    assert running.metric("tidegate_promotions_total") == 0
    assert rows_on(primary) == "1"
    assert "is the primary now" not in running.stderr
    assert f"server {replica.address} takes writes, too" in running.stderr


def test_a_replica_that_is_opened_but_configured_as_one(
    cluster: Cluster, proxy: StartProxy
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS)
    replica.query("STOP REPLICA")
    replica.query("SET GLOBAL super_read_only = OFF")
    replica.query("SET GLOBAL read_only = OFF")
    eventually(is_writable(running, replica))
    with closing(running.connect()) as session:
        run(session, INSERT)
    close_to_writes(primary)
    eventually(lambda: "is read only" in running.health()[1])
    assert running.metric("tidegate_promotions_total") == 0
    primary.kill()
    eventually(is_gone(running, primary))
    assert running.metric("tidegate_promotions_total") == 0
    replica.query("RESET REPLICA ALL")
    eventually(lambda: running.metric("tidegate_promotions_total") == 1)


def test_an_old_primary_that_comes_back_writable_gets_nothing(
    cluster: Cluster, proxy: StartProxy
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS)
    primary.pause()
    eventually(is_gone(running, primary))
    open_for_writes(replica)
    eventually(lambda: running.metric("tidegate_promotions_total") == 1)
    for comes_back in (primary.resume, primary.restart):
        comes_back()
        eventually(is_writable(running, primary))
        with closing(running.connect()) as session:
            run(session, INSERT)
    assert (rows_on(primary), rows_on(replica)) == ("0", "2")
    assert f"server {primary.address} takes writes, too" in running.stderr
    assert running.metric("tidegate_primary_disputed") == 0
    assert running.metric("tidegate_promotions_total") == 1


def test_a_monitor_that_may_not_see_who_replicates(cluster: Cluster, proxy: StartProxy) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    primary.query(f"REVOKE REPLICATION CLIENT ON *.* FROM '{MONITOR_USER}'@'%'")
    cluster.wait_caught_up()
    running = proxy(**OPTIONS)
    assert f"GRANT REPLICATION CLIENT ON *.* TO {MONITOR_USER}" in running.stderr
    with closing(running.connect()) as session:
        run(session, INSERT)
    cluster.wait_caught_up()
    close_to_writes(primary)
    open_for_writes(replica)
    eventually(lambda: "takes writes, but is not followed" in running.health()[1])
    assert running.metric("tidegate_promotions_total") == 0
    replica.query(f"GRANT REPLICATION CLIENT ON *.* TO '{MONITOR_USER}'@'%'")
    eventually(lambda: running.metric("tidegate_promotions_total") == 1)


def test_none_of_two_gets_a_write(cluster: Cluster, proxy: StartProxy) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS)
    with closing(running.connect()) as session, closing(running.connect()) as midway:
        run(session, INSERT)
        run(midway, "BEGIN")
        run(midway, INSERT)
        cluster.wait_caught_up()
        open_for_writes(replica)
        eventually(lambda: running.metric("tidegate_primary_disputed") == 1)
        for sql in (INSERT, "CREATE TABLE other (id INT)", "DROP TABLE split", "CALL nothing()"):
            with pytest.raises(pymysql.err.OperationalError, match="not clear which") as error:
                run(session, sql)
            assert error.value.args[0] == READ_ONLY
        assert run(session, "SELECT COUNT(*) FROM split") == [(1,)]
        run(session, "BEGIN")
        assert run(session, "SELECT COUNT(*) FROM split") == [(1,)]
        run(session, "ROLLBACK")
        assert is_refused(running)
        with pytest.raises(pymysql.err.OperationalError) as error:
            run(midway, "COMMIT")
        assert error.value.args[0] == READ_ONLY
        with pytest.raises(pymysql.err.Error):
            run(midway, "SELECT 1")  # a COMMIT that is refused is rolled back
    assert {rows_on(primary), rows_on(replica)} == {"1"}
    assert "take writes, and it is not clear which is the primary" in running.stderr
    # Whoever opened the one closes the other.
    close_to_writes(primary)
    eventually(lambda: running.metric("tidegate_promotions_total") == 1)
    assert running.metric("tidegate_primary_disputed") == 0
    with closing(running.connect()) as session:
        run(session, INSERT)
    assert (rows_on(primary), rows_on(replica)) == ("1", "2")


def test_it_is_clear_again_when_the_other_is_closed(cluster: Cluster, proxy: StartProxy) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    running = proxy(**OPTIONS)
    with closing(running.connect()) as session:
        open_for_writes(replica)
        eventually(lambda: running.metric("tidegate_primary_disputed") == 1)
        close_to_writes(replica)
        eventually(lambda: running.metric("tidegate_primary_disputed") == 0)
        run(session, INSERT)  # the session has lived on
    assert rows_on(primary) == "1"
    assert running.metric("tidegate_promotions_total") == 0


def test_a_proxy_that_starts_follows_the_one_that_takes_writes(
    cluster: Cluster, proxy: StartProxy
) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    close_to_writes(primary)
    cluster.wait_caught_up()
    open_for_writes(replica)
    running = proxy(**OPTIONS)
    with closing(running.connect()) as session:
        run(session, INSERT)
    assert (rows_on(primary), rows_on(replica)) == ("0", "1")
    assert f"server {replica.address} is the primary now" in running.stderr
    eventually(lambda: running.health() == (200, "OK\n"))


def test_a_proxy_that_starts_before_two_follows_none(cluster: Cluster, proxy: StartProxy) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    open_for_writes(replica)
    running = proxy(**OPTIONS)
    assert is_refused(running)
    status, text = running.health()
    assert status == 503
    assert replica.address in text
    close_to_writes(replica)
    eventually(lambda: not is_refused(running))
    assert rows_on(primary) == "1"


def test_health_tells_of_a_primary_that_takes_no_writes(
    cluster: Cluster, proxy: StartProxy
) -> None:
    primary = cluster.primary
    running = proxy(**OPTIONS)
    eventually(lambda: running.health() == (200, "OK\n"))
    close_to_writes(primary)
    eventually(lambda: running.health()[0] == 503)
    assert running.health()[1] == f"the primary {primary.address} is read only\n"
    assert "no write is served: the primary" in running.stderr
    primary.query("SET GLOBAL super_read_only = OFF")
    primary.query("SET GLOBAL read_only = OFF")
    eventually(lambda: running.health()[0] == 200)
    primary.kill()
    eventually(lambda: "cannot be reached" in running.health()[1])


def test_a_wrong_password_of_the_monitor_takes_no_server_down(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(monitor_user="nobody", monitor_interval="100ms")
    address = cluster.replicas[0].address
    unwatched = f"server {address} is not watched"
    eventually(lambda: unwatched in running.stderr)
    assert "mend the account nobody there" in running.stderr
    assert running.metric("tidegate_server_up", server=address) == 1
    assert running.metric("tidegate_server_watched") == 0
    with closing(running.connect()) as session:
        run(session, "SELECT COUNT(*) FROM split")
        run(session, INSERT)
        assert run(session, "SELECT COUNT(*) FROM split") == [(1,)]
    assert running.metric("tidegate_statements_total", role="replica", reason="read") == 2
