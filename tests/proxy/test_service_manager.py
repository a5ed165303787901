"""What systemd is told: sd_notify(3), in processes of their own."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.service_manager import ServiceManager
from tests.proxy.test_workers import Start, start

__all__ = ["start"]

pytestmark = pytest.mark.not_fast


class Manager:
    """A service manager's socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(60)

    def next(self) -> dict[str, str]:
        """The next message that is not about the watchdog."""
        while True:
            message = self.any()
            if "WATCHDOG" not in message:
                return message

    def hear_all(self) -> None:
        while True:
            self.any()

    def any(self) -> dict[str, str]:
        lines = self.socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(params=["path", "abstract"])
def manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Manager]:
    abstract = request.param == "abstract"
    name = f"tidegate-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    manager = Manager("\0" + name if abstract else name)
    monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if abstract else name)
    yield manager
    manager.socket.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_hears_of_the_start_and_of_the_stop(
    manager: Manager, start: Start, workers: str
) -> None:
    running = start(workers=workers)
    ready = manager.next()
    assert ready.keys() == {"READY", "STATUS"}
    assert ready["STATUS"] == f"listening on 127.0.0.1:{running.port()}"
    running.process.send_signal(signal.SIGTERM)
    assert manager.next()["STOPPING"] == "1"
    assert running.end(None) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_hears_again_and_again_if_it_watches(
    manager: Manager, start: Start, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    running = start(workers=workers)
    assert manager.next()["READY"] == "1"
    assert [manager.any() for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
    assert running.end() == 0


def test_a_hanging_event_loop_shows_no_life(
    manager: Manager, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    running = start(proxy_name="hangs-0")
    assert manager.next()["READY"] == "1"
    manager.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        manager.hear_all()
    running.end(signal.SIGKILL)


def test_nothing_is_sent_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    nobody = ServiceManager({"WATCHDOG_USEC": "1000"})
    assert nobody.watchdog_interval == 0
    nobody.ready("x")
    gone = ServiceManager({"NOTIFY_SOCKET": "/nowhere/at/all"})
    gone.ready("x")
    gone.stopping()
    assert [record.getMessage() for record in caplog.records] == [
        "the service manager cannot be told: No such file or directory"
    ]


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "9000000"}
    assert ServiceManager(environment).watchdog_interval == 3
    assert ServiceManager(environment | {"WATCHDOG_PID": "1"}).watchdog_interval == 0


OWN = "1:name=systemd:/tidegate.service\n0::/tidegate.service\n"
OTHER = "1:name=systemd:/user.slice\n0::/user.slice\n"


@pytest.mark.parametrize(
    ("cgroup", "told", "given"),
    [
        (
            OWN,
            ["MAINPID=4711"],
            ["NOTIFY_SOCKET={path}", "WATCHDOG_USEC=9000000", "WATCHDOG_PID=4711"],
        ),
        (OTHER, ["STOPPING=1"], []),
        (None, ["STOPPING=1"], []),
    ],
)
def test_only_a_process_of_the_service_becomes_its_main_process(
    tmp_path: Path, cgroup: str | None, told: list[str], given: list[str]
) -> None:
    """The service ends with this process if another takes over; until then it has its time."""
    path = tmp_path / "notify"
    listening = Manager(str(path))
    for process, text in (("self", OWN), ("4711", cgroup)):
        if text is not None:
            (tmp_path / process).mkdir()
            (tmp_path / process / "cgroup").write_text(text)
    environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "9000000", "PATH": "/bin"}
    manager = ServiceManager(environment, tmp_path)
    assert manager.environment_of(4711) == [each.format(path=path) for each in given]
    manager.relieved_by(4711)
    heard = listening.any()
    assert [f"{name}={value}" for name, value in heard.items() if name != "STATUS"] == told
    listening.socket.close()


def test_a_watchdog_of_nobody_is_not_handed_over(tmp_path: Path) -> None:
    for process in ("self", "4711"):
        (tmp_path / process).mkdir()
        (tmp_path / process / "cgroup").write_text(OWN)
    assert ServiceManager({}, tmp_path).environment_of(4711) == []
    assert ServiceManager({"NOTIFY_SOCKET": "@x"}, tmp_path).environment_of(4711) == [
        "NOTIFY_SOCKET=@x",
        "WATCHDOG_PID=4711",
    ]
