"""The control socket: who may use it, what is understood, and who has it."""

import errno
import os
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.control import connection as control
from proxy.control.connection import PROTOCOL, ControlConnection, ControlError, Message, connect
from proxy.control.server import ControlServer


def answer(connection: ControlConnection, message: Message) -> None:
    connection.send({"echo": str(message.get("text"))})


def give(connection: ControlConnection, message: Message) -> None:
    """Give a pipe's writing end, and a message through it."""
    reading, writing = os.pipe()
    connection.send({"given": 1}, [reading])
    os.write(writing, b"through it")
    control.close_all([reading, writing])


def serve(path: Path, text: str = "") -> ControlServer:
    def say(connection: ControlConnection, _: Message) -> None:
        connection.send({"text": text})

    server = ControlServer(
        path, {"echo": answer, "give": give, "say": say}, lambda: text == "stops"
    )
    server.start()
    return server


def reach(path: Path) -> ControlConnection:
    connection = connect(path)
    assert connection is not None
    return connection


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / ("long" * 50) / "control.sock"  # longer than a socket's path may be
    path.parent.mkdir()
    serving = serve(path)
    yield path
    serving.stop()
    assert not path.exists()


def say(path: Path) -> object:
    connection = reach(path)
    connection.send({"command": "say"})
    text = connection.receive_plain()["text"]
    connection.close()
    return text


def test_a_command_is_answered(path: Path) -> None:
    connection = reach(path)
    assert (connection.peer_pid, connection.peer_uid) == (os.getpid(), os.geteuid())
    connection.send({"command": "echo", "text": "é" * 100_000})
    assert connection.receive_plain() == {"echo": "é" * 100_000}
    connection.close()


def test_descriptors_go_through_it(path: Path) -> None:
    connection = reach(path)
    connection.send({"command": "give"})
    message, (descriptor,) = connection.receive()
    assert message == {"given": 1}
    assert not os.get_inheritable(descriptor)
    assert os.read(descriptor, 99) == b"through it"
    control.close_all([descriptor])
    connection.close()


def test_it_is_the_owners(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # Whoever can connect all the same is refused by the peer's user, whichever side asks.
    user = os.geteuid()
    peer = user + 1
    monkeypatch.setattr(
        ControlConnection, "peer_uid", property(lambda _: peer, lambda *_: None), raising=False
    )
    monkeypatch.setattr(os, "geteuid", lambda: user + 2)
    with pytest.raises(ControlError, match=f"of a process of user {peer}: only"):
        connect(path)
    connected = socket.socket(socket.AF_UNIX)
    with control.short_path(path) as short:
        connected.connect(short)
    connection = ControlConnection(connected)
    with pytest.raises(ControlError, match="closed the connection"):
        connection.receive_plain()
    connection.close()


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", "closed the connection"),
        (b"reload\n", "bytes"),  # its first four are a length
        (struct.pack(">I", 1 << 30), "1073741824 bytes"),
        (struct.pack(">I", 4) + b'"ab"', "no object"),
        (struct.pack(">I", 2) + b"{}", "no such command: it has echo, give, say"),
        (struct.pack(">I", 18) + b'{"command":"stop"}', "no such command"),
    ],
)
def test_whatever_else_is_sent_is_refused(path: Path, sent: bytes, answered: str) -> None:
    connected = socket.socket(socket.AF_UNIX)
    with control.short_path(path) as short:
        connected.connect(short)
    connected.sendall(sent)
    connected.shutdown(socket.SHUT_WR)
    connection = ControlConnection(connected)
    assert connection.receive_plain()["pid"] == os.getpid()
    assert answered in str(connection.receive_plain()["error"])
    connection.close()
    assert say(path) == ""


def test_many_may_connect_and_say_nothing(path: Path) -> None:
    silent = [reach(path) for _ in range(16)]
    asking = threading.Thread(target=lambda: texts.append(say(path)))
    texts: list[object] = []
    asking.start()
    silent.pop().close()
    asking.join()
    assert texts == [""]
    for connection in silent:
        connection.close()


def test_it_goes_on_after_no_descriptor_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
    accept = socket.socket.accept

    def fail_once(listening: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", fail_once)
    server = serve(tmp_path / "control.sock", "served")
    assert say(tmp_path / "control.sock") == "served"
    server.stop()


def test_a_successor_takes_it_over(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    first, second = serve(path, "first"), serve(path, "second")
    assert say(path) == "second"
    first.stop()
    assert say(path) == "second"
    second.stop()
    assert list(tmp_path.iterdir()) == []
    assert connect(path) is None
    assert connect(tmp_path / "no folder" / "control.sock") is None


def test_one_that_stops_says_so(tmp_path: Path) -> None:
    for text in ("", "stops"):
        server = serve(tmp_path / "control.sock", text)
        connection = reach(tmp_path / "control.sock")
        assert connection.stopping is (text == "stops")
        connection.close()
        server.stop()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        serve(path)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def answering(path: Path, sent: bytes) -> threading.Thread:
    """Whatever else listens at the path."""
    listening = socket.socket(socket.AF_UNIX)
    with control.short_path(path) as short:
        listening.bind(short)
    listening.listen()

    def send() -> None:
        with listening, listening.accept()[0] as connected:
            connected.sendall(sent)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def message(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (
            message(b'{"protocol": 99, "version": "9.9", "pid": 7}'),
            f"process 7, version 9.9.*has version 99.*this one has {PROTOCOL}: use the program",
        ),
        (struct.pack(">I", 1 << 30), "a message of 1073741824 bytes"),
        (message(b"[]"), "no object"),
        (message(b"{"), "broke off"),
        (message(b"[" * 200_000), "broke off"),
        (b"\0\0", "has ended"),
        (b"", "has ended"),
    ],
)
def test_what_is_not_understood_is_named(tmp_path: Path, sent: bytes, error: str) -> None:
    thread = answering(tmp_path / "control.sock", sent)
    with pytest.raises(ControlError, match=error):
        connect(tmp_path / "control.sock")
    thread.join()


def test_a_socket_that_may_not_be_used_says_who_may(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mode, and the directory's, keep others out before it can be asked whose it is."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ControlError, match="only the proxy's own user, and root, may use it"):
        connect(path)
