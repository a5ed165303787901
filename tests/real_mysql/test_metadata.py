"""SHOW and information_schema are the primary's, EXPLAIN goes where its statement would."""

from __future__ import annotations

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.test_read_only_transactions import served

METADATA = (
    *("SHOW TABLES", "SHOW COLUMNS FROM counted", "SHOW INDEX FROM counted", "SHOW DATABASES"),
    *("SHOW TABLE STATUS", "SHOW CREATE TABLE counted", "DESCRIBE counted", "DESC counted n"),
    *("EXPLAIN counted", "SHOW COLLATION LIKE 'utf8mb4_bin'", "SHOW TRIGGERS", "SHOW CHARSET"),
    "SELECT table_rows FROM information_schema.tables WHERE table_name = 'counted'",
    "SELECT * FROM `information_schema`.`COLUMNS` JOIN counted ON n = ordinal_position",
    "TABLE information_schema.schemata",
    "EXPLAIN SELECT * FROM information_schema.tables",
    "SELECT * FROM sizes",
    "SELECT COUNT(*) FROM counted JOIN bigger ON n = table_rows",
    "SHOW TABLES WHERE @a IS NULL",
)
PRIMARY_ALONE = (
    "SHOW STATUS",
    "SELECT * FROM performance_schema.session_status LIMIT 1",
    "EXPLAIN DELETE FROM counted",
    "EXPLAIN UPDATE counted SET n = 1",
)
PLANS = (
    *("EXPLAIN SELECT * FROM counted", "EXPLAIN ANALYZE SELECT * FROM counted"),
    *("EXPLAIN FORMAT=JSON TABLE counted", "DESC SELECT * FROM counted WHERE n = @a"),
)


@pytest.fixture
def counted(cluster: Cluster) -> Cluster:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.counted (n INT)")
    cluster.primary.query(
        "CREATE OR REPLACE VIEW app.sizes AS SELECT table_name, table_rows"
        " FROM information_schema.tables WHERE table_schema = 'app'"
    )
    cluster.primary.query(
        "CREATE OR REPLACE VIEW app.bigger AS SELECT * FROM app.sizes WHERE table_rows > 1"
    )
    cluster.wait_caught_up()
    return cluster


@pytest.mark.parametrize(
    ("options", "metadata", "plans"),
    [
        ({}, True, False),
        ({"metadata_reads": "replica"}, False, False),
        ({"explain": "primary"}, True, True),
    ],
)
def test_where_they_go(
    counted: Cluster,
    proxy: StartProxy,
    options: dict[str, str],
    metadata: bool,
    plans: bool,
) -> None:
    running = proxy(**options)
    primary = counted.primary.address
    places = dict.fromkeys(METADATA, metadata) | dict.fromkeys(PLANS, plans)
    places |= dict.fromkeys(PRIMARY_ALONE, True)
    with running.connect() as client:
        for sql, expected in places.items():
            client.query(sql)
            assert (served(client) == primary) is expected, sql
            client.query("SELECT * FROM counted")
            assert served(client) != primary, sql


def test_a_read_only_transaction_keeps_its_replica(counted: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client:
        client.query("START TRANSACTION READ ONLY")
        for sql in ("SHOW TABLES", "DESCRIBE counted"):
            client.query(sql)
            assert served(client) == counted.primary.address
        client.query("SELECT * FROM counted")
        assert served(client) != counted.primary.address
    assert running.metric("tidegate_snapshots_split_total") == 0


def test_who_counts_from_nothing_is_shown_what_one_server_counted(
    counted: Cluster, proxy: StartProxy
) -> None:
    """FLUSH STATUS keeps the session where its counters are, until it is reset."""
    counted.primary.query("CREATE USER counter IDENTIFIED BY 'counts'")
    counted.primary.query("GRANT SELECT, FLUSH_STATUS ON *.* TO counter")
    counted.wait_caught_up()
    running = proxy()
    shown = []
    for server in (counted.primary, running):
        client = server.connect("counter", "counts")
        with client, client.cursor() as cursor:
            cursor.execute("SELECT n FROM app.counted")
            cursor.execute("FLUSH STATUS")
            for _ in range(3):
                cursor.execute("SELECT n FROM app.counted")
            cursor.execute("SHOW STATUS LIKE 'Handler_read%'")
            shown.append(cursor.fetchall())
            if len(shown) == 2:
                assert served(client) == counted.primary.address
                client._execute_command(0x1F, b"")  # COM_RESET_CONNECTION
                client._read_ok_packet()
                cursor.execute("SELECT n FROM app.counted")
                assert served(client) != counted.primary.address
    assert shown[0] == shown[1]
    assert any(int(value) for _, value in shown[0])
