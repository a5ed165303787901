"""A relay passes bytes on, and misbehaves as it is told."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from scripts.ports import reserve_port
from tests.chaos.relay import CHUNK, Relay, RelayLoop

WAIT_S = 20.0


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(CHUNK):
                self.request.sendall(data)
            self.request.sendall(b"end")


@pytest.fixture
def relay() -> Iterator[Relay]:
    """One before a server that sends back what it gets."""
    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server,
        RelayLoop() as loop,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        relay = Relay(loop, server.server_address[1])
        try:
            yield relay
        finally:
            relay.close()
            server.shutdown()
            thread.join(WAIT_S)


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=WAIT_S)


def echo(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    received = b""
    while len(received) < len(data):
        got = connection.recv(CHUNK)
        if not got:
            break
        received += got
    return received


def test_bytes_and_ends_pass(relay: Relay) -> None:
    with connect(relay) as connection:
        data = bytes(range(256)) * 1000
        assert echo(connection, data) == data
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b"end"
        assert connection.recv(10) == b""


def test_cut_resets_what_is_open_and_takes_new_ones(relay: Relay) -> None:
    with connect(relay) as connection, connect(relay) as other:
        assert echo(connection, b"a") + echo(other, b"b") == b"ab"
        relay.cut()
        for peer in (connection, other):
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
    with connect(relay) as connection:
        assert echo(connection, b"c") == b"c"


def test_a_stalled_relay_loses_nothing(relay: Relay) -> None:
    with connect(relay) as connection:
        assert echo(connection, b"a") == b"a"
        relay.stall()
        connection.sendall(b"b")
        with connect(relay) as late:
            late.sendall(b"c")
            for peer in (connection, late):
                peer.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    peer.recv(1)
                peer.settimeout(WAIT_S)
            relay.heal()
            assert connection.recv(1) + late.recv(1) == b"bc"


def test_what_was_swallowed_is_reset_by_healing(relay: Relay) -> None:
    with connect(relay) as connection:
        assert echo(connection, b"a") == b"a"
        relay.swallow()
        connection.sendall(b"b")
        relay.heal()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_half_closed_connection_still_sends(relay: Relay) -> None:
    with connect(relay) as connection:
        assert echo(connection, b"a") == b"a"
        relay.half_close()
        assert connection.recv(1) == b""
        connection.sendall(b"b")


def test_refused_until_healed(relay: Relay) -> None:
    with connect(relay) as connection:
        assert echo(connection, b"a") == b"a"
        relay.refuse()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(relay)
    relay.heal()
    with connect(relay) as connection:
        assert echo(connection, b"a") == b"a"


def test_a_delay_keeps_the_order(relay: Relay) -> None:
    relay.delay(to_client=0.02, to_server=0.01)
    with connect(relay) as connection:
        for piece in (b"a", b"b", b"c"):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while got := connection.recv(CHUNK):
            received += got
    assert received == b"abcend"


def test_a_server_that_is_down_resets(relay: Relay) -> None:
    with RelayLoop() as loop:
        nowhere = Relay(loop, reserve_port())
        try:
            with pytest.raises(ConnectionResetError), connect(nowhere) as connection:
                connection.recv(1)
        finally:
            nowhere.close()
