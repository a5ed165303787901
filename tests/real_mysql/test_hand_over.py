"""A process takes over from one that runs: logins, transactions, and what scopes must see."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from scripts.ports import reserve_port
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.client_threads import ClientThreads
from tests.support.waiting import eventually

INSERT = "INSERT INTO handed VALUES ()"
COUNT = "SELECT COUNT(*) FROM handed"

CLIENT = "192.0.2.7:56324"
V1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 3306\r\n"
V2 = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c c0000207 c0000201 dc04 0cea")

TakeOver = Callable[..., "Successor"]


class Successor:
    """A process with a proxy's command line that takes over."""

    def __init__(self, command: list[str], stderr: Path) -> None:
        self._stderr = stderr
        with stderr.open("wb") as file:
            self.process = subprocess.Popen(
                [*command, "--take-over"], stdin=subprocess.DEVNULL, stderr=file
            )

    def wait_for(self, text: str) -> None:
        def says() -> bool:
            stderr = self._stderr.read_text()
            assert self.process.poll() is None, stderr
            return text in stderr

        eventually(says)


@pytest.fixture
def take_over(tmp_path: Path) -> Iterator[TakeOver]:
    started: list[Successor] = []

    def take_over(running: RunningProxy, workers: int | None = None) -> Successor:
        command = list(running.command)
        if workers is not None:
            if "--workers" in command:
                at = command.index("--workers")
                del command[at : at + 2]
            command += ["--workers", str(workers)]
        started.append(Successor(command, tmp_path / f"successor{len(started)}"))
        started[-1].wait_for("took over from")
        return started[-1]

    yield take_over
    for successor in started:
        if successor.process.poll() is None:
            successor.process.terminate()
            successor.process.wait(60)


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.handed")
    cluster.primary.query("CREATE TABLE app.handed (id INT AUTO_INCREMENT PRIMARY KEY)")
    cluster.wait_caught_up()


def count(session: Connection[Cursor]) -> int:
    ((found,),) = run(session, COUNT)
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (1, 2)])
def test_neither_process_misses_what_the_other_was_told(
    proxy: StartProxy,
    take_over: TakeOver,
    late_replicas: None,
    tmp_path: Path,
    before: int,
    after: int,
) -> None:
    running = proxy(
        scope="user",
        wait_budget="50ms",
        drain_timeout="5m",
        state_dir=str(tmp_path / "state"),
        workers=None if before == 1 else str(before),
    )
    with running.connect() as writer, running.connect() as reader:
        assert count(reader) == 0
        run(reader, "START TRANSACTION READ ONLY")
        run(writer, "BEGIN")
        run(writer, INSERT)
        successor = take_over(running, after)
        with closing(running.connect()) as new:
            assert count(new) == 0
            run(writer, "COMMIT")
            assert count(new) == 1, "a write of the old process"
            run(new, INSERT)
            assert count(reader) == 2, "a write of the new process, in the old one's transaction"
            run(reader, "COMMIT")
            assert running.wait() == 0
            successor.wait_for("has ended")
            assert count(new) == 2
            with closing(running.connect()) as other:
                assert count(other) == 2
                run(new, INSERT)
                assert count(other) == 3


def test_a_transaction_goes_on_and_an_idle_session_ends(
    proxy: StartProxy, take_over: TakeOver, cluster: Cluster, tmp_path: Path
) -> None:
    running = proxy(state_dir=str(tmp_path / "state"), drain_timeout="5m")
    with running.connect() as idle, running.connect() as working:
        run(working, "BEGIN")
        run(working, INSERT)
        take_over(running)
        with pytest.raises(pymysql.OperationalError) as ended:
            eventually(lambda: idle.ping(reconnect=False) and None)
        assert ended.value.args[0] in (1053, 2006, 2013)
        run(working, INSERT)
        run(working, "COMMIT")
        assert running.wait() == 0
    assert cluster.primary.value("SELECT COUNT(*) FROM app.handed") == "2"


