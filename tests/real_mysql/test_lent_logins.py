"""A login that the server judged a moment ago: what it is lent is what a new connection gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.constants import Command
from protocol.response_stream import SIMPLE
from protocol.resultset import ColumnDefinition41
from proxy.shared.client_profile import ALIKE
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_kept_connections import (
    BENT,
    Client,
    eventually,
    kept,
    shown,
)
from tests.support.waiting import until

LONG = "1h"


def lent(running: RunningProxy, server: RealServer) -> float:
    return running.metric("tidegate_logins_lent_total", server=server.address)


def leave(running: RunningProxy, server: RealServer, client: Client) -> None:
    before = kept(running, server)
    client.quit()
    eventually(lambda: kept(running, server) > before)


def is_lent(running: RunningProxy, server: RealServer, user: str = "alike") -> bool:
    """Whether the server is not asked about the next login."""
    before = lent(running, server)
    client = Client(running, user, "a")
    client.rows("SELECT 1")
    leave(running, server, client)
    return lent(running, server) > before


def come_and_go(running: RunningProxy, server: RealServer, user: str = "alike") -> None:
    for _ in range(ALIKE):
        is_lent(running, server, user)


@pytest.fixture(scope="module", autouse=True)
def _role(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    cluster.primary.query("CREATE ROLE reader, writer")
    cluster.primary.query("CREATE TABLE app.lockable (id INT PRIMARY KEY)")
    yield
    cluster.primary.query("DROP ROLE reader, writer")


@pytest.fixture
def primary(cluster: Cluster) -> Iterator[RealServer]:
    server = cluster.primary
    server.query("CREATE USER alike@'%' IDENTIFIED BY 'a'")
    server.query("GRANT ALL ON *.* TO alike@'%'")
    cluster.wait_caught_up()
    yield server
    server.query("DROP USER IF EXISTS alike@'%'")


@pytest.fixture
def running(proxy: StartProxy, primary: RealServer) -> RunningProxy:
    """It keeps connections to the primary for good, trusts for good, and has no replica."""
    found = proxy(replicas=None, kept_connection_age=LONG, login_age=LONG, server_tls="disabled")
    come_and_go(found, primary)
    return found


def test_what_a_client_sees_is_what_a_new_connection_shows(
    proxy: StartProxy, running: RunningProxy, primary: RealServer
) -> None:
    fresh = proxy(replicas=None, kept_connections="0", server_tls="disabled")
    with Client(fresh, "alike", "a") as client:
        new = shown(client)
    bending = Client(running, "alike", "a")
    for sql in BENT:
        bending.rows(sql)
    connection_id = bending.greeting.thread_id
    leave(running, primary, bending)
    before = lent(running, primary)
    client = Client(running, "alike", "a")
    assert lent(running, primary) == before + 1
    assert client.greeting.thread_id == connection_id
    assert client.value("SELECT CONNECTION_ID()") == str(connection_id).encode()
    assert shown(client) == new
    client.quit()


class GeneralClient(Client):
    """Logs in with utf8mb4_general_ci, as many drivers do: it is not utf8mb4's default."""

    character_set = 45


def test_results_are_in_the_collation_of_the_login(
    running: RunningProxy, primary: RealServer
) -> None:
    before = lent(running, primary)
    seen = []
    for _ in range(ALIKE + 3):
        client = GeneralClient(running, "alike", "a")
        seen.append(ColumnDefinition41.parse(client.query("SELECT 'x'")[1][1]).character_set)
        leave(running, primary, client)
    assert lent(running, primary) > before
    assert set(seen) == {45}


def test_a_role_that_was_set_is_not_the_next_ones(
    running: RunningProxy, primary: RealServer
) -> None:
    primary.query("GRANT reader, writer TO alike@'%'")
    primary.query("SET DEFAULT ROLE reader TO alike@'%'")
    come_and_go(running, primary)  # those that were judged before have no role
    other = Client(running, "alike", "a")
    other.rows("SET ROLE writer")
    leave(running, primary, other)
    with Client(running, "alike", "a") as client:
        assert client.value("SELECT CURRENT_ROLE()") in (b"`reader`@`%`", b"NONE")


