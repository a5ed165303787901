"""What replication leaves out is not read where it is missing."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import APP_PASSWORD
from tests.support.waiting import eventually

LEVELS = (
    *("READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
    "BOUNDED_STALENESS(1ms)",
)
SUM = "SELECT SUM(n) FROM filtered"
FILTERS = ("DO_DB", "IGNORE_DB", "DO_TABLE", "IGNORE_TABLE", "WILD_DO_TABLE", "WILD_IGNORE_TABLE")
NO_FILTERS = ", ".join(f"REPLICATE_{name} = ()" for name in (*FILTERS, "REWRITE_DB"))
GAUGE = "tidegate_filtered_replica"


def set_filter(replica: RealServer, rule: str) -> None:
    with replica.applier_stopped():
        replica.query(f"CHANGE REPLICATION FILTER {rule}")


def value(session: Connection[Cursor], sql: str) -> object:
    with session.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()[0][0]


def run(session: Connection[Cursor], sql: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(sql)


def shown(running: RunningProxy, topic: str = "SERVERS") -> list[dict[str, object]]:
    with (
        closing(running.connect()) as session,
        session.cursor(pymysql.cursors.DictCursor) as cursor,
    ):
        cursor.execute(f"SHOW TIDEGATE {topic}")
        return list(cursor.fetchall())


def role(session: Connection[Cursor], sql: str) -> str:
    """Who answers a read."""
    run(session, sql)
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        return str(cursor.fetchall()[0]["role"])


@pytest.fixture
def filtered_table(cluster: Cluster) -> Iterator[None]:
    cluster.primary.query("DROP TABLE IF EXISTS app.filtered")
    cluster.primary.query("CREATE TABLE app.filtered (n INT)")
    cluster.primary.query("INSERT INTO app.filtered VALUES (0)")
    cluster.wait_caught_up()
    yield
    for replica in cluster.replicas:
        set_filter(replica, NO_FILTERS)


@contextmanager
def account(cluster: Cluster, name: str, *rights: str) -> Iterator[str]:
    cluster.primary.query(f"CREATE USER {name} IDENTIFIED BY '{APP_PASSWORD}'")
    for right in rights:
        cluster.primary.query(f"GRANT {right} TO {name}")
    cluster.wait_caught_up()
    try:
        yield name
    finally:
        cluster.primary.query(f"DROP USER {name}")


@pytest.mark.parametrize(
    "rule",
    [
        "REPLICATE_IGNORE_TABLE = (app.filtered)",
        "REPLICATE_REWRITE_DB = ((app, other))",
    ],
)
def test_a_filtered_replica_gets_no_guarded_read(
    cluster: Cluster, proxy: StartProxy, filtered_table: None, rule: str
) -> None:
    for replica in cluster.replicas:
        set_filter(replica, rule)
    running = proxy(monitor_interval="100ms")
    eventually(lambda: running.metric(GAUGE) == 2)
    with closing(running.connect()) as session, closing(cluster.primary.connect()) as direct:
        for level in LEVELS:
            run(session, f"SET tidegate_consistency = '{level}'")
            run(session, "UPDATE filtered SET n = n + 1")
            time.sleep(0.01)
            assert value(session, SUM) == value(direct, SUM), level
            assert role(session, SUM) == "primary", level
        run(session, "SET tidegate_consistency = 'BEST_EFFORT'")
        assert role(session, SUM) == "replica"
    name = rule.partition(" ")[0]
    servers = shown(running)
    assert [name in str(server["filters"]) for server in servers] == [False, True, True]
    assert servers[0]["filters"] == "none"
    assert running.stderr.count("lacks writes") == 2


def test_filters_are_seen_where_performance_schema_is_off(
    cluster: Cluster, proxy: StartProxy, filtered_table: None
) -> None:
    first, second = cluster.replicas
    first.restart("--performance-schema=OFF", "--replicate-ignore-table=app.filtered")
    try:
        table = "performance_schema.replication_applier_filters"
        assert not first.query(f"SELECT * FROM {table}")  # noqa: S608 - of this file
        running = proxy(monitor_interval="100ms")
        eventually(lambda: running.metric(GAUGE, server=first.address) == 1)
        assert "REPLICATE_IGNORE_TABLE = app.filtered;" in str(shown(running)[1]["filters"])
        assert running.metric(GAUGE, server=second.address) == 0
    finally:
        first.restart()


def test_a_filter_that_comes_and_goes_leaves_the_replica_without(
    cluster: Cluster, proxy: StartProxy, filtered_table: None
) -> None:
    running = proxy(monitor_interval="100ms")
    first, second = cluster.replicas
    with closing(running.connect()) as session, closing(cluster.primary.connect()) as direct:
        assert role(session, SUM) == "replica"
        set_filter(first, "REPLICATE_IGNORE_TABLE = (app.filtered)")
        eventually(lambda: running.metric(GAUGE, server=first.address) == 1)
        run(session, "UPDATE filtered SET n = n + 1")
        assert value(session, SUM) == value(direct, SUM)
        set_filter(first, NO_FILTERS)
        eventually(lambda: str(shown(running)[1]["filters"]).endswith("until it is made anew"))
        for _ in range(4):  # no connection comes to it
            with closing(running.connect()) as other:
                run(other, "SET tidegate_consistency = 'STRONG'")
                assert value(other, SUM) == value(direct, SUM)
                assert role(other, SUM) == "replica"
        assert running.metric(GAUGE, server=first.address) == 1
        assert running.metric(GAUGE, server=second.address) == 0


def test_a_filtered_replica_is_read_where_that_is_allowed(
    cluster: Cluster, proxy: StartProxy, filtered_table: None
) -> None:
    for replica in cluster.replicas:
        set_filter(replica, "REPLICATE_IGNORE_TABLE = (app.filtered)")
    running = proxy(filtered_replicas="allow")
    eventually(lambda: running.metric(GAUGE) == 2)
    with closing(running.connect()) as session:
        run(session, "UPDATE filtered SET n = n + 1")
        assert role(session, SUM) == "replica"
    assert "REPLICATE_IGNORE_TABLE" in str(shown(running)[1]["filters"])
    assert "filtered-replicas" in running.stderr


def test_a_monitor_that_may_not_see_filters_says_so(cluster: Cluster, proxy: StartProxy) -> None:
    with account(cluster, "blind") as user:
        password = cluster.scratch.path / "blind-password"
        password.write_text(APP_PASSWORD)
        password.chmod(0o600)
        running = proxy(
            monitor_user=user, monitor_password_file=str(password), monitor_interval="100ms"
        )
        eventually(lambda: running.stderr.count("may not see") == 3)
        assert [server["filters"] for server in shown(running)] == [None, None, None]
        with closing(running.connect()) as session:
            assert role(session, "SELECT 1") == "replica"
        assert running.stderr.count("may not see") == 3
        assert "GRANT SELECT ON performance_schema.replication_applier_filters" in running.stderr


@pytest.fixture
def left_out(cluster: Cluster) -> Iterator[None]:
    """Schema `left_out`, of which the primary's binary log says nothing."""
    primary = cluster.primary
    primary.query("CREATE DATABASE left_out")
    primary.query("CREATE TABLE left_out.t (n INT)")
    primary.query("INSERT INTO left_out.t VALUES (0)")
    cluster.wait_caught_up()
    primary.kill()
    primary.start("--binlog-ignore-db=left_out")
    yield
    primary.kill()
    primary.start()
    primary.query("DROP DATABASE left_out")
    cluster.wait_caught_up()


