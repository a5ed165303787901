"""Several ports: where each client came by, and that workers share them all."""

import asyncio
import contextlib
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.address import Address
from proxy.client import listener
from proxy.config import Config
from proxy.config.tables import Table
from proxy.handover.worker_start import WorkerStart
from proxy.listening_sockets import CannotServeError, ListeningSockets
from proxy.live_config import LiveConfig
from proxy.observe.metrics import Metrics
from proxy.serve import serve
from proxy.tls.materials import build, make_key_ring
from proxy.worker import Lifecycle
from routing.consistency.adjustment import NO_ADJUSTMENT
from scripts.ports import reserve_ports
from tests.real_mysql.fork_server import ForkedProxy


@pytest.fixture
def ports() -> list[int]:
    """Two ports that nobody uses."""
    return reserve_ports(2)


def test_a_welcome_knows_by_which_port_the_client_came(
    ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Address] = []

    async def run(welcome: listener.Welcome) -> None:
        seen.append(welcome.listener)
        welcome._channel.abort()

    monkeypatch.setattr(listener.Welcome, "run", run)
    others = tuple(Address("127.0.0.1", port) for port in ports)
    config = Config(
        Address("127.0.0.1", 1),
        listen=Address("127.0.0.1", 0),
        client_tls="disabled",
        listeners=Table(dict.fromkeys(others, NO_ADJUSTMENT)),
    )

    sockets = ListeningSockets()
    sockets.open(config)

    async def story() -> None:
        stop = asyncio.Event()
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        materials = build(config, make_key_ring(config))
        serving = asyncio.ensure_future(
            serve(
                LiveConfig(config, materials),
                Metrics(),
                None,
                0,
                stop,
                Lifecycle(ready.set_result, start=WorkerStart(sockets.of_worker(0, 1))),
            )
        )
        port = await asyncio.wait_for(ready, 30)
        assert port not in (0, *ports)
        for where in (port, *ports, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", where)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        stop.set()
        await serving
        for where in (port, *ports):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", where)

    asyncio.run(story())
    assert seen == [config.listen, *others, config.listen]


def test_a_name_may_have_an_ipv6_address_where_ipv6_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sockets = ListeningSockets()
    config = Config(Address("127.0.0.1", 1), listen=Address("both", 0), client_tls="disabled")
    ipv4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    ipv6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    for found in ([ipv6, ipv4], [ipv4, ipv6]):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        sockets.open(config)
        (opened,) = sockets.all()
        assert opened.socket.getsockname() == ("127.0.0.1", sockets.port)
        sockets.close()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ipv6])
    with pytest.raises(CannotServeError, match="listen both:0: Cannot assign"):
        sockets.open(config)


class Running:
    """`tidegate run` with a file, before no server at all."""

    def __init__(self, folder: Path, text: str) -> None:
        file = folder / "tidegate.toml"
        file.write_text(f'primary = "127.0.0.1:1"\nlisten = "127.0.0.1:0"\n{text}')
        self._stderr = folder / "stderr"
        self._stderr.touch()
        self.process = ForkedProxy(["run", "--config", str(file)], self._stderr)

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def ports(self) -> list[int]:
        """Wait until it listens; return the ports that it names."""
        deadline = time.monotonic() + 60
        while not (match := re.search(r"listening on (.*) \(", self.stderr)):
            assert self.process.poll() is None, self.stderr
            assert time.monotonic() < deadline, self.stderr
            time.sleep(0.02)
        return [int(address.rpartition(":")[2]) for address in match[1].split(" and ")]


@pytest.fixture
def started() -> Iterator[list[Running]]:
    running: list[Running] = []
    yield running
    for process in running:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


@pytest.mark.parametrize("workers", [1, 2])
def test_every_port_greets(
    started: list[Running], tmp_path: Path, ports: list[int], workers: int
) -> None:
    text = f"workers = {workers}\n" + "".join(
        f'[listeners."127.0.0.1:{port}"]\nconsistency = "STRONG"\n' for port in ports
    )
    started.append(running := Running(tmp_path, text))
    found = running.ports()
    assert found[1:] == ports
    for port in found:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            assert client.recv(5)[4:] == b"\x0a"  # the version of the greeting
    line = f"listens on port {', '.join(map(str, found))}\n"
    assert running.stderr.count(line) == workers
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    assert "Traceback" not in running.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_further_port_in_use_is_said(
    started: list[Running], tmp_path: Path, workers: int
) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        running = Running(tmp_path, f'workers = {workers}\n[listeners."{address}"]\n')
        started.append(running)
        assert running.process.wait(60) == 1
    assert address in running.stderr
    assert "address already in use" in running.stderr.lower()
    assert "listening on" not in running.stderr
    assert "Traceback" not in running.stderr
