"""The supervisor with a small server in place of the proxy, in real processes."""

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy import log, supervisor
from proxy.address import Address
from proxy.config import Config
from proxy.supervisor import ChildWorker
from proxy.tls.materials import self_signed
from proxy.worker import CANNOT_SERVE
from proxy.workers import run
from scripts.ports import reserve_port
from tests.real_mysql.fork_server import ForkedProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.early

ROOT = Path(__file__).parents[2]

# Answers one line of JSON about its worker; its proxy_name says how else it behaves.
STAND_IN = """
import asyncio, hashlib, json, os, socket, sys, time

plain = socket.getaddrinfo

def getaddrinfo(host, port, **hints):
    if host != "many":
        return plain(host, port, **hints)
    ipv4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
    ipv6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", port, 0, 0))
    return [ipv6, ipv4, ipv4]

socket.getaddrinfo = getaddrinfo

async def serve(live, metrics, routing_log, worker, stop, lifecycle):
    config = live.config
    if config.proxy_name == f"fails-{worker}":
        raise OSError(98, "the stand-in cannot listen")
    if config.proxy_name == f"dies-{worker}":
        os._exit(7)
    if config.proxy_name == f"late-{worker}":
        while not os.path.exists(os.path.join(os.path.dirname(__file__), "come-up")):
            await asyncio.sleep(0.01)

    async def answer(reader, writer):
        metrics.tracked += 1
        about = {"pid": os.getpid(), "worker": worker, "run": routing_log and routing_log.run}
        about["key"] = hashlib.sha256(live.materials.rsa_key.public_pem()).hexdigest()
        writer.write(json.dumps(about).encode())
        await writer.drain()
        writer.close()

    sockets = lifecycle.start.sockets
    servers = [await asyncio.start_server(answer, sock=found.socket) for found in sockets]
    lifecycle.ready(servers[0].sockets[0].getsockname()[1])
    print(f"worker {worker} serves in process {os.getpid()}", flush=True)
    if config.proxy_name == f"hangs-{worker}":
        asyncio.get_running_loop().call_later(0.1, time.sleep, 3600)
    await stop.wait()
    for server in servers:
        server.close()
    if config.proxy_name == "stubborn":
        print("stubborn", file=sys.stderr, flush=True)
        await asyncio.sleep(3600)
"""

START = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
import stand_in
from proxy import supervisor, workers
from proxy.config import load
supervisor.HEARTBEAT_INTERVAL_S = {heartbeat_interval!r}
if __name__ != "__main__" and {slowly}:
    import time
    print("a worker is born", flush=True)
    time.sleep(5)
if __name__ == "__main__":
    sys.exit(workers.run(load(None, {arguments!r}), stand_in.serve))
