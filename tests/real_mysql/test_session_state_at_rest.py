"""What statements leave in a session is still there after a rest, as on a direct connection.

Each statement has a session of its own, through the proxy and beside it. All of them rest, or keep
their connection, before they are asked what they have.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.test_borrowing import GIVEN_BACK, KEPT
from tests.real_mysql.test_kept_connections import Client
from tests.support.waiting import eventually

Statements = tuple[str, ...]

SETTINGS = (
    "auto_increment_increment = 3",
    "big_tables = 1",
    "block_encryption_mode = 'aes-256-ecb'",
    "character_set_results = NULL",
    "completion_type = 1",
    "cte_max_recursion_depth = 7",
    "default_storage_engine = 'MyISAM'",
    "default_week_format = 3",
    "div_precision_increment = 9",
    "enable_cascade_triggers = OFF",
    "explicit_defaults_for_timestamp = 0",
    "foreign_key_checks = 0",
    "group_concat_max_len = 9",
    "gtid_next = 'AUTOMATIC:tag'",
    "innodb_lock_wait_timeout = 7",
    "insert_id = 50",
    "join_buffer_size = 131072",
    "last_insert_id = 77",
    "lc_time_names = 'de_DE'",
    "lock_wait_timeout = 9",
    "max_execution_time = 900000",
    "max_join_size = 99999999",
    "max_sort_length = 100",
    "optimizer_switch = 'mrr=off'",
    "optimizer_trace = 'enabled=on'",
    "profiling = 1",
    "pseudo_replica_mode = 0",
    "pseudo_thread_id = 99999",
    "rand_seed1 = 5",
    "resultset_metadata = FULL",
    "session_track_gtids = OFF",
    "session_track_transaction_info = STATE",
    "sort_buffer_size = 65536",
    "sql_auto_is_null = 1",
    "sql_big_selects = 0",
    "sql_log_bin = 0",
    "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "sql_notes = 0",
    "sql_quote_show_create = 0",
    "sql_safe_updates = 1",
    "sql_select_limit = 100",
    "sql_warnings = 1",
    "time_zone = '-03:00'",
    "timestamp = 100",
    "transaction_isolation = 'SERIALIZABLE'",
    "transaction_read_only = 1",
    "unique_checks = 0",
    "updatable_views_with_limit = 0",
    "wait_timeout = 900",
    "windowing_use_high_precision = 0",
)
"""Variables of a session, of each kind."""

LEAVING: dict[str, Statements] = {
    **{setting.partition(" ")[0]: (f"SET SESSION {setting}",) for setting in SETTINGS},
    "a user variable": ("SET @a = 5, @b = 'text'",),
    "one by INTO": ("SELECT 7 INTO @a",),
    "an insert": ("INSERT INTO app.of_{side} (n) VALUES (1)",),
    "an insert and a read": ("INSERT INTO app.of_{side} (n) VALUES (2)", "SELECT 1"),
    "LAST_INSERT_ID(x)": ("SELECT LAST_INSERT_ID(41)",),
    "a warning": ("SELECT CAST('a' AS SIGNED)",),
    "an error": ("SELECT no_such_column",),
    "a temporary table": ("CREATE TEMPORARY TABLE app.passing SELECT 5 AS n",),
    "PREPARE": ("PREPARE p FROM 'SELECT 8'",),
    "HANDLER": ("HANDLER app.of_{side} OPEN AS h",),
    "LOCK TABLES": ("LOCK TABLES app.locked READ",),
    "a transaction": ("START TRANSACTION", "INSERT INTO app.of_{side} (n) VALUES (3)"),
    "a snapshot": ("START TRANSACTION WITH CONSISTENT SNAPSHOT",),
    "autocommit": ("SET autocommit = 0", "SELECT COUNT(*) FROM app.of_{side}"),
    "the next transaction": ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED",),
    "XA": ("XA START '{side}'",),
    "SET ROLE": ("SET ROLE ALL",),
    "SET NAMES": ("SET NAMES utf8mb4 COLLATE utf8mb4_bin",),
    "SET CHARACTER SET": ("SET CHARACTER SET latin1",),
    "USE": ("USE information_schema",),
    "FLUSH STATUS": ("FLUSH STATUS",),
    "SHOW STATUS": ("SHOW SESSION STATUS LIKE 'Questions'",),
    "SET RESOURCE GROUP": ("SET RESOURCE GROUP USR_default",),
    "a procedure": ("CALL app.sets()",),
    "several statements": ("SELECT 1; SET @a = 6",),
    "SET PERSIST": ("SET PERSIST_ONLY max_error_count = 1024", "RESET PERSIST max_error_count"),
}
PROBES = (
    "SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID(), @@warning_count, @@error_count",
    "SHOW WARNINGS",
    "SELECT @a, @b, DATABASE(), USER(), CURRENT_USER(), CURRENT_ROLE(), @@identity",
    *(f"SELECT @@SESSION.{setting.partition(' ')[0]}" for setting in SETTINGS),
    "SELECT @@autocommit, @@character_set_client, @@character_set_connection,"
    " @@character_set_results, @@collation_connection, @@session_track_schema",
    "SELECT * FROM app.passing",
    "EXECUTE p",
    "HANDLER h READ FIRST",
    "SHOW SESSION STATUS LIKE 'Com_set_option'",
    "SELECT IS_USED_LOCK('of no session')",
)
UNLIKE = {
    "SELECT @@SESSION.session_track_gtids",
    "SELECT @@SESSION.insert_id",
    "SELECT @@SESSION.pseudo_thread_id",
    "SELECT @@SESSION.rand_seed1",
    "SELECT @@SESSION.timestamp",
    "SHOW SESSION STATUS LIKE 'Com_set_option'",
}
"""Of these, what the proxy's own statements show in, and which is asked where it matters."""


@pytest.fixture(scope="module", autouse=True)
def _state(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    primary.query("CREATE USER stateful@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO stateful@'%'")
    for table in ("of_shared", "of_direct", "locked"):
        primary.query(f"CREATE TABLE app.{table} (id INT PRIMARY KEY AUTO_INCREMENT, n INT)")
    primary.query("CREATE PROCEDURE app.sets() SET @a = 9")
    cluster.wait_caught_up()
    yield
    primary.query("DROP USER stateful@'%'")


def test_a_session_has_what_it_had(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(
        replicas=None,
        connection_sharing_delay="100ms",
        kept_connection_age="1ms",  # each session comes back on a new connection
        server_tls="disabled",
    )
    sessions: dict[str, dict[str, Client]] = {}
    for state, statements in LEAVING.items():
        sessions[state] = sides = {
            "shared": Client(running, "stateful", "a"),
            "direct": Client(cluster.primary, "stateful", "a"),
        }
        for side, client in sides.items():
            for sql in ("SELECT 1", *statements):
                client.query(sql.format(side=side))
    eventually(lambda: running.metric(GIVEN_BACK) + running.metric(KEPT) >= len(sessions))
    different = []
    for state, sides in sessions.items():
        for probe in PROBES:
            found = [
                [payload for _, payload in client.query(probe.format(side=side))]
                for side, client in sides.items()
            ]
            if found[0] != found[1] and probe not in UNLIKE:
                different.append((state, probe, *(packets[-2:-1] for packets in found)))
    for sides in sessions.values():
        for client in sides.values():
            client.close()
    assert different == []
    assert running.metric(GIVEN_BACK) >= 15
