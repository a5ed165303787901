"""Sessions that rest, give their connection to the primary back, and go on as they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from protocol.resultset import ColumnDefinition41, parse_text_row
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_kept_connections import Client
from tests.support.waiting import eventually

OLD = Capability(0)
"""Results end with an EOF, which tells nothing."""
MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
of_old_and_new_clients = pytest.mark.parametrize("capabilities", [MODERN, OLD])

GIVEN_BACK = "tidegate_connections_given_back_total"
RESTING = "tidegate_clients_resting"
KEPT = "tidegate_connections_not_given_back_total"
BORROWED = "tidegate_connections_borrowed_total"


@pytest.fixture(scope="module", autouse=True)
def _accounts(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    for user in ("sharer", "plain"):
        primary.query(f"CREATE USER {user}@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO sharer@'%'")
    primary.query("GRANT ALL ON app.* TO plain@'%'")
    primary.query("CREATE TABLE app.numbers (id INT PRIMARY KEY AUTO_INCREMENT, n INT)")
    primary.query("CREATE DATABASE IF NOT EXISTS elsewhere")
    primary.query(
        "CREATE FUNCTION app.sets_seen() RETURNS INT DETERMINISTIC NO SQL"
        " BEGIN SET @seen = 7; RETURN 1; END"
    )
    primary.query("CREATE VIEW app.setting AS SELECT app.sets_seen() AS n")
    cluster.wait_caught_up()
    yield
    for user in ("sharer", "plain"):
        primary.query(f"DROP USER IF EXISTS {user}@'%'")
    primary.query("DROP DATABASE elsewhere")


@pytest.fixture
def primary(cluster: Cluster) -> RealServer:
    return cluster.primary


@pytest.fixture
def running(proxy: StartProxy, request: pytest.FixtureRequest) -> RunningProxy:
    """With one worker; a test that asks for several (`in_several_workers`) has those too."""
    return proxy(
        *(),
        replicas=None,
        workers=getattr(request, "param", None),
        connection_sharing_delay="100ms",
        kept_connection_age="1h",
        server_tls="disabled",
    )


in_several_workers = pytest.mark.parametrize("running", [None, "3"], indirect=True)


def runs_wait(replica: RealServer) -> bool:
    """Whether some session there waits for a GTID set."""
    waits = (
        "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT%WAIT_FOR_EX%'"
    )
    return int(replica.value(waits)) > 1  # one of them is this question


def away(running: RunningProxy, client: RawClient, sql: str = "SELECT 1", others: int = 0) -> None:
    """Let a session rest until it has no connection, as `others` have none."""
    assert client.query(sql)[-1][1][0] != 0xFF
    rests(running, others)


def rests(running: RunningProxy, others: int = 0) -> None:
    """Wait until one session more than `others` has no connection."""
    eventually(lambda: running.metric(RESTING) == 1 + others)


def error(client: RawClient, sql: str) -> ErrPacket:
    return ErrPacket.parse(client.query(sql)[-1][1])


def threads(server: RealServer, user: str) -> int:
    return int(
        server.value(
            "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_USER = %s", user
        )
    )


@in_several_workers
def test_sessions_that_rest_hold_no_connection(running: RunningProxy, primary: RealServer) -> None:
    clients = [Client(running, "sharer", "a") for _ in range(5)]
    eventually(lambda: running.metric(RESTING) == 5)
    eventually(lambda: threads(primary, "sharer") == 0)
    assert [client.value("SELECT 7") for client in clients] == [b"7"] * 5
    assert running.metric(BORROWED) == 5
    for client in clients:
        client.quit()


ALIKE = {
    "nothing": (),
    "schema": ("USE elsewhere",),
    "names": ("SET NAMES latin1",),
    "collation": ("SET NAMES utf8mb4 COLLATE utf8mb4_bin",),
    "sql_mode": ("SET sql_mode = 'ANSI_QUOTES'",),
    "time_zone": ("SET time_zone = '+05:00'",),
    "isolation": ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",),
    "autocommit": ("SET autocommit = 0", "COMMIT"),
    "inserted": ("INSERT INTO app.numbers (n) VALUES (1)", "SELECT 1"),
    "rows": ("SELECT 1 UNION SELECT 2 UNION SELECT 3",),
    "no rows": ("SELECT 1 FROM DUAL WHERE FALSE",),
    "begun and ended": ("BEGIN", "INSERT INTO app.numbers (n) VALUES (1)", "COMMIT"),
    "found before": ("SELECT 1 UNION SELECT 2", "COMMIT"),
    "an @ in a literal": ("UPDATE app.numbers SET n = 1 WHERE n = 'connection_id@x'", "COMMIT"),
}
QUESTIONS = (
    "SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID(), @@warning_count, @@error_count",
    "SHOW WARNINGS",
    "SELECT LAST_INSERT_ID(), @@identity, DATABASE(), @@sql_mode, @@time_zone, @@autocommit",
    "SELECT @@transaction_isolation, @@character_set_client, @@collation_connection, USER()",
    "SELECT 'é', CONNECTION_ID() = @@pseudo_thread_id, CURRENT_ROLE(), @x",
    'SELECT "a" FROM (SELECT 1 a) t',
    "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id=CONNECTION_ID()",
)


@pytest.mark.parametrize(
    ("running", "capabilities"),
    [(None, MODERN), (None, OLD), pytest.param("3", MODERN, marks=pytest.mark.deep)],
    indirect=["running"],
)
def test_a_session_goes_on_as_it_was(
    proxy: StartProxy, running: RunningProxy, primary: RealServer, capabilities: Capability
) -> None:
    """Every byte is what a client gets whose session keeps its connection."""
    keeping = proxy(replicas=None, server_tls="disabled")
    for number, (case, statements) in enumerate(ALIKE.items()):
        # With old clients, a case has one of the first questions.
        for first in QUESTIONS[:3] if capabilities == MODERN else [QUESTIONS[number % 3]]:
            answers = []
            for server in (running, keeping):
                primary.query("TRUNCATE app.numbers")
                client = RawClient(
                    server.address, "sharer", "a", capabilities, "app", attributes={}
                )
                found = [client.query(sql) for sql in statements]
                if server is running:
                    rests(running)
                found += [client.query(sql) for sql in (first, *QUESTIONS)]
                answers.append(dict(zip((*statements, first, *QUESTIONS), found, strict=False)))
                client.close()
                eventually(lambda: not running.metric("tidegate_clients_connected"))
            shared, kept = answers
            for sql, packets in kept.items():
                assert shared[sql] == packets, (case, first, sql)


FOUND = {
    "limit": "SELECT 1 UNION SELECT 2 UNION SELECT 3 LIMIT 2, 1",
    "calculated": "SELECT SQL_CALC_FOUND_ROWS 1 FROM (SELECT 1 UNION SELECT 2) t LIMIT 1",
    "many": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<990)"
    " SELECT 1 FROM n, (SELECT 1 UNION SELECT 2) t",
    "updated": "UPDATE app.numbers SET n = 2",
}


@of_old_and_new_clients
@pytest.mark.parametrize("case", FOUND)
def test_rows_that_were_found_are_told_of(
    running: RunningProxy, primary: RealServer, case: str, capabilities: Capability
) -> None:
    answers = []
    for server in (running, primary):
        primary.query("TRUNCATE app.numbers")
        primary.query(
            "INSERT INTO app.numbers (n) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1"
            " FROM n WHERE i<1000) SELECT 1 FROM n, (SELECT 1 UNION SELECT 2) t"
        )
        with Client(server, "sharer", "a", capabilities=capabilities) as client:
            client.query(FOUND[case])
            client.query("COMMIT")
            if server is running:
                eventually(lambda: running.metric(KEPT) == 1)
            answers.append(client.query("SELECT FOUND_ROWS(), ROW_COUNT()"))
    assert answers[0] == answers[1]


KEPT_FOR = {
    "transaction": ("BEGIN",),
    "program": ("PREPARE s FROM 'SELECT 1'",),
    "setting": ("SET @x = 1",),
    "pinned": ("SELECT GET_LOCK('l', 1)",),
    "previous": ("INSERT INTO app.numbers (n) VALUES (1), (2)",),
    "connection_id": ("SELECT CONNECTION_ID()",),
}


@of_old_and_new_clients
@pytest.mark.parametrize("why", KEPT_FOR)
def test_what_cannot_be_carried_keeps_the_connection(
    running: RunningProxy, why: str, capabilities: Capability
) -> None:
    with Client(running, "sharer", "a", capabilities=capabilities) as client:
        for sql in KEPT_FOR[why]:
            client.query(sql)
        eventually(lambda: running.metric(KEPT, reason=why) == 1)
        assert running.metric(GIVEN_BACK) == 0


@of_old_and_new_clients
def test_a_savepoint_without_a_transaction_keeps_the_connection(
    running: RunningProxy, capabilities: Capability
) -> None:
    with Client(running, "sharer", "a", capabilities=capabilities) as client:
        client.query("SET autocommit = 0")
        client.query("SAVEPOINT s")
        eventually(lambda: running.metric(KEPT, reason="transaction") == 1)
        assert client.query("RELEASE SAVEPOINT s")[-1][1][0] == 0
        assert running.metric(GIVEN_BACK) == 0
        client.query("COMMIT")
        rests(running)


LIMITS = ("MAX_CONNECTIONS_PER_HOUR 3", "MAX_QUERIES_PER_HOUR 90", "MAX_USER_CONNECTIONS 3")


@pytest.mark.parametrize("limit", LIMITS)
def test_an_account_that_may_log_in_only_so_often_keeps_its_connection(
    running: RunningProxy, primary: RealServer, limit: str
) -> None:
    primary.query(f"CREATE USER limited@'%' IDENTIFIED BY 'a' WITH {limit}")
    try:
        with Client(running, "limited", "a", database=None) as client:
            assert client.value("SELECT 1") == b"1"
            eventually(lambda: running.metric(KEPT, reason="account") == 1)
            assert running.metric(GIVEN_BACK) == 0
    finally:
        primary.query("DROP USER limited@'%'")


KEEPING = {
    "temporary table": ("CREATE TEMPORARY TABLE app.t (a INT)", "SELECT COUNT(*) FROM app.t"),
    "locked table": ("LOCK TABLES app.numbers WRITE", "SELECT COUNT(*) FROM app.numbers"),
    "foreign keys": ("SET foreign_key_checks = 0", "SELECT @@foreign_key_checks"),
    "one-shot id": ("SET insert_id = 50", "SELECT @@insert_id"),
    "assigned in a query": ("SELECT @x := 5", "SELECT @x"),
    "moment": ("SET timestamp = 5", "SELECT NOW()"),
    "next transaction": ("SET TRANSACTION READ ONLY", "SELECT 1"),
    "role": ("SET ROLE NONE", "SELECT CURRENT_ROLE()"),
    "tracker": ("SET session_track_schema = 0", "SELECT @@session_track_schema"),
    "warning": ("SELECT 1/0 + CAST('a' AS SIGNED)", "SHOW WARNINGS"),
    "several": ("SET @y = 2; SELECT @y", "SELECT @y"),
    "handler": ("HANDLER app.numbers OPEN", "HANDLER app.numbers READ FIRST"),
    "read only": ("SET SESSION TRANSACTION READ ONLY", "SELECT @@transaction_read_only"),
    "timeout": ("SET wait_timeout = 1000", "SELECT @@wait_timeout"),
    "set by a function": ("SELECT app.sets_seen()", "SELECT @seen"),
    "set behind a view": ("SELECT * FROM app.setting", "SELECT @seen"),
    "set behind a view in a transaction": (
        *("BEGIN", "SELECT * FROM app.setting", "COMMIT"),
        "SELECT @seen",
    ),
}


@pytest.mark.parametrize("capabilities", [MODERN, pytest.param(OLD, marks=pytest.mark.deep)])
@pytest.mark.parametrize("case", KEEPING)
def test_what_is_not_known_to_be_carried_stays(
    running: RunningProxy, primary: RealServer, case: str, capabilities: Capability
) -> None:
    *statements, question = KEEPING[case]
    answers, given_back = [], 0.0
    for address in (running.address, primary.address):
        client = RawClient(address, "sharer", "a", capabilities, "app", attributes={})
        for sql in statements:
            client.query(sql)
        if address == running.address:
            eventually(lambda: running.metric(KEPT) == 1)
            given_back = running.metric(GIVEN_BACK)  # 1 if it rested before its first statement
        answers.append(client.query(question))
        client.close()
    assert answers[0] == answers[1]
    assert running.metric(GIVEN_BACK) == given_back


def test_what_a_trigger_sets_stays(running: RunningProxy, primary: RealServer) -> None:
    primary.query(
        "CREATE TRIGGER app.sets BEFORE INSERT ON app.numbers FOR EACH ROW SET @seen = NEW.n"
    )
    try:
        with Client(running, "sharer", "a") as client:
            client.query("INSERT INTO app.numbers (n) VALUES (8)")
            client.query("COMMIT")
            eventually(lambda: running.metric(KEPT, reason="setting") == 1)
            assert client.value("SELECT @seen") == b"8"
    finally:
        primary.query("DROP TRIGGER app.sets")


@in_several_workers
def test_clients_that_take_turns_have_nothing_of_each_other(running: RunningProxy) -> None:
    """All of them in one connection, one after the other."""
    zones = [f"+0{number}:00" for number in range(4)]
    clients = [Client(running, "sharer", "a") for _ in zones]
    others = len(zones) - 1
    rests(running, others)
    for client, zone in zip(clients, zones, strict=True):
        client.query(f"SET time_zone = '{zone}'")
        rests(running, others)
    for _ in range(3):
        for client, zone in zip(clients, zones, strict=True):
            assert client.value("SELECT @@time_zone") == zone.encode()
            rests(running, others)
    for client in clients:
        client.quit()


def test_the_clients_id_stays(running: RunningProxy) -> None:
    with Client(running, "sharer", "a") as client:
        away(running, client)
        thread_id = str(client.greeting.thread_id).encode()
        assert client.rows("SELECT CONNECTION_ID(), @@pseudo_thread_id") == [[thread_id, thread_id]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CONNECTION_ID() + 0",
        "SELECT CONNECTION_ID(), 1",
        "SELECT CONNECTION_ID() FROM numbers",
        "SELECT CONNECTION_ID() id",
        "SELECT CONNECTION_ID () + 0",
        "SELECT @@pseudo_thread_id",
        "INSERT INTO numbers (n) VALUES (CONNECTION_ID())",
    ],
)
def test_an_id_that_cannot_be_told_is_refused(running: RunningProxy, sql: str) -> None:
    with Client(running, "plain", "a") as client:
        away(running, client)
        assert error(client, sql).code == 1235
        assert client.value("SELECT 1") == b"1"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE numbers SET n = 1 WHERE 'connection_id' = 'connection_id()'",
        "INSERT INTO numbers (n) SELECT connection_id FROM (SELECT 1 AS connection_id) t",
        "SELECT t.connection_id FROM (SELECT 1 AS connection_id) t /* connection_id() */",
        "SELECT 'pseudo_thread_id', \"connection_id()\", `n` AS `connection_id` FROM numbers",
        "SELECT CONNECTION_ID() AS LIMIT",
        "SELECT 1 AS connection_id FOR UPDATE",
    ],
)
def test_a_name_that_is_no_call_is_no_id(running: RunningProxy, sql: str) -> None:
    def outcome(client: RawClient) -> bytes:
        """An error with its code, or an OK with the rows that it wrote: the new id differs."""
        packet = client.query(sql)[-1][1]
        return packet[: 3 if packet[0] == 0xFF else 2]

    with Client(running, "plain", "a") as client:
        before = outcome(client)
    with Client(running, "plain", "a") as client:
        away(running, client)
        assert client.query("DO 1")[-1][1][0] == 0x00  # it has another connection now
        assert outcome(client) == before


@pytest.mark.parametrize("capabilities", [MODERN, OLD])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CONNECTION_ID()",
        "select connection_id( ) ;",
        "\n SELECT  Connection_Id ()  AS id",
        "SELECT CONNECTION_ID() `the_id`",
        "/* who */ SELECT CONNECTION_ID()AS x -- am I",
        "SELECT CONNECTION_ID() AS `Id`",
    ],
)
def test_a_select_of_the_id_shows_the_one_that_was_told(
    running: RunningProxy, primary: RealServer, sql: str, capabilities: Capability
) -> None:
    """As on the connection where it was the server's own, in name and type, too."""
    with Client(running, "plain", "a", capabilities=capabilities) as client:
        before = [packet for _, packet in client.query(sql)]
    with Client(running, "plain", "a", capabilities=capabilities) as client:
        number = str(client.greeting.thread_id).encode()
        away(running, client)
        found = [packet for _, packet in client.query(sql)]
        assert ColumnDefinition41.parse(found[1]) == ColumnDefinition41.parse(before[1])
        assert number in [parse_text_row(row)[0] for row in found[2:-1] if row[0] != 0xFE]