@pytest.mark.parametrize("workers", [1, 2])
def test_tls_and_the_unix_socket_go_over(
    proxy: StartProxy, take_over: TakeOver, cluster: Cluster, tmp_path: Path, workers: int
) -> None:
    path = tmp_path / "s"
    running = proxy(
        state_dir=str(tmp_path / "state"),
        socket=str(path),
        drain_timeout="5m",
        workers=str(workers),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    ways: list[dict[str, Any]] = [
        {"host": "127.0.0.1", "port": running.port, "ssl": context},
        {"unix_socket": str(path), "ssl_disabled": True},
    ]

    def connect() -> list[Connection[Cursor]]:
        account = {"user": APP_USER, "password": APP_PASSWORD, "database": "app"}
        return [pymysql.connect(**way, **account, autocommit=True) for way in ways]

    before = connect()
    for session in before:
        run(session, "BEGIN")
        run(session, INSERT)
    take_over(running)
    after = connect()
    for session in before:
        run(session, INSERT)
        run(session, "COMMIT")
    assert running.wait() == 0
    assert path.exists()
    cluster.wait_caught_up()
    for session in [*after, *connect()]:
        assert count(session) == 4
        session.close()


class Logins(ClientThreads):
    """Clients that log in, ask something and leave."""

    def __init__(self, running: RunningProxy, threads: int = 2) -> None:
        super().__init__(threads)
        self._running = running

    def come_and_go(self) -> None:
        with closing(self._running.connect()) as session:
            count(session)

    def wait_for(self, more: int) -> None:
        enough = self.count + more
        while self.count < enough and len(self.errors) < 10:
            time.sleep(0.1)


def upgrade(
    proxy: StartProxy, take_over: TakeOver, tmp_path: Path, workers: list[int], logins: int
) -> None:
    """Take over again and again while clients log in; between two take-overs so many do.

    A transaction that is open at each take-over goes on in the old process.
    """
    running = proxy(
        state_dir=str(tmp_path / "state"),
        workers=None if workers[0] == 1 else str(workers[0]),
        drain_timeout="1m",
    )
    with Logins(running) as clients:
        clients.wait_for(logins)
        for number in workers[1:]:
            with closing(running.connect()) as working:
                run(working, "BEGIN")
                run(working, INSERT)
                successor = take_over(running, number)
                run(working, INSERT)
                run(working, "COMMIT")
            successor.wait_for("has ended")
            clients.wait_for(logins)
    assert clients.errors == []


class Operators(ClientThreads):
    """Operators at the port that is theirs."""

    def __init__(self, port: int) -> None:
        super().__init__(1)
        self._port = port

    def come_and_go(self) -> None:
        with closing(
            pymysql.connect(host="127.0.0.1", port=self._port, user=APP_USER, password=APP_PASSWORD)
        ) as session:
            servers = run(session, "SHOW TIDEGATE SERVERS")
            assert sum(row[0] is not None for row in servers) == 3, servers
            assert run(session, "SHOW TIDEGATE SESSIONS") is not None


class Pages(ClientThreads):
    """Those that ask the HTTP pages: load balancers, Prometheus, operators."""

    def __init__(self, running: RunningProxy, *paths: str) -> None:
        super().__init__(1)
        self._running = running
        self._paths = cycle(paths)

    def come_and_go(self) -> None:
        path = next(self._paths)
        status, text = self._running.health(path)
        assert status == 200, f"{path}: {status} {text}"


class BehindBalancer(ClientThreads):
    """Clients whose address a load balancer tells."""

    def __init__(self, running: RunningProxy) -> None:
        super().__init__(2)
        self._running = running
        self._headers = cycle((V1, V2))

    def come_and_go(self) -> None:
        connection = socket.create_connection(("127.0.0.1", self._running.port), timeout=60)
        connection.sendall(next(self._headers))
        session = pymysql.connect(
            user=APP_USER, password=APP_PASSWORD, database="app", defer_connect=True
        )
        session.connect(connection)
        with closing(session):
            ((identity,),) = run(session, "SELECT CONNECTION_ID()")
            hosts = {row[0]: row[2] for row in run(session, "SHOW TIDEGATE SESSIONS")}
            assert hosts[str(identity)] == CLIENT, hosts


@pytest.mark.parametrize("workers", [[1, 1], [2, 2], [1, 2]], ids=str)
def test_everything_is_reached_all_the_time(
    proxy: StartProxy, take_over: TakeOver, tmp_path: Path, workers: list[int]
) -> None:
    """By operators, over HTTP, and by a load balancer that names its clients."""
    admin_port = reserve_port()
    running = proxy(
        state_dir=str(tmp_path / "state"),
        workers=str(workers[0]),
        admins=APP_USER,
        admin_listen=f"127.0.0.1:{admin_port}",
        proxy_protocol_networks="127.0.0.0/8",
        drain_timeout="1m",
    )
    with (
        Operators(admin_port) as operators,
        Pages(running, "/readyz") as readiness,
        Pages(running, "/livez", "/v1/servers", "/v1/sessions", "/metrics") as pages,
        BehindBalancer(running) as clients,
    ):
        everybody = (operators, readiness, pages, clients)
        wait_for_more(everybody)
        successor = take_over(running, workers[1])
        successor.wait_for("has ended")
        wait_for_more(everybody)
    assert [each.errors for each in everybody] == [[]] * 4


def wait_for_more(everybody: Sequence[ClientThreads]) -> None:
    """Until each has come and gone five times more, or has met an error."""
    enough = [each.count + 5 for each in everybody]
    eventually(
        lambda: all(
            each.count >= count or each.errors
            for each, count in zip(everybody, enough, strict=True)
        )
    )


def test_no_login_is_refused(proxy: StartProxy, take_over: TakeOver, tmp_path: Path) -> None:
    upgrade(proxy, take_over, tmp_path, [1, 1], 20)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [[1, 1, 1, 1], [2, 1, 2, 3]], ids=str)
def test_ten_thousand_logins_during_three_upgrades(
    proxy: StartProxy, take_over: TakeOver, tmp_path: Path, workers: list[int]
) -> None:
    upgrade(proxy, take_over, tmp_path, workers, 2500)
