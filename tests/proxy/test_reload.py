"""How a reload is asked for, one after the other, and what is answered."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxy import cli
from proxy.address import Address
from proxy.config import Config, ConfigError
from proxy.control.server import ControlServer
from proxy.reload.answer import Answer
from proxy.reload.command import NAME, answering, ask
from proxy.reload.hangup import Hangup
from proxy.reload.last_reload import LastReload
from proxy.reload.reloader import CannotReloadError, Reloader
from proxy.reload.source import Change, Source
from proxy.service_manager import ServiceManager
from proxy.tls.materials import KeyRing, make_key_ring
from tests.support.waiting import eventually

ANSWER = Answer(("max-lag",), ("workers",), (), ("a warning",))
CONFIG = Config(Address("db1", 1), client_tls="disabled")


@pytest.fixture
def _hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def ring() -> KeyRing:
    return make_key_ring(CONFIG)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "control.sock"
    serving = ControlServer(path, {NAME: answering(lambda: ANSWER)}, lambda: False)
    serving.start()
    yield path
    serving.stop()


def test_an_answer_goes_through_the_socket(control: Path) -> None:
    assert ask(control) == ANSWER


@pytest.mark.parametrize(
    ("answer", "status", "lines"),
    [
        (Answer(), 0, ["nothing has changed"]),
        (Answer(("a", "b")), 0, ["applied: a, b"]),
        (Answer((), ("c",)), 1, ["needs a restart: c"]),
        (Answer(("a",), ("c",)), 1, ["applied: a", "needs a restart: c"]),
        (Answer(errors=("x",)), 2, ["error: x", "nothing was changed"]),
        (Answer(("a",), (), ("worker 1: x",)), 2, ["error: worker 1: x", "applied: a"]),
    ],
)
def test_an_answer_says_what_came_of_it(answer: Answer, status: int, lines: list[str]) -> None:
    assert (answer.status, answer.lines) == (status, lines)
    assert Answer.from_message(json.loads(json.dumps(answer.to_message()))) == answer


@pytest.mark.parametrize("message", [{}, {"applied": 1}, {"applied": [], "errors": "none"}])
def test_another_answer_is_an_error(message: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Answer.from_message(message)


def test_a_proxy_that_cannot_reload_says_so(tmp_path: Path) -> None:
    serving = ControlServer(tmp_path / "control.sock", {}, lambda: False)
    serving.start()
    (error,) = ask(tmp_path / "control.sock").errors
    serving.stop()
    assert "no such command" in error


@pytest.mark.usefixtures("_hangup")
def test_a_hangup_is_remembered_until_somebody_acts() -> None:
    hangup = Hangup()
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    calls: list[int] = []
    hangup.call(lambda: calls.append(1))
    assert calls == [1]
    os.kill(os.getpid(), signal.SIGHUP)
    assert calls == [1, 1]


def reloader(ring: KeyRing, reads: list[object], applied: list[Change]) -> Reloader:
    """Reads these configurations one after the other, or raises them."""

    def read() -> Config:
        found = reads.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Config)
        return found

    def apply(change: Change) -> list[str]:
        applied.append(change)
        return []

    return Reloader(Source(read, CONFIG, CONFIG, ring), apply, ServiceManager({}))


def test_errors_change_nothing_and_the_next_reload_is_as_good(ring: KeyRing) -> None:
    applied: list[Change] = []
    other = replace(CONFIG, max_connections=7)
    reads = [ConfigError("one", "two"), RuntimeError("a defect"), other, other]
    reloading = reloader(ring, list(reads), applied)
    assert reloading.reload().errors == ("one", "two")
    assert reloading.reload().errors == ("the reload failed, as the log says",)
    assert applied == []
    assert reloading.reload().applied == ("max-connections",)
    assert reloading.reload().applied == ()
    assert [change.config for change in applied] == [other, other]


def test_the_metrics_tell_how_the_last_reload_went(ring: KeyRing) -> None:
    now = 100.0
    last_reload = LastReload(lambda: now)
    reads: list[object] = [ConfigError("one"), CONFIG, RuntimeError("a defect"), CONFIG]
    failures: list[str] = []

    def read() -> Config:
        found = reads.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Config)
        return found

    reloading = Reloader(
        Source(read, CONFIG, CONFIG, ring), lambda _: failures, ServiceManager({}), last_reload
    )
    seen = [(last_reload.successful, last_reload.succeeded_at)]
    for _ in range(4):
        now += 1
        failures = ["a worker does not answer"] if now == 104 else []
        reloading.reload()
        seen.append((last_reload.successful, last_reload.succeeded_at))
    assert seen == [(True, 100), (False, 100), (True, 102), (False, 102), (False, 102)]


def test_nothing_is_taken_that_could_not_be_applied(ring: KeyRing) -> None:
    other = replace(CONFIG, max_connections=7)
    stops = True

    def apply(_: Change) -> list[str]:
        if stops:
            raise CannotReloadError("it stops")
        return []

    source = Source(lambda: other, CONFIG, CONFIG, ring)
    reloading = Reloader(source, apply, ServiceManager({}))
    assert reloading.reload() == Answer(errors=("it stops",))
    stops = False
    assert reloading.reload().applied == ("max-connections",)


def test_requests_that_come_while_one_waits_are_one(ring: KeyRing) -> None:
    gate, calls = threading.Event(), []

    def apply(_: Change) -> list[str]:
        calls.append(time.monotonic())
        gate.wait(20)
        return []

    reloading = Reloader(Source(lambda: CONFIG, CONFIG, CONFIG, ring), apply, ServiceManager({}))
    reloading.request()
    eventually(lambda: len(calls) == 1)
    for _ in range(5):
        reloading.request()
    gate.set()
    reloading.reload()
    eventually(lambda: len(calls) == 3)  # the first, one for the five, and the last


def test_the_service_manager_is_told(tmp_path: Path, ring: KeyRing) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        manager = ServiceManager({"NOTIFY_SOCKET": path})
        reloading = Reloader(Source(lambda: CONFIG, CONFIG, CONFIG, ring), lambda _: [], manager)
        manager.ready("serves")
        assert receiver.recv(100) == b"READY=1\nSTATUS=serves"
        reloading.reload()
        first, _, now = receiver.recv(100).partition(b"\nMONOTONIC_USEC=")
        assert first == b"RELOADING=1"
        assert 0 < int(now) <= time.monotonic_ns() // 1000
        assert receiver.recv(100) == b"READY=1\nSTATUS=serves"
        manager.stopping()
        receiver.recv(100)
        reloading.reload()
        receiver.setblocking(False)
        with pytest.raises(BlockingIOError):
            receiver.recv(100)


def test_the_command_finds_the_socket(
    control: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = control.parent / "tidegate.toml"
    # Whatever else is wrong with the file is for the running proxy to say.
    file.write_text('state-dir = "."\nunknown = 1\nmax-connections = -1\n')
    assert cli.main(["reload", "--config", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "tidegate: applied: max-lag",
        "tidegate: needs a restart: workers",
    ]
    assert printed.err == "tidegate: warning: a warning\n"
    assert cli.main(["reload", "--control-socket", str(control)]) == 1
    monkeypatch.setenv("TIDEGATE_STATE_DIR", str(control.parent))
    assert cli.main(["reload"]) == 1
    monkeypatch.delenv("TIDEGATE_STATE_DIR")
    capsys.readouterr()
    assert cli.main(["reload"]) == 2
    assert "no control socket is known" in capsys.readouterr().err
    assert cli.main(["reload", "--state-dir", str(control.parent / "other")]) == 2
    assert "no proxy listens at" in capsys.readouterr().err
