"""A process takes over from another: real processes, before servers that are not there.

Each client gets a greeting from whichever process accepts it; none is refused or reset.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.address import Address
from proxy.config import Config
from proxy.control import connection as control
from proxy.control.connection import ControlConnection, ControlError
from proxy.handover.callbacks import HandOverCallbacks
from proxy.handover.messages import identity
from proxy.handover.predecessor import Predecessor
from proxy.handover.state_files import StateFiles
from proxy.handover.step import Step, StepKind
from proxy.only_worker import OnlyWorker
from proxy.reload.command import ask
from proxy.tls.materials import make_key_ring
from tests.real_mysql.fork_server import ForkedProxy
from tests.support.client_threads import ClientThreads
from tests.support.waiting import eventually

pytestmark = [pytest.mark.early, pytest.mark.not_fast]

ROOT = Path(__file__).parents[2]
CONTROL = "control.sock"


class Running:
    """`tidegate run` in a process of its own."""

    def __init__(self, stderr: Path, arguments: list[str]) -> None:
        self._stderr = stderr
        stderr.touch()
        self.process = ForkedProxy(["run", "--primary", "127.0.0.1:1", *arguments], stderr)

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def find(self, pattern: str) -> str:
        """Wait until stderr says something; return the first group."""

        def find() -> re.Match[str] | None:
            match = re.search(pattern, self.stderr)
            assert match or self.process.poll() is None, self.stderr
            return match

        return eventually(find)[1]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


Start = Callable[..., Running]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(scope="module")
def rsa_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file; a key for each process would take as long as all else that it does to start."""
    path = tmp_path_factory.mktemp("keys") / "rsa.pem"
    path.write_bytes(make_key_ring(Config(Address("127.0.0.1", 1))).rsa_key)
    return path


@pytest.fixture
def start(tmp_path: Path, state: Path, rsa_key: Path) -> Iterator[Start]:
    running: list[Running] = []

    def start(*arguments: str, workers: int = 1) -> Running:
        options = ["--listen", "127.0.0.1:0", "--state-dir", str(state), "--workers", str(workers)]
        options += ["--rsa-key", str(rsa_key)]
        stderr = tmp_path / f"stderr{len(running)}"
        running.append(Running(stderr, [*options, "--metrics", "127.0.0.1:0", *arguments]))
        return running[-1]

    yield start
    for process in running:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


def port_of(running: Running) -> int:
    return int(running.find(r"listening on 127\.0\.0\.1:(\d+) "))