def test_what_the_primary_does_not_log_is_read_there(
    cluster: Cluster, proxy: StartProxy, filtered_table: None, left_out: None
) -> None:
    read = "SELECT SUM(n) FROM left_out.t"
    with account(cluster, "writer", "ALL ON *.*") as user:
        running = proxy(monitor_interval="100ms")
        eventually(lambda: running.metric(GAUGE) == 2)
        with (
            closing(running.connect(user, APP_PASSWORD)) as session,
            closing(running.connect(user, APP_PASSWORD)) as other,
            closing(cluster.primary.connect(user, APP_PASSWORD)) as direct,
        ):
            for statements in (
                ["UPDATE left_out.t SET n = n + 1"],
                # These have a GTID, which stands for the one half.
                *(["UPDATE left_out.t SET n = n + 1", "UPDATE filtered SET n = n + 1"],) * 2,
                ["BEGIN", "UPDATE left_out.t SET n = n + 1", "DELETE FROM filtered", "COMMIT"],
            ):
                for sql in statements:
                    run(session, sql)
                assert value(session, read) == value(direct, read), statements
                assert value(session, read) == value(direct, read), statements
                run(other, "SET tidegate_consistency = 'STRONG'")
                assert value(other, read) == value(direct, read), statements
        assert "left_out" in str(shown(running)[0]["filters"])
        assert running.stderr.count("does not log everything") == 1


