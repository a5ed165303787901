"""The transport between: what it delivers, when, and that it lets the peer wait."""

import asyncio
import random
from collections.abc import Callable
from typing import cast

import pytest

from protocol.compression import Algorithm, Compression
from protocol.errors import PacketOutOfOrderError, PacketTooLargeError, ProtocolError
from protocol.packet import frame
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.compressed import CompressedTransport
from tests.support.transports import FakeTransport


class Above:
    """A protocol object that takes down what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.events: list[str] = []
        self.taken: Callable[[], None] = lambda: None

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.taken()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def protocol_broken(self, error: ProtocolError) -> None:
        self.events.append(type(error).__name__)


class Scene:
    """A transport between a connection and `Above`; the peer is a client."""

    def __init__(self) -> None:
        self.counted = 0
        self.transport = CompressedTransport(
            Compression(Algorithm.ZLIB, 6, server=True), self._broken
        )
        self.below = FakeTransport(self.transport)
        self.transport.begin(self.below)
        self.above = Above()
        self.transport.set_protocol(self.above)
        self.client = Compression(Algorithm.ZLIB, 6, server=False)

    def _broken(self) -> None:
        self.counted += 1


def run(story: Callable[[Scene], object]) -> None:
    async def main() -> None:
        outcome = story(Scene())
        if asyncio.iscoroutine(outcome):
            await outcome

    asyncio.run(main())


LIMIT = 100_000
COMMANDS = [frame(b"\x03" + bytes((n,)) * 100, 0) for n in range(40)]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_what_comes_and_goes(size: int) -> None:
    def story(scene: Scene) -> None:
        scene.below.feed(scene.client.send(b"".join(COMMANDS)), size)
        assert scene.above.data == b"".join(COMMANDS)
        scene.transport.writelines([frame(b"a" * 100, 1), frame(b"b", 2)])
        scene.client.receive_data(scene.below.take())
        assert scene.client.next_plain() == frame(b"a" * 100, 1) + frame(b"b", 2)

    run(story)


def test_a_protocol_object_that_pauses_gets_no_more() -> None:
    async def story(scene: Scene) -> None:
        scene.above.taken = scene.transport.pause_reading
        scene.below.feed(scene.client.send(b"".join(COMMANDS)))
        for n in range(1, len(COMMANDS) + 1):
            assert scene.above.data == b"".join(COMMANDS[:n])
            scene.transport.resume_reading()
            assert scene.above.data == b"".join(COMMANDS[:n]), "not from within the call"
            await asyncio.sleep(0)

    run(story)


def test_the_peer_waits_when_much_is_not_read() -> None:
    async def story(scene: Scene) -> None:
        scene.transport.pause_reading()
        noise = frame(random.Random(7).randbytes(100_000), 0)
        sent = 0
        while scene.below.reading:
            scene.below.feed(scene.client.send(noise))
            sent += 1
            assert sent < 10
        assert scene.above.data == b""
        scene.transport.resume_reading()
        await asyncio.sleep(0)
        assert scene.above.data == noise * sent
        assert scene.below.reading

    run(story)


def test_who_has_closed_is_given_no_more() -> None:
    def story(scene: Scene) -> None:
        scene.above.taken = scene.transport.close
        scene.below.feed(scene.client.send(b"".join(COMMANDS)))
        assert scene.above.data == COMMANDS[0]

    run(story)


@pytest.mark.parametrize("size", [LIMIT - 4, LIMIT + 5])
def test_a_login_over_it_is_given_no_more_than_it_takes(size: int) -> None:
    async def story(scene: Scene) -> None:
        channel = PacketChannel(LIMIT)
        channel.adopt(cast("asyncio.Transport", scene.transport), 1, secure=False)
        packet = frame(bytes(size), 1)
        scene.below.feed(scene.client.send(packet))
        if size < LIMIT:
            assert await channel.read_packet() == bytes(size)
            channel.hand_over(scene.above)
            await asyncio.sleep(0)
            scene.client = Compression(Algorithm.ZLIB, 6, server=False)
            long = frame(b"x" * 2 * LIMIT, 0)
            scene.below.feed(scene.client.send(long))
            assert scene.above.data == long
        else:
            with pytest.raises(PacketTooLargeError):
                await channel.read_packet()
            assert scene.counted == 0, "whoever reads the login counts it"

    run(story)


def test_the_end_is_told_while_nothing_is_read() -> None:
    def story(scene: Scene) -> None:
        scene.transport.pause_reading()
        scene.below.feed(scene.client.send(COMMANDS[0]))
        scene.below.lose()
        assert scene.above.events == ["lost"]
        assert scene.transport.is_closing()

    run(story)


def test_writing_is_paused_and_resumed() -> None:
    def story(scene: Scene) -> None:
        scene.transport.pause_writing()
        scene.transport.resume_writing()
        assert scene.above.events == ["pause", "resume"]

    run(story)


def test_what_is_broken_is_told_once_and_counted() -> None:
    def story(scene: Scene) -> None:
        scene.below.feed(scene.client.send(COMMANDS[0]) + b"\1\0\0\7\0\0\0x" * 3)
        scene.below.feed(scene.client.send(COMMANDS[0]))
        assert scene.above.data == COMMANDS[0]
        assert scene.above.events == ["PacketOutOfOrderError"]
        assert scene.counted == 1

    run(story)


def test_a_login_over_it_gets_what_came_before_the_end() -> None:
    async def story(scene: Scene) -> None:
        channel = PacketChannel(1000)
        channel.adopt(cast("asyncio.Transport", scene.transport), 1, secure=False)
        reading = asyncio.ensure_future(channel.read_packet())
        await asyncio.sleep(0)
        scene.below.feed(scene.client.send(frame(b"first", 1) + frame(b"second", 2)))
        scene.below.lose()
        assert await reading == b"first"
        assert await channel.read_packet() == b"second"
        with pytest.raises(ChannelClosedError):
            await channel.read_packet()

    run(story)


def test_a_login_over_it_is_told_what_is_broken() -> None:
    async def story(scene: Scene) -> None:
        channel = PacketChannel(1000)
        channel.adopt(cast("asyncio.Transport", scene.transport), 1, secure=False)
        scene.below.feed(scene.client.send(frame(b"first", 1)) + b"\1\0\0\7\0\0\0x")
        assert await channel.read_packet() == b"first"
        with pytest.raises(PacketOutOfOrderError):
            await channel.read_packet()

    run(story)
