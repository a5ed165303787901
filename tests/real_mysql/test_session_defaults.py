"""Servers whose sessions begin with other values: a session reads everywhere as on the primary."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from protocol.authentication import CACHING_SHA2, ClientAuthentication
from protocol.command import ComChangeUser
from protocol.constants import Command
from protocol.packet import frame
from protocol.response_stream import FETCHED, PREPARED, SIMPLE
from proxy.shared.client_profile import ALIKE
from routing.session.defaults import NAMES
from routing.session.variables import (
    CARRIED,
    ISOLATION,
    NOT_CARRIED,
    OF_SERVERS,
    PINNING,
    TRACKING,
)
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_borrowing import rests
from tests.real_mysql.test_kept_connections import CAPABILITIES, Client, kept
from tests.support.waiting import eventually

USER = "anybody"
LONG = "1h"


def words(text: str) -> set[str]:
    return set(text.split())


OTHER = {
    "block_encryption_mode": "'aes-256-cbc'",
    "character_set_client": "'latin1'",
    "character_set_filesystem": "'latin1'",
    "character_set_results": "'latin2'",
    "collation_connection": "'utf8mb4_general_ci'",
    "collation_server": "'latin1_german2_ci'",
    "cte_max_recursion_depth": "5",
    "default_collation_for_utf8mb4": "'utf8mb4_general_ci'",
    "default_week_format": "3",
    "div_precision_increment": "7",
    "end_markers_in_json": "1",
    "eq_range_index_dive_limit": "50",
    "explain_format": "'TRADITIONAL'",
    "explain_json_format_version": "1",
    "group_concat_max_len": "17",
    "information_schema_stats_expiry": "100",
    "innodb_ft_enable_stopword": "0",
    "lc_messages": "'de_DE'",
    "lc_time_names": "'de_DE'",
    "lock_wait_timeout": "1000",
    "max_error_count": "10",
    "max_execution_time": "20000",
    "max_join_size": "1000000",
    "max_points_in_geometry": "100",
    "max_seeks_for_key": "100",
    "max_sort_length": "100",
    "optimizer_prune_level": "0",
    "optimizer_search_depth": "3",
    "optimizer_switch": "'mrr=off,hash_join=off'",
    "print_identified_with_as_hex": "1",
    "range_optimizer_max_mem_size": "1000000",
    "show_create_table_verbosity": "1",
    "show_gipk_in_create_table_and_information_schema": "0",
    "sql_big_selects": "0",
    "sql_buffer_result": "1",
    "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "sql_notes": "0",
    "sql_quote_show_create": "0",
    "sql_safe_updates": "1",
    "sql_select_limit": "3",
    "terminology_use_previous": "'BEFORE_8_0_26'",
    "time_zone": "'+02:00'",
    "transaction_isolation": "'READ-COMMITTED'",
    "windowing_use_high_precision": "0",
}
"""Another value of each that is carried."""

KEEPING = {
    "optimizer_trace": "'enabled=on'",
    "profiling": "1",
    "sql_auto_is_null": "1",
}
"""Such as keep a session on the primary."""

OF_NO_CONSEQUENCE = words(
    """binlog_direct_non_transactional_updates binlog_transaction_compression
    binlog_transaction_compression_level_zstd character_set_connection character_set_database
    character_set_server collation_database connection_memory_chunk_size connection_memory_limit
    debug debug_sync enable_cascade_triggers enable_secondary_engine_statistics error_count
    external_table_secondary_storage_engine external_table_storage_engine external_user
    generated_random_password_length global_connection_memory_tracking
    group_replication_consistency gtid_owned histogram_generation_max_mem_size
    immediate_server_version innodb_ddl_buffer_size innodb_ddl_threads
    innodb_ft_user_stopword_table innodb_parallel_read_threads innodb_table_locks innodb_tmpdir
    keep_files_on_create max_allowed_packet max_delayed_threads max_insert_delayed_threads
    max_length_for_sort_data max_sp_recursion_depth max_user_connections min_examined_row_limit
    myisam_sort_buffer_size myisam_stats_method net_buffer_length net_retry_count old_alter_table
    optimizer_max_subgraph_pairs optimizer_trace_features optimizer_trace_limit
    optimizer_trace_max_mem_size optimizer_trace_offset original_commit_timestamp
    original_server_version parser_max_mem_size preload_buffer_size profiling_history_size
    proxy_user pseudo_thread_id query_alloc_block_size query_prealloc_size rand_seed1 rand_seed2
    range_alloc_block_size rbr_exec_mode require_row_format restrict_fk_on_non_standard_key
    resultset_metadata secondary_engine_cost_threshold select_into_buffer_size
    select_into_disk_sync select_into_disk_sync_delay set_operations_buffer_size
    show_create_table_skip_secondary_engine sql_log_off statement_id timestamp
    transaction_alloc_block_size transaction_allow_batching transaction_prealloc_size
    use_secondary_engine warning_count"""
)
"""Session variables that change no answer of a read on a replica, or that no session can set, or
whose values follow from others."""

READ = "SELECT COUNT(*) FROM numbers"
THREADS = (
    "SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = %s"
    " AND NAME = 'thread/sql/one_connection'"
)
READER = (
    "SELECT PROCESSLIST_ID FROM performance_schema.threads"
    " JOIN performance_schema.events_statements_history USING (THREAD_ID)"
    " WHERE PROCESSLIST_USER = %s AND SQL_TEXT = %s ORDER BY TIMER_START DESC LIMIT 1"
)
VALUES = (
    "SELECT LOWER(VARIABLE_NAME), VARIABLE_VALUE FROM performance_schema.variables_by_thread"
    " JOIN performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_ID = %s"
)


def test_every_session_variable_of_the_server_is_known(cluster: Cluster) -> None:
    """A new one has to be looked at: it may decide what reads answer."""
    found = cluster.primary.query(
        "SELECT LOWER(VARIABLE_NAME) FROM performance_schema.variables_by_thread"
        " JOIN performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_ID = CONNECTION_ID()"
    )
    known = CARRIED | NOT_CARRIED | TRACKING | set(PINNING) | OF_NO_CONSEQUENCE
    assert {name for (name,) in found} - known == set()
    compared = set(NAMES) - set(KEEPING) - {"system_time_zone"}
    assert set(OTHER) == compared | {ISOLATION}
    assert compared.isdisjoint(OF_SERVERS)


@pytest.fixture(scope="module", autouse=True)
def _data(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    primary.query("CREATE TABLE app.numbers (id INT PRIMARY KEY)")
    primary.query("INSERT INTO app.numbers VALUES (1), (2), (3), (4), (5)")
    primary.query(f"CREATE USER {USER}@'%' IDENTIFIED BY 'a'")
    primary.query(f"GRANT ALL ON *.* TO {USER}@'%'")
    primary.query("CREATE USER meek@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT SELECT, INSERT ON app.* TO meek@'%'")
    cluster.wait_caught_up()
    yield
    primary.query(f"DROP USER {USER}@'%', meek@'%'")


@pytest.fixture
def begin_with(cluster: Cluster) -> Iterator[Callable[[RealServer, dict[str, str]], None]]:
    """Changes what a server's sessions begin with; afterwards all begin with MySQL's defaults."""
    changed: list[tuple[RealServer, str]] = []

    def begin(server: RealServer, values: dict[str, str]) -> None:
        for name, literal in values.items():
            changed.append((server, name))
            server.query(f"SET GLOBAL {name} = {literal}")

    yield begin
    for server, name in changed:
        server.query(f"SET GLOBAL {name} = DEFAULT")


class Direct(Client):
    """A connection to a server itself."""

    def __init__(self, server: RealServer, user: str) -> None:
        RawClient.__init__(self, server.address, user, "a", CAPABILITIES, "app", attributes={})


def client_of(running: RunningProxy) -> Client:
    return Client(running, USER, "a")


def reset(client: Client) -> None:
    client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)


def change_user(client: Client, character_set: int = 255, user: str = USER) -> None:
    """COM_CHANGE_USER; ConnectionRefusedError if the server refuses it."""
    authentication = ClientAuthentication(b"a", CACHING_SHA2, bytes(20), secure=False)
    command = ComChangeUser(user, b"", "app", character_set, CACHING_SHA2, {})
    client.send_bytes(frame(command.serialise(client.capabilities), 0))
    while True:
        sequence_id, payload = client.read()
        if payload[0] == 0xFF:
            raise ConnectionRefusedError(payload[9:])
        if payload[0] == 0:
            return
        reply = authentication.receive(payload)
        if reply is not None:
            client.send_bytes(frame(reply, sequence_id + 1))


def on_replica(client: Client, sql: str = READ) -> list[list[bytes | None]]:
    """The rows of a read that is known to have run on a replica."""
    rows = client.rows(sql)
    assert served(client) == "replica"
    return rows


def served(client: Client) -> str:
    """The role of the server that ran the last statement."""
    packets = [payload for _, payload in client.query("SHOW TIDEGATE LAST")]
    text = b" ".join(packets)
    return "primary" if b"\x07primary" in text else "replica"


def values_on(server: RealServer, thread_id: int) -> dict[object, object]:
    return dict(server.query(VALUES, thread_id))


def of_replica(client: Client, replica: RealServer) -> dict[object, object]:
    """The variables of the connection to a replica that has read last; others may be kept.

    It has read for this client just now, or reads once more if it has been given back meanwhile.
    """

    def found() -> dict[object, object]:
        threads = replica.query(READER, USER, READ)
        values = values_on(replica, int(str(threads[0][0]))) if threads else {}
        if not values:
            on_replica(client)
        return values

    return eventually(found)


def reads_with(client: Client, replica: RealServer, expected: dict[object, object]) -> bool:
    """Whether a read has these values on a replica, if it is looked at before it is given back."""
    on_replica(client)
    threads = replica.query(READER, USER, READ)
    found = values_on(replica, int(str(threads[0][0]))) if threads else {}
    return all(found.get(name) == expected[name] for name in set(OTHER) & expected.keys())


def same(expected: dict[object, object], found: dict[object, object]) -> None:
    names = set(OTHER) & expected.keys()
    assert {name: found.get(name) for name in names} == {name: expected[name] for name in names}


SIDES = ("primary", "replica")


@pytest.fixture
def replica(cluster: Cluster) -> RealServer:
    return cluster.replicas[0]


@pytest.fixture
def side(request: pytest.FixtureRequest, cluster: Cluster) -> RealServer:
    return cluster.primary if request.param == "primary" else cluster.replicas[0]


def expected_of(cluster: Cluster, client: Client) -> dict[object, object]:
    """What the client's own session has on the primary."""
    return values_on(cluster.primary, int(client.value("SELECT CONNECTION_ID()") or 0))


