"""What replicas refuse of a session's settings costs one connection, and not one for each read."""

from __future__ import annotations  # Connection is generic for the type checker only

from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run

READ = "SELECT a FROM app.refused"
OPENED = "tidegate_server_connections_opened_total"


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    cluster.primary.query("CREATE TABLE app.refused AS SELECT 1 AS a")
    _on_primary_alone(
        cluster,
        "GRANT SESSION_VARIABLES_ADMIN ON *.* TO app",
        "INSERT INTO mysql.time_zone VALUES (4711, 'N')",
        "INSERT INTO mysql.time_zone_name VALUES ('Sea/Tide', 4711)",
        "INSERT INTO mysql.time_zone_transition_type VALUES (4711, 0, 3600, 0, 'TIDE')",
    )
    cluster.wait_caught_up()
    # A connection that is kept for the next login would count among the sessions of `app`.
    proxy = RunningProxy(cluster, "refused", {"wait_budget": "10s", "kept_connections": "0"})
    try:
        yield proxy
    finally:
        proxy.stop()
        _on_primary_alone(
            cluster,
            "REVOKE SESSION_VARIABLES_ADMIN ON *.* FROM app",
            "DELETE FROM mysql.time_zone WHERE Time_zone_id = 4711",
            "DELETE FROM mysql.time_zone_name WHERE Time_zone_id = 4711",
            "DELETE FROM mysql.time_zone_transition_type WHERE Time_zone_id = 4711",
        )
        assert "Traceback" not in proxy.stderr, proxy.stderr


def _on_primary_alone(cluster: Cluster, *statements: str) -> None:
    connection = cluster.primary.admin()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for sql in statements:
            cursor.execute(sql)


def answered_by(session: Connection[Cursor]) -> tuple[str, str]:
    """Role and reason."""
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (last,) = cursor.fetchall()
    return str(last["role"]), str(last["reason"])


def refusals(session: Connection[Cursor]) -> str:
    return str(dict(run(session, "SHOW TIDEGATE SESSION"))["refused_by"])


@pytest.mark.parametrize(
    ("setting", "message", "other"),
    [
        ("time_zone = 'Sea/Tide'", "Unknown or incorrect time zone", "time_zone = '+01:00'"),
        (
            "internal_tmp_mem_storage_engine = MEMORY",
            "Access denied",
            "internal_tmp_mem_storage_engine = DEFAULT",
        ),
    ],
)
def test_a_refused_setting_keeps_reads_on_the_primary_until_it_changes(
    cluster: Cluster, running: RunningProxy, setting: str, message: str, other: str
) -> None:
    with running.connect() as session:
        assert run(session, READ) == [(1,)]
        assert answered_by(session) == ("replica", "read")
        assert refusals(session) == "None"
        run(session, f"SET {setting}")
        opened = running.metric(OPENED)
        for _ in range(20):
            assert run(session, READ) == [(1,)]
            assert answered_by(session) == ("primary", "replica_refused")
        # A replica may be asked once more after a while.
        assert running.metric(OPENED) - opened <= 2 * len(cluster.replicas)
        shown = refusals(session)
        for replica in cluster.replicas:
            assert replica.address in shown
        assert message in shown
        if "Access denied" not in message:
            run(session, f"SET {other}")
            assert run(session, READ) == [(1,)]
            assert answered_by(session) == ("replica", "read")
            assert refusals(session) == "None"
    assert message in running.stderr


def test_flags_that_are_set_one_after_another(cluster: Cluster, running: RunningProxy) -> None:
    flags = ("mrr=off", "mrr=on", "index_merge=off,mrr=default", "MRR=off", "default,mrr=on", "")
    texts = [f"'{flag}'" for flag in flags] + ["DEFAULT", '"mrr=off"', "5", "'mrr =on'", "DEFAULT"]
    with running.connect() as session, cluster.primary.connect() as direct:
        for text in texts:
            for connection in (session, direct):
                run(connection, f"SET optimizer_switch = {text}")
            assert run(session, READ) == [(1,)]
            assert answered_by(session) == ("replica", "read"), text
            ((value,),) = run(direct, "SELECT @@optimizer_switch")
            assert _switches(cluster) == [value], text


def _switches(cluster: Cluster) -> list[object]:
    """The value of optimizer_switch that sessions of `app` have on replicas, each once."""
    found: set[object] = set()
    for replica in cluster.replicas:
        found |= {
            value
            for (value,) in replica.query(
                "SELECT VARIABLE_VALUE FROM performance_schema.variables_by_thread"
                " JOIN performance_schema.threads USING (THREAD_ID)"
                " WHERE VARIABLE_NAME = 'optimizer_switch' AND PROCESSLIST_USER = 'app'"
            )
        }
    return list(found)