def test_a_server_that_ends_idle_sessions_ends_those_that_rest(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("SET GLOBAL wait_timeout = 1")
    try:
        with Client(running, "plain", "a") as client:
            client.query("SELECT 1")
            assert ErrPacket.parse(client.read()[1]).code == 4031
            with pytest.raises(ConnectionError):
                client.read()
    finally:
        primary.query("SET GLOBAL wait_timeout = DEFAULT")


def test_who_asks_for_the_id_keeps_it(running: RunningProxy) -> None:
    with Client(running, "plain", "a") as client:
        thread_id = str(client.greeting.thread_id).encode()
        assert client.value("SELECT CONNECTION_ID()") == thread_id
        eventually(lambda: running.metric(KEPT, reason="connection_id") == 1)
        assert client.value("SELECT CONNECTION_ID()") == thread_id


@in_several_workers
@pytest.mark.parametrize("command", ["KILL", "KILL QUERY"])
def test_a_session_that_is_away_can_be_killed(running: RunningProxy, command: str) -> None:
    with Client(running, "sharer", "a") as client, Client(running, "plain", "a") as other:
        away(running, client, others=1)
        thread_id = client.greeting.thread_id
        assert error(other, f"{command} {thread_id}").code == 1095  # of another account
        with Client(running, "sharer", "a") as killer:
            assert killer.query(f"{command} {thread_id} /* by hand */")[-1][1][0] == 0
        if command == "KILL":
            with pytest.raises((ConnectionError, EOFError, AssertionError)):
                client.value("SELECT 1")
        else:
            assert client.value("SELECT 1") == b"1"


@in_several_workers
def test_a_kill_reaches_what_runs_on_a_borrowed_connection(running: RunningProxy) -> None:
    with Client(running, "sharer", "a") as client, Client(running, "sharer", "a") as killer:
        away(running, client, others=1)
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(len(client.query("SELECT SLEEP(60) FROM DUAL")))
        )
        before = running.metric(BORROWED)
        thread.start()
        eventually(lambda: running.metric(BORROWED) > before)
        eventually(
            lambda: (
                killer.query(f"KILL QUERY {client.greeting.thread_id}") != []
                and not thread.join(0.2)
                and not thread.is_alive()
            )
        )
    assert thread.is_alive() is False