def fresh(running: RunningProxy) -> Client:
    return client_of(running)


def was_reset(running: RunningProxy) -> Client:
    client = client_of(running)
    on_replica(client)
    reset(client)
    return client


def was_reset_after_settings(running: RunningProxy) -> Client:
    client = client_of(running)
    client.rows("SET time_zone = '+05:00', sql_mode = '', group_concat_max_len = 5")
    client.rows("SET NAMES latin1, optimizer_switch = 'skip_scan=off'")
    on_replica(client)
    reset(client)
    return client


def was_changed(running: RunningProxy) -> Client:
    client = client_of(running)
    client.rows("SET time_zone = '+05:00'")
    on_replica(client)
    change_user(client)
    return client


def set_to_default(running: RunningProxy) -> Client:
    client = client_of(running)
    on_replica(client)
    for name in OTHER:
        client.rows(f"SET {name} = DEFAULT")
    return client


POSITIONS = (fresh, was_reset, was_reset_after_settings, was_changed, set_to_default)


@pytest.mark.parametrize("side", SIDES, indirect=True)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("lending", ["login", "kept", "lent"])
def test_a_read_on_a_replica_has_what_a_session_on_the_primary_begins_with(
    cluster: Cluster,
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    replica: RealServer,
    side: RealServer,
    position: Callable[[RunningProxy], Client],
    lending: str,
) -> None:
    begin_with(side, OTHER)
    running = proxy(
        replicas=replica.address,
        kept_connections="0" if lending == "login" else None,
        login_age=LONG if lending == "lent" else "0",
        server_tls="disabled",
    )
    if lending != "login":
        for _ in range(ALIKE):
            with client_of(running) as client:
                on_replica(client)
                client.quit()
            eventually(lambda: kept(running, replica) > 0)
    client = position(running)
    on_replica(client)
    same(expected_of(cluster, client), of_replica(client, replica))
    client.close()


