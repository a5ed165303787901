"""TLS connections that share their buffers: what each delivers, how it ends, whom it disturbs."""

import asyncio
import random
import ssl
from collections.abc import Coroutine
from functools import cache
from typing import Any, cast

import pytest

from proxy.address import Address
from proxy.config import Config
from proxy.thread_buffers import BUFFERS
from proxy.tls import transport as tls_transport
from proxy.tls.materials import build, make_key_ring
from proxy.tls.transport import TlsTransport
from tests.support.transports import FakeTransport

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@cache
def server_context() -> ssl.SSLContext:
    config = Config(Address("127.0.0.1", 1))
    context = build(config, make_key_ring(config)).client_ssl
    assert context is not None
    return context


def client_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    return context


class Above:
    """A protocol object that takes down what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.events: list[str] = []
        self.error: Exception | None = None

    def data_received(self, data: bytes) -> None:
        assert not BUFFERS.incoming.pending
        assert not BUFFERS.outgoing.pending
        self.data += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")
        self.error = error

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Connection:
    """A transport and its peer, which has buffers of its own."""

    def __init__(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, *, server_side: bool = True
    ) -> None:
        near, far = server_context(), client_context(version)
        if not server_side:
            near, far = far, near
        self.above = Above()
        self.below = FakeTransport()
        self.transport = TlsTransport(
            self.below,
            self.above,
            near,
            server_side=server_side,
            hostname=None if server_side else "localhost",
        )
        self.to_peer, self.from_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.peer = far.wrap_bio(self.to_peer, self.from_peer, server_side=not server_side)
        self.received = b""
        self.peer_ended = False

    async def begin(self, size: int = 1 << 30, behind: bytes = b"") -> None:
        """The handshake, in portions of `size`; the peer sends `behind` as early as it may."""
        handshake = asyncio.ensure_future(self.transport.do_handshake())
        await asyncio.sleep(0)
        done = False
        while not (done and handshake.done()):
            self.to_peer.write(self.below.take())
            try:
                if not done:
                    self.peer.do_handshake()
                    done = True
                    if behind:
                        self.peer.write(behind)
            except ssl.SSLWantReadError:
                pass
            self.arrive(size)
            await asyncio.sleep(0)
        await handshake

    def arrive(self, size: int = 1 << 30) -> None:
        """What the peer has written arrives, in portions of `size`."""
        self.below.feed(self.from_peer.read(), size)

    def send(self, data: bytes, size: int = 1 << 30) -> None:
        """The peer sends."""
        self.peer.write(data)
        self.arrive(size)

    def read(self) -> bytes:
        """What the peer receives, of all that was sent to it."""
        self.to_peer.write(self.below.take())
        try:
            while part := self.peer.read(1 << 14):
                self.received += part
            self.peer_ended = True
        except ssl.SSLWantReadError:
            pass
        received, self.received = self.received, b""
        return received


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def both_ways(connection: Connection) -> None:
    """The connection works."""
    connection.send(b"a question")
    assert connection.above.data.endswith(b"a question")
    connection.transport.write(b"an answer")
    assert connection.read() == b"an answer"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("server_side", [True, False])
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 30])
def test_bytes_in_any_portions(version: ssl.TLSVersion, server_side: bool, size: int) -> None:
    async def story() -> None:
        connection = Connection(version, server_side=server_side)
        await connection.begin(size, behind=b"first")
        connection.arrive()
        assert connection.above.data == b"first"
        for length in (1, 100, 40_000):
            connection.above.data = b""
            connection.send(b"x" * length, size)
            assert connection.above.data == b"x" * length
            connection.transport.write(b"y" * length)
            assert connection.read() == b"y" * length
        assert connection.above.events == []

    run(story())


def test_much_at_once_leaves_the_shared_buffers_small() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        data = random.Random(1).randbytes(3_000_000)
        connection.send(data, 1 << 18)
        assert connection.above.data == data
        connection.transport.write(data)
        assert connection.read() == data

    run(story())


def test_connections_share_their_buffers_and_nothing_else() -> None:
    """Handshakes, bytes and ends of many connections, in any order and portions."""
    chance = random.Random(7)

    async def story() -> None:
        connections = [
            Connection(chance.choice(VERSIONS), server_side=chance.random() < 0.5)
            for _ in range(30)
        ]
        assert {id(each.transport._incoming) for each in connections} == {id(BUFFERS.incoming)}
        assert {id(each.transport._outgoing) for each in connections} == {id(BUFFERS.outgoing)}
        await asyncio.gather(*(each.begin(chance.randint(1, 300)) for each in connections))
        sent = [b""] * 30
        received = [b""] * 30
        written = [b""] * 30
        for _ in range(3000):
            k = chance.randrange(30)
            connection = connections[k]
            if chance.random() < 0.5:
                data = bytes((k,)) * chance.randint(1, 3000)
                connection.peer.write(data)
                sent[k] += data
                arriving = connection.from_peer.read(chance.randint(1, 5000))
                connection.below.feed(arriving)
            else:
                data = bytes((k,)) * chance.randint(1, 3000)
                connection.transport.write(data)
                written[k] += data
                received[k] += connection.read()
            assert not BUFFERS.incoming.pending
            assert not BUFFERS.outgoing.pending
        for k, connection in enumerate(connections):
            connection.arrive()
            assert connection.above.data == sent[k]
            assert received[k] + connection.read() == written[k]

    run(story())


def test_who_pauses_is_given_no_more() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        connection.transport.pause_reading()
        connection.send(b"later")
        assert connection.above.data == b""
        assert connection.below.waiting
        connection.transport.resume_reading()
        connection.below.deliver()
        assert connection.above.data == b"later"

    run(story())


def test_a_full_write_buffer_below_is_told_above() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        connection.transport.pause_writing()
        connection.transport.resume_writing()
        connection.below.unsent = 5
        assert connection.transport.get_write_buffer_size() == 5
        assert connection.above.events == ["pause", "resume"]

    run(story())


class Renegotiating:
    """An SSLObject that takes nothing to write before it has read."""

    def __init__(self, tls: ssl.SSLObject) -> None:
        self.tls = tls
        self.waits = True

    def write(self, data: bytes) -> int:
        if self.waits:
            raise ssl.SSLWantReadError
        return self.tls.write(data)

    def read(self, size: int) -> bytes:
        self.waits = False
        return self.tls.read(size)

    def pending(self) -> int:
        return self.tls.pending()


def test_what_is_written_during_a_renegotiation_is_sent_after_it() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        connection.transport._tls = cast("ssl.SSLObject", Renegotiating(connection.transport._tls))
        connection.transport.write(b"one, ")
        connection.transport.write(b"two, ")
        assert connection.transport.get_write_buffer_size() == 10
        assert connection.read() == b""
        connection.send(b"the peer's part of it")
        connection.transport.write(b"three")
        assert connection.read() == b"one, two, three"
        assert connection.transport.get_write_buffer_size() == 0

    run(story())


class Answering:
    """An SSLObject that answers what it reads, as it does when the peer renegotiates."""

    def __init__(self, tls: ssl.SSLObject) -> None:
        self.tls = tls

    def read(self, size: int) -> bytes:
        BUFFERS.outgoing.write(b"a ClientHello")
        return self.tls.read(size)

    def pending(self) -> int:
        return self.tls.pending()


def test_what_openssl_answers_by_itself_is_sent_at_once() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        connection.transport._tls = cast("ssl.SSLObject", Answering(connection.transport._tls))
        connection.below.take()
        connection.send(b"a HelloRequest")
        assert connection.below.take() == b"a ClientHello"

    run(story())


# The end.


@pytest.mark.parametrize("answer", ["close_notify", "end of TCP", "nothing"])
@pytest.mark.parametrize("paused", [False, True])
def test_closing_waits_for_the_peer_and_drops_what_it_sends(
    answer: str, paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_CLOSE_NOTIFY_S", 0.01)

    async def story() -> None:
        connection = Connection()
        await connection.begin()
        if paused:
            connection.transport.pause_reading()
        connection.transport.write(b"the last words")
        connection.transport.close()
        assert connection.transport.is_closing()
        assert not connection.below.closing
        connection.transport.write(b"too late")
        connection.send(b"nobody reads this")
        assert connection.above.data == b""
        if answer == "close_notify":
            assert connection.read() == b"the last words"
            assert connection.peer_ended
            connection.peer.unwrap()
            connection.arrive()
        elif answer == "end of TCP":
            assert not connection.transport.eof_received()
            connection.below.close()
        else:
            while not connection.below.closing:  # noqa: ASYNC110 a timer of the transport's
                await asyncio.sleep(0.005)
        assert connection.below.closing
        assert not connection.below.aborted
        connection.below.lose()
        assert connection.above.events == ["lost"]
        assert connection.above.error is None

    run(story())


@pytest.mark.parametrize("behind", [b"", b"\x17\x03\x03\x00\x05hello", bytes(100)])
def test_the_peer_closes(behind: bytes) -> None:
    async def story() -> None:
        connection, other = Connection(), Connection()
        await connection.begin()
        await other.begin()
        connection.peer.write(b"goodbye")
        with pytest.raises(ssl.SSLWantReadError):
            connection.peer.unwrap()
        connection.from_peer.write(behind)
        connection.arrive()
        assert connection.above.data == b"goodbye"
        assert connection.above.events == ["eof"]
        assert connection.below.closing
        await both_ways(other)

    run(story())


def test_tcp_ends_without_a_close_notify() -> None:
    async def story() -> None:
        connection = Connection()
        await connection.begin()
        connection.peer.write(b"a packet")
        data = connection.from_peer.read()
        connection.below.feed(data[:-1])  # a record that was cut off is not delivered
        assert connection.transport.eof_received() is False
        assert connection.above.events == ["eof"]
        assert connection.above.data == b""
        connection.transport.write(b"to nobody")
        connection.below.lose()
        assert connection.above.events == ["eof", "lost"]
        connection.transport.close()
        connection.transport.abort()
        connection.transport.pause_reading()
        connection.transport.resume_reading()
        assert connection.transport.is_closing()
        assert connection.transport.get_write_buffer_size() == 0
        assert connection.transport.get_extra_info("peername") is None

    run(story())


# Hostile peers.

GARBAGE = {
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": bytes(64),
    "a length of 65535": b"\x17\x03\x03\xff\xff" + bytes(70_000),
    "an unknown type": b"\x63\x03\x03\x00\x10" + bytes(16),
    "a wrong key": b"\x17\x03\x03\x00\x40" + bytes(64),
    "another version": b"\x17\x02\x00\x00\x10" + bytes(16),
    "an alert in clear": b"\x15\x03\x03\x00\x02\x02\x28",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("full", [False, True])
def test_garbage_ends_its_own_connection(data: bytes, version: ssl.TLSVersion, full: bool) -> None:
    async def story() -> None:
        connection, other = Connection(version), Connection(version)
        await connection.begin()
        await other.begin()
        connection.below.unsent = 100 if full else 0
        connection.below.feed(data)
        assert connection.below.closing
        assert connection.below.aborted is full or data == GARBAGE["an alert in clear"]
        assert connection.transport.is_closing()
        await both_ways(other)
        connection.below.lose()
        assert connection.above.events == ["lost"]
        assert isinstance(connection.above.error, ssl.SSLError)
        assert connection.above.data == b""

    run(story())


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("server_side", [True, False])
def test_garbage_in_place_of_a_handshake(data: bytes, server_side: bool) -> None:
    async def story() -> None:
        connection, other = Connection(server_side=server_side), Connection()
        await other.begin()
        handshake = asyncio.ensure_future(connection.transport.do_handshake())
        await asyncio.sleep(0)
        connection.below.take()
        connection.below.feed(data)
        with pytest.raises(ssl.SSLError):
            await handshake
        assert connection.below.closing
        await both_ways(other)

    run(story())


def test_the_peer_is_told_why_a_handshake_failed() -> None:
    async def story() -> None:
        connection = Connection()
        handshake = asyncio.ensure_future(connection.transport.do_handshake())
        await asyncio.sleep(0)
        old = client_context()
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        peer = old.wrap_bio(connection.to_peer, connection.from_peer)
        with pytest.raises(ssl.SSLWantReadError):
            peer.do_handshake()
        connection.arrive()
        with pytest.raises(ssl.SSLError):
            await handshake
        connection.to_peer.write(connection.below.take())
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            peer.do_handshake()

    with pytest.warns(DeprecationWarning, match="TLSv1"):
        run(story())


@pytest.mark.parametrize("error", [None, ConnectionAbortedError("broke")])
def test_the_connection_ends_during_the_handshake(error: Exception | None) -> None:
    async def story() -> None:
        connection = Connection()
        handshake = asyncio.ensure_future(connection.transport.do_handshake())
        await asyncio.sleep(0)
        connection.below.feed(b"\x16\x03\x01")
        connection.transport.eof_received()
        connection.below.lose(error)
        with pytest.raises(ConnectionResetError if error is None else ConnectionAbortedError):
            await handshake
        assert connection.above.events == ["lost"]

    run(story())


def test_a_handshake_that_is_given_up_is_aborted() -> None:
    async def story() -> None:
        connection = Connection()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await connection.transport.do_handshake()
        assert connection.below.aborted
        connection.below.lose()

    run(story())
