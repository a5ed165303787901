"""The primary is gone: sessions read on from replicas, and write again when there is one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.constants import IN_TRANS, IN_TRANS_READONLY, Capability, Command
from protocol.response import ERR_HEADER, ErrPacket, OkPacket
from protocol.response_stream import PREPARED, RESULTS, SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.real_mysql.test_kept_connections import Client
from tests.real_mysql.test_session_defaults import change_user
from tests.support.waiting import eventually

WITHOUT = "tidegate_clients_without_primary"
MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
NO_PRIMARY = (1290, 2003)


def value(connection: Connection[Cursor], sql: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return row[0] if row else None


def refused(connection: Connection[Cursor], sql: str) -> int:
    """The code of the error by which a statement is refused."""
    with pytest.raises(pymysql.err.MySQLError) as caught:
        value(connection, sql)
    return int(caught.value.args[0])


def of_session(connection: Connection[Cursor], name: str) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SESSION")
        return dict(cursor.fetchall())[name]


def answered_by(connection: Connection[Cursor]) -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        row = cursor.fetchone()
        assert row is not None
        return row[3], row[4]


@pytest.fixture(autouse=True)
def _table(cluster: Cluster, _healed: None) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.kept (id INT PRIMARY KEY, n INT)")
    cluster.primary.query("REPLACE INTO app.kept VALUES (1, 1)")
    cluster.wait_caught_up()


def kill_primary(cluster: Cluster, running: RunningProxy) -> None:
    """Kill it, and wait until all sessions have heard of that: none has sent it a statement."""
    connected = running.metric("tidegate_clients_connected")
    cluster.primary.kill()
    eventually(
        lambda: running.metric(WITHOUT) + running.metric("tidegate_clients_resting") == connected
    )


def in_monitors_absence(proxy: StartProxy, **options: str | None) -> RunningProxy:
    return proxy(monitor_user=None, monitor_password_file=None, **options)


@pytest.fixture
def running(proxy: StartProxy, request: pytest.FixtureRequest) -> RunningProxy:
    """Without a monitor, where a test asks for that."""
    if getattr(request, "param", None) == "no monitor":
        return in_monitors_absence(proxy)
    return proxy(monitor_interval="100ms", connection_sharing="on")


with_and_without_monitor = pytest.mark.parametrize(
    "running", ["monitor", "no monitor"], indirect=True
)
without_monitor_if_deep = pytest.mark.parametrize(
    "running", ["monitor", pytest.param("no monitor", marks=pytest.mark.deep)], indirect=True
)
"""Whoever tells sessions that the primary has gone, they do the same from there on."""


@with_and_without_monitor
def test_sessions_read_on_and_write_again(running: RunningProxy, cluster: Cluster) -> None:
    idle, writer, fresh = (running.connect() for _ in range(3))
    value(writer, "UPDATE kept SET n = 7 WHERE id = 1")
    kill_primary(cluster, running)
    for session in (idle, writer):
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 7 or session is idle
    assert value(writer, "SELECT n FROM kept WHERE id = 1") == 7
    assert answered_by(writer) == ("replica", "read")
    assert refused(writer, "UPDATE kept SET n = 8 WHERE id = 1") == 1290
    assert refused(writer, "SELECT n FROM kept WHERE id = 1 FOR UPDATE") == 2003
    assert refused(writer, "SELECT @@GLOBAL.gtid_executed") == 2003
    assert value(writer, "SELECT n FROM kept WHERE id = 1") == 7
    assert of_session(writer, "reads_only") == "yes"
    assert running.metric(WITHOUT) == 3
    assert value(fresh, "SELECT 1 + 1") == 2
    cluster.primary.start()
    eventually(lambda: written(writer))
    assert value(writer, "SELECT n FROM kept WHERE id = 1") == 8
    assert of_session(writer, "reads_only") == "no"
    # The others have no connection yet, and may have one.
    eventually(lambda: running.metric(WITHOUT) == 0)


def written(connection: Connection[Cursor]) -> bool:
    return served(connection, "UPDATE app.kept SET n = n + 1 WHERE id = 1")


def served(connection: Connection[Cursor], sql: str) -> bool:
    """Whether a statement is not refused for want of a primary."""
    try:
        value(connection, sql)
    except pymysql.err.MySQLError as error:
        if error.args[0] not in NO_PRIMARY:
            raise
        return False
    return True


@with_and_without_monitor
def test_clients_log_in_meanwhile(running: RunningProxy, cluster: Cluster) -> None:
    before = running.connect()
    kill_primary(cluster, running)
    session = running.connect()
    assert of_session(session, "reads_only") == "yes"
    assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
    assert answered_by(session) == ("replica", "read")
    assert refused(session, "REPLACE INTO kept VALUES (2, 2)") == 1290
    for user, password, code in ((APP_USER, "wrong", 1045), ("nobody", "", 1045)):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            running.connect(user, password)
        assert caught.value.args[0] == code
    with pytest.raises(pymysql.err.OperationalError) as caught:
        running.connect(database="no_such_schema")
    assert caught.value.args[0] in (1044, 1049)
    assert running.metric(WITHOUT) == 2
    cluster.primary.start()
    for n, each in enumerate((session, before), 2):
        eventually(lambda each=each: written(each))
        assert value(each, "SELECT n FROM kept WHERE id = 1") == n
    assert running.metric(WITHOUT) == 0


def test_refuse_ends_sessions_and_lets_nobody_in(proxy: StartProxy, cluster: Cluster) -> None:
    running = in_monitors_absence(proxy, without_primary="refuse")
    session = running.connect()
    cluster.primary.kill()
    with pytest.raises(pymysql.err.OperationalError) as caught:
        value(session, "SELECT n FROM kept WHERE id = 1")
    assert caught.value.args[0] == 2013
    with pytest.raises(pymysql.err.OperationalError) as caught:
        running.connect()
    assert caught.value.args[0] == 2003


CARRIED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "names": (("SET NAMES latin1",), ("SELECT @@character_set_client",)),
    "collation": (("SET NAMES utf8mb4 COLLATE utf8mb4_bin",), ("SELECT @@collation_connection",)),
    "sql_mode": (("SET sql_mode = 'ANSI_QUOTES'",), ("SELECT @@sql_mode",)),
    "time_zone": (("SET time_zone = '+05:00'",), ("SELECT @@time_zone",)),
    "schema": (("USE elsewhere",), ("SELECT DATABASE()",)),
    "autocommit": (("SET autocommit = 0", "COMMIT"), ("SELECT @@autocommit",)),
    "isolation": (
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",),
        ("SELECT @@transaction_isolation",),
    ),
    "read only": (("SET SESSION TRANSACTION READ ONLY",), ("SELECT @@transaction_read_only",)),
    "foreign keys": (("SET foreign_key_checks = 0",), ("SELECT @@foreign_key_checks",)),
    "lock wait": (
        ("SET SESSION innodb_lock_wait_timeout = 7",),
        ("SELECT @@innodb_lock_wait_timeout",),
    ),
    "wait_timeout": (("SET wait_timeout = 1234",), ("SELECT @@wait_timeout",)),
    "limits": (
        ("SET sql_select_limit = 1, max_execution_time = 5000",),
        ("SELECT @@sql_select_limit",),
    ),
    "user variables": (("SET @a = 7, @b = 'text'",), ("SELECT @a", "SELECT @b")),
    "role": (("SET ROLE reader",), ("SELECT CURRENT_ROLE()",)),
    "no role": (("SET ROLE NONE",), ("SELECT CURRENT_ROLE()",)),
    "flags": (("SET optimizer_switch = 'mrr=off'",), ("SELECT @@optimizer_switch",)),
    "timestamp": (("SET timestamp = 1700000000",), ("SELECT @@timestamp", "SELECT NOW()")),
    "trackers": (
        ("SET session_track_system_variables = 'sql_mode,lock_wait_timeout'",),
        ("SELECT @@session_track_system_variables",),
    ),
}
"""What a session sets, and what shows it."""

TRANSACTION = "its transaction"
LOST: dict[str, tuple[tuple[str, ...], str]] = {
    "a transaction": (("BEGIN", "UPDATE {table} SET n = 5 WHERE id = 1"), TRANSACTION),
    "a read only one": (
        ("START TRANSACTION READ ONLY", "SELECT n FROM {table}"),
        TRANSACTION,
    ),
    "autocommit off": (
        ("SET autocommit = 0", "SELECT n FROM {table} FOR UPDATE"),
        TRANSACTION,
    ),
    "the next one's mode": (("SET TRANSACTION READ ONLY",), TRANSACTION),
    "a temporary table": (("CREATE TEMPORARY TABLE scrap (id INT)",), "temporary table"),
    "a lock": (("DO GET_LOCK('name', 1)",), "named lock"),
    "a table lock": (("LOCK TABLES {table} READ",), "table lock"),
    "a handler": (("HANDLER {table} OPEN",), "handler"),
    "a variable of a query": (("SET @a = (SELECT MAX(n) FROM {table})",), "user variables"),
    "a variable of a function": (("SELECT sets_seen()",), "unknown"),
    "a variable before a write": (
        ("SET @a = 1", "UPDATE {table} SET n = n WHERE id = 1"),
        "user variables",
    ),
    "a prepared text": (("PREPARE s FROM 'SELECT 1'",), "PREPARE"),
    "the log": (("SET sql_log_bin = 0",), "sql_log_bin"),
    "an insert id": (("SET insert_id = 99",), "insert_id"),
    "a value of a query": (
        ("SET SESSION innodb_lock_wait_timeout = 3 + 4",),
        "innodb_lock_wait_timeout",
    ),
}
"""What a session does, and what the error says that it has lost."""


@pytest.fixture(scope="module")
def _state(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    cluster.heal()  # after the test before
    primary = cluster.primary
    primary.query("CREATE DATABASE IF NOT EXISTS elsewhere")
    primary.query("CREATE ROLE IF NOT EXISTS reader")
    primary.query("GRANT SELECT ON *.* TO reader")
    primary.query("CREATE USER stateful@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO stateful@'%'")
    primary.query("GRANT reader TO stateful@'%'")
    primary.query("SET DEFAULT ROLE reader TO stateful@'%'")
    primary.query(
        "CREATE FUNCTION app.sets_seen() RETURNS INT DETERMINISTIC NO SQL"
        " BEGIN SET @seen = 7; RETURN 1; END"
    )
    cluster.wait_caught_up()
    yield
    cluster.heal()
    primary.query("DROP USER stateful@'%', reader")
    primary.query("DROP DATABASE elsewhere")
    primary.query("DROP FUNCTION app.sets_seen")


def come_back(session: Connection[Cursor], cluster: Cluster) -> None:
    """The primary is there again, and the session has a connection to it."""
    cluster.primary.start()

    eventually(lambda: written(session))


@pytest.mark.usefixtures("_state")
def test_what_a_session_has_set_is_there_again(cluster: Cluster, proxy: StartProxy) -> None:
    """All kinds at once: each is a session of its own, which reads while there is no primary."""
    running = proxy(monitor_interval="100ms")
    direct = cluster.primary.connect("stateful", "a")
    expected, sessions = {}, {}
    for kind, (sets, shows) in CARRIED.items():
        session = sessions[kind] = running.connect("stateful", "a")
        direct = cluster.primary.connect("stateful", "a")
        direct.select_db("app")
        for sql in sets:
            value(session, sql)
            value(direct, sql)
        expected[kind] = [value(direct, sql) for sql in shows]
        value(session, "SELECT n FROM app.kept WHERE id = 1")  # its role's views are known then
        value(session, "ROLLBACK")
        direct.close()
    kill_primary(cluster, running)
    for kind, session in sessions.items():
        if kind != "autocommit":  # a read may begin a transaction, which is the primary's
            assert value(session, "SELECT n FROM app.kept WHERE id = 1") == 1, kind
        assert refused(session, "UPDATE app.kept SET n = 2 WHERE id = 1") == 1290, kind
    come_back(next(iter(sessions.values())), cluster)
    for kind, session in sessions.items():
        assert [value(session, sql) for sql in CARRIED[kind][1]] == expected[kind], kind


@pytest.mark.usefixtures("_state")
def test_what_cannot_be_carried_ends_the_session(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(monitor_interval="100ms")
    sessions = {}
    for number, (kind, (does, _)) in enumerate(LOST.items()):
        session = sessions[kind] = running.connect("stateful", "a")
        table = f"lost_{number}"  # of its own, so that nobody waits for another's lock
        cluster.primary.query(f"CREATE TABLE app.{table} LIKE app.kept")
        for sql in does:
            value(session, sql.format(table=table))
    cluster.primary.kill()
    for kind, session in sessions.items():
        with pytest.raises(pymysql.err.MySQLError) as caught:
            value(session, "SELECT n FROM kept WHERE id = 1")
        assert caught.value.args[0] in (1053, 2013), kind
    eventually(lambda: running.metric("tidegate_clients_connected") == 0)
    assert running.metric(WITHOUT) == 0


ASKING: dict[str, tuple[str, str]] = {
    "an insert id": ("INSERT INTO counted (n) VALUES (1)", "SELECT LAST_INSERT_ID()"),
    "one that a write uses": (
        "INSERT INTO counted (n) VALUES (1)",
        "INSERT INTO counted (n) VALUES (LAST_INSERT_ID())",
    ),
    "rows that were changed": ("UPDATE kept SET n = n + 1", "SELECT ROW_COUNT()"),
    "warnings of a write": ("INSERT IGNORE INTO counted VALUES (1, 'x')", "SHOW WARNINGS"),
}
"""A statement, and one that asks about it."""


def test_what_the_statement_before_has_left(cluster: Cluster, proxy: StartProxy) -> None:
    """Nobody is told another value than the lost one: who asks for it is told that it is lost."""
    running = proxy(monitor_interval="100ms")
    cluster.primary.query(
        "CREATE TABLE IF NOT EXISTS app.counted (id INT PRIMARY KEY AUTO_INCREMENT, n INT)"
    )
    sessions = {kind: running.connect() for kind in ASKING}
    found, other = running.connect(), running.connect()
    for kind, session in sessions.items():
        value(session, ASKING[kind][0])
    cluster.wait_caught_up()
    value(found, "SELECT 1 UNION SELECT 2 UNION SELECT 3")
    kill_primary(cluster, running)
    cluster.primary.start()
    eventually(lambda: written(other))
    for kind, session in sessions.items():
        assert refused(session, ASKING[kind][1]) == 1053, kind
    assert value(found, "SELECT FOUND_ROWS()") == 3
    value(other, "INSERT INTO counted (n) VALUES (1)")


# What drivers and pools do before each read


@pytest.mark.usefixtures("_state")
def test_what_is_set_meanwhile_holds_on_every_server(cluster: Cluster, proxy: StartProxy) -> None:
    """On the replica that reads next, and on the primary to come."""
    running = proxy(monitor_interval="100ms")
    before = running.connect("stateful", "a")
    value(before, "SELECT n FROM app.kept WHERE id = 1")
    kill_primary(cluster, running)
    late = running.connect("stateful", "a")
    for session in (before, late):
        for sql in (
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "SET time_zone = '+05:00', @a = 7",
            "SET sql_mode = 'ANSI_QUOTES'",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET foreign_key_checks = 0",
            "SET autocommit = 1",
            "USE elsewhere",
            "ROLLBACK",
            "COMMIT",
        ):
            value(session, sql)
        session.ping(reconnect=False)
        assert value(session, "SELECT @@time_zone") == "+05:00"
        assert value(session, 'SELECT "n" FROM app.kept WHERE id = 1') == 1  # a column now
        assert value(session, "SELECT DATABASE()") == "elsewhere"
        assert value(session, "SELECT @a") == 7
        session.select_db("app")
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
        assert refused(session, "USE no_such_schema") == 1049
        assert refused(session, "SET time_zone = 'nowhere'") == 1298
        assert refused(session, "SELECT @@foreign_key_checks") == 2003  # no replica was told
        assert refused(session, "SAVEPOINT a") in NO_PRIMARY
    come_back(before, cluster)
    for session in (before, late):
        eventually(lambda session=session: written(session))
        shown = (
            *("@@time_zone", "@@sql_mode", "@@collation_connection", "@@transaction_isolation"),
            *("@@foreign_key_checks", "DATABASE()", "@a"),
        )
        assert [value(session, f"SELECT {name}") for name in shown] == [
            *("+05:00", "ANSI_QUOTES", "utf8mb4_bin", "READ-COMMITTED"),
            *(0, "app", 7),
        ]


@without_monitor_if_deep
def test_a_reset_session_begins_anew(running: RunningProxy, cluster: Cluster) -> None:
    client = RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app")
    client.query("SET time_zone = '+05:00', @a = 7")
    kill_primary(cluster, running)
    assert client.query("SELECT n FROM kept WHERE id = 1")[-1][1][0] != 0xFF
    assert client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)[-1][1][0] == 0
    assert b"\x06SYSTEM" in client.query("SELECT @@time_zone")[2][1]
    cluster.primary.start()
    eventually(lambda: client.query("UPDATE kept SET n = 2 WHERE id = 1")[-1][1][0] == 0)
    assert b"\x06SYSTEM" in client.query("SELECT @@time_zone")[2][1]
    assert client.query("SELECT @a")[2][1] == b"\xfb"


@pytest.mark.parametrize("reads", ["split", "snapshot"])
def test_transactions_that_only_read(proxy: StartProxy, cluster: Cluster, reads: str) -> None:
    """With autocommit off a read opens a transaction: on a replica, while there is no primary."""
    running = proxy(monitor_interval="100ms", transaction_reads=reads)
    before = running.connect()
    before.autocommit(False)
    value(before, "SELECT n FROM kept WHERE id = 1")
    value(before, "COMMIT")
    kill_primary(cluster, running)
    late = running.connect()
    late.autocommit(False)
    for session in (before, late):
        for end in ("COMMIT", "ROLLBACK"):
            assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
            assert answered_by(session)[0] == "replica"
            assert of_session(session, "in_transaction") == "yes"
            assert value(session, "SELECT MAX(n) FROM kept") == 1
            value(session, end)
            assert of_session(session, "in_transaction") == "no"
        assert refused(session, "UPDATE kept SET n = 3 WHERE id = 1") == 1290
        value(session, "ROLLBACK")
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
    cluster.primary.start()
    for n, session in enumerate((before, late), 2):
        eventually(lambda session=session: written(session))
        session.commit()
        assert value(session, "SELECT n FROM kept WHERE id = 1") == n
        session.rollback()
    assert cluster.primary.value("SELECT n FROM app.kept WHERE id = 1") == "3"


BEGINNINGS = (
    *("BEGIN", "begin work;", "START TRANSACTION", " start transaction  read write "),
    "START TRANSACTION READ ONLY",
)
LEVELS_OF_ISOLATION = ("REPEATABLE READ", "READ COMMITTED")


def flags(connection: Connection[Cursor]) -> int:
    """Whether a transaction is open, and whether it is READ ONLY, by the last OK packet."""
    return int(connection.server_status) & (IN_TRANS | IN_TRANS_READONLY)


def course(client: RawClient, begin: str, end: str) -> list[tuple[str, int]]:
    """Read in a transaction, and behind it; the status flags of each answer."""
    found = []
    for sql in (
        *(begin, "SELECT 1", "SELECT n FROM kept WHERE id = 1", "SELECT @@max_allowed_packet"),
        *("SELECT MAX(n) FROM kept", end, "SELECT 1", "COMMIT", "SELECT 1"),
        *(begin, "COMMIT", begin, begin, "SELECT n FROM kept WHERE id = 1", "ROLLBACK"),
    ):
        answer = client.query(sql)[-1][1]
        assert answer[0] != ERR_HEADER, (sql, ErrPacket.parse(answer))
        status = OkPacket.parse(answer, client.capabilities).status
        found.append((sql, status & (IN_TRANS | IN_TRANS_READONLY)))
    return found


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "READ COMMITTED"])
def test_transactions_that_the_client_begins(
    proxy: StartProxy, cluster: Cluster, isolation: str
) -> None:
    """They read on a replica, and every answer tells of them as a server's own does."""
    running = proxy(monitor_interval="100ms")

    def connected(server: RunningProxy | RealServer, autocommit: int) -> RawClient:
        client = RawClient(server.address, APP_USER, APP_PASSWORD, MODERN, "app")
        client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        client.query(f"SET autocommit = {autocommit}")
        return client

    courses = [(begin, end) for begin in BEGINNINGS for end in ("COMMIT", "ROLLBACK", begin)]
    expected = {}
    for autocommit in (1, 0):
        with connected(cluster.primary, autocommit) as direct:
            expected[autocommit] = [course(direct, *these) for these in courses]
    clients = {autocommit: connected(running, autocommit) for autocommit in (1, 0)}
    late = running.connect()
    kill_primary(cluster, running)
    for autocommit, client in clients.items():
        assert [course(client, *these) for these in courses] == expected[autocommit]
        for sql in ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SAVEPOINT a", "XA START 'a'"):
            error = ErrPacket.parse(client.query(sql)[-1][1])
            assert error.code in NO_PRIMARY
    for begin in BEGINNINGS:
        value(late, begin)
        assert of_session(late, "in_transaction") == "yes"
        assert value(late, "SELECT n FROM kept WHERE id = 1") == 1
        assert answered_by(late)[0] == "replica"
        assert refused(late, "UPDATE kept SET n = 99 WHERE id = 1") in NO_PRIMARY
        assert value(late, "SELECT n FROM kept WHERE id = 1") == 1
        value(late, "COMMIT")
        assert of_session(late, "in_transaction") == "no"