@pytest.mark.parametrize("changed", ["primary", "replica", "both"])
@pytest.mark.parametrize("lending", ["login", "kept", "lent", "shared"])
def test_a_new_session_begins_with_values_that_changed_while_its_connections_were_kept(
    cluster: Cluster,
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    replica: RealServer,
    changed: str,
    lending: str,
) -> None:
    """Wherever it reads, as its own session on the primary; a lent login may be as old as that."""
    running = proxy(
        replicas=replica.address,
        kept_connections="0" if lending == "login" else None,
        kept_connection_age=LONG,
        login_age=LONG if lending in ("lent", "shared") else "0",
        connection_sharing="on" if lending == "shared" else None,
        connection_sharing_delay="50ms" if lending == "shared" else None,
        server_tls="disabled",
    )
    for _ in range(ALIKE):
        with client_of(running) as client:
            on_replica(client)
            client.quit()
        if lending != "login":
            eventually(lambda: kept(running, replica) > 0 and kept(running, cluster.primary) > 0)
    open_meanwhile = client_of(running)
    on_replica(open_meanwhile)
    for server in (cluster.primary, replica):
        if changed in ("both", "primary" if server is cluster.primary else "replica"):
            begin_with(server, OTHER)
    open_meanwhile.quit()
    for _ in range(3):
        with client_of(running) as client:
            on_replica(client)
            zone = client.value("SELECT @@time_zone")
            hour = client.value("SELECT FROM_UNIXTIME(COUNT(*) - 5) FROM numbers")
            assert served(client) == "replica"
            assert (zone, hour) in (
                (b"SYSTEM", b"1970-01-01 00:00:00"),
                (b"+02:00", b"1970-01-01 02:00:00"),
            )
            if changed == "replica" or lending in ("login", "kept"):
                assert zone == (b"SYSTEM" if changed == "replica" else b"+02:00")
            expected = expected_of(cluster, client)  # from now on it keeps its connections
            on_replica(client)
            same(expected, of_replica(client, replica))
            client.quit()


