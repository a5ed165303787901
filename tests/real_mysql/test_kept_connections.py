"""A login over a connection that was kept, which the server judges, gives what a new one gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pymysql
import pytest

from protocol.command import com_query
from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from protocol.resultset import parse_text_row
from proxy.shared.client_profile import ALIKE
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

CAPABILITIES = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
ATTRIBUTES = {"program_name": "one", "x": "1"}
NEVER = "1h"


class Client(RawClient):
    def __init__(
        self,
        running: RunningProxy,
        user: str = "may_all",
        password: str = "a",  # noqa: S107 of a test's account
        database: str | None = "app",
        capabilities: Capability = CAPABILITIES,
        attributes: Mapping[str, str] = ATTRIBUTES,
    ) -> None:
        super().__init__(
            running.address, user, password, capabilities, database, attributes=attributes
        )

    def rows(self, sql: str) -> list[list[bytes | None]]:
        packets = [payload for _, payload in self.query(sql)]
        assert packets[-1][0] != 0xFF, f"{sql}: {ErrPacket.parse(packets[-1])}"
        if len(packets) == 1:
            return []
        return [parse_text_row(row) for row in packets[1 + packets[0][0] : -1]]

    def value(self, sql: str) -> bytes | None:
        return self.rows(sql)[0][0]

    def quit(self) -> None:
        self.send(b"\x01\x00\x00\x00" + bytes([Command.COM_QUIT]))
        with contextlib.suppress(ConnectionError):
            self.read()
        self.close()


def kept(running: RunningProxy, server: RealServer) -> float:
    return running.metric("tidegate_kept_connections", server=server.address)


def taken(running: RunningProxy, server: RealServer) -> float:
    return running.metric("tidegate_kept_connections_taken_total", server=server.address)


def dropped(running: RunningProxy, cause: str) -> float:
    return running.metric("tidegate_kept_connections_dropped_total", cause=cause)


def come_and_go(running: RunningProxy, server: RealServer) -> None:
    """So many clients that the next one is expected to be another of them."""
    for _ in range(ALIKE):
        client = Client(running)
        client.rows("SELECT 1")
        client.quit()
        eventually(lambda: kept(running, server) > 0)


@pytest.fixture(scope="module", autouse=True)
def _accounts(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    cluster.primary.query("CREATE USER may_all@'%' IDENTIFIED BY 'a'")
    cluster.primary.query("GRANT ALL ON *.* TO may_all@'%'")
    cluster.wait_caught_up()
    yield
    cluster.primary.query("DROP USER may_all@'%'")


@pytest.fixture
def primary(cluster: Cluster) -> Iterator[RealServer]:
    server = cluster.primary
    yield server
    for user in ("other", "limited"):
        server.query(f"DROP USER IF EXISTS {user}@'%'")


@pytest.fixture
def running(proxy: StartProxy, primary: RealServer) -> RunningProxy:
    """It keeps connections to the primary for good, and has no replica."""
    found = proxy(replicas=None, kept_connection_age=NEVER, login_age="0", server_tls="disabled")
    come_and_go(found, primary)
    return found


SHOWN = {
    "variables": "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.session_variables"
    " WHERE VARIABLE_NAME NOT IN ('pseudo_thread_id', 'statement_id', 'timestamp', 'gtid_executed')"
    " ORDER BY 1",
    "counters": "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.session_status"
    " WHERE VARIABLE_NAME REGEXP '^(Com_(insert|update|delete|rollback|create|set_opt|xa)|Created_"
    "|Select_|Sort_|Last_query|Ssl|Compression|Slow_launch|Binlog_cache_disk)' ORDER BY 1",
    "attributes": "SELECT ATTR_NAME, IF(ATTR_NAME IN ('tidegate_client', 'tidegate_session'), 1,"
    " ATTR_VALUE) FROM performance_schema.session_connect_attrs"
    " WHERE PROCESSLIST_ID = CONNECTION_ID() ORDER BY ORDINAL_POSITION",
    "who": "SELECT CURRENT_USER(), USER(), CURRENT_ROLE(), DATABASE(), @@proxy_user,"
    " @@external_user",
    "statement before": "SELECT LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), @@identity,"
    " @@insert_id, @@warning_count, @@error_count, @@gtid_next, @@sql_log_bin",
    "user variables": "SELECT @x, @y",
    "locks": "SELECT IS_FREE_LOCK('l'), IS_USED_LOCK('l')",
    "metadata locks": "SELECT OBJECT_TYPE, OBJECT_NAME, LOCK_TYPE"
    " FROM performance_schema.metadata_locks m JOIN performance_schema.threads t"
    " ON m.OWNER_THREAD_ID = t.THREAD_ID"
    " WHERE PROCESSLIST_ID = CONNECTION_ID() AND OBJECT_SCHEMA <> 'performance_schema'",
    "prepared": "SELECT COUNT(*) FROM performance_schema.prepared_statements_instances p"
    " JOIN performance_schema.threads t ON p.OWNER_THREAD_ID = t.THREAD_ID"
    " WHERE PROCESSLIST_ID = CONNECTION_ID()",
    "thread": "SELECT PROCESSLIST_USER, PROCESSLIST_DB, NAME, TYPE, INSTRUMENTED, HISTORY,"
    " CONNECTION_TYPE, RESOURCE_GROUP FROM performance_schema.threads"
    " WHERE PROCESSLIST_ID = CONNECTION_ID()",
    "transaction": "SELECT COUNT(*) FROM information_schema.INNODB_TRX"
    " WHERE trx_mysql_thread_id = CONNECTION_ID()",
    "profiles": "SHOW PROFILES",
    "traces": "SELECT * FROM information_schema.OPTIMIZER_TRACE",
    "warnings": "SHOW WARNINGS",
    "random": "SELECT RAND(3)",
    "temporary": "SELECT COUNT(*) FROM information_schema.INNODB_TEMP_TABLE_INFO WHERE N_COLS = 77",
}

BENT = (
    "SET NAMES latin1",
    "SET @x = 1, @y = 'a'",
    "SELECT GET_LOCK('l', 1)",
    "CREATE TEMPORARY TABLE bent (id INT PRIMARY KEY)",
    "INSERT INTO bent VALUES (1)",
    "PREPARE s FROM 'SELECT 1'",
    "SET SESSION sql_mode = 'ANSI'",
    "SET profiling = 1",
    "SELECT SQL_CALC_FOUND_ROWS 1 UNION SELECT 2 LIMIT 1",
    "SET LAST_INSERT_ID = 77, INSERT_ID = 5, timestamp = 5, rand_seed1 = 4, rand_seed2 = 5",
    "SET SESSION optimizer_trace = 'enabled=on', wait_timeout = 77, interactive_timeout = 88",
    "SET pseudo_thread_id = 99",
    "SET ROLE NONE",
    "SET SESSION session_track_gtids = ALL_GTIDS, session_track_state_change = 1,"
    " session_track_transaction_info = 'STATE', session_track_system_variables = '*'",
    "SET SESSION transaction_isolation = 'SERIALIZABLE', sql_select_limit = 3, big_tables = 1",
    "SET SESSION default_storage_engine = MYISAM, collation_connection = utf32_general_ci",
    "SET sql_log_bin = 0",
    "SET autocommit = 0",
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "LOCK TABLES lockable WRITE",
    "SELECT 1/0",
)


def shown(client: Client) -> dict[str, object]:
    return {name: client.rows(sql) for name, sql in SHOWN.items()}


def test_what_a_client_sees_is_what_a_new_connection_shows(
    proxy: StartProxy, running: RunningProxy, primary: RealServer
) -> None:
    with Client(
        proxy(replicas=None, kept_connections="0", login_age="0", server_tls="disabled")
    ) as client:
        new = shown(client)
    primary.query("CREATE TABLE app.lockable (id INT PRIMARY KEY)")
    bending = Client(running, attributes={"old": "1"})
    for sql in BENT:
        bending.rows(sql)
    connection_id = bending.greeting.thread_id
    bending.quit()
    # On a server that this client alone bends there is one connection of the kind.
    eventually(lambda: kept(running, primary) > 0)
    client = Client(running)
    assert client.greeting.thread_id == connection_id
    assert client.rows("SELECT CONNECTION_ID()") == [[str(connection_id).encode()]]
    assert shown(client) == new
    client.quit()


def test_what_a_client_held_ends_when_it_leaves(running: RunningProxy, primary: RealServer) -> None:
    primary.query("CREATE TABLE app.held (id INT PRIMARY KEY)")
    primary.query("INSERT INTO app.held VALUES (1)")
    client = Client(running)
    client.rows("SELECT GET_LOCK('here', 1)")
    client.rows("BEGIN")
    client.rows("INSERT INTO held VALUES (2)")
    client.rows("SELECT * FROM held WHERE id = 1 FOR UPDATE")
    before = taken(running, primary)
    client.close()  # without a word
    eventually(lambda: primary.value("SELECT IS_FREE_LOCK('here')") == "1")
    primary.query("SET SESSION innodb_lock_wait_timeout = 5")
    assert primary.query("SELECT id FROM app.held FOR UPDATE") == [(1,)]
    with Client(running) as client:
        assert taken(running, primary) == before + 1


def test_a_prepared_xa_transaction_that_stays_is_not_kept(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("CREATE TABLE app.xa (id INT PRIMARY KEY)")
    client = Client(running)
    client.rows("SET xa_detach_on_prepare = 0")
    for sql in ("XA START 'a'", "INSERT INTO xa VALUES (1)", "XA END 'a'", "XA PREPARE 'a'"):
        client.rows(sql)
    client.quit()
    eventually(lambda: dropped(running, "refused") == 1)
    eventually(lambda: _ends_xa(primary))
    with Client(running) as client:
        client.rows("INSERT INTO xa VALUES (2)")


def test_an_xa_transaction_that_was_rolled_back_is_left_to_nobody(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("CREATE TABLE app.deadlocked (id INT PRIMARY KEY, n INT)")
    primary.query("INSERT INTO app.deadlocked VALUES (1, 0), (2, 0)")
    client = Client(running)
    connection_id = client.value("SELECT CONNECTION_ID()")
    with RawClient(primary.address, "may_all", "a", CAPABILITIES, "app") as other:
        client.rows("XA START 'a'")
        client.rows("UPDATE deadlocked SET n = 1 WHERE id = 1")
        other.query("BEGIN")
        other.query("INSERT INTO deadlocked VALUES (3, 0), (4, 0), (5, 0), (6, 0)")
        other.query("UPDATE deadlocked SET n = 1 WHERE id = 2")
        update = "UPDATE deadlocked SET n = 1 WHERE id = {}"
        other.send(frame(com_query(update.format(1).encode(), False), 0))
        eventually(lambda: primary.value("SELECT COUNT(*) FROM sys.innodb_lock_waits") == "1")
        error = ErrPacket.parse(client.query(update.format(2))[-1][1])
        assert error.code == 1213
        client.rows("SELECT 1")  # its status shows no transaction
        client.quit()
        other.answer()
    threads = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
    eventually(lambda: primary.value(threads, int(connection_id or 0)) == "0")
    with Client(running) as client:
        client.rows("UPDATE deadlocked SET n = 2 WHERE id = 1")


def _ends_xa(primary: RealServer) -> bool:
    """It is detached only where its connection has ended."""
    try:
        primary.query("XA COMMIT 'a'")
    except pymysql.err.OperationalError as error:
        if error.args[0] not in (1397, 1399):
            raise
        return False
    return True


@pytest.mark.parametrize("case", ["resource group", "no multi-statements"])
def test_what_nothing_undoes_is_not_kept(
    running: RunningProxy, primary: RealServer, case: str
) -> None:
    client = Client(running)
    connection_id = client.greeting.thread_id
    if case == "resource group":
        primary.query("CREATE RESOURCE GROUP g TYPE = USER VCPU = 0")
        client.rows("SET RESOURCE GROUP g")
        client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
    else:
        client.command(Command.COM_SET_OPTION, b"\x01\x00", SIMPLE)
    client.quit()
    try:
        threads = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
        eventually(lambda: primary.value(threads, connection_id) == "0")
        with Client(running) as client:
            assert client.rows(SHOWN["thread"])[0][-1] == b"USR_default"
            assert client.query("SELECT 1; SELECT 2")[-1][1][0] != 0xFF
    finally:
        if case == "resource group":
            primary.query("DROP RESOURCE GROUP g FORCE")


def test_the_server_judges_each_login(running: RunningProxy, primary: RealServer) -> None:
    primary.query("CREATE USER other@'%' IDENTIFIED BY 'first'")
    primary.query("GRANT SELECT ON app.* TO other@'%'")
    before = taken(running, primary)
    client = Client(running, "other", "first")
    assert client.value("SELECT CURRENT_USER()") == b"other@%"
    client.quit()
    assert taken(running, primary) == before + 1
    primary.query("ALTER USER other@'%' IDENTIFIED BY 'second'")
    # Until then a server of 9.7.4 lets the old one in, on new connections, too.
    RawClient(primary.address, "other", "second", CAPABILITIES).close()
    with pytest.raises(ConnectionRefusedError, match="1045"):
        Client(running, "other", "first")
    come_and_go(running, primary)
    Client(running, "other", "second").quit()
    primary.query("REVOKE SELECT ON app.* FROM other@'%'")
    with pytest.raises(ConnectionRefusedError, match="1044"):
        Client(running, "other", "second")
    come_and_go(running, primary)
    primary.query("ALTER USER other@'%' ACCOUNT LOCK")
    with pytest.raises(ConnectionRefusedError, match="3118"):
        Client(running, "other", "second", database=None)
    come_and_go(running, primary)
    primary.query("DROP USER other@'%'")
    with pytest.raises(ConnectionRefusedError, match="1045"):
        Client(running, "other", "second", database=None)


def test_init_connect_runs_for_each_client(running: RunningProxy, primary: RealServer) -> None:
    primary.query("SET GLOBAL init_connect = 'SET @begun = 1'")
    try:
        for _ in range(3):
            client = Client(running, APP_USER, APP_PASSWORD)  # others are not concerned
            assert client.value("SELECT @begun") == b"1"
            client.quit()
            assert kept(running, primary) == 0
    finally:
        primary.query("SET GLOBAL init_connect = ''")


def test_an_accounts_limit_counts_clients_alone(running: RunningProxy, primary: RealServer) -> None:
    primary.query("CREATE USER limited@'%' IDENTIFIED BY 'l' WITH MAX_USER_CONNECTIONS 1")
    users = "SELECT COUNT(*) FROM performance_schema.processlist WHERE USER = 'limited'"
    for address in (running.address, running.address, primary.address, running.address):
        client = RawClient(address, "limited", "l", CAPABILITIES)
        client.send(b"\x01\x00\x00\x00" + bytes([Command.COM_QUIT]))
        with contextlib.suppress(ConnectionError):
            client.read()
        client.close()
        eventually(lambda: primary.value(users) == "0")


def test_a_limit_that_is_set_meanwhile_counts_clients_alone(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("CREATE USER limited@'%' IDENTIFIED BY 'l'")
    Client(running, "limited", "l", database=None).quit()
    eventually(lambda: kept(running, primary) > 0)
    primary.query("ALTER USER limited@'%' WITH MAX_USER_CONNECTIONS 1")
    with Client(running, "limited", "l", database=None) as client:
        client.rows("SELECT 1")


def test_a_connection_that_was_killed_is_not_missed(
    running: RunningProxy, primary: RealServer
) -> None:
    before = kept(running, primary)
    with Client(running) as client:
        connection_id = client.greeting.thread_id
    eventually(lambda: kept(running, primary) == before)
    primary.query(f"KILL {connection_id}")
    with Client(running) as client:
        assert client.value("SELECT 1") == b"1"
        assert client.greeting.thread_id != connection_id


def test_a_server_that_is_full_has_room_where_clients_have_left(
    proxy: StartProxy, primary: RealServer
) -> None:
    running = proxy(replicas=None, kept_connection_age=NEVER, login_age="0", server_tls="disabled")
    clients = [Client(running) for _ in range(8)]
    for client in clients:
        client.quit()
    eventually(lambda: kept(running, primary) == 8)
    most = primary.value("SELECT @@GLOBAL.max_connections")
    try:
        primary.query("SET GLOBAL max_connections = 9")
        # Other capabilities: none of those that wait will do.
        with Client(running, capabilities=CAPABILITIES | Capability.CLIENT_FOUND_ROWS) as client:
            assert client.value("SELECT 1") == b"1"
        # One had been meant for this client, who was expected to be like those before.
        assert dropped(running, "room") + dropped(running, "unfit") == 8
    finally:
        primary.query(f"SET GLOBAL max_connections = {most}")


def test_a_replicas_connection_serves_another_account(
    proxy: StartProxy, cluster: Cluster, primary: RealServer
) -> None:
    replica = cluster.replicas[0]
    primary.query("CREATE USER other@'%' IDENTIFIED BY 'o'")
    primary.query("GRANT SELECT ON app.* TO other@'%'")
    primary.query("CREATE TABLE app.mine (id INT PRIMARY KEY)")
    running = proxy(
        replicas=replica.address, kept_connection_age=NEVER, login_age="0", server_tls="disabled"
    )
    primary.query("INSERT INTO app.mine VALUES (1)")
    cluster.wait_caught_up()
    question = "SELECT @x, '1' || '1', id FROM mine"
    users = "SELECT GROUP_CONCAT(USER) FROM performance_schema.processlist"
    users += " WHERE USER IN ('other', 'may_all')"
    new = Client(running, "other", "o")
    first = new.rows(question)
    new.quit()
    eventually(lambda: kept(running, replica) == 1)
    assert first == [[None, b"1", b"1"]]
    client = Client(running)
    client.rows("SET @x = 5")
    client.rows("SET SESSION sql_mode = 'ANSI'")
    bent = client.rows(question)
    assert replica.value(users) == "may_all"
    assert bent == [[b"5", b"11", b"1"]]
    client.quit()
    eventually(lambda: kept(running, replica) == 1)
    assert taken(running, replica) == 1
    again = Client(running, "other", "o")
    assert again.rows(question) == first
    again.quit()
    assert taken(running, replica) == 2


def test_over_tls_too(proxy: StartProxy, primary: RealServer) -> None:
    running = proxy(replicas=None, kept_connection_age=NEVER, login_age="0", server_tls="preferred")
    come_and_go(running, primary)
    before = taken(running, primary)
    with Client(running) as client:
        assert client.rows("SHOW SESSION STATUS LIKE 'Ssl_version'")[0][1] == b"TLSv1.3"
        assert taken(running, primary) == before + 1
