"""The configuration is read anew while clients work: nothing is dropped, and nothing is stale."""

import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from proxy.reload.command import ask
from proxy.tls.materials import self_signed
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import MONITOR_PASSWORD, MONITOR_USER
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> Iterator[None]:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.reloaded (id INT PRIMARY KEY, n INT)")
    yield
    cluster.primary.query("DROP TABLE app.reloaded")


class Configured:
    """A proxy with a file, and a folder for what the file names."""

    def __init__(self, proxy: StartProxy, cluster: Cluster, folder: Path, workers: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.file = folder / "tidegate.toml"
        self.state = folder / "state"
        self.state.mkdir()
        self.certificate("first")
        password = folder / "password"
        password.write_text(MONITOR_PASSWORD)
        password.chmod(0o600)
        self.options: dict[str, object] = {
            "replicas": [replica.address for replica in cluster.replicas],
            "client-tls-cert": "cert.pem",
            "client-tls-key": "key.pem",
            "monitor-user": MONITOR_USER,
            "monitor-password-file": "password",
            "monitor-interval": "100ms",
        }
        self.write()
        self.running = proxy(
            config=str(self.file),
            state_dir=str(self.state),
            workers=str(workers),
            handshake_timeout="60s",  # a machine may be slow
            replicas=None,
            monitor_user=None,
            monitor_password_file=None,
        )

    def certificate(self, name: str) -> None:
        certificate, key = self_signed(name, "127.0.0.1")
        (self.folder / "cert.pem").write_bytes(certificate)
        (self.folder / "key.pem").write_bytes(key)
        (self.folder / "key.pem").chmod(0o600)

    def write(self, text: str = "", **options: object) -> None:
        """Write the file; names of options have underscores here, and None leaves one out."""
        values = self.options | {name.replace("_", "-"): value for name, value in options.items()}
        lines = [
            f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None
        ]
        self.file.write_text("\n".join((*lines, text)))

    def reload(self) -> tuple[int, str]:
        """Run `tidegate reload`; its status, and what it has written."""
        command = [sys.executable, "-m", "proxy.cli", "reload", "--state-dir", str(self.state)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def ask(self) -> dict[str, Any]:
        """Ask at the control socket, as `tidegate reload` does."""
        answer = ask(self.state / "control.sock").to_message()
        return {name: list(texts) for name, texts in answer.items()}

    def hang_up(self) -> None:
        """Send SIGHUP, and wait until the reload has ended."""
        before = self.running.stderr.count(" reload: ")
        self.running.signal(signal.SIGHUP)
        eventually(lambda: self.running.stderr.count(" reload: ") > before)

    def shown_certificate(self) -> str:
        """The name in the certificate that a new client sees."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pymysql.connect(
            host="127.0.0.1",
            port=self.running.port,
            user="app",
            password=app_password(),
            ssl=context,
        ) as connection:
            der = connection._sock.getpeercert(binary_form=True)  # type: ignore[attr-defined]
        from cryptography import x509

        return x509.load_der_x509_certificate(der).subject.rfc4514_string()


def app_password() -> str:
    from tests.real_mysql.template import APP_PASSWORD

    return APP_PASSWORD


@pytest.fixture(params=[1])
def configured(
    request: pytest.FixtureRequest, proxy: StartProxy, cluster: Cluster, tmp_path: Path
) -> Configured:
    """Of one worker, unless the test asks for another number."""
    return Configured(proxy, cluster, tmp_path, request.param)


several = pytest.mark.parametrize("configured", [1, 2], indirect=True)


def variable(connection: Any, name: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT @@tidegate_{name}")
        return cursor.fetchone()[0]


@several
def test_what_changed_counts_for_open_sessions_and_the_rest_is_named(
    configured: Configured,
) -> None:
    running = configured.running
    with running.connect() as first, running.connect() as second:
        assert variable(first, "consistency") == "READ_OWN_WRITES"
        configured.write(consistency="MONOTONIC_READS", proxy_name="other", max_connections=77)
        status, text = configured.reload()
        assert (status, text.splitlines()) == (
            1,
            [
                "tidegate: applied: consistency, max-connections",
                "tidegate: needs a restart: proxy-name",
            ],
        )
        for connection in (first, second):
            assert variable(connection, "consistency") == "MONOTONIC_READS"
        configured.write()
        configured.hang_up()
        for connection in (first, second):
            assert variable(connection, "consistency") == "READ_OWN_WRITES"
        assert configured.reload() == (0, "tidegate: nothing has changed\n")


def test_a_file_with_errors_changes_nothing(configured: Configured) -> None:
    with configured.running.connect() as client:
        configured.write(
            consistency="STRONG", max_connections=-1, client_tls_key="gone.pem", replicas=["a", "a"]
        )
        status, text = configured.reload()
        assert status == 2
        assert [line.rpartition(": ")[0] and line for line in text.splitlines()] == [
            "tidegate: nothing was changed",
            *[line for line in text.splitlines() if line.startswith("tidegate: error: ")],
        ]
        for part in ("max-connections", "gone.pem", "named twice"):
            assert part in text
        assert variable(client, "consistency") == "READ_OWN_WRITES"
        (configured.folder / "key.pem").write_text("no key")
        configured.write(consistency="STRONG")
        status, text = configured.reload()
        assert (status, "client-tls-key" in text) == (2, True)
        configured.write(text="what = [")
        assert configured.ask()["errors"]
        configured.file.unlink()
        assert "cannot be read" in configured.ask()["errors"][0]
        configured.certificate("first")
        configured.write(consistency="STRONG")
        assert configured.ask()["errors"] == []
        assert variable(client, "consistency") == "STRONG"


def test_new_clients_see_the_new_certificate_and_others_live(configured: Configured) -> None:
    assert configured.shown_certificate() == "CN=first"
    with configured.running.connect() as client:
        configured.certificate("second")
        answer = configured.ask()  # only the files' contents have changed
        assert answer["applied"] == ["client-tls-cert", "client-tls-key"]
        for _ in range(4):
            assert configured.shown_certificate() == "CN=second"
        client.ping(reconnect=False)


def test_a_snapshot_lasts_on_the_replica_that_was_removed(configured: Configured) -> None:
    def read(cursor: Any) -> tuple[object, str]:
        """The number, and the server that gave it."""
        cursor.execute("SELECT n FROM reloaded")
        (number,) = cursor.fetchone()
        cursor.execute("SHOW TIDEGATE LAST")
        columns = [column[0] for column in cursor.description]
        return number, dict(zip(columns, cursor.fetchone(), strict=True))["server"]

    cluster = configured.cluster
    with (
        configured.running.connect() as reader,
        configured.running.connect() as writer,
        reader.cursor() as reads,
        writer.cursor() as writes,
    ):
        writes.execute("INSERT INTO reloaded VALUES (1, 1)")
        cluster.wait_caught_up()
        reads.execute("START TRANSACTION READ ONLY")
        first = read(reads)
        assert first[0] == 1
        assert first[1] in [replica.address for replica in cluster.replicas]
        configured.write(replicas=None)
        assert configured.ask()["applied"] == ["replicas"]
        writes.execute("UPDATE reloaded SET n = 2")
        cluster.wait_caught_up()
        for _ in range(2):
            assert read(reads) == first
        reader.commit()
        assert read(reads) == (2, cluster.primary.address)


def test_a_worker_that_is_started_again_has_the_new_configuration(
    proxy: StartProxy, cluster: Cluster, tmp_path: Path
) -> None:
    configured = Configured(proxy, cluster, tmp_path, workers=2)
    running = configured.running
    configured.write(consistency="STRONG")
    assert configured.ask()["applied"] == ["consistency"]
    workers = worker_pids(running)
    for pid in workers:
        os.kill(pid, signal.SIGHUP)  # nobody's business but the supervisor's
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: workers.isdisjoint(worker_pids(running)) and len(worker_pids(running)) == 2)
    with connected(running) as client:
        assert variable(client, "consistency") == "STRONG"


def test_a_hangup_of_a_worker_is_ignored(
    proxy: StartProxy, cluster: Cluster, tmp_path: Path
) -> None:
    running = Configured(proxy, cluster, tmp_path, workers=2).running
    with running.connect() as client:
        pids = worker_pids(running)
        for pid in pids:
            os.kill(pid, signal.SIGHUP)
        client.ping(reconnect=False)
        assert worker_pids(running) == pids


def test_hangups_at_once_and_while_the_proxy_stops(configured: Configured) -> None:
    running = configured.running
    with running.connect() as client, client.cursor() as cursor:
        for number in range(5):
            configured.write(max_connections=100 + number)
            running.signal(signal.SIGHUP)
        eventually(lambda: configured.ask()["applied"] == [])
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO reloaded VALUES (1, 1)")
        running.signal(signal.SIGTERM)
        eventually(lambda: "is stopping" in running.health("/readyz")[1])
        configured.write(consistency="STRONG")
        running.signal(signal.SIGHUP)
    assert running.wait() == 0


def worker_pids(running: RunningProxy) -> set[int]:
    found = {}
    for line in running.stderr.splitlines():
        if "listens on port" in line:
            worker = line.partition("[worker ")[2].partition("]")[0]
            found[worker] = int(line.partition("(pid ")[2].partition(")")[0])
    return set(found.values())


def connected(running: RunningProxy) -> Any:
    found: list[Any] = []

    def connects() -> bool:
        with contextlib.suppress(pymysql.OperationalError):
            found.append(running.connect())
        return bool(found)

    eventually(connects)
    return found[0]


class Load:
    """Clients that write and read, and check each answer.

    Each has a row of its own, which only it writes: it must read what it wrote last.
    """

    def __init__(self, running: RunningProxy, clients: int) -> None:
        self._running = running
        self._stop = threading.Event()
        self.faults: list[str] = []
        self.reads = [0] * clients
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        try:
            self._work(number)
        except Exception as error:
            self.faults.append(f"client {number}: {error!r}")

    def _work(self, number: int) -> None:
        turn = 0
        while not self._stop.is_set():
            with self._running.connect() as connection, connection.cursor() as cursor:
                for _ in range(20):
                    turn += 1
                    cursor.execute(
                        "INSERT INTO reloaded VALUES (%s, %s) ON DUPLICATE KEY UPDATE n = %s",
                        (number, turn, turn),
                    )
                    self._read(cursor, number, turn)
                    with contextlib.suppress(StopIteration):
                        self._in_transaction(connection, cursor, number, turn)

    def _in_transaction(self, connection: Any, cursor: Any, number: int, turn: int) -> None:
        if turn % 5:
            return
        cursor.execute("START TRANSACTION READ ONLY")
        for _ in range(3):
            self._read(cursor, number, turn)
        connection.commit()

    def _read(self, cursor: Any, number: int, turn: int) -> None:
        cursor.execute("SELECT n FROM reloaded WHERE id = %s", (number,))
        row = cursor.fetchone()
        self.reads[number] += 1
        if row != (turn,):
            self.faults.append(f"client {number} read {row}, not {turn}")

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def reload_under_load(configured: Configured, clients: int, reloads: int) -> None:
    cluster = configured.cluster
    both = [replica.address for replica in cluster.replicas]
    changes: list[Callable[[int], None]] = [
        lambda _: configured.write(replicas=both[:1]),
        lambda _: configured.write(replicas=both[1:]),
        lambda _: configured.write(replicas=None),
        lambda _: configured.write(max_lag="off", wait_budget="5s"),
        lambda _: configured.write(consistency="MONOTONIC_READS", max_server_connections=50),
        lambda number: configured.certificate(f"at-{number}"),
        lambda _: configured.write(max_connections=-1),
        lambda _: configured.write(text='[users.app]\nconsistency = "STRONG"\n'),
        lambda _: configured.write(kept_connections=0, login_age="0"),
        lambda _: configured.write(),
    ]
    load = Load(configured.running, clients)
    wrong = 0
    try:
        for number in range(reloads):
            changes[number % len(changes)](number)
            read = sum(load.reads)
            errors = configured.ask()["errors"]
            wrong += len(errors)
            assert all("max-connections" in error for error in errors), errors
            # Some reads for each configuration, and none of which a client would wait.
            eventually(lambda read=read: load.faults or sum(load.reads) > read + clients)  # type: ignore[misc]
            if load.faults:
                break
    finally:
        load.end()
    assert load.faults == []
    assert wrong == reloads // len(changes)
    assert configured.running.running


@several
def test_a_load_meets_no_error_and_no_stale_read(configured: Configured) -> None:
    reload_under_load(configured, clients=4, reloads=20)


@pytest.mark.deep
@several
def test_a_large_load_meets_no_error_and_no_stale_read(configured: Configured) -> None:
    reload_under_load(configured, clients=50, reloads=100)


def test_only_the_owner_may_use_the_socket(configured: Configured) -> None:
    path = configured.state / "control.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    configured.running.stop()
    assert not path.exists()
    status, text = configured.reload()
    assert (status, "no proxy listens at" in text) == (2, True)
    shutil.rmtree(configured.state)
    assert configured.reload()[0] == 2
