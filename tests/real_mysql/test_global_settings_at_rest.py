"""SET GLOBAL while a session has no connection: it must not notice, as one that has one does not.

Each variable that a session shows has its turn: its global value is changed while a session rests,
and the session then has the value that a direct session from before has.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from protocol.response import ErrPacket
from protocol.resultset import parse_text_row
from proxy.client.statements.saved_state import VALUE_NAMES
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_borrowing import RESTING
from tests.real_mysql.test_kept_connections import Client
from tests.support.waiting import eventually

NAMES = VALUE_NAMES[1:]
NO_SESSION_SETS = {"max_allowed_packet"}
"""Read only in sessions (1621)."""
RESTRICTED = {
    *("binlog_format", "binlog_row_image", "binlog_row_value_options"),
    *("binlog_rows_query_log_events", "bulk_insert_buffer_size", "character_set_filesystem"),
    *(
        "connection_memory_limit",
        "default_table_encryption",
        "innodb_strict_mode",
        "internal_tmp_mem_storage_engine",
    ),
    *("low_priority_updates", "max_error_count", "sql_generate_invisible_primary_key"),
    *("sql_require_primary_key", "parser_max_mem_size", "xa_detach_on_prepare"),
}
"""Those that need SESSION_VARIABLES_ADMIN, or do to be more than the global value."""
OTHERS = {
    "binlog_format": "'STATEMENT'",
    "binlog_row_image": "'MINIMAL'",
    "binlog_row_value_options": "'PARTIAL_JSON'",
    "block_encryption_mode": "'aes-256-cbc'",
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "character_set_filesystem": "latin1",
    "character_set_results": "latin1",
    "character_set_server": "latin1",
    "collation_connection": "latin1_bin",
    "collation_database": "latin1_bin",
    "collation_server": "latin1_bin",
    "completion_type": "'CHAIN'",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    "default_storage_engine": "'MyISAM'",
    "default_tmp_storage_engine": "'MyISAM'",
    "explain_format": "'TREE'",
    "internal_tmp_mem_storage_engine": "'MEMORY'",
    "lc_messages": "'de_DE'",
    "lc_time_names": "'de_DE'",
    "max_execution_time": "3600000",  # one millisecond ends statements on a busy machine
    "optimizer_switch": "'mrr=off,index_merge=off'",
    "optimizer_trace": "'enabled=on'",
    "session_track_system_variables": "'sql_mode'",
    "session_track_transaction_info": "'STATE'",
    "sql_mode": "'ANSI_QUOTES'",
    "time_zone": "'+07:00'",
    "transaction_isolation": "'READ-COMMITTED'",
}
USERS = {"sharer": NO_SESSION_SETS, "plain": NO_SESSION_SETS | RESTRICTED}


@pytest.fixture(scope="module", autouse=True)
def _accounts(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    for user in USERS:
        primary.query(f"CREATE USER {user}@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO sharer@'%'")
    primary.query("GRANT ALL ON app.* TO plain@'%'")
    cluster.wait_caught_up()
    yield
    for user in USERS:
        primary.query(f"DROP USER {user}@'%'")


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy(
        replicas=None,
        connection_sharing_delay="100ms",
        kept_connection_age="1ms",  # each session logs in on a new connection
        server_tls="disabled",
    )


def change(primary: RealServer, name: str) -> bool:
    """Give a variable another global value; whether there is one."""
    old = primary.value(f"SELECT @@GLOBAL.{name}")
    if name in OTHERS:
        candidates = [OTHERS[name]]
    else:
        number = int(float(old)) if old.replace(".", "").isdigit() else 0
        candidates = [str(n) for n in (1 - number, number // 2, number * 2, number + 1) if n >= 0]
    for candidate in candidates:
        try:
            primary.query(f"SET GLOBAL {name} = {candidate}")
        except pymysql.Error:
            continue  # it is out of range
        if primary.value(f"SELECT @@GLOBAL.{name}") != old:
            return True
    return False


def names_with_global_values(primary: RealServer) -> list[str]:
    found = "SELECT COUNT(*) FROM performance_schema.global_variables WHERE variable_name = %s"
    return [name for name in NAMES if primary.value(found, name) == "1"]


@pytest.mark.parametrize("user", USERS)
def test_a_session_that_rests_does_not_notice(
    running: RunningProxy, cluster: Cluster, user: str
) -> None:
    primary = cluster.primary
    names = names_with_global_values(primary)
    direct = primary.connect(user, "a").cursor()
    clients = {name: Client(running, user, "a") for name in names}
    before = {name: client.rows(f"SELECT @@SESSION.{name}") for name, client in clients.items()}
    for client in clients.values():
        client.value("SELECT 1")  # a warning that a variable is deprecated keeps a connection
    eventually(lambda: running.metric(RESTING) == len(clients))
    same: set[str] = set()
    other: set[str] = set()
    ended: dict[str, str] = {}
    for name, client in clients.items():
        direct.execute(f"SELECT @@SESSION.{name}")
        own = direct.fetchall()
        try:
            changed = change(primary, name)
            if changed:
                packets = client.query(f"SELECT @@SESSION.{name}")
                last = packets[-1][1]
                if last[0] == 0xFF:
                    ended[name] = ErrPacket.parse(last).message
                else:
                    row = parse_text_row(packets[-2][1])
                    (same if [row] == before[name] else other).add(name)
            direct.execute(f"SELECT @@SESSION.{name}")
            assert direct.fetchall() == own
        finally:
            primary.query(f"SET GLOBAL {name} = DEFAULT")
    assert ended == {}
    assert other == USERS[user]
    assert len(same | other) > 80, sorted(set(names) - same - other)