def test_transactions_that_meet_the_primary_again(proxy: StartProxy, cluster: Cluster) -> None:
    """The primary hears of them with their first statement there."""
    running = proxy(monitor_interval="100ms")
    sessions = {
        (begin, isolation, reads): running.connect()
        for begin in ("BEGIN", "START TRANSACTION READ ONLY")
        for isolation in LEVELS_OF_ISOLATION
        for reads in (False, True)
    }
    for (_, isolation, _), session in sessions.items():
        value(session, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
    kill_primary(cluster, running)
    for (begin, _, reads), session in sessions.items():
        value(session, begin)
        if reads:
            assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
    cluster.primary.start()
    with running.connect() as probe:
        eventually(lambda: written(probe))
    cluster.wait_caught_up()
    n = 2
    for (begin, isolation, reads), session in sessions.items():
        if begin != "BEGIN":
            assert refused(session, "UPDATE kept SET n = 9 WHERE id = 1") == 1792
            assert flags(session) == IN_TRANS | IN_TRANS_READONLY
        else:
            # What was read before is an older state than the primary's, if all is one snapshot.
            conflicts = reads and isolation == "REPEATABLE READ"
            value(session, "UPDATE kept SET n = n + 1 WHERE id = 1")
            assert flags(session) == IN_TRANS
            assert cluster.primary.value("SELECT n FROM app.kept WHERE id = 1") == str(n)
            if conflicts:
                assert refused(session, "SELECT n FROM kept WHERE id = 1") == 1213
                continue
            assert value(session, "SELECT n FROM kept WHERE id = 1") == n + 1
        value(session, "ROLLBACK")
        assert flags(session) == 0
        assert cluster.primary.value("SELECT n FROM app.kept WHERE id = 1") == str(n)
        value(session, begin)
        value(session, "COMMIT")


def test_an_idle_client_is_ended_as_by_the_primary(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(monitor_interval="100ms")
    idle, late, busy = running.connect(), running.connect(), running.connect()
    for session in (idle, busy):
        value(session, "SET wait_timeout = 3")
    kill_primary(cluster, running)
    value(late, "SET wait_timeout = 3")

    def others_are_gone() -> bool:
        value(busy, "SELECT n FROM kept WHERE id = 1")
        return running.metric("tidegate_clients_connected") == 1

    eventually(others_are_gone)
    for session in (idle, late):
        assert refused(session, "SELECT n FROM kept WHERE id = 1") in (4031, 2013)
    assert running.metric(WITHOUT) == 1


# Who may log in is the replica's to say


@pytest.mark.usefixtures("_state")
@without_monitor_if_deep
def test_accounts_are_judged_as_by_the_primary(running: RunningProxy, cluster: Cluster) -> None:
    primary = cluster.primary
    accounts = {
        "secure": "IDENTIFIED BY 'a' REQUIRE SSL",
        "certified": "IDENTIFIED BY 'a' REQUIRE X509",
        "expired": "IDENTIFIED BY 'a' PASSWORD EXPIRE",
        "locked": "IDENTIFIED BY 'a' ACCOUNT LOCK",
        "second": "IDENTIFIED BY 'a'",
    }
    for name, account in accounts.items():
        primary.query(f"DROP USER IF EXISTS {name}@'%'")
        primary.query(f"CREATE USER {name}@'%' {account}")
        primary.query(f"GRANT SELECT, UPDATE ON *.* TO {name}@'%'")
    cluster.wait_caught_up()
    kill_primary(cluster, running)
    for name, tls, code in (
        ("secure", False, 1045),
        ("secure", True, 0),
        ("certified", True, 1045),
        ("expired", True, 1862),
        ("locked", True, 3118),
        ("stateful", False, 0),
    ):
        assert login_code(running, name, tls=tls) == code, name
    client = Client(running, "stateful")
    assert client.value("SELECT CURRENT_USER()") == b"stateful@%"
    change_user(client, user="second")
    assert client.value("SELECT n FROM app.kept WHERE id = 1") == b"1"
    assert client.value("SELECT CURRENT_USER()") == b"second@%"
    with pytest.raises(ConnectionRefusedError):
        change_user(client, user="locked")
    session = running.connect("second", "a")
    assert of_session(session, "reads_only") == "yes"
    primary.start()
    eventually(lambda: written(session))
    for name in accounts:
        primary.query(f"DROP USER {name}@'%'")


def login_code(running: RunningProxy, user: str, *, tls: bool) -> int:
    """0, or the code of the error that a login gets."""
    try:
        pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user=user,
            password="a",
            ssl={"check_hostname": False, "verify_mode": False} if tls else None,
            ssl_disabled=not tls,
        ).close()
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


# What ends a connection to the primary, and does not mean that the primary is gone.


@pytest.mark.parametrize("shared", ["off", "on"])
def test_a_killed_session_ends(proxy: StartProxy, cluster: Cluster, shared: str) -> None:
    running = in_monitors_absence(proxy, connection_sharing=shared)
    other = running.connect()
    for kill in ("KILL", "KILL CONNECTION"):
        session = running.connect()
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
        value(other, f"{kill} {session.thread_id()}")
        eventually(lambda session=session: is_ended(session))
    idle = running.connect()
    value(idle, "SET wait_timeout = 1")
    eventually(lambda: running.metric("tidegate_clients_connected") == 1)
    assert refused(idle, "SELECT 1") in (4031, 2013)
    assert value(other, "SELECT n FROM kept WHERE id = 1") == 1
    assert running.metric(WITHOUT) == 0


@pytest.mark.parametrize("monitored", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_all_sessions_are_killed_at_once(
    proxy: StartProxy, cluster: Cluster, monitored: bool
) -> None:
    start = proxy if monitored else partial(in_monitors_absence, proxy)
    running = start(monitor_interval="100ms", connection_sharing="off")  # who rests is not killed
    sessions = [running.connect() for _ in range(20)]
    cluster.primary.end_other_connections()
    for session in sessions:
        eventually(lambda session=session: is_ended(session))
    assert running.metric(WITHOUT) == 0


def is_ended(connection: Connection[Cursor]) -> bool:
    """Whether its session has ended, of which the proxy may not have heard at once."""
    try:
        value(connection, "SELECT n FROM kept WHERE id = 1")
    except pymysql.err.MySQLError as error:
        if error.args[0] != 2013:
            raise
        return True
    return False


# What was under way.


@with_and_without_monitor
def test_a_write_under_way_is_not_sent_again(running: RunningProxy, cluster: Cluster) -> None:
    blocker = cluster.primary.connect()
    blocker.select_db("app")
    blocker.begin()
    value(blocker, "UPDATE kept SET n = 2 WHERE id = 1")
    session, text = running.connect(), "UPDATE kept SET n = n + 100 WHERE id = 1"
    with ThreadPoolExecutor(1) as threads:
        code = threads.submit(refused, session, text)
        eventually(
            lambda: (
                cluster.primary.value(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE info = %s", text
                )
                == "1"
            )
        )
        cluster.primary.kill()
        assert code.result() == 2013
    reader = running.connect()
    assert value(reader, "SELECT n FROM kept WHERE id = 1") == 1
    cluster.primary.start()
    eventually(lambda: served(reader, "UPDATE kept SET n = n + 1 WHERE id = 1"))
    assert value(reader, "SELECT n FROM kept WHERE id = 1") == 2


@without_monitor_if_deep
def test_a_read_under_way_on_a_replica_goes_on(running: RunningProxy, cluster: Cluster) -> None:
    session = running.connect()
    value(session, "SET tidegate_wait_budget = '60s'")
    for replica in cluster.replicas:
        replica.stop_applier()
    value(session, "UPDATE kept SET n = 5 WHERE id = 1")
    eventually(lambda: all(received(cluster, replica) for replica in cluster.replicas))
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(value, session, "SELECT n FROM kept WHERE id = 1")
        eventually(lambda: any(waits(replica) for replica in cluster.replicas))
        cluster.primary.kill()
        for replica in cluster.replicas:
            replica.start_applier()
        assert answer.result() == 5
    assert value(session, "SELECT n FROM kept WHERE id = 1") == 5


def waits(replica: RealServer) -> bool:
    """Whether a read waits there for what it must see."""
    return (
        replica.value(
            "SELECT COUNT(*) FROM information_schema.processlist"
            " WHERE info LIKE 'SELECT%%WAIT_FOR_EXECUTED%%' AND id <> CONNECTION_ID()"
        )
        != "0"
    )


# Prepared statements


@without_monitor_if_deep
def test_prepared_statements_are_there_again(running: RunningProxy, cluster: Cluster) -> None:
    """Reads and writes, prepared before and meanwhile."""
    client = RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app")
    read = prepare(client, "SELECT n FROM kept WHERE id = 1")
    write = prepare(client, "UPDATE kept SET n = n + 1 WHERE id = 1")
    never_run = prepare(client, "UPDATE kept SET n = n + 10 WHERE id = 1")
    assert execute(client, write) == 0
    assert execute(client, read) == 0
    kill_primary(cluster, running)
    assert execute(client, read) == 0
    assert execute(client, write) == 1290
    later = prepare(client, "SELECT n + 1 FROM kept WHERE id = 1")
    assert execute(client, later) == 0
    cluster.primary.start()
    eventually(lambda: execute(client, write) == 0)
    for number in (never_run, read, later):
        assert execute(client, number) == 0
    assert cluster.primary.value("SELECT n FROM app.kept WHERE id = 1") == "13"


def prepare(client: RawClient, sql: str) -> bytes:
    """The id of a statement that is prepared."""
    head = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)[0][1]
    assert head[0] == 0, head
    return head[1:5]


def execute(client: RawClient, number: bytes) -> int:
    """0, or the code of the error that the execution of a statement without parameters gets."""
    last = client.command(Command.COM_STMT_EXECUTE, number + b"\0\1\0\0\0", RESULTS)[-1][1]
    return ErrPacket.parse(last).code if last[0] == 0xFF else 0


# The levels


LEVELS = (
    *("BEST_EFFORT", "READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES"),
    *("BOUNDED_STALENESS(3600s)", "STRONG"),
)


@pytest.mark.parametrize("scope", ["connection", "user"])
def test_each_level_keeps_its_promise(cluster: Cluster, proxy: StartProxy, scope: str) -> None:
    """What a replica has proved is read; what none has is refused, and shown once it has it."""
    running = proxy(monitor_interval="100ms", scope=scope, wait_budget="500ms")
    sessions = {}
    for level in LEVELS:
        session = sessions[level] = running.connect()
        value(session, f"SET tidegate_consistency = '{level}'")
        value(session, "UPDATE kept SET n = n + 1 WHERE id = 1")
        value(session, "SELECT n FROM kept WHERE id = 1")
    cluster.wait_caught_up()
    for level, session in sessions.items():
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 7, level
    for replica in cluster.replicas:
        replica.stop_applier()
    writer = sessions["READ_OWN_WRITES"]
    value(writer, "UPDATE kept SET n = 100 WHERE id = 1")
    eventually(lambda: all(received(cluster, replica) for replica in cluster.replicas))
    kill_primary(cluster, running)
    assert refused(writer, "SELECT n FROM kept WHERE id = 1") == 2003
    assert refused(sessions["STRONG"], "SELECT n FROM kept WHERE id = 1") == 2003
    assert value(sessions["BEST_EFFORT"], "SELECT n FROM kept WHERE id = 1") == 7
    value(writer, "SET tidegate_on_timeout = 'stale'")
    assert value(writer, "SELECT n FROM kept WHERE id = 1") == 7
    value(writer, "SET tidegate_on_timeout = 'primary'")
    cluster.replicas[1].start_applier()
    eventually(lambda: served(writer, "SELECT n FROM kept WHERE id = 1"))
    assert value(writer, "SELECT n FROM kept WHERE id = 1") == 100
    assert answered_by(writer) == ("replica", "read")
    if scope == "user":
        return  # what others of the scope have seen meanwhile, nobody but the primary can bound
    for level in ("MONOTONIC_READS", "READ_ALL_WRITES"):
        assert value(sessions[level], "SELECT n FROM kept WHERE id = 1") in (7, 100), level


def wait_for_look(primary: RealServer) -> None:
    """Let the monitor look at the primary, from beginning to end; nobody else asks it anything."""

    def selects() -> int:
        return int(primary.query("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])

    # A look takes fewer than ten; the first may have begun before, the last may be under way.
    before = selects()
    eventually(lambda: selects() >= before + 30)


@pytest.mark.parametrize("scope", ["connection", "application"])
@pytest.mark.parametrize("looks", ["often", "never"])
def test_what_the_primary_showed_is_bounded_by_the_last_look_at_it(
    cluster: Cluster, proxy: StartProxy, looks: str, scope: str
) -> None:
    """Who was shown something by it last reads on: in a transaction, by a write, or both."""
    start = proxy if looks == "often" else partial(in_monitors_absence, proxy)
    running = start(monitor_interval="100ms", scope=scope, transaction_reads="primary")
    shown = {
        "write": ("UPDATE kept SET n = n + 1 WHERE id = 1",),
        "transaction": ("BEGIN", "SELECT n FROM kept WHERE id = 1 FOR UPDATE", "COMMIT"),
        "both": (
            *("SELECT n FROM kept WHERE id = 1", "INSERT IGNORE INTO kept VALUES (2, 2)"),
            *("BEGIN", "SELECT n FROM kept WHERE id = 1", "COMMIT"),
        ),
    }
    sessions = {}
    for level, kind in product(("MONOTONIC_READS", "READ_ALL_WRITES"), shown):
        session = sessions[level, kind] = running.connect()
        value(session, f"SET tidegate_consistency = '{level}', tidegate_application = '{kind}'")
        value(session, "SELECT n FROM kept WHERE id = 1")
        for sql in shown[kind]:
            value(session, sql)
    cluster.wait_caught_up()
    if looks == "often":
        wait_for_look(cluster.primary)
    kill_primary(cluster, running)
    for about, session in sessions.items():
        if looks == "often":
            assert value(session, "SELECT n FROM kept WHERE id = 1") == 3, about
            assert answered_by(session) == ("replica", "read"), about
        elif about[1] != "write":
            assert refused(session, "SELECT n FROM kept WHERE id = 1") == 2003, about


def received(cluster: Cluster, replica: RealServer) -> bool:
    """Whether a replica has all that the primary has written, applied or not."""
    return (
        replica.value(
            "SELECT GTID_SUBSET(%s, CONCAT(RECEIVED_TRANSACTION_SET, ',', @@GLOBAL.gtid_executed))"
            " FROM performance_schema.replication_connection_status",
            cluster.primary.gtid_executed,
        )
        == "1"
    )


# Another server becomes the primary


@pytest.mark.parametrize("how", ["dies", "in good order"])
def test_sessions_follow_a_promotion(cluster: Cluster, proxy: StartProxy, how: str) -> None:
    for replica in cluster.replicas:
        replica.query("SET GLOBAL super_read_only = ON")
    running = proxy(failover="read_only", monitor_interval="100ms")
    sessions = [running.connect() for _ in range(3)]
    eventually(lambda: [row[6] for row in servers(sessions[0])] == ["no", "yes", "yes"])
    value(sessions[0], "UPDATE kept SET n = 7 WHERE id = 1")
    cluster.wait_caught_up()
    new, other = cluster.replicas
    if how == "dies":
        kill_primary(cluster, running)
    else:
        cluster.primary.query("SET GLOBAL super_read_only = ON")
    new.query("STOP REPLICA")
    new.query("RESET REPLICA ALL")
    other.query("STOP REPLICA")
    other.query("CHANGE REPLICATION SOURCE TO SOURCE_PORT = %s", new.port)
    other.query("START REPLICA")
    new.query("SET GLOBAL super_read_only = OFF")
    new.query("SET GLOBAL read_only = OFF")
    eventually(lambda: servers(sessions[0])[0][0] == new.address)
    for n, session in enumerate(sessions, 8):
        assert written(session)
        assert value(session, "SELECT n FROM kept WHERE id = 1") == n
    assert running.metric("tidegate_promotions_total") == 1
    assert new.value("SELECT n FROM app.kept WHERE id = 1") == "10"
    assert running.metric("tidegate_clients_connected") == 3


def servers(connection: Connection[Cursor]) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SERVERS")
        return list(cursor.fetchall())


# It stands still: its connections stay open, and nobody is answered


def test_a_frozen_primary_that_is_known_to_be_silent(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(monitor_interval="100ms", connect_timeout="500ms", login_age="1ms")
    session, inside = running.connect(), running.connect()
    inside.begin()
    value(inside, "UPDATE kept SET n = 2 WHERE id = 1")
    with cluster.primary.paused():
        eventually(lambda: servers(session)[0][2] == "no")  # the monitor has found out
        assert refused(session, "UPDATE kept SET n = 3 WHERE id = 1") == 1290
        assert refused(inside, "UPDATE kept SET n = 3 WHERE id = 1") == 1290
        session.ping(reconnect=False)
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
        late = running.connect()
        assert of_session(late, "reads_only") == "yes"
        assert value(late, "SELECT n FROM kept WHERE id = 1") == 1
        assert refused(late, "UPDATE kept SET n = 3 WHERE id = 1") == 1290
    eventually(lambda: served(inside, "UPDATE kept SET n = 4 WHERE id = 1"))
    inside.commit()
    for n, each in enumerate((session, late), 5):
        eventually(lambda each=each: written(each))
        assert value(each, "SELECT n FROM kept WHERE id = 1") == n


def test_a_commit_is_not_left_to_a_frozen_primary(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(monitor_interval="100ms", connect_timeout="500ms")
    session, other = running.connect(), running.connect()
    session.begin()
    value(session, "UPDATE kept SET n = 2 WHERE id = 1")
    with cluster.primary.paused():
        eventually(lambda: servers(other)[0][2] == "no")
        assert refused(session, "COMMIT") == 2013
    assert value(other, "SELECT n FROM kept WHERE id = 1") == 1
    eventually(lambda: written(other))  # what was rolled back holds no lock
    assert value(other, "SELECT n FROM kept WHERE id = 1") == 2


def test_a_resting_session_meets_a_frozen_primary(proxy: StartProxy, cluster: Cluster) -> None:
    """Nobody knows yet that it is frozen: its next command is refused, and it stays."""
    running = in_monitors_absence(
        proxy,
        connection_sharing="on",
        connection_sharing_delay="100ms",
        connect_timeout="2s",
        login_age="1ms",
    )
    session = running.connect()
    assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
    eventually(lambda: running.metric("tidegate_clients_resting") == 1)
    with cluster.primary.paused():
        assert refused(session, "UPDATE kept SET n = 3 WHERE id = 1") == 1290
        assert value(session, "SELECT n FROM kept WHERE id = 1") == 1
    eventually(lambda: written(session))
    assert value(session, "SELECT n FROM kept WHERE id = 1") == 2


def test_the_log_tells_what_happened(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(monitor_interval="100ms")
    session = running.connect()
    value(session, "UPDATE kept SET n = 3 WHERE id = 1")
    kill_primary(cluster, running)
    assert value(session, "SELECT n FROM kept WHERE id = 1") == 3
    value(session, "SET time_zone = '+05:00'")
    assert refused(session, "UPDATE kept SET n = 4 WHERE id = 1") == 1290
    session.close()
    seen = ("class", "role", "reason", "outcome", "error_code")
    wanted = [
        ("read", "replica", "read", "ok", 0),
        ("session", None, "session", "ok", 0),
        ("write", None, "no_primary", "error", 1290),
    ]

    def is_logged() -> bool:
        records = [
            record
            for record in running.records()
            if record["kind"] == "statement" and record["command"] == "COM_QUERY"
        ]
        return [tuple(record[name] for name in seen) for record in records][-3:] == wanted

    eventually(is_logged)


OTHER = ("sch\u00f6n", "Upper", "with space", 'a"b', "a`b", "b'c", "x" * 64, "\u65e5\u672c")


MIXED = (("utf8mb4", False), ("latin1", True))
"""Character sets, and whether trackers tell, of which the other pairs have each."""


@pytest.fixture
def _schemas(cluster: Cluster, _table: None) -> None:
    for name in OTHER:
        quoted = name.replace("`", "``")
        cluster.primary.query(f"CREATE DATABASE IF NOT EXISTS `{quoted}`")
        cluster.primary.query(f"CREATE TABLE IF NOT EXISTS `{quoted}`.here (id INT)")
        escaped = quoted.replace("_", "\\_")
        cluster.primary.query(f"GRANT ALL ON `{escaped}`.* TO {APP_USER}")
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.here (id INT)")
    cluster.wait_caught_up()


def connect_in(running: RunningProxy, charset: str, tracks: bool) -> Connection[Cursor]:
    """A client that logs in with this character set, and can be told by trackers or not."""
    return pymysql.connect(
        host="127.0.0.1",
        port=running.port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        charset=charset,
        client_flag=int(Capability.CLIENT_SESSION_TRACK) if tracks else 0,
        autocommit=True,
    )


def init_db(session: Connection[Cursor], name: bytes) -> None:
    session._execute_command(Command.COM_INIT_DB, name)  # type: ignore[attr-defined] # as text
    session._read_ok_packet()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_schemas")
@pytest.mark.parametrize(
    ("charset", "tracks"),
    [
        *(("utf8mb4", True), ("latin1", False)),
        *(pytest.param(*both, marks=pytest.mark.deep) for both in MIXED),
    ],
)
def test_schemas_that_are_chosen_meanwhile(
    proxy: StartProxy, cluster: Cluster, charset: str, tracks: bool
) -> None:
    running = in_monitors_absence(proxy)
    chosen: dict[str, list[Connection[Cursor]]] = {}
    names = [name for name in OTHER if charset == "utf8mb4" or name.isascii() or name == OTHER[0]]
    for name in names:
        chosen[name] = [connect_in(running, charset, tracks) for _ in range(2)]
    for session in (session for pair in chosen.values() for session in pair):
        value(session, "SELECT COUNT(*) FROM here")
    kill_primary(cluster, running)
    encoding = "utf-8" if charset == "utf8mb4" else "latin-1"
    followed = [
        session
        for name, pair in chosen.items()
        if name.isascii() or (tracks and charset == "utf8mb4")
        for session in pair
    ]
    for name, (by_command, by_statement) in chosen.items():
        quoted = name.replace("`", "``")
        if by_command not in followed:
            with pytest.raises(pymysql.err.MySQLError) as caught:
                init_db(by_command, name.encode(encoding))
            assert caught.value.args[0] == 2003
            assert refused(by_statement, f"USE `{quoted}`") in NO_PRIMARY
            assert {of_session(session, "schema") for session in chosen[name]} == {"app"}
            continue
        init_db(by_command, name.encode(encoding))
        if tracks or "`" not in name:
            value(by_statement, f"USE `{quoted}`")
        else:
            assert refused(by_statement, f"USE `{quoted}`") in NO_PRIMARY
            init_db(by_statement, name.encode(encoding))
        for session in (by_command, by_statement):
            for bad in ("no_such_schema", "y" * 65):
                with pytest.raises(pymysql.err.MySQLError):
                    init_db(session, bad.encode())
            assert value(session, "SELECT DATABASE()") == name
            assert of_session(session, "schema") == name
    cluster.primary.start()
    for name, pair in chosen.items():
        for session in pair if pair[0] in followed else ():
            eventually(lambda session=session: served(session, "DELETE FROM here"))
            value(session, "INSERT INTO here VALUES (1)")
            assert value(session, "SELECT DATABASE() FROM here FOR UPDATE") == name
    assert not cluster.primary.query("SELECT id FROM app.here")


@pytest.mark.usefixtures("_schemas")
def test_a_schema_that_is_chosen_while_a_primary_stands_still(
    proxy: StartProxy, cluster: Cluster
) -> None:
    """Its login is under way then, and has begun with the schema before."""
    running = in_monitors_absence(proxy, connect_timeout="30s")
    session = running.connect()
    value(session, "SELECT COUNT(*) FROM here")
    kill_primary(cluster, running)
    cluster.primary.start()
    with cluster.primary.paused():
        eventually(lambda: refused(session, "INSERT INTO here VALUES (1)") == 1290)
        session.select_db("Upper")
    eventually(lambda: served(session, "INSERT INTO here VALUES (2)"))
    assert value(session, "SELECT DATABASE() FROM here FOR UPDATE") == "Upper"
    assert not cluster.primary.query("SELECT id FROM app.here")


def test_a_session_that_only_reads_learns_that_the_primary_is_back(
    proxy: StartProxy, cluster: Cluster
) -> None:
    running = proxy(monitor_interval="100ms", metadata_reads="primary")
    session = running.connect()
    kill_primary(cluster, running)
    assert value(session, "SHOW TABLES LIKE 'kept'") == "kept"
    assert answered_by(session)[0] == "replica"
    assert of_session(session, "reads_only") == "yes"
    cluster.primary.start()
    eventually(lambda: running.metric(WITHOUT) == 0)
    assert of_session(session, "reads_only") == "no"
    assert value(session, "SHOW TABLES LIKE 'kept'") == "kept"
    assert answered_by(session)[0] == "primary"
