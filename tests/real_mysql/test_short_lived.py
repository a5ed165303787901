"""Pages that open a connection each, at the default scope: the log says what they may miss."""

from contextlib import closing

import pytest

from proxy.short_lived import OFTEN
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.statements import run

FAMILY = "tidegate_reads_behind_another_connection_total"


@pytest.mark.parametrize("scope", ["connection", "user"])
def test_connections_that_come_and_go(cluster: Cluster, proxy: StartProxy, scope: str) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.pages")
    cluster.primary.query("CREATE TABLE app.pages (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.wait_caught_up()
    running = proxy(scope=scope)
    for _ in range(OFTEN):
        with closing(running.connect()) as session:
            run(session, "INSERT INTO pages VALUES ()")
        with closing(running.connect()) as session:
            run(session, "SELECT COUNT(*) FROM pages")
    if scope == "user":
        assert running.metric(FAMILY) == 0
        assert "come and go" not in running.stderr
    else:
        assert running.metric(FAMILY) >= OFTEN - 1
        with closing(running.connect()) as session:
            run(session, "SELECT COUNT(*) FROM pages")
        assert running.stderr.count("connections of user 'app' come and go") == 1
