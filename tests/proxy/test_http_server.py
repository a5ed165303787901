"""Whoever connects to the metrics port: nobody holds it up, and nobody writes into the log."""

import http.client
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.registry import Collector

from proxy import open_files
from proxy.address import Address
from proxy.observe import http_server
from proxy.observe.metrics_server import Health, MetricsServer

LIMIT_S = 0.3


class Nothing(Collector):
    """A collector that may be slow."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def collect(self) -> list[object]:  # type: ignore[override]
        self.may_go_on.wait(20)
        return []

    def describe(self) -> list[object]:  # type: ignore[override]
        return []


class Served:
    def __init__(self) -> None:
        self.collector = Nothing()
        self.server = MetricsServer(Address("127.0.0.1", 0), self.collector, Health(str))
        self.server.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.address.port), timeout=20)

    def works(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.address.port, timeout=20)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200


def handlers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "process_request" in thread.name]


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    running = Served()
    yield running
    running.server.stop()


@pytest.fixture
def served(
    running: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Served]:
    monkeypatch.setattr(http_server, "_REQUEST_S", LIMIT_S)
    monkeypatch.setattr(http_server, "_ANSWER_S", LIMIT_S)
    yield running
    assert running.works()
    for thread in handlers():
        thread.join(20)
        assert not thread.is_alive()
    assert capfd.readouterr().err == ""


def end(client: socket.socket) -> bytes:
    """What comes until the server has closed."""
    heard = b""
    try:
        while data := client.recv(1 << 16):
            heard += data
    except ConnectionError:
        pass
    return heard


def test_a_silent_client_is_closed(served: Served) -> None:
    with served.connect() as client:
        assert end(client) == b""


def test_a_byte_at_a_time_does_not_buy_more_time(served: Served) -> None:
    def dribble(client: socket.socket) -> None:
        try:
            for _ in range(2000):
                client.sendall(b"G")
                time.sleep(0.01)
        except OSError:
            return

    with served.connect() as client:
        sender = threading.Thread(target=dribble, args=(client,))
        sender.start()
        assert end(client) == b""
        sender.join(20)
        assert not sender.is_alive()


@pytest.mark.parametrize(
    "start", [b"", b"GET /healthz HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\n"]
)
def test_a_megabyte_of_head_is_not_read(served: Served, start: bytes) -> None:
    with served.connect() as client:
        try:
            client.sendall(start + b"x" * (1 << 20))
        except ConnectionError:
            return  # it was closed in the midst
        assert end(client) in (b"", http_server._TOO_LARGE)


def test_who_is_too_long_is_told(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"x" * (http_server._LONGEST_HEAD + 1))
        assert end(client).startswith(b"HTTP/1.0 431 ")


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("16030100c8010000c40303") + bytes(range(256)),
        b"\r\n\r\n",
        b"\x00\xff garbage \xfe\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET //[::1 HTTP/1.1\r\n\r\n",
        b"GET /metrics?name[]=%ff&\xff HTTP/1.1\r\nAccept: \xff;q=x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 300 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"\xff\x00 /healthz HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=range(12),
)
def test_what_is_no_request_ends_quietly(served: Served, data: bytes) -> None:
    with served.connect() as client:
        client.sendall(data)
        end(client)


@pytest.mark.parametrize("data", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_a_reset_ends_quietly(served: Served, data: bytes) -> None:
    served.collector.may_go_on.clear()
    for _ in range(10):
        client = served.connect()
        client.sendall(data)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    served.collector.may_go_on.set()


def test_who_does_not_take_the_answer_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = b"x" * (32 << 20)

    def answer(environ: object, start: Callable[[str, list[tuple[str, str]]], object]) -> object:
        start("200 OK", [("Content-Length", str(len(long)))])
        return [long]

    monkeypatch.setattr(served.server, "_metrics", answer)
    with served.connect() as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        while handlers():
            time.sleep(0.01)  # the test's own limit of time bounds it
        assert 0 < len(end(client)) < len(long)


@pytest.mark.not_fast
def test_a_thousand_silent_clients_do_not_keep_anybody_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_REQUEST_S", 60)
    clients = [served.connect() for _ in range(1000)]
    assert served.works()
    # Those that came first have made room.
    assert end(clients[0]) == b""
    assert len(handlers()) < 3 * http_server._CONNECTIONS
    for client in clients:
        client.close()


def test_no_more_requests_than_allowed_are_answered_at_once(served: Served) -> None:
    served.collector.may_go_on.clear()
    clients = [served.connect() for _ in range(http_server._CONNECTIONS)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    while served.server._server.answering() < len(clients):
        time.sleep(0.01)
    with served.connect() as one_more:
        assert end(one_more) == b""
    served.collector.may_go_on.set()
    for client in clients:
        assert end(client).startswith(b"HTTP/1.0 200")
        client.close()


def test_it_goes_on_when_files_can_be_opened_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        time.sleep(0.01)

    freed = SimpleNamespace(clear=lambda: None, set=lambda: None, wait=rest)
    monkeypatch.setattr(served.server._server, "_descriptor_freed", freed)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client:
        client.settimeout(20)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # all of these are open
            client.connect(("127.0.0.1", served.server.address.port))
            while len(rests) < 3:
                time.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert end(client).startswith(b"HTTP/1.0 200")
    assert set(rests) == {http_server._REST_S}


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can open nothing meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("path", ["livez", "metrics"])
def test_it_answers_when_no_descriptor_is_left(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    monkeypatch.setattr(http_server, "_REQUEST_S", 60)
    monkeypatch.setattr(open_files, "_report", open_files._Report())
    address = ("127.0.0.1", served.server.address.port)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.socket()) for _ in range(http_server._RESERVE)]
        clients = [stack.enter_context(socket.socket()) for _ in range(5)]
        with no_descriptor_left():
            for client in silent:  # they have all of the reserve until another one comes
                client.connect(address)
            for client in clients:
                client.settimeout(20)
                client.connect(address)
                client.sendall(b"GET /%s HTTP/1.0\r\n\r\n" % path.encode())
                assert end(client).startswith(b"HTTP/1.0 200")
    reports = [record for record in caplog.records if record.name == open_files.__name__]
    assert reports
    assert "this process has no descriptor left" in reports[0].getMessage()
    assert "LimitNOFILE" in reports[0].getMessage()


def test_at_most_one_line_a_second_is_logged() -> None:
    report = open_files._Report()
    assert report.is_due()
    report._logged_at += 3600  # however slow this machine is
    assert not report.is_due()
    report._logged_at -= 7200
    assert report.is_due()


def test_a_request_in_parts_and_with_bare_line_feeds(served: Served) -> None:
    for ends in (b"\r\n", b"\n"):
        with served.connect() as client:
            for part in (b"GET /hea", b"lthz HTTP/1.0" + ends, b"A: b" + ends, ends):
                client.sendall(part)
                time.sleep(0.01)
            assert end(client).startswith(b"HTTP/1.0 200")
