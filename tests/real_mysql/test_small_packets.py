"""Servers that take no packet of more than 1024 bytes, the least that max_allowed_packet can be."""

from __future__ import annotations  # Connection is generic for the type checker only

import pymysql

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.statements import run


def test_what_the_proxy_sends_itself_is_short_enough(cluster: Cluster, proxy: StartProxy) -> None:
    cluster.primary.query("CREATE TABLE app.small AS SELECT 1 AS a")
    cluster.wait_caught_up()
    for server in cluster.servers:
        # Packets of up to net_buffer_length are taken in any case.
        server.query("SET GLOBAL net_buffer_length = 1024")
        server.query("SET GLOBAL max_allowed_packet = 1024")
    running = proxy(wait_budget="10s")
    with running.connect() as session:
        assert run(session, "SELECT a FROM small") == [(1,)]
        run(session, "INSERT INTO small VALUES (2)")
        assert run(session, "SELECT MAX(a) FROM small") == [(2,)]
        # Trackers tell of variables, and they are told to replicas, in parts.
        run(session, "SET @zone = '+09:00'")
        run(session, "SET time_zone = @zone")
        for name in ("lc_time_names", "lc_messages", "sql_mode", "character_set_results"):
            run(session, f"SET @@{name} = DEFAULT")
        names = [f"n{number}" for number in range(4)]
        for name in names:
            run(session, f"SET @{name} = '{name * 200}'")
        read = "SELECT FROM_UNIXTIME(0) = '1970-01-01 09:00:00', LENGTH(@n0), LENGTH(@n1),"
        read += " LENGTH(@n2), LENGTH(@n3) FROM small LIMIT 1"
        assert run(session, read) == [(1, 400, 400, 400, 400)]
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW TIDEGATE LAST")
            (last,) = cursor.fetchall()
        assert last["role"] == "replica"
        # The settings are made again, behind what may have undone them.
        run(session, "SET session_track_gtids = OFF")
        run(session, "SET session_track_system_variables = 'time_zone'")
        run(session, "INSERT INTO small VALUES (3)")
        assert run(session, "SELECT MAX(a) FROM small") == [(3,)]
        run(session, "SET time_zone = DEFAULT")


def test_a_limit_that_is_lowered_while_the_proxy_runs(cluster: Cluster, proxy: StartProxy) -> None:
    """The settings of the next login are as long as was allowed for the last one."""
    running = proxy()
    running.connect().close()
    for server in cluster.servers:
        server.query("SET GLOBAL net_buffer_length = 1024")
        server.query("SET GLOBAL max_allowed_packet = 1024")
    for _ in range(3):
        with running.connect() as session:
            assert run(session, "SELECT @@max_allowed_packet") == [(1024,)]
            assert len(run(session, "SELECT @@session_track_system_variables")) == 1