def greets(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        return client.recv(5)[4:] == b"\x0a"


class Clients(ClientThreads):
    """Clients that want a greeting."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def come_and_go(self) -> None:
        assert greets(self._port), "no greeting"
        time.sleep(0.002)


@pytest.mark.parametrize("generations", [(1, 1, 2), (3, 2, 1)])
def test_no_client_is_refused(start: Start, generations: tuple[int, ...]) -> None:
    first, *others = generations
    running = start(workers=first)
    port = port_of(running)
    metrics = running.find(r"metrics at http://127\.0\.0\.1:(\d+)/")
    with Clients(port) as clients:
        for workers in others:
            successor = start("--take-over", workers=workers)
            successor.find(r"took over from process (\d+)")
            assert port_of(successor) == port
            assert successor.find(r"metrics at http://127\.0\.0\.1:(\d+)/") == metrics
            assert running.process.wait(60) == 0
            assert "Traceback" not in running.stderr
            successor.find(r"process (\d+), from which this one took over, has ended")
            count = clients.count
            eventually(lambda count=count: clients.count > count)
            running = successor
    assert clients.errors == []
    assert running.end() == 0
    assert "Traceback" not in running.stderr
    with pytest.raises(ConnectionRefusedError):
        greets(port)


def successor_of(state: Path) -> tuple[ControlConnection, dict[str, object]]:
    """A successor that has got the sockets."""
    connection = control.connect(state / CONTROL)
    assert connection is not None
    connection.send({"command": "take-over", "folder": identity(state)})
    message: dict[str, object] = {}
    while "board" not in message:
        received, descriptors = connection.receive(60)
        for descriptor in descriptors:
            socket.socket(fileno=descriptor).close()
        assert "error" not in received
        message.update(received)
    return connection, message


def refusal(state: Path) -> str:
    """Why a successor that names no state directory may not take over."""
    connection = control.connect(state / CONTROL)
    assert connection is not None
    connection.send({"command": "take-over"})
    answer, _ = connection.receive(60)
    connection.close()
    return str(answer["error"])


def wait_until_it_goes_on(running: Running, state: Path, times: int = 1) -> None:
    """A take-over has failed; it says so before it has set all right, and another may begin."""
    eventually(lambda: running.stderr.count("goes on") == times)
    eventually(lambda: "another state-dir" in refusal(state))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_successor_that_dies_changes_nothing(start: Start, state: Path, workers: int) -> None:
    running = start(workers=workers)
    port = port_of(running)
    eventually((state / CONTROL).exists)
    for failures, stage in enumerate(("sockets", "paused"), 1):
        connection, message = successor_of(state)
        other = control.connect(state / CONTROL)
        assert other is not None
        other.send({"command": "take-over", "folder": identity(state)})
        assert "is taking over" in str(other.receive(60)[0]["error"])
        other.close()
        if stage == "paused":  # its own board serves as the successor's
            connection.send({"board": str(message["board"]), "workers": workers})
            assert connection.receive(60)[0] == {"paused": 1}
        connection.close()
        wait_until_it_goes_on(running, state, failures)
        assert greets(port)
    successor = start("--take-over", workers=workers)
    successor.find("(took) over from")
    assert running.process.wait(60) == 0
    assert greets(port)


def test_a_successor_that_cannot_start_changes_nothing(start: Start, state: Path) -> None:
    running = start()
    port = port_of(running)
    eventually((state / CONTROL).exists)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        failing = Running(
            state.parent / "failing",
            [
                *("--listen", address, "--state-dir", str(state), "--take-over"),
                *("--metrics", "127.0.0.1:0"),
            ],
        )
        assert failing.process.wait(60) == 1
    assert "address already in use" in failing.stderr.lower()
    running.find("this process (goes on)")
    assert greets(port)
    assert running.end() == 0


def test_without_a_proxy_it_starts(start: Start) -> None:
    running = start("--take-over")
    port = port_of(running)
    assert "nothing is taken over" in running.stderr
    assert greets(port)


def test_it_needs_a_state_directory(tmp_path: Path) -> None:
    running = Running(tmp_path / "stderr", ["--take-over"])
    assert running.process.wait(60) == 2
    assert "--take-over needs state-dir" in running.stderr


def sockets_in(state: Path) -> list[str]:
    return sorted(path.name for path in state.glob("*.sock"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_successor_that_is_killed_leaves_nothing_behind(
    start: Start, state: Path, workers: int
) -> None:
    running = start(workers=workers)
    port = port_of(running)
    before = eventually(lambda: CONTROL in (found := sockets_in(state)) and found)
    killed = start("--take-over", "--proxy-name", "killed", workers=2)
    killed.find("taking over from process (\\d+)")
    killed.process.kill()
    wait_until_it_goes_on(running, state)
    assert greets(port)
    eventually(lambda: sockets_in(state) == before)
    eventually(lambda: len(list(state.glob("tidegate-scopes*.shared"))) == 1)
    successor = start("--take-over", workers=workers)
    successor.find("(took) over from")
    assert running.process.wait(60) == 0


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_every_socket_is_handed_over(start: Start, tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "clients.sock"
    options = ["--socket", str(path), "--admin-listen", "127.0.0.1:0", "--admins", "operator"]
    running = start(*options, workers=before)
    port_of(running)
    admin = int(running.find(r"on port (\d+) for admins"))
    successor = start("--take-over", *options, workers=after)
    successor.find("(took) over from")
    assert int(successor.find(r"on port (\d+) for admins")) == admin
    assert running.process.wait(60) == 0
    assert greets(admin)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert client.recv(5)[4:] == b"\x0a"
    assert successor.end() == 0
    assert not path.exists()


def test_what_the_successor_does_not_have_ends(start: Start, tmp_path: Path) -> None:
    """An address that its configuration does not name any more is as after a restart."""
    path = tmp_path / "clients.sock"
    running = start("--socket", str(path))
    port = port_of(running)
    successor = start("--take-over")
    successor.find("(took) over from")
    assert f"the socket at {path} is closed" in successor.stderr
    assert running.process.wait(60) == 0
    assert not path.exists()
    assert greets(port)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_socket_that_goes_over_has_the_successors_mode(
    start: Start, state: Path, tmp_path: Path, workers: int
) -> None:
    path = tmp_path / "clients.sock"
    running = start("--socket", str(path), "--socket-mode", "0777", workers=workers)
    port_of(running)
    eventually((state / CONTROL).exists)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = ["--socket", str(path), "--socket-mode", "0600", "--admin-listen", address]
        failing = start("--take-over", *options, "--admins", "dba", workers=workers)
        assert failing.process.wait(60) == 1
    wait_until_it_goes_on(running, state)
    assert mode_of(path) == 0o777, "of a successor that failed"
    start("--take-over", *options[:4], workers=workers).find("(took) over from")
    eventually(lambda: mode_of(path) == 0o600)
    assert running.process.wait(60) == 0
    assert mode_of(path) == 0o600


def test_a_socket_whose_file_is_gone_is_made_anew(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "clients.sock"
    running = start("--socket", str(path))
    port_of(running)
    path.unlink()
    successor = start("--take-over", "--socket", str(path))
    successor.find("(took) over from")
    assert running.process.wait(60) == 0
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        assert client.recv(5)[4:] == b"\x0a"
    assert successor.end() == 0
    assert not path.exists()


def test_a_wrong_configuration_does_not_reach_the_one_that_runs(start: Start) -> None:
    running = start()
    port = port_of(running)
    failing = start("--take-over", "--max-lag", "never")
    assert failing.process.wait(60) == 2
    assert "max-lag" in failing.stderr
    assert "wants to take over" not in running.stderr
    assert greets(port)


def silent_client(port: int) -> socket.socket:
    """One that is being logged in, for as long as it likes."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    assert client.recv(5)[4:] == b"\x0a"
    return client


@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_ends_a_predecessor_at_once(start: Start, workers: int) -> None:
    running = start("--handshake-timeout", "600s", workers=workers)
    with silent_client(port_of(running)):
        start("--take-over", workers=workers).find("(took) over from")
        assert running.end() == (0 if workers == 1 else 1)
    assert "Traceback" not in running.stderr


def test_a_third_process_waits_for_the_first(start: Start) -> None:
    running = start("--handshake-timeout", "600s")
    port = port_of(running)
    with silent_client(port):
        second = start("--take-over")
        second.find("(took) over from")
        third = start("--take-over")
        third.find(rf"cannot hand over before process ({running.process.pid})")
        assert greets(port)
    third.find("(took) over from")
    assert running.process.wait(60) == second.process.wait(60) == 0
    assert greets(port)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_reload_meanwhile_is_refused(start: Start, state: Path, workers: int) -> None:
    running = start("--handshake-timeout", "600s", workers=workers)
    with silent_client(port_of(running)):
        connection, _ = successor_of(state)
        (error,) = ask(state / CONTROL).errors
        assert f"process {os.getpid()} is taking over" in error
        connection.close()
        wait_until_it_goes_on(running, state)
        assert ask(state / CONTROL).errors == ()
        successor = start("--take-over", workers=workers)
        successor.find("(took) over from")
        running.process.send_signal(signal.SIGHUP)
        running.find("reload: process \\d+ (is taking over), and has read")
        eventually(lambda: control_pid(state) == successor.process.pid)
        assert ask(state / CONTROL).errors == ()


def control_pid(state: Path) -> int:
    connection = control.connect(state / CONTROL)
    assert connection is not None
    connection.close()
    return connection.peer_pid


def test_who_may_take_over(state: Path) -> None:
    state.mkdir()
    other = state.parent / "other"
    other.mkdir()
    left: list[int] = []
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"stopping": lambda: True}, {"folder": identity(state)}, "is stopping"),
        ({"folder": None}, {"folder": identity(state)}, "has no state-dir"),
        ({}, {"folder": identity(other)}, "has another state-dir"),
        ({}, {}, "has another state-dir"),
        ({"user": os.geteuid() + 1}, {"folder": identity(state)}, "take over as that user"),
        ({"ready": False}, {"folder": identity(state)}, "has not come up yet"),
    ]
    for change, message, error in cases:
        callbacks = HandOverCallbacks(
            list,
            lambda: None,
            left.append,
            change.get("stopping", lambda: False),
            lambda _: (),
        )
        files = StateFiles(change.get("folder", state))
        predecessor = Predecessor(files, 1, OnlyWorker(), callbacks)
        predecessor.ready = change.get("ready", True)
        here, there = socket.socketpair()
        with here, there:
            connection = ControlConnection(here)
            connection.peer_uid = change.get("user", os.geteuid())
            with pytest.raises(ControlError, match=error):
                predecessor.hand_over(connection, message)
        assert predecessor.successor == 0


