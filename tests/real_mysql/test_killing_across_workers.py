"""KILL of a client's id reaches the client's session, whichever worker has it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from protocol.response import ErrPacket
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_kept_connections import Client
from tests.real_mysql.test_kept_primary import worker_pids
from tests.support.waiting import eventually

RESTING = "tidegate_clients_resting"
UNANSWERED = "tidegate_kills_unanswered_total"
WORKERS = 3
_FIRST_ID = 0x4000_0000
_IDS_OF_A_WORKER = 0x0100_0000
RIGHTS = {
    "owner": "SELECT ON app.*",
    "stranger": "ALL ON app.*",
    "admin": "CONNECTION_ADMIN ON *.*",
    "operator": "SUPER ON *.*",
    "keeper": "SYSTEM_USER, SUPER ON *.*",
}


@pytest.fixture(scope="module", autouse=True)
def _accounts(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    for user, rights in RIGHTS.items():
        primary.query(f"CREATE USER {user}@'%' IDENTIFIED BY 'a'")
        primary.query(f"GRANT {rights} TO {user}@'%'")
    primary.query("CREATE TABLE app.numbers (id INT PRIMARY KEY)")
    primary.query("INSERT INTO app.numbers VALUES (1)")
    cluster.wait_caught_up()
    yield
    for user in RIGHTS:
        primary.query(f"DROP USER {user}@'%'")


@pytest.fixture
def primary(cluster: Cluster) -> RealServer:
    return cluster.primary


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["on", "off"])
def running(proxy: StartProxy, request: pytest.FixtureRequest) -> RunningProxy:
    return start(proxy, request.param)


@pytest.fixture
def sharing(proxy: StartProxy) -> RunningProxy:
    return start(proxy, "on")


def start(proxy: StartProxy, sharing: str) -> RunningProxy:
    return proxy(
        workers=str(WORKERS),
        connection_sharing=sharing,
        connection_sharing_delay="20ms",
        kept_connection_age="1h",
        connect_timeout="2s",
        server_tls="disabled",
    )


def worker_of(client: Client) -> int:
    own = client.rows("SHOW TIDEGATE SCOPES")[0][1]
    assert own is not None
    return (int(own) - _FIRST_ID) // _IDS_OF_A_WORKER


def client_at(running: RunningProxy, clients: ExitStack, user: str, worker: int) -> Client:
    """A session of this worker."""
    while True:
        client = Client(running, user, "a", database=None)
        if worker_of(client) == worker:
            clients.callback(client.close)
            return client
        client.quit()


def rests(running: RunningProxy, many: int) -> None:
    """Wait until so many sessions have no connection, if they share."""
    if "on" in running.command:
        eventually(lambda: running.metric(RESTING) == many)


def error(client: Client, sql: str) -> int:
    """The code of an error; 0 for none."""
    packet = client.query(sql)[-1][1]
    return ErrPacket.parse(packet).code if packet[0] == 0xFF else 0


def is_there(client: Client) -> bool:
    try:
        return client.value("SELECT 1") == b"1"
    except (ConnectionError, EOFError, AssertionError):
        return False


def is_gone(client: Client) -> bool:
    """The worker learns of a KILL by the end of the session's connection, a moment later."""
    return not is_there(client)


def connection_id_of(client: Client) -> int:
    return client.greeting.thread_id


MAY = [
    *(("owner", "owner", True), ("stranger", "owner", False), ("admin", "owner", True)),
    *(("operator", "owner", True), ("operator", "keeper", False), ("keeper", "keeper", True)),
]


def test_who_may_kill_is_the_servers_to_say(sharing: RunningProxy, clients: ExitStack) -> None:
    for number, (killer_user, user, may) in enumerate(MAY):
        command = ("KILL", "KILL QUERY", "KILL CONNECTION")[number % 3]
        client = client_at(sharing, clients, user, 0)
        killer = client_at(sharing, clients, killer_user, 1)
        rests(sharing, 2)
        found = error(killer, f"{command} {connection_id_of(client)}")
        if may:
            assert found == 0, (killer_user, user)
        else:
            assert found in (1095, 1227), (killer_user, user)
        assert is_there(client) is (not may or command == "KILL QUERY")
        for session in (killer, client):
            session.close()
        eventually(lambda: not sharing.metric("tidegate_clients_connected"))


READ = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000)"
    " SELECT COUNT(*) FROM n a, n b, n c, n d, app.numbers"
)


def test_what_runs_on_any_server_is_ended(
    cluster: Cluster, running: RunningProxy, clients: ExitStack
) -> None:
    client = client_at(running, clients, "owner", 2)
    killer = client_at(running, clients, "owner", 0)
    rests(running, 2)

    def runs(server: RealServer) -> bool:
        sql = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE %s"
        return server.value(sql, READ[:40] + "%") != "0"

    ends(client, killer, READ, lambda: any(map(runs, cluster.replicas)))
    eventually(lambda: not any(map(runs, cluster.replicas)))
    ends(client, killer, "SELECT SLEEP(600)")
    assert client.value("SELECT 5") == b"5"
    assert error(killer, f"KILL {connection_id_of(client)}") == 0
    eventually(partial(is_gone, client))