def test_a_kill_ends_a_read_that_waits_for_a_replica(
    proxy: StartProxy, cluster: Cluster, late_replicas: None
) -> None:
    running = proxy(wait_budget="60s", workers="2")
    with Client(running, "sharer", "a") as client, Client(running, "sharer", "a") as killer:
        client.query("INSERT INTO app.numbers (n) VALUES (1)")
        client.send(frame(bytes([Command.COM_QUERY]) + b"SELECT n FROM app.numbers", 0))
        eventually(lambda: any(map(runs_wait, cluster.replicas)))
        killer.query(f"KILL QUERY {client.greeting.thread_id}")
        assert ErrPacket.parse(client.answer()[-1][1]).code == 1317
        assert client.query("SET @seen = 1")[-1][1][0] == 0  # it goes on


@in_several_workers
def test_nobody_else_gets_an_id_that_a_client_was_told(
    running: RunningProxy, primary: RealServer
) -> None:
    with Client(running, "sharer", "a") as client:
        away(running, client)
        thread_id = client.greeting.thread_id
        count = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
        eventually(lambda: primary.value(count, thread_id) == "0")


def test_who_may_not_log_in_any_more_is_told_so(running: RunningProxy, primary: RealServer) -> None:
    primary.query("CREATE USER leaver@'%' IDENTIFIED BY 'a'")
    client = Client(running, "leaver", "a", database=None)
    away(running, client)
    primary.query("DROP USER leaver@'%'")
    assert error(client, "SELECT 1").code == 1045
    client.close()