"""


class Running:
    """`workers.run` in a process of its own.

    With `redirections` it and its workers are new interpreters, and else copies of others.
    """

    def __init__(
        self,
        folder: Path,
        redirections: str | None = None,
        slowly: bool = False,
        heartbeat_interval: float = supervisor.HEARTBEAT_INTERVAL_S,
        **options: str,
    ) -> None:
        (folder / "stand_in.py").write_text(STAND_IN)
        arguments = {
            "primary": ["127.0.0.1:1"],
            "listen": ["127.0.0.1:0"],
            "metrics": ["127.0.0.1:0"],
            **{name.replace("_", "-"): [text] for name, text in options.items()},
        }
        script = folder / "start.py"
        script.write_text(
            START.format(
                path=[str(ROOT), str(folder)],
                slowly=slowly,
                heartbeat_interval=heartbeat_interval,
                arguments=arguments,
            )
        )
        self._stderr = folder / "stderr"
        self._stderr.touch()
        self.process: ForkedProxy | subprocess.Popen[bytes]
        if redirections is None:
            self.process = ForkedProxy([], self._stderr, script=script)
            return
        command = ["sh", "-c", f'exec "$0" "$1" {redirections}', sys.executable, str(script)]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def find(self, pattern: str) -> str:
        """Wait until stderr says something; return the first group."""

        def find() -> str | None:
            match = re.search(pattern, self.stderr)
            assert match or self.process.poll() is None, self.stderr
            return match and match[1]

        return eventually(find)

    def port(self) -> int:
        return int(self.find(r"listening on 127\.0\.0\.1:(\d+) "))

    def ask(self) -> dict[str, str | int]:
        with socket.create_connection(("127.0.0.1", self.port()), timeout=30) as connection:
            about: dict[str, str | int] = json.loads(connection.makefile().read())
            return about

    def ask_all(self, workers: int) -> dict[int, dict[str, str | int]]:
        """Connect until every worker has answered."""
        found: dict[int, dict[str, str | int]] = {}

        def ask() -> bool:
            with contextlib.suppress(OSError, ValueError):
                about = self.ask()
                found[int(about["worker"])] = about
            return len(found) == workers

        eventually(ask)
        return found

    def get(self, path: str) -> tuple[int, str]:
        port = int(self.find(r"metrics at http://127\.0\.0\.1:(\d+)/"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def metric(self, name: str) -> dict[str | None, float]:
        """Values by worker."""
        return {
            sample.labels.get("worker"): sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
            if sample.name == name
        }

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(60)


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def start(
        *,
        slowly: bool = False,
        heartbeat_interval: float = supervisor.HEARTBEAT_INTERVAL_S,
        **options: str,
    ) -> Running:
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(
            Running(folder, slowly=slowly, heartbeat_interval=heartbeat_interval, **options)
        )
        return running[-1]

    yield start
    for process in running:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


def is_running(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_gracefully(
    start: Start, tmp_path: Path, workers: str, number: signal.Signals
) -> None:
    running = start(workers=workers, routing_log=str(tmp_path / "log"))
    about = running.ask()
    assert running.get("/healthz") == (200, "OK\n")
    assert running.end(number) == 0
    assert not is_running(int(about["pid"]))
    assert "Traceback" not in running.stderr
    with pytest.raises(OSError, match="refused"):
        running.ask()


@pytest.mark.not_fast
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_stops_it_at_once(start: Start, workers: str) -> None:
    running = start(workers=workers, proxy_name="stubborn")
    about = running.ask()
    running.process.send_signal(signal.SIGTERM)
    running.find("(stubborn)")
    assert running.end() == (0 if workers == "1" else 1)
    assert not is_running(int(about["pid"]))
    assert "Traceback" not in running.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_needs_no_standard_streams(start: Start, workers: str) -> None:
    running = start(redirections="<&- >&-", workers=workers)
    running.ask_all(int(workers))
    assert running.end() == 0
    assert "ssertion" not in running.stderr


def test_one_process_serves_alone(start: Start) -> None:
    running = start()
    assert running.ask()["pid"] == running.process.pid
    assert running.ask()["run"] is None
    assert running.metric("tidegate_gtids_tracked_total") == {"0": 2}
    assert running.metric("tidegate_worker_up") == {"0": 1}
    assert "no replicas: every read goes to the primary" in running.stderr


def test_workers_share_port_and_keys_but_not_counts(start: Start, tmp_path: Path) -> None:
    running = start(workers="3", routing_log=str(tmp_path / "log"))
    found = running.ask_all(3)
    assert len({about["pid"] for about in found.values()} | {running.process.pid}) == 4
    assert len({about["run"] for about in found.values()} - {None}) == 3
    assert len({about["key"] for about in found.values()}) == 1
    counts = running.metric("tidegate_gtids_tracked_total")
    assert set(counts) == {"0", "1", "2"}
    assert min(counts.values()) >= 1
    assert running.metric("tidegate_worker_up") == {"0": 1, "1": 1, "2": 1}
    memory = running.metric("tidegate_worker_resident_memory_bytes")
    assert len(set(memory.values())) > 1
    assert len(re.findall("listening on", running.stderr)) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_is_started_again(start: Start, number: signal.Signals) -> None:
    running = start(workers="2")
    before = running.ask_all(2)
    os.kill(int(before[1]["pid"]), number)
    running.find(r"worker 1 ended by (SIGKILL|exit status 0); starting it again in 0\.5 s")
    assert running.ask()["worker"] == 0  # the other one serves on
    eventually(lambda: running.metric("tidegate_worker_up") == {"0": 1, "1": 1})
    after = running.ask_all(2)
    assert after[0]["pid"] == before[0]["pid"]
    assert after[1]["pid"] != before[1]["pid"]
    assert after[1]["key"] == before[1]["key"]
    assert running.metric("tidegate_worker_restarts_total") == {None: 1}
    assert running.end() == 0


def test_a_worker_is_started_again_as_soon_as_a_process_can_be_started(start: Start) -> None:
    running = start(workers="2")
    before = running.ask_all(2)
    limits = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
    # A limit below the number of descriptors that are waited for would be an error there.
    used = {int(path.name) for path in Path(f"/proc/{running.process.pid}/fd").iterdir()}
    free = next(number for number in count() if number not in used)
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
    os.kill(int(before[1]["pid"]), signal.SIGKILL)
    running.find(r"worker 1 cannot be started: this process has no (descriptor) left")
    assert running.ask()["worker"] == 0  # the other one serves on
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, limits)
    after = running.ask_all(2)
    assert after[0]["pid"] == before[0]["pid"]
    assert running.metric("tidegate_worker_restarts_total") == {None: 1}
    assert running.end() == 0
    assert "Traceback" not in running.stderr


@pytest.mark.not_fast
def test_a_stopped_worker_is_replaced(start: Start) -> None:
    running = start(workers="2", heartbeat_interval=0.2)
    pid = int(running.ask_all(2)[1]["pid"])
    os.kill(pid, signal.SIGSTOP)
    running.find(r"worker 1 has not answered for 2 s, since its process was (stopped) or")
    running.find(r"worker 1 ended by (SIGKILL); starting it again")
    eventually(lambda: not is_running(pid))
    assert running.ask_all(2)[1]["pid"] != pid
    assert running.end() == 0


@pytest.mark.not_fast
def test_a_worker_whose_event_loop_hangs_is_replaced(start: Start) -> None:
    running = start(workers="2", heartbeat_interval=0.2, proxy_name="hangs-1")
    running.find(r"worker 1 has not answered for 2 s, since .* or its event loop (hangs), and is")
    running.find(r"worker 1 ended by (SIGKILL); starting it again")
    running.end(signal.SIGKILL)


@pytest.mark.not_fast
def test_no_clients_are_sent_to_a_single_worker_whose_event_loop_hangs(start: Start) -> None:
    running = start(proxy_name="hangs-0")
    eventually(lambda: running.get("/readyz") == (503, "the event loop does not answer\n"))
    assert running.get("/healthz")[0] == 503
    running.end(signal.SIGKILL)


@pytest.mark.not_fast
def test_a_worker_that_is_started_again_has_the_keys_of_the_others(
    start: Start, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes(self_signed("db1", "db1.example")[0])
    running = start(workers="2", server_tls="verify_ca", server_tls_ca=str(authority))
    before = running.ask_all(2)
    authority.unlink()
    os.kill(int(before[1]["pid"]), signal.SIGKILL)
    running.find(r"worker 1 ended by (SIGKILL); starting it again")
    assert running.ask_all(2)[1]["key"] == before[1]["key"]
    assert running.end() == 0
    assert "Traceback" not in running.stderr


def test_no_directory_for_what_workers_share_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(log, "configure", lambda level, form: None)
    config = Config(Address("127.0.0.1", 1), workers=2, client_tls="disabled")
    assert run(config) == CANNOT_SERVE
    assert re.search(r"No such file .* state-dir or TMPDIR", caplog.text)


@pytest.mark.not_fast
def test_ctrl_c_while_workers_start_stops_them_quietly(start: Start) -> None:
    running = start(workers="2", slowly=True)
    running.find("(born)")
    os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does
    assert running.end(None) == 0
    assert "Traceback" not in running.stderr


@pytest.mark.not_fast
def test_a_worker_that_does_not_answer_is_missing_from_a_scrape(start: Start) -> None:
    running = start(workers="2")
    pid = int(running.ask_all(2)[0]["pid"])
    os.kill(pid, signal.SIGSTOP)
    # It stops when it is its turn to run, which may be after the first scrape.
    eventually(lambda: running.metric("tidegate_worker_up") == {"0": 0, "1": 1})
    assert set(running.metric("tidegate_gtids_tracked_total")) == {"1"}
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: running.metric("tidegate_worker_up") == {"0": 1, "1": 1})
    assert set(running.metric("tidegate_gtids_tracked_total")) == {"0", "1"}


@pytest.mark.not_fast
def test_workers_of_two_proxies_share_no_directory(start: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "state")
    first = start(workers="2", state_dir=folder)
    first.port()
    second = start(workers="2", state_dir=folder)
    assert second.end(None) == 1
    assert re.search("state-dir .*state: another proxy .* of its own", second.stderr)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    third = start(workers="2", state_dir=folder)
    third.port()
    assert third.end() == 0


def test_workers_do_not_outlive_the_supervisor(start: Start) -> None:
    running = start(workers="2")
    pids = [int(about["pid"]) for about in running.ask_all(2).values()]
    running.end(signal.SIGKILL)
    eventually(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails-1", r"(?s)cannot serve on .*the stand-in cannot listen.*"
         r"worker 1 could not start: exit status 1"),
        ("dies-1", "worker 1 could not start: exit status 7"),
    ],
)  # fmt: skip
def test_a_worker_that_cannot_start_ends_the_whole(start: Start, name: str, message: str) -> None:
    running = start(workers="2", proxy_name=name)
    assert running.end(None) == 1
    assert re.search(message, running.stderr)
    assert "listening on" not in running.stderr


def test_a_worker_that_dies_before_the_others_have_come_up_is_started_again(
    start: Start, tmp_path: Path
) -> None:
    running = start(workers="2", proxy_name="late-1")
    os.kill(int(running.find(r"worker 0 serves in process (\d+)")), signal.SIGKILL)
    running.find("worker 0 ended by SIGKILL; (starting it again)")
    (tmp_path / "0" / "come-up").touch()
    running.port()
    assert "could not start" not in running.stderr
    assert running.end() == 0


@pytest.mark.not_fast
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("option", ["listen", "metrics"])
def test_an_address_in_use_is_said(start: Start, workers: str, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        running = start(**{"workers": workers, option: address})
        assert running.end(None) == 1
    assert address in running.stderr
    assert "Address already in use" in running.stderr or "address already in use" in running.stderr
    assert "Traceback" not in running.stderr


@pytest.mark.not_fast
def test_several_workers_start_where_one_has_just_stopped(start: Start) -> None:
    with socket.create_server(("127.0.0.1", reserve_port())) as listener:  # without SO_REUSEPORT
        address = listener.getsockname()
        with socket.create_connection(address) as client:
            listener.accept()[
                0
            ].close()  # first, as at a stop, so that the port keeps the connection
            assert client.recv(1) == b""
    running = start(workers="2", listen=f"127.0.0.1:{address[1]}")
    assert running.port() == address[1]
    assert running.end() == 0


def test_a_name_may_have_an_address_twice_or_of_a_kind_that_is_switched_off(start: Start) -> None:
    running = start(workers="2", listen="many:0")
    assert int(running.find(r"listening on many:(\d+) "))
    assert running.end() == 0


def test_a_routing_log_that_cannot_be_opened_is_said(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    running = start(routing_log=str(tmp_path / "file"))
    assert running.end(None) == 1
    assert re.search(r"routing-log .*file: ", running.stderr)
    assert "Traceback" not in running.stderr


def test_pauses_double_while_a_worker_keeps_dying(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    worker = ChildWorker(0)
    worker._started_at = now
    pauses = [worker.plan_restart() for _ in range(9)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert worker.restart_at == now + 30
    now += supervisor.LONG_LIFE_S
    assert worker.plan_restart() == supervisor.FIRST_PAUSE_S