def test_nothing_keeps_a_process_from_leaving() -> None:
    """Its successor accepts already, even if the event loop does not come to it for long."""
    to_be_called: list[Callable[[], object]] = []
    done: list[Step] = []
    loop: Any = SimpleNamespace(call=to_be_called.append)
    part: Any = SimpleNamespace(act=done.append)
    worker = OnlyWorker()
    worker.started(loop, None)
    worker.take_part(part)
    worker.leave()
    assert worker.left
    assert worker.stopping()
    assert done == []
    for function in to_be_called:
        function()
    assert done == [Step(StepKind.LEAVE)]


def test_a_second_proxy_leaves_the_control_socket_alone(start: Start, state: Path) -> None:
    running = start()
    port_of(running)
    second = start()
    port_of(second)
    assert "this process has no control socket" in second.stderr
    assert second.end() == 0
    assert control_pid(state) == running.process.pid


class ServiceManager:
    """One that hears only the service's main process, as systemd does by NotifyAccess=main.

    Attributes:
        main: that process; its MAINPID= names another.
        heard: who said what, in order.
    """

    def __init__(self, path: Path) -> None:
        self.main = 0
        self.heard: list[tuple[int, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self, main: int) -> None:
        self.main = main
        self._thread.start()

    def count(self, sender: int, message: str) -> int:
        return self.heard.count((sender, message))

    def _listen(self) -> None:
        while True:
            data, [(_, _, credentials)], _, _ = self._socket.recvmsg(4096, 64)
            (sender,) = struct.unpack_from("i", credentials)
            if sender != self.main:
                continue
            for line in data.decode().splitlines():
                if not line.startswith("STATUS="):
                    self.heard.append((sender, line))
                if line.startswith("MAINPID="):
                    self.main = int(line.removeprefix("MAINPID="))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_successor_becomes_the_services_main_process(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """It is told by its predecessor, and shows life from then on, as the unit's WatchdogSec= wants.

    Whoever starts it has not been given all that the service manager gives the main process.
    """
    manager = ServiceManager(tmp_path / "notify")
    with monkeypatch.context() as environment:
        environment.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        environment.setenv("WATCHDOG_USEC", "3000000")
        first = start("--handshake-timeout", "600s", workers=workers)
    old = first.process.pid
    monkeypatch.setenv("WATCHDOG_PID", str(old))
    manager.start(old)
    with silent_client(port_of(first)):  # the old process stays until it leaves
        second = start("--take-over", workers=workers)
        new = second.process.pid
        second.find("(took) over from")
        eventually(lambda: manager.count(new, "WATCHDOG=1") > 2)
    assert first.process.wait(60) == second.end() == 0
    eventually(lambda: manager.count(new, "STOPPING=1"))
    # It says READY=1 as it accepts and once it has taken over, and may be the main process at both.
    heard = list(dict.fromkeys(each for each in manager.heard if each[1] != "WATCHDOG=1"))
    assert heard == [
        (old, "READY=1"),
        (old, f"MAINPID={new}"),
        (new, "READY=1"),
        (new, "STOPPING=1"),
    ]


def test_sockets_that_the_service_manager_opened_are_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
        script = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_FDS'] = '1';"
            " os.environ['LISTEN_PID'] = str(os.getpid()); os.environ['LISTEN_FDNAMES'] = 'mysql';"
            " os.execv(sys.executable, [sys.executable, '-m', 'proxy.cli', *sys.argv[2:]])"
        )
        for workers in ("1", "2"):
            stderr = tmp_path / f"stderr{workers}"
            with stderr.open("wb") as file:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-c", script, str(opened.fileno()), "run"),
                        *("--primary", "127.0.0.1:1", "--listen", f"127.0.0.1:{port}"),
                        *("--workers", workers),
                    ],
                    cwd=ROOT,
                    stderr=file,
                    pass_fds=[opened.fileno()],
                )
            client = socket.create_connection(("127.0.0.1", port), timeout=60)  # it waits
            with client:
                assert client.recv(5)[4:] == b"\x0a", stderr.read_text()
            process.terminate()
            assert process.wait(60) == 0, stderr.read_text()