@pytest.mark.parametrize("side", SIDES, indirect=True)
def test_open_sessions_keep_what_they_began_with(
    cluster: Cluster,
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    replica: RealServer,
    side: RealServer,
) -> None:
    """And begin anew, on each server, when they are reset."""
    running = proxy(replicas=replica.address, kept_connections="0", server_tls="disabled")
    client, untouched = client_of(running), client_of(running)
    on_replica(untouched)
    client.rows("SET time_zone = '+05:00'")
    on_replica(client)
    begin_with(side, OTHER)
    on_replica(client)
    same(expected_of(cluster, client), of_replica(client, replica))
    reset(client)
    client.rows(READ)  # where the replica begins otherwise than it was known to, elsewhere
    on_replica(client)
    same(expected_of(cluster, client), of_replica(client, replica))
    client.quit()
    eventually(lambda: len(replica.query(THREADS, USER)) == 1)
    reset(untouched)
    on_replica(untouched)
    same(expected_of(cluster, untouched), of_replica(untouched, replica))
    untouched.close()


@pytest.mark.parametrize("side", SIDES, indirect=True)
def test_a_session_that_had_no_connection_goes_on_as_it_began(
    cluster: Cluster,
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    replica: RealServer,
    side: RealServer,
) -> None:
    running = proxy(
        replicas=replica.address,
        connection_sharing="on",
        connection_sharing_delay="50ms",
        login_age=LONG,
        server_tls="disabled",
    )
    client = client_of(running)
    began = values_on(cluster.primary, client.greeting.thread_id)  # a question would keep it
    begin_with(side, OTHER)
    # By now it may have no connection any more, and the read then needs none.
    client.rows("SELECT 1")
    rests(running)
    # An idle session gives its connection to the replica back, too, and that is reset.
    eventually(lambda: reads_with(client, replica, began))
    client.rows("INSERT INTO numbers VALUES (100)")
    client.rows("DELETE FROM numbers WHERE id = 100")
    client.close()


def collations(server: RealServer) -> list[int]:
    found = server.query("SELECT ID FROM information_schema.COLLATIONS ORDER BY ID")
    return [int(str(identifier)) for (identifier,) in found]