def ends(client: Client, killer: Client, sql: str, began: object = None) -> None:
    """KILL QUERY until it has ended: the first may come before it runs."""
    thread = threading.Thread(target=client.query, args=(sql,))
    thread.start()
    if callable(began):
        eventually(began)

    def is_over() -> bool:
        error(killer, f"KILL QUERY {connection_id_of(client)}")
        thread.join(0.2)
        return not thread.is_alive()

    eventually(is_over)


def test_ids_of_nobody_are_unknown(
    sharing: RunningProxy, primary: RealServer, clients: ExitStack
) -> None:
    killer = client_at(sharing, clients, "admin", 1)
    gone = client_at(sharing, clients, "admin", 2)
    rests(sharing, 2)
    departed = connection_id_of(gone)
    gone.quit()
    count = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
    assert primary.value(count, departed) == "0"
    assert error(killer, f"KILL {departed}") == 1094
    with Client(primary, "admin", "a", database=None) as direct:
        for number in ("0", "4294967295", "4294967296", "9223372036854775807", "9" * 20):
            sql = f"KILL {number}"
            assert error(killer, sql) == error(direct, sql), sql
    assert sharing.metric(UNANSWERED) == 0


def test_clients_ids_are_unique(
    sharing: RunningProxy, primary: RealServer, clients: ExitStack
) -> None:
    """Sessions rest and borrow again and again, at all workers; new ones log in between."""
    all_of_them: list[Client] = []
    for current in range(8):
        all_of_them += [
            clients.enter_context(Client(sharing, "owner", "a", database=None)) for _ in range(5)
        ]
        rests(sharing, len(all_of_them))
        for client in all_of_them[current::2]:
            assert client.value("SELECT 5") == b"5"
    ids = [connection_id_of(client) for client in all_of_them]
    assert len(set(ids)) == len(ids)
    killer = client_at(sharing, clients, "admin", 0)
    for number, client in enumerate(all_of_them):
        assert error(killer, f"KILL {connection_id_of(client)}") == 0
        eventually(partial(is_gone, client))
        assert all(map(is_there, all_of_them[number + 1 : number + 3]))


def test_a_worker_that_is_killed_or_frozen_hinders_nobody_for_long(
    sharing: RunningProxy, clients: ExitStack
) -> None:
    client = client_at(sharing, clients, "owner", 2)
    killer = client_at(sharing, clients, "owner", 0)
    gone = client_at(sharing, clients, "owner", 1)
    rests(sharing, 3)
    os.kill(pid_of(sharing, 1), signal.SIGKILL)
    assert error(killer, f"KILL {connection_id_of(gone)}") == 1094
    assert error(killer, f"KILL {connection_id_of(client)}") == 0
    eventually(partial(is_gone, client))
    again = client_at(sharing, clients, "owner", 1)  # its successor is asked like it
    other = client_at(sharing, clients, "owner", 2)
    rests(sharing, 2)
    os.kill(pid_of(sharing, 1), signal.SIGSTOP)
    try:
        assert error(killer, f"KILL {connection_id_of(other)}") == 0
        eventually(partial(is_gone, other))
        assert error(killer, f"KILL {connection_id_of(again)}") == 1094
    finally:
        os.kill(pid_of(sharing, 1), signal.SIGCONT)
    eventually(lambda: sharing.metric(UNANSWERED) == 1)
    assert is_there(again)
    assert error(killer, f"KILL {connection_id_of(again)}") == 0
    eventually(partial(is_gone, again))


def pid_of(running: RunningProxy, worker: int) -> int:
    pids = worker_pids(running)
    (pid,) = [pid for pid in pids if f"worker {worker} (pid {pid})" in running.stderr]
    return pid


def test_many_kills_at_once(sharing: RunningProxy, clients: ExitStack) -> None:
    killers = [client_at(sharing, clients, "owner", worker) for worker in range(WORKERS)]
    victims = [client_at(sharing, clients, "owner", worker) for worker in range(WORKERS)]
    rests(sharing, 2 * WORKERS)
    many = 300
    codes: list[int] = []

    def kills(killer: Client) -> None:
        for number in range(many):
            codes.append(error(killer, f"KILL QUERY {connection_id_of(victims[number % WORKERS])}"))

    threads = [threading.Thread(target=kills, args=(killer,)) for killer in killers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * (many * WORKERS)
    assert all(map(is_there, victims))
    assert sharing.metric(UNANSWERED) == 0
