"""What Tidegate answers by itself while a session has no connection leaves the session as it was.

All sessions of a test rest at the same time, and go on one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TypeAlias

import pytest

from protocol.constants import Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import PREPARED, RESULTS, SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_borrowing import RESTING
from tests.real_mysql.test_kept_connections import Client
from tests.support.waiting import eventually

LEVELS = (
    *("BEST_EFFORT", "READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
    "BOUNDED_STALENESS(60000ms)",
)

Answered: TypeAlias = Callable[[Client], object]

FOLLOWING = {
    "write": ("INSERT INTO app.at_rest (n) VALUES (1)",),
    "read": ("SELECT COUNT(*) FROM app.at_rest", "SELECT id FROM app.at_rest FOR UPDATE"),
    "transaction": (
        *("BEGIN", "INSERT INTO app.at_rest (n) VALUES (2)"),
        *("SELECT COUNT(*) FROM app.at_rest", "COMMIT"),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _account(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    cluster.primary.query("CREATE USER sharer@'%' IDENTIFIED BY 'a'")
    cluster.primary.query("GRANT ALL ON *.* TO sharer@'%'")
    cluster.primary.query(
        "CREATE TABLE app.at_rest (id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL)"
    )
    cluster.wait_caught_up()
    yield
    cluster.primary.query("DROP USER sharer@'%'")


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy(
        *(),
        connection_sharing="on",
        connection_sharing_delay="50ms",
        kept_connection_age="1h",
        server_tls="disabled",
    )


def run(client: Client, *statements: str) -> str:
    """The first error, or nothing."""
    for sql in statements:
        last = client.query(sql)[-1][1]
        if last[0] == 0xFF:
            return f"{sql}: {ErrPacket.parse(last)}"
    return ""


def rest(running: RunningProxy, clients: list[Client]) -> None:
    """Wait until none of the sessions has a connection to the primary."""
    for client in clients:
        assert not run(client, "INSERT INTO app.at_rest (n) VALUES (0)", "SELECT 1")
    eventually(lambda: running.metric(RESTING) == len(clients))


def sessions(running: RunningProxy, count: int) -> list[Client]:
    return [Client(running, "sharer", "a") for _ in range(count)]


def at_once(running: RunningProxy, answered: dict[str, Answered], following: str) -> list[str]:
    """What is wrong where sessions rest, each is answered something, and each goes on."""
    clients = sessions(running, len(answered))
    rest(running, clients)
    wrong = []
    for client, (name, answer) in zip(clients, answered.items(), strict=True):
        answer(client)
        error = run(client, *FOLLOWING[following])
        if error:
            wrong.append(f"{name}: {error}")
        client.quit()
    return wrong


@pytest.mark.parametrize("scope", ["connection", "user", "application", "proxy"])
def test_a_session_that_rests_may_change_its_level(running: RunningProxy, scope: str) -> None:
    pairs = list(product(LEVELS, LEVELS))
    following = [list(FOLLOWING.values())[number % 3] for number in range(len(pairs))]
    clients = sessions(running, len(pairs))
    named = ", tidegate_application = 'a'" if scope == "application" else ""
    for client, (before, _) in zip(clients, pairs, strict=True):
        level = f"tidegate_scope = '{scope}', tidegate_consistency = '{before}'{named}"
        assert not run(client, f"SET {level}")
    rest(running, clients)
    wrong = []
    for client, (before, level), statements in zip(clients, pairs, following, strict=True):
        error = run(client, f"SET tidegate_consistency = '{level}'", *statements)
        if error:
            wrong.append((before, level, error))
    assert not wrong
    rest(running, clients)
    for client, (before, level), statements in zip(clients, pairs, following, strict=True):
        levels = [f"SET tidegate_consistency = '{name}'" for name in (before, level, before)]
        error = run(client, *levels, *statements)
        if error:
            wrong.append((level, before, error))
        client.quit()
    assert not wrong


def setting(sql: str) -> Answered:
    return lambda client: client.query(sql)


def sending(command: Command, body: bytes = b"", shape: int = SIMPLE) -> Answered:
    return lambda client: client.command(command, body, shape)


def unanswered(command: Command, body: bytes) -> Answered:
    return lambda client: client.send(frame(bytes([command]) + body, 0))


NO_STATEMENT = (77).to_bytes(4, "little")
ANSWERED: dict[str, Answered] = {
    sql: setting(sql)
    for sql in (
        *("SET tidegate_consistency = DEFAULT", "SET tidegate_consistency = 'NONE SUCH'"),
        *("SET tidegate_scope = 'proxy'", "SET tidegate_scope = 'user'"),
        "SET tidegate_consistency = 'BEST_EFFORT', tidegate_scope = 'user'",
        *("SET tidegate_wait_budget = '1ms'", "SET tidegate_on_timeout = 'error'"),
        "SET tidegate_transaction_reads = 'replica'",
        *("SHOW TIDEGATE LAST", "SHOW TIDEGATE SESSION", "SHOW TIDEGATE SERVERS"),
        *("SHOW TIDEGATE SCOPES", "SHOW TIDEGATE LAG", "SHOW VARIABLES LIKE 'tidegate%'"),
        *("SELECT @@tidegate_consistency", "SHOW TIDEGATE NOTHING"),
        "SELECT 1 /* tidegate consistency=MONOTONIC_READS */",
        "/* tidegate consistency=MONOTONIC_READS */ SELECT COUNT(*) FROM app.at_rest",
        "/* tidegate consistency=BEST_EFFORT */ INSERT INTO app.at_rest (n) VALUES (3)",
    )
} | {
    "COM_PING": sending(Command.COM_PING),
    "COM_INIT_DB": sending(Command.COM_INIT_DB, b"app"),
    "COM_RESET_CONNECTION": sending(Command.COM_RESET_CONNECTION),
    "COM_SET_OPTION": sending(Command.COM_SET_OPTION, b"\1\0"),
    "COM_STMT_PREPARE": sending(Command.COM_STMT_PREPARE, b"SELECT 1", PREPARED),
    "COM_STMT_EXECUTE": sending(Command.COM_STMT_EXECUTE, NO_STATEMENT + b"\0\1\0\0\0", RESULTS),
    "COM_STMT_RESET": sending(Command.COM_STMT_RESET, NO_STATEMENT),
    "COM_STMT_CLOSE": unanswered(Command.COM_STMT_CLOSE, NO_STATEMENT),
    "COM_STMT_SEND_LONG_DATA": unanswered(Command.COM_STMT_SEND_LONG_DATA, NO_STATEMENT + b"\0\0x"),
}


@pytest.mark.parametrize("following", FOLLOWING)
def test_a_session_that_rests_goes_on_after_what_the_proxy_answers(
    running: RunningProxy, following: str
) -> None:
    assert not at_once(running, ANSWERED, following)


def test_a_replicas_connection_follows_the_level_of_a_session_that_rests(
    running: RunningProxy, cluster: Cluster
) -> None:
    cluster.wait_caught_up()
    client = Client(running, "sharer", "a")
    assert not run(client, "DO 1", "SELECT id FROM app.at_rest LIMIT 1")
    eventually(lambda: running.metric(RESTING) == 1)
    assert not run(client, "SET tidegate_consistency = 'MONOTONIC_READS'")
    assert not run(client, "SELECT id FROM app.at_rest LIMIT 1")
    tracked = [replica.value(TRACK_ALL) for replica in cluster.replicas]
    client.quit()
    assert "1" in tracked


TRACK_ALL = (
    "SELECT COUNT(*) FROM performance_schema.variables_by_thread v"
    " JOIN performance_schema.threads t USING (THREAD_ID) WHERE PROCESSLIST_USER = 'sharer'"
    " AND VARIABLE_NAME = 'session_track_gtids' AND VARIABLE_VALUE = 'ALL_GTIDS'"
)