SETS = (
    "SELECT 'e' = 'E', 'é' = 'e', COLLATION('a'), CHARSET('a'), HEX('é'), GROUP_CONCAT(id)"
    " FROM app.numbers WHERE id < 3"
)


@pytest.mark.parametrize("keeping", ["new", "kept", "lent"])
def test_every_character_set_is_the_same_on_a_replica(
    cluster: Cluster, proxy: StartProxy, replica: RealServer, keeping: str
) -> None:
    """Also ids that no handshake can name, and such as stand for nothing."""
    running = proxy(
        replicas=replica.address,
        kept_connections="0" if keeping == "new" else None,
        login_age=LONG if keeping == "lent" else "0",
        server_tls="disabled",
    )
    direct, client = Direct(cluster.primary, USER), client_of(running)
    wide = [collation for collation in collations(cluster.primary) if collation > 255]
    narrow = [collation for collation in collations(cluster.primary) if collation <= 255]
    for number in (*narrow[::9], *wide, 0, 255, 256, 324, 400, 999, 65535):
        refused = []
        for connection in (direct, client):
            try:
                change_user(connection, number)
            except ConnectionRefusedError as error:
                refused.append(error.args)
        if refused:
            assert refused == [refused[0]] * 2, number
            direct, client = Direct(cluster.primary, USER), client_of(running)
            continue
        for _ in range(2):
            expected = [payload for _, payload in direct.query(SETS)]
            assert [payload for _, payload in client.query(SETS)][:-1] == expected[:-1], number
            # In swe7 texts do not say what they seem to. A reset ends it.
            is_odd = direct.rows("SELECT @@character_set_client") == [[b"swe7"]]
            assert served(client) == ("primary" if is_odd else "replica"), number
            for connection in (direct, client):
                reset(connection)
    direct.close()
    client.close()


def test_what_an_account_may_not_set_keeps_its_reads_on_the_primary(
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    cluster: Cluster,
    replica: RealServer,
) -> None:
    begin_with(cluster.primary, {"max_error_count": "10"})
    running = proxy(replicas=replica.address, server_tls="disabled")
    with Client(running, "meek", "a") as client:
        client.rows(READ)
        assert served(client) == "primary"
    assert "max_error_count" in running.stderr or "Access denied" in running.stderr
    with client_of(running) as client:
        on_replica(client)


@pytest.mark.parametrize("name", KEEPING)
def test_what_only_the_primary_knows_keeps_reads_there(
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    cluster: Cluster,
    replica: RealServer,
    name: str,
) -> None:
    begin_with(cluster.primary, {name: KEEPING[name]})
    running = proxy(replicas=replica.address, server_tls="disabled")
    with client_of(running) as client:
        client.rows(READ)
        assert served(client) == "primary"


BEGUN = "SELECT @begun, FROM_UNIXTIME(0), COLLATION('a'), COUNT(*) FROM numbers"
CONNECTS = {
    "SET time_zone = '+03:00', NAMES latin1": "replica",
    "SET sql_mode = 'ANSI_QUOTES'": "replica",
    "INSERT INTO app.numbers VALUES (1000) ON DUPLICATE KEY UPDATE id = 1000": "replica",
    "SET @begun = 1": "primary",
    "CREATE TEMPORARY TABLE app.numbers (id INT)": "primary",
    "SET time_zone = '+03:00'; SET @begun = 1": "primary",
}


@pytest.mark.parametrize(
    ("side", "sql"),
    # What writes is refused on a replica, and so is each login of the account.
    [(side, sql) for side in SIDES for sql in CONNECTS if side == "primary" or sql[:3] == "SET"],
    indirect=["side"],
)
def test_init_connect(
    proxy: StartProxy,
    cluster: Cluster,
    replica: RealServer,
    side: RealServer,
    sql: str,
) -> None:
    """It runs for accounts without CONNECTION_ADMIN, on each server its own."""
    on_primary = side is cluster.primary
    cluster.primary.query("GRANT ALL ON app.* TO meek@'%'")
    cluster.wait_caught_up()
    side.query("SET GLOBAL init_connect = %s", sql)
    try:
        running = proxy(replicas=replica.address, server_tls="disabled")
        with Client(running, "meek", "a") as client, Direct(cluster.primary, "meek") as direct:
            for read in (READ, BEGUN):
                assert client.rows(read) == direct.rows(read)
                assert served(client) == (CONNECTS[sql] if on_primary else "replica")
            for connection in (client, direct):
                reset(connection)
            assert client.rows(BEGUN) == direct.rows(BEGUN)
            assert served(client) == "replica"
    finally:
        side.query("SET GLOBAL init_connect = ''")


