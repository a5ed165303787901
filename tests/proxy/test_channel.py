"""PacketChannel reads packet by packet, and leaves to the next protocol what is the next one's."""

import asyncio
import gc
import ssl
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import MalformedPacketError, PacketOutOfOrderError, PacketTooLargeError
from protocol.packet import frame
from proxy.address import Address
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.config import Config
from proxy.tls.materials import build, make_key_ring
from tests.support.transports import FakeTransport


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def channel_on(transport: FakeTransport, limit: int = 1 << 16) -> PacketChannel:
    channel = PacketChannel(limit)
    transport.protocol = channel
    channel.connection_made(transport)
    return channel


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 what is waited for tells nobody
        await asyncio.sleep(0.005)


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


class Successor:
    """A protocol that takes over."""

    def __init__(self) -> None:
        self.received = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


# Reading.


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.integers(1, 60), st.booleans())
def test_packets_in_any_portions(payloads: list[bytes], size: int, secure: bool) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = PacketChannel(1 << 16)
        channel.adopt(transport, 0, secure=secure)
        data = b"".join(frame(payload, k) for k, payload in enumerate(payloads))
        reading = asyncio.ensure_future(_read(channel, len(payloads)))
        for position in range(0, len(data), size):
            transport.feed(data[position : position + size])
            await settle()
            transport.deliver()
            await settle()
        while not reading.done():
            transport.deliver()
            await asyncio.sleep(0)
        assert await reading == payloads
        assert channel.sequence_id == len(payloads)

    run(story())


async def _read(channel: PacketChannel, count: int) -> list[bytes]:
    return [await channel.read_packet() for _ in range(count)]


def test_in_clear_nothing_is_read_behind_what_was_asked_for() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        reading = asyncio.ensure_future(channel.read_packet())
        await settle()
        transport.feed(frame(b"mine", 0) + b"a ClientHello, or a command")
        while not reading.done():
            await asyncio.sleep(0)
            transport.deliver()
        assert await reading == b"mine"
        successor = Successor()
        channel.hand_over(successor)
        transport.deliver()
        await settle()
        assert successor.received == b"a ClientHello, or a command"

    run(story())


@pytest.mark.parametrize("behind", [b"", b"x", b"next", frame(b"whole", 0) + b"and more"])
def test_over_tls_what_was_read_ahead_is_handed_over_first(behind: bytes) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = PacketChannel(1 << 16)
        channel.adopt(transport, 3, secure=True)
        transport.feed(frame(b"mine", 3) + behind)
        assert await channel.read_packet() == b"mine"
        successor = Successor()
        channel.hand_over(successor)
        assert successor.received == b""  # not before it was attached
        loop = asyncio.get_running_loop()
        loop.call_soon(transport.feed, b" later")
        await settle()
        assert successor.received == behind + b" later"

    run(story())


def test_a_packet_of_many_frames() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport, limit=1 << 26)
        payload = b"x" * MAX_PACKET_PAYLOAD + b"yz"
        transport.feed(frame(payload, 0))
        reading = asyncio.ensure_future(channel.read_packet())
        while not reading.done():
            transport.deliver()
            await asyncio.sleep(0)
        assert await reading == payload
        assert channel.sequence_id == 2

    run(story())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x01\x00\x00\x01", PacketOutOfOrderError),
        (b"\x11\x00\x00\x00", PacketTooLargeError),
        (b"\xff\xff\xff\x00", PacketTooLargeError),
    ],
)
def test_a_header_is_judged_before_its_payload_comes(
    data: bytes, expected: type[Exception]
) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport, limit=16)
        transport.feed(data)
        with pytest.raises(expected):
            await channel.read_packet()

    run(story())


@pytest.mark.parametrize("secure", [False, True])
def test_who_sends_without_being_asked_is_made_to_wait(secure: bool) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = PacketChannel(1000)
        channel.adopt(transport, 0, secure=secure)
        for _ in range(200):
            transport.feed(frame(bytes(100), 0))
        assert transport.waiting > 200 * 104 - 20_000
        assert not transport.reading

    run(story())


@pytest.mark.parametrize("size", [1, 7, 1 << 10])
def test_what_has_come_is_read_as_it_is_and_can_be_put_back(size: int) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        channel.read_ahead()
        transport.feed(b"an answer" + frame(b"mine", 0) + frame(b"ours", 1), size)
        received = b""
        while len(received) < 9:
            received += await channel.read_some()
        channel.put_back(received[9:])
        assert received[:9] == b"an answer"
        assert [await channel.read_packet() for _ in range(2)] == [b"mine", b"ours"]
        reading = asyncio.ensure_future(channel.read_some())
        await settle()
        assert not reading.done()
        transport.feed(b"more")
        assert await reading == b"more"
        reading = asyncio.ensure_future(channel.read_some())
        await settle()
        channel.connection_lost(None)
        with pytest.raises(ChannelClosedError):
            await reading

    run(story())


def test_a_reader_that_pauses_is_not_woken_by_what_comes() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        channel.read_ahead()
        transport.feed(b"one")
        assert await channel.read_some() == b"one"
        channel.pause()
        transport.feed(b"two")
        assert transport.waiting == 3
        reading = asyncio.ensure_future(channel.read_some())
        await settle()
        transport.deliver()
        assert await reading == b"two"

    run(story())