def test_a_password_that_was_changed_is_tried_once(
    running: RunningProxy, primary: RealServer
) -> None:
    """Else the sessions that rest would lock the account, also for those who know the new one."""
    primary.query(
        "CREATE USER keeper@'%' IDENTIFIED BY 'a' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1"
    )
    try:
        clients = [Client(running, "keeper", "a", database=None) for _ in range(6)]
        eventually(lambda: running.metric(RESTING) == len(clients))
        primary.query("ALTER USER keeper@'%' IDENTIFIED BY 'b'")
        for client in clients[:4]:
            client.send(frame(b"\x03SELECT 1", 0))
        codes = [ErrPacket.parse(client.read()[1]).code for client in clients[:4]]
        codes += [error(client, "SELECT 1").code for client in clients[4:]]
        assert codes == [1045] * 6
        for client in clients:
            client.close()
        with Client(running, "keeper", "b", database=None) as client:
            assert client.value("SELECT 2") == b"2"
        # What a client of the old password has been told counts no more once it is right again.
        with Client(running, "keeper", "b", database=None) as client:
            away(running, client)
            primary.query("ALTER USER keeper@'%' IDENTIFIED BY 'a'")
            with Client(running, "keeper", "a", database=None) as another:
                away(running, another, others=1)
                assert another.value("SELECT 3") == b"3"
                assert error(client, "SELECT 3").code == 1045
    finally:
        primary.query("DROP USER keeper@'%'")