@pytest.fixture
def in_zone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Starts servers again in a zone of their own; afterwards they have that of before."""
    moved: list[RealServer] = []

    def move(server: RealServer, zone: str) -> None:
        moved.append(server)
        with monkeypatch.context() as patched:
            patched.setenv("TZ", zone)
            server.kill()  # faster than an end in good order, and nothing is lost
            server.start()

    yield move
    for server in moved:
        server.kill()
    cluster.heal()


def test_servers_in_zones_of_their_own(
    proxy: StartProxy,
    cluster: Cluster,
    replica: RealServer,
    in_zone: Callable[[RealServer, str], None],
) -> None:
    """Two zones may have one abbreviation, and one zone two."""
    read = "SELECT FROM_UNIXTIME(86400 * id) FROM numbers"
    in_zone(cluster.primary, "CST6")
    for zone, role in (("CST-8", "primary"), ("CDT6", "replica")):
        in_zone(replica, zone)
        cluster.wait_caught_up()
        running = proxy(replicas=replica.address, server_tls="disabled")
        with client_of(running) as client, Direct(cluster.primary, USER) as direct:
            assert client.rows(read) == direct.rows(read)
            assert served(client) == role
            client.rows("SET time_zone = '+01:00'")
            assert on_replica(client, read)[0] == [b"1970-01-02 01:00:00"]


READS = (
    "SELECT FROM_UNIXTIME(86400 * id), DAYNAME('2026-01-01'), WEEK('2026-01-01'), id / 3"
    " FROM numbers",
    "SELECT GROUP_CONCAT(REPEAT('x', 9) SEPARATOR '') FROM numbers",
    "SELECT a.id FROM numbers a JOIN numbers b ORDER BY a.id, b.id",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r",
    "SELECT HEX(AES_ENCRYPT('a', 'k')), id FROM numbers ORDER BY id",
)


@pytest.mark.parametrize("side", SIDES, indirect=True)
@pytest.mark.parametrize("inside", ["", "START TRANSACTION READ ONLY", "BEGIN"])
def test_rows_are_those_of_the_primary(
    cluster: Cluster,
    proxy: StartProxy,
    begin_with: Callable[[RealServer, dict[str, str]], None],
    replica: RealServer,
    side: RealServer,
    inside: str,
) -> None:
    """As text, prepared, and through a cursor."""
    begin_with(side, OTHER)
    running = proxy(replicas=replica.address, server_tls="disabled")
    with client_of(running) as client, Direct(cluster.primary, USER) as direct:
        if inside:
            for connection in (client, direct):
                connection.rows(inside)
        for sql in READS:
            for how in (text, prepared, through_cursor):
                assert how(client, sql) == how(direct, sql), (sql, how)
                if inside != "BEGIN":
                    assert served(client) == "replica"


def text(client: Client, sql: str) -> list[bytes]:
    return [payload for _, payload in client.query(sql)][1:-1]


def execution(client: Client, sql: str, flags: bytes) -> list[bytes]:
    head = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)[0][1]
    if head[0] == 0xFF:
        return [head]
    statement = head[1:5]
    body = statement + flags + (1).to_bytes(4, "little")
    found = [payload for _, payload in client.command(Command.COM_STMT_EXECUTE, body)]
    if flags != b"\0" and found[0][0] != 0xFF:
        more = client.command(
            Command.COM_STMT_FETCH, statement + (99).to_bytes(4, "little"), FETCHED
        )
        found += [payload for _, payload in more]
    return [payload for payload in found if payload[0] != 0xFE]


def prepared(client: Client, sql: str) -> list[bytes]:
    return execution(client, sql, b"\0")


def through_cursor(client: Client, sql: str) -> list[bytes]:
    return execution(client, sql, b"\1")
