"""A read by a named time zone depends on the server's tables of these, which it does not name."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_USER, MONITOR_USER
from tests.support.waiting import eventually

TABLES = ("time_zone", "time_zone_name", "time_zone_transition_type")
READ = "SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', 'Mars/One') FROM plain"


@pytest.fixture
def zones(cluster: Cluster) -> Iterator[None]:
    primary = cluster.primary
    primary.query("CREATE TABLE app.plain SELECT 1 AS id")
    primary.query("CREATE TABLE app.other (id INT PRIMARY KEY AUTO_INCREMENT)")
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    for table in TABLES:
        primary.query(f"GRANT INSERT ON mysql.{table} TO {APP_USER}")
    cluster.wait_caught_up()
    yield
    for table in TABLES:
        primary.query(f"TRUNCATE mysql.{table}")


@pytest.mark.usefixtures("zones", "late_replicas")
def test_a_read_by_a_time_zone_that_the_session_has_made(
    cluster: Cluster, proxy: StartProxy
) -> None:
    running = proxy(table_dependencies="on", wait_budget="50ms", monitor_interval="50ms")
    with closing(running.connect()) as session:

        def independent() -> bool:
            run(session, "INSERT INTO other VALUES ()")
            run(session, "SELECT * FROM plain")
            return "independent" in str(run(session, "SHOW TIDEGATE LAST"))

        eventually(independent)
        run(session, "BEGIN")
        run(session, "INSERT INTO mysql.time_zone VALUES (9001, 'N')")
        run(session, "INSERT INTO mysql.time_zone_name VALUES ('Mars/One', 9001)")
        run(session, "INSERT INTO mysql.time_zone_transition_type VALUES (9001, 0, 7200, 0, 'M')")
        run(session, "COMMIT")
        ((found,),) = run(session, READ)
        assert str(found) == "2026-01-01 02:00:00", run(session, "SHOW TIDEGATE LAST")