def test_a_schema_that_is_gone_runs_nothing(running: RunningProxy, primary: RealServer) -> None:
    primary.query("CREATE DATABASE passing")
    client = Client(running, "sharer", "a")
    away(running, client, "USE passing")
    primary.query("DROP DATABASE passing")
    assert error(client, "CREATE TABLE here (a INT)").code == 1049
    client.close()


DEFAULTS = {
    "SET GLOBAL foreign_key_checks = 0": "SET GLOBAL foreign_key_checks = DEFAULT",
    "SET GLOBAL max_allowed_packet = 1048576": "SET GLOBAL max_allowed_packet = DEFAULT",
    "SET GLOBAL parser_max_mem_size = 10000000": "SET GLOBAL parser_max_mem_size = DEFAULT",
    "SET GLOBAL connection_memory_limit = 9000000": "SET GLOBAL connection_memory_limit = DEFAULT",
    "SET GLOBAL innodb_table_locks = 0": "SET GLOBAL innodb_table_locks = DEFAULT",
    "ALTER DATABASE app CHARSET latin1": "ALTER DATABASE app CHARSET utf8mb4",
    "SET DEFAULT ROLE given TO sharer": "SET DEFAULT ROLE NONE TO sharer",
}


BEGUN_WITH = (
    "SELECT @@foreign_key_checks, @@parser_max_mem_size, @@connection_memory_limit,"
    " @@innodb_table_locks, @@collation_database, CURRENT_ROLE()"
)