def test_rights_are_looked_up_again(running: RunningProxy, primary: RealServer) -> None:
    primary.query("REVOKE ALL ON *.* FROM alike@'%'")
    primary.query("GRANT INSERT ON app.* TO alike@'%'")
    before = lent(running, primary)
    with Client(running, "alike", "a") as client:
        assert lent(running, primary) == before + 1
        assert client.query("SELECT * FROM lockable FOR UPDATE")[-1][1][:1] == b"\xff"
        client.rows("INSERT INTO lockable VALUES (5)")
    primary.query("GRANT ALL ON *.* TO alike@'%'")
    with Client(running, "alike", "a") as client:
        client.rows("DELETE FROM lockable WHERE id = 5")


CHANGED = {
    "a schema that is gone": ("DROP DATABASE passing", "CREATE DATABASE passing"),
    "sql_mode": ("SET GLOBAL sql_mode = 'ANSI'", "SET GLOBAL sql_mode = DEFAULT"),
    "max_allowed_packet": (
        "SET GLOBAL max_allowed_packet = 2097152",
        "SET GLOBAL max_allowed_packet = DEFAULT",
    ),
    "init_connect": ("SET GLOBAL init_connect = 'SET @a = 1'", "SET GLOBAL init_connect = ''"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_is_another_when_it_is_cleaned_is_judged_anew(
    running: RunningProxy, primary: RealServer, case: str
) -> None:
    change, back = CHANGED[case]
    schema = "passing" if "schema" in case else "app"
    primary.query("CREATE DATABASE IF NOT EXISTS passing")
    for _ in range(2):
        leave(running, primary, Client(running, "alike", "a", database=schema))
    client = Client(running, "alike", "a", database=schema)
    client.rows("DO 1")
    before = lent(running, primary)
    try:
        primary.query(change)
        client.quit()
        eventually(lambda: running.metric("tidegate_clients_connected") == 0)
        if schema == "passing":
            for _ in range(3):  # all that lead there
                with pytest.raises(ConnectionRefusedError, match="1049"):
                    Client(running, "alike", "a", database=schema)
        else:
            with Client(running, "alike", "a") as again:
                shows = again.rows("SELECT @@GLOBAL.sql_mode = @@SESSION.sql_mode")
                assert shows == [[b"1"]]
    finally:
        primary.query(back)
        primary.query("DROP DATABASE passing")
    assert lent(running, primary) >= before


LIMITS = ("MAX_CONNECTIONS_PER_HOUR 100", "MAX_QUERIES_PER_HOUR 1000", "MAX_USER_CONNECTIONS 9")


@pytest.mark.parametrize("limit", LIMITS)
def test_who_is_limited_is_judged(running: RunningProxy, primary: RealServer, limit: str) -> None:
    primary.query(f"CREATE USER limited@'%' IDENTIFIED BY 'a' WITH {limit}")
    primary.query("GRANT SELECT ON app.* TO limited@'%'")
    try:
        before = lent(running, primary)
        for _ in range(3):
            client = Client(running, "limited", "a")
            client.rows("SELECT 1")
            client.quit()
            eventually(lambda: running.metric("tidegate_clients_connected") == 0)
        assert lent(running, primary) == before
    finally:
        primary.query("DROP USER limited@'%'")


REFUSED = {
    "password": ("ALTER USER alike@'%' IDENTIFIED BY 'other'", "1045"),
    "locked": ("ALTER USER alike@'%' ACCOUNT LOCK", "3118"),
    "dropped": ("DROP USER alike@'%'", "1045"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_account_that_is_changed_elsewhere_counts_after_the_age(
    proxy: StartProxy, primary: RealServer, case: str
) -> None:
    running = proxy(
        replicas=None, kept_connection_age=LONG, login_age="50ms", server_tls="disabled"
    )
    come_and_go(running, primary)
    change, code = REFUSED[case]
    primary.query(change)
    primary.query("FLUSH PRIVILEGES")
    if case == "password":  # a server goes on to take the old one until somebody uses the new one
        primary.connect(user="alike", password="other").close()

    answer = ""

    def is_refused() -> bool:
        nonlocal answer
        try:
            Client(running, "alike", "a").close()
        except ConnectionRefusedError as error:
            answer = str(error)
            return code in answer
        answer = f"let in, {lent(running, primary)} lent"
        return False

    until(is_refused, lambda: f"not refused: {answer}")


@pytest.mark.parametrize("sql", ["ALTER USER alike@'%' ACCOUNT LOCK", "FLUSH PRIVILEGES"])
def test_what_is_changed_through_the_proxy_counts_at_once(
    running: RunningProxy, primary: RealServer, sql: str
) -> None:
    client = Client(running, "alike", "a")
    client.rows(sql)
    leave(running, primary, client)
    before = lent(running, primary)
    if "LOCK" in sql:
        with pytest.raises(ConnectionRefusedError, match="3118"):
            Client(running, "alike", "a")
    else:
        Client(running, "alike", "a").close()
    assert lent(running, primary) == before


def test_an_account_that_a_prepared_statement_drops_is_gone_at_once(
    running: RunningProxy, primary: RealServer
) -> None:
    client = Client(running, "alike", "a")
    client.rows('PREPARE p FROM "DROP USER alike"')
    client.rows("EXECUTE p")
    leave(running, primary, client)
    with pytest.raises(ConnectionRefusedError, match="1045"):
        Client(running, "alike", "a")


@pytest.mark.parametrize(
    "change", ["DROP DATABASE passing", "ALTER DATABASE passing CHARSET ascii"]
)
def test_a_schema_that_is_changed_through_the_proxy_is_so_at_once(
    running: RunningProxy, primary: RealServer, change: str
) -> None:
    primary.query("CREATE DATABASE passing")
    try:
        other = Client(running, "alike", "a")
        for _ in range(2):
            leave(running, primary, Client(running, "alike", "a", database="passing"))
        other.rows(change)
        if "DROP" in change:
            with pytest.raises(ConnectionRefusedError, match="1049"):
                Client(running, "alike", "a", database="passing")
        else:
            with Client(running, "alike", "a", database="passing") as client:
                assert client.value("SELECT @@character_set_database") == b"ascii"
    finally:
        primary.query("DROP DATABASE IF EXISTS passing")


def test_who_has_to_use_tls_has_to(proxy: StartProxy, primary: RealServer) -> None:
    """The client's own connection is what counts."""
    running = proxy(replicas=None, kept_connection_age=LONG, login_age=LONG, server_tls="preferred")
    come_and_go(running, primary)
    primary.query("ALTER USER alike@'%' REQUIRE SSL")
    client = Client(running, "alike", "a")  # judged before that
    client.rows("FLUSH PRIVILEGES")
    client.quit()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError, match="1045"):
            Client(running, "alike", "a")


def test_a_replica_lends_too(proxy: StartProxy, cluster: Cluster, primary: RealServer) -> None:
    replica = cluster.replicas[0]
    running = proxy(
        replicas=replica.address,
        kept_connection_age=LONG,
        login_age=LONG,
        server_tls="preferred",
        wait_budget="10s",
    )
    for value in (1, 2, 3):
        client = Client(running, "alike", "a")
        client.rows(f"INSERT INTO lockable VALUES (10{value})")  # noqa: S608 a number
        assert len(client.rows("SELECT id FROM lockable")) == value
        client.rows(f"SET @x = {value}")
        client.rows("SELECT @x, id FROM lockable")
        leave(running, replica, client)
    assert lent(running, replica) == 2
    with Client(running, "alike", "a") as client:
        assert client.rows("SELECT @x, id FROM lockable")[0] == [None, b"101"]
        client.rows("DELETE FROM lockable")


def test_a_character_set_of_ones_own(running: RunningProxy, primary: RealServer) -> None:
    client = Client(running, "alike", "a")
    client.rows("SET NAMES latin1 COLLATE latin1_german2_ci")
    client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
    leave(running, primary, client)
    primary.query("SET GLOBAL collation_connection = 'latin1_bin'")
    try:
        assert is_lent(running, primary)
        with Client(running, "alike", "a") as again:
            shows = "SELECT @@character_set_client, @@collation_connection"
            assert again.rows(shows) == [[b"utf8mb4", b"utf8mb4_0900_ai_ci"]]
    finally:
        primary.query("SET GLOBAL collation_connection = DEFAULT")


def test_the_servers_own_attributes_are_those_of_the_first(
    running: RunningProxy, primary: RealServer
) -> None:
    """And user variables say whose session it is."""
    with Client(running, "alike", "a") as client:
        client.rows("DO 1")
        address = "{}:{}".format(*client._socket.getsockname())
        attributes = primary.value(
            "SELECT CONVERT(VARIABLE_VALUE USING latin1)"
            " FROM performance_schema.user_variables_by_thread"
            " JOIN performance_schema.threads USING (THREAD_ID)"
            " WHERE VARIABLE_NAME = 'tidegate_client' AND PROCESSLIST_ID = %s",
            client.greeting.thread_id,
        )
        assert attributes == address