def test_tls_begins_behind_nothing_that_came_in_clear() -> None:
    """What was read ahead would pass for something that TLS has protected."""

    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        channel.read_ahead()
        transport.feed(frame(b"a greeting", 0) + b"and more")
        assert await channel.read_packet() == b"a greeting"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(MalformedPacketError, match="unencrypted data where TLS was to begin"):
            await channel.start_tls(context, server_side=False, hostname="db")

    run(story())


# Writing.


def test_packets_that_follow_each_other_are_written_together() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        channel.write_packet(b"a", follows=True)
        channel.write_packet(b"b", follows=True)
        assert transport.take() == b""
        channel.write_packet(b"c")
        assert transport.take() == frame(b"a", 0) + frame(b"b", 1) + frame(b"c", 2)
        channel.write_packet(b"d")
        assert transport.take() == frame(b"d", 3)

    run(story())


def test_written_packets_count_on() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        channel.sequence_id = 254
        for payload in (b"a", b"", b"b"):
            channel.write_packet(payload)
        assert transport.take() == frame(b"a", 254) + frame(b"", 255) + frame(b"b", 0)
        channel.write_packet(b"x" * (MAX_PACKET_PAYLOAD + 1))
        assert channel.sequence_id == 3
        channel.sequence_id = 7
        assert transport.take()[3] == 1

    run(story())


# The end.


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
def test_the_end_wakes_the_reader(error: Exception | None) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        reading = asyncio.ensure_future(channel.read_packet())
        await settle()
        transport.feed(b"\x05\x00")
        transport.lose(error)
        with pytest.raises(ChannelClosedError):
            await reading

    run(story())


@pytest.mark.parametrize("how", ["lost", "closing"])
def test_after_the_end_nothing_can_be_done(how: str) -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = channel_on(transport)
        if how == "lost":
            transport.lose()
        else:
            transport.closing = True  # a TLS handshake failed, and nobody said so
        with pytest.raises(ChannelClosedError):
            channel.write_packet(b"x")
        with pytest.raises(ChannelClosedError):
            channel.hand_over(Successor())
        with pytest.raises(ChannelClosedError):
            await channel.read_packet()
        channel.close()
        channel.abort()

    run(story())


def test_over_tls_what_came_before_the_end_can_still_be_read() -> None:
    async def story() -> None:
        transport = FakeTransport()
        channel = PacketChannel(1 << 16)
        channel.adopt(transport, 0, secure=True)
        transport.feed(frame(b"last words", 0))
        transport.lose()
        assert await channel.read_packet() == b"last words"
        with pytest.raises(ChannelClosedError):
            await channel.read_packet()

    run(story())


# Real sockets.


async def connected() -> tuple[asyncio.Server, PacketChannel, PacketChannel]:
    """A server, and the two ends of a connection to it."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Queue[PacketChannel] = asyncio.Queue()

    def accept() -> PacketChannel:
        channel = PacketChannel(1 << 20)
        loop.call_soon(accepted.put_nowait, channel)  # when it knows its transport
        return channel

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, near = await loop.create_connection(lambda: PacketChannel(1 << 20), "127.0.0.1", port)
    return server, near, await accepted.get()


async def protect(near: PacketChannel, far: PacketChannel, context: ssl.SSLContext) -> None:
    """Begin TLS at both ends; `context` is the far one's."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    await asyncio.gather(
        near.start_tls(trusting, server_side=False, hostname="localhost"),
        far.start_tls(context, server_side=True, hostname=None),
    )


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_between_two_channels_and_then_between_protocols(run_loop: Any, secure: bool) -> None:
    """A greeting, TLS, packets of both sides, hand-over in the middle of what is sent."""
    config = Config(Address("127.0.0.1", 1))
    context = build(config, make_key_ring(config)).client_ssl
    assert context is not None

    async def story() -> None:
        server, near, far = await connected()
        far.write_packet(b"greeting")
        assert await near.read_packet() == b"greeting"
        near.write_packet(b"SSLRequest")
        assert await far.read_packet() == b"SSLRequest"
        if secure:
            await protect(near, far, context)
        assert near.secure is far.secure is secure
        big = bytes(range(256)) * 2000
        near.write_packet(big)
        assert await far.read_packet() == big
        successor = Successor()
        near.transport.write(frame(b"for the channel", 3) + b"for the next: " + big)
        assert await far.read_packet() == b"for the channel"
        far.hand_over(successor)
        near.transport.write(b"end")
        await eventually(lambda: successor.received.endswith(b"end"))
        assert successor.received == b"for the next: " + big + b"end"
        near.close()
        await eventually(lambda: successor.lost)
        server.close()

    run_loop(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_a_connection_does_not_keep_the_channel_of_its_login(run_loop: Any, secure: bool) -> None:
    config = Config(Address("127.0.0.1", 1))
    context = build(config, make_key_ring(config)).client_ssl
    assert context is not None

    async def story() -> None:
        server, near, far = await connected()
        if secure:
            await protect(near, far, context)
        channel = weakref.ref(far)
        transport = far.hand_over(Successor())
        del far
        gc.collect()
        assert channel() is None
        transport.close()
        near.close()
        server.close()

    run_loop(asyncio.wait_for(story(), 60))