MODES = ("ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")


def test_what_is_written_while_gtid_mode_is_turned_off_is_seen(
    cluster: Cluster, proxy: StartProxy, filtered_table: None
) -> None:
    """No monitor looks meanwhile: the first answer that names nothing leads to the question."""
    primary = cluster.primary
    running = proxy(monitor_interval="60s")
    with (
        closing(running.connect()) as alone,
        closing(running.connect()) as writer,
        closing(running.connect()) as other,
        closing(primary.connect()) as direct,
    ):
        for session in (alone, writer, other):
            if session is not alone:
                run(session, "SET tidegate_scope = 'user'")
            run(session, "UPDATE filtered SET n = n + 1")
            cluster.wait_caught_up()
            assert role(session, SUM) == "replica"
        for mode in MODES[1:]:
            primary.query(f"SET GLOBAL gtid_mode = {mode}")
        try:
            for session in (alone, writer):
                run(session, "UPDATE filtered SET n = n + 1")
            for session in (alone, writer, other) * 2:
                assert value(session, SUM) == value(direct, SUM)
            assert running.metric("tidegate_unlogged_writes_total") > 0
        finally:
            for mode in MODES[-2::-1]:
                primary.query(f"SET GLOBAL gtid_mode = {mode}")
        running.connect().close()  # a login asks for the mode
        for session in (alone, writer, other):
            assert value(session, SUM) == value(direct, SUM)
            assert role(session, SUM) == "primary"


def test_a_restarted_replica_has_its_memory_tables_empty(cluster: Cluster) -> None:
    """Under the same GTIDs: nothing that Tidegate asks for shows it."""
    primary, replica = cluster.primary, cluster.replicas[0]
    primary.query("CREATE TABLE app.fleeting (a INT) ENGINE=MEMORY")
    primary.query("INSERT INTO app.fleeting VALUES (1), (2)")
    cluster.wait_caught_up()
    replica.restart()
    try:
        assert replica.value("SELECT COUNT(*) FROM app.fleeting") == "0"
        assert replica.value("SELECT @@GLOBAL.super_read_only") == "1"
        has_all = "SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)"
        assert replica.value(has_all, primary.gtid_executed) == "1"
        assert replica.server_uuid in replica.gtid_executed  # it has logged a TRUNCATE of its own
        assert primary.value("SELECT COUNT(*) FROM app.fleeting") == "2"
    finally:
        cluster.create()


def test_a_replica_makes_tables_without_some_of_a_sessions_variables(cluster: Cluster) -> None:
    """Under the same GTIDs: its rows are the same, and what is found is not."""
    primary, replica = cluster.primary, cluster.replicas[0]
    with closing(primary.admin("app")) as session:
        for sql in (
            "SET innodb_ft_enable_stopword = OFF",
            "CREATE TABLE worded (a TEXT, FULLTEXT KEY (a)) ENGINE = InnoDB",
            "INSERT INTO worded VALUES ('the who')",
            "SET default_storage_engine = BLACKHOLE",
            "CREATE TABLE swallowed (a INT)",
            "INSERT INTO swallowed VALUES (1)",
        ):
            run(session, sql)
    cluster.wait_caught_up()
    for sql, expected in (
        ("SELECT COUNT(*) FROM app.worded WHERE MATCH (a) AGAINST ('the')", ["1", "0"]),
        ("SELECT COUNT(*) FROM app.swallowed", ["0", "1"]),
    ):
        assert [server.value(sql) for server in (primary, replica)] == expected, sql