@pytest.mark.parametrize("change", DEFAULTS)
def test_other_default_values_are_not_noticed(
    running: RunningProxy, primary: RealServer, change: str
) -> None:
    """Each variable has its turn in `test_global_settings_at_rest`."""
    primary.query("CREATE ROLE IF NOT EXISTS given")
    primary.query("GRANT given TO sharer")
    with Client(running, "sharer", "a") as client:
        begun_with = client.rows(BEGUN_WITH)
        away(running, client)
        primary.query(change)
        try:
            assert client.rows(BEGUN_WITH) == begun_with
        finally:
            primary.query(DEFAULTS[change])
            primary.query("DROP ROLE given")


def test_a_role_that_was_revoked_ends_the_session(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("CREATE ROLE given")
    primary.query("GRANT given TO plain")
    primary.query("SET DEFAULT ROLE given TO plain")
    try:
        client = Client(running, "plain", "a")
        away(running, client)
        primary.query("REVOKE given FROM plain")
        found = error(client, "SELECT 1")
        assert (found.code, "given" in found.message) == (1053, True)
        client.close()
    finally:
        primary.query("DROP ROLE given")


@in_several_workers
def test_the_session_goes_on_after_a_restart(running: RunningProxy, primary: RealServer) -> None:
    primary.query("DELETE FROM app.numbers WHERE n = 77")
    client = Client(running, "sharer", "a")
    away(running, client)
    primary.restart()
    # Until the proxy has seen that it is back, commands are answered 2003.
    eventually(lambda: client.query("SELECT 1")[-1][1][0] != 0xFF)
    eventually(lambda: client.query("INSERT INTO app.numbers (n) VALUES (77)")[-1][1][0] != 0xFF)
    assert primary.value("SELECT COUNT(*) FROM app.numbers WHERE n = 77") == "1"
    client.close()


def test_a_schema_is_chosen_while_there_is_no_connection(running: RunningProxy) -> None:
    client = Client(running, "sharer", "a")
    away(running, client)
    assert client.command(Command.COM_PING, shape=SIMPLE)[-1][1][0] == 0
    assert client.command(Command.COM_INIT_DB, b"elsewhere", SIMPLE)[-1][1][0] == 0
    away(running, client)
    assert client.value("SELECT DATABASE()") == b"elsewhere"
    client.quit()
