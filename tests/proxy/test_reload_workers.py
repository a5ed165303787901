"""A reload reaches every worker process, with a small server in place of the proxy."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from proxy.reload.answer import Answer
from proxy.reload.command import ask
from scripts.ports import reserve_port
from tests.real_mysql.fork_server import ForkedProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.not_fast

ROOT = Path(__file__).parents[2]

STAND_IN = """
import asyncio, json, os, time

async def serve(live, metrics, routing_log, worker, stop, lifecycle):
    def on_change(before, materials):
        budget = live.config.wait_budget
        if budget == 13.0 and worker == 0:
            raise RuntimeError("a follower fails")
        if budget == 14.0 and worker == 0:
            time.sleep(3600)

    live.follow(on_change)
    if live.config.proxy_name == "slow":
        await asyncio.sleep(2)

    async def answer(reader, writer):
        line = (await reader.readline()).decode().strip()
        if line == "reload":
            answers = await asyncio.gather(live.reload(), live.reload())
            lines = [json.dumps(answer.to_message()) + chr(10) for answer in answers]
            writer.write("".join(lines).encode())
        else:
            about = {"pid": os.getpid(), "worker": worker, "budget": live.config.wait_budget}
            writer.write(json.dumps(about).encode())
        await writer.drain()
        writer.close()

    config = live.config
    server = await asyncio.start_server(answer, sock=lifecycle.start.sockets[0].socket)
    lifecycle.ready(server.sockets[0].getsockname()[1])
    await stop.wait()
    server.close()
    await asyncio.sleep(config.drain_timeout if config.proxy_name == "drains" else 0)
"""

START = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from proxy.reload.hangup import Hangup
if __name__ == "__main__":
    hangup = Hangup()
    print("hangs up", flush=True)
import stand_in
from proxy import only_worker, supervisor, workers
from proxy.config import load
supervisor.CHANGE_TIMEOUT_S = only_worker.CHANGE_TIMEOUT_S = {timeout!r}
if __name__ == "__main__":
    def read():
        return load(Path({file!r}), {{}})
    sys.exit(workers.run(read(), stand_in.serve, workers.Reading(read, hangup)))
"""


class Running:
    """A proxy whose sessions are the stand-in's."""

    def __init__(self, folder: Path, workers: int, timeout: float, name: str) -> None:
        self.folder = folder
        self.workers = workers
        self.port = reserve_port()
        self.file = folder / "tidegate.toml"
        self._fixed = (
            f'primary = "db1"\nlisten = "127.0.0.1:{self.port}"\nworkers = {workers}\n'
            f'client-tls = "disabled"\nstate-dir = "."\nproxy-name = "{name}"\n'
        )
        self.write()
        (folder / "stand_in.py").write_text(STAND_IN)
        path = [str(folder), str(ROOT)]
        start = START.format(path=path, file=str(self.file), timeout=timeout)
        (folder / "start.py").write_text(start)
        self._stderr = folder / "stderr"
        self._stderr.touch()
        self.process = ForkedProxy([], self._stderr, script=folder / "start.py")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def write(self, text: str = "") -> None:
        self.file.write_text(self._fixed + text)

    def ask(self) -> Answer:
        return ask(self.folder / "control.sock")

    def _talk(self, line: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(f"{line}\n".encode())
            found = b""
            while received := client.recv(4096):
                found += received
        return found.decode()

    def about(self) -> dict[int, dict[str, Any]]:
        """What each worker says of itself."""
        found: dict[int, dict[str, Any]] = {}

        def complete() -> bool:
            with suppress(OSError, ValueError):
                answer = json.loads(self._talk("about"))
                found[answer["worker"]] = answer
            return len(found) == self.workers

        eventually(complete)
        return found

    def budgets(self) -> set[float]:
        return {answer["budget"] for answer in self.about().values()}

    def reload_from_a_worker(self) -> list[Answer]:
        return [Answer.from_message(json.loads(line)) for line in self._talk("reload").splitlines()]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(workers: int = 1, timeout: float = 60.0, name: str = "proxy") -> Running:
        started.append(Running(tmp_path, workers, timeout, name))
        return started[-1]

    yield run
    for running in started:
        running.end()


@pytest.mark.parametrize("workers", [1, 3])
def test_all_workers_have_it_and_any_may_ask_for_it(
    start: Callable[..., Running], workers: int
) -> None:
    running = start(workers)
    assert running.budgets() == {0.25}
    running.write('wait-budget = "1s"\n')
    assert running.ask() == Answer(("wait-budget",))
    assert running.budgets() == {1.0}
    running.write('wait-budget = "2s"\nworkers = 9\n'.replace("workers", "scope-limit"))
    answers = running.reload_from_a_worker()
    assert answers[0].needs_restart == answers[1].needs_restart == ("scope-limit",)
    assert sorted(answer.applied for answer in answers) == [(), ("wait-budget",)]
    assert running.budgets() == {2.0}
    running.write("xyz = 1\n")
    (error,) = running.reload_from_a_worker()[0].errors
    assert "xyz: unknown key" in error
    assert running.budgets() == {2.0}


def test_a_worker_that_is_started_again_has_it_too(start: Callable[..., Running]) -> None:
    running = start(2)
    before = running.about()
    running.write('wait-budget = "1s"\n')
    running.ask()
    for told in before.values():
        os.kill(told["pid"], signal.SIGHUP)  # ignored there
        os.kill(told["pid"], signal.SIGKILL)
    eventually(
        lambda: {told["pid"] for told in running.about().values()}.isdisjoint(
            told["pid"] for told in before.values()
        )
    )
    assert running.budgets() == {1.0}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_while_the_proxy_starts_counts(
    start: Callable[..., Running], workers: int
) -> None:
    running = start(workers, name="slow")
    eventually(lambda: "hangs up\n" in running.stderr)
    running.write('wait-budget = "1s"\n')
    running.process.send_signal(signal.SIGHUP)
    eventually(lambda: " reload: " in running.stderr)
    assert running.budgets() == {1.0}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_while_the_proxy_stops_changes_nothing(
    start: Callable[..., Running], workers: int
) -> None:
    running = start(workers, name="drains")
    running.about()
    running.process.send_signal(signal.SIGTERM)
    eventually(lambda: refuses(running))
    running.write('wait-budget = "1s"\n')
    running.process.send_signal(signal.SIGHUP)
    with suppress(OSError, ValueError):
        assert running.ask().applied == ()
    assert running.process.poll() is None
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) in (0, 1)


def refuses(running: Running) -> bool:
    try:
        socket.create_connection(("127.0.0.1", running.port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # the listener was closed just then
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_fails_is_named(start: Callable[..., Running], workers: int) -> None:
    running = start(workers)
    running.about()
    running.write('wait-budget = "13s"\n')
    answer = running.ask()
    assert answer.applied == ("wait-budget",)
    assert "a follower fails" in answer.errors[0]
    assert len(answer.errors) == 1
    running.write('wait-budget = "1s"\n')
    assert running.ask() == Answer(("wait-budget",))
    assert running.budgets() == {1.0}


def test_a_worker_that_hangs_is_named_and_its_successor_has_it(
    start: Callable[..., Running],
) -> None:
    running = start(2, timeout=3.0)
    running.about()
    running.write('wait-budget = "14s"\n')
    (error,) = running.ask().errors
    assert error.startswith("worker 0: it does not answer")
    eventually(lambda: "is killed" in running.stderr)
    assert running.budgets() == {14.0}
