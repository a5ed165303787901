"""ClientConnection cuts what a client sends into commands, however it arrives, and bounds it."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Capability
from protocol.errors import ServerErrorCode
from protocol.packet import frame
from protocol.packet_end import PacketEnd
from protocol.response import ErrPacket
from proxy.client import connection as module
from proxy.client.connection import ClientConnection
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from tests.support.transports import FakeTransport

pytestmark = pytest.mark.plain

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 1.0, TimeoutPolicy.PRIMARY)
WHOLE = 64
"""What stands for STREAM_ABOVE here."""


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Buffers of a size that Hypothesis can fill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STREAM_ABOVE", WHOLE)
        patch.setattr(module, "_BUFFER_LIMIT", 2 * WHOLE)
        yield


class Recorder:
    """A session that takes down what it is given, and is ready when the test says so."""

    def __init__(self, eager: bool = False) -> None:
        self.connection = ClientConnection(Capability.CLIENT_PROTOCOL_41, 1000)
        self.results = ""
        self.transport = FakeTransport(self.connection)
        self.connection.attach(self.transport, self)
        self.eager = eager
        self.commands: list[bytes] = []
        self.streams: list[bytearray] = []
        self.done: list[bool] = []
        self.events: list[str] = []
        self.unanswered = 0

    # What the connection calls.

    def serve(self, packet: bytes) -> None:
        self.commands.append(packet)
        self._taken()

    def begin_stream(self, prefix: bytes) -> None:
        assert len(prefix) >= 5
        self.streams.append(bytearray())
        self.done.append(False)

    def stream(self, data: bytes, done: bool) -> None:
        assert not self.done[-1]
        self.streams[-1] += data
        self.done[-1] = done
        if done:
            self._taken()

    def _taken(self) -> None:
        if self.eager:
            self.connection.ready()
        else:
            self.unanswered += 1

    def answer(self) -> None:
        """The command in flight is done."""
        self.unanswered -= 1
        self.connection.ready()

    def abandon(self) -> None:
        self.events.append("abandon")

    def client_lost(self) -> None:
        self.events.append("lost")

    def count_too_long(self) -> None:
        self.events.append("too long")

    def client_paused(self) -> None:
        self.events.append("paused")

    def client_resumed(self) -> None:
        self.events.append("resumed")

    @property
    def error(self) -> ErrPacket:
        data = bytes(self.transport.written)
        return ErrPacket.parse(data[4:])

    @property
    def buffered(self) -> int:
        return len(self.connection._buffer)


PAYLOADS = st.lists(st.integers(1, 300).map(lambda n: bytes([n % 256]) * n), max_size=12)


# Commands and their portions.


@given(PAYLOADS, st.lists(st.integers(1, 90), min_size=1, max_size=6), st.booleans())
def test_every_command_comes_once_and_in_order(
    payloads: list[bytes], sizes: list[int], eager: bool
) -> None:
    on = Recorder(eager)
    data = b"".join(frame(payload, 0) for payload in payloads)
    position = current = 0
    while position < len(data):
        size = sizes[current % len(sizes)]
        current += 1
        on.transport.feed(data[position : position + size])
        position += size
        if on.unanswered and current % 3 == 0:
            on.answer()
    while on.unanswered or on.transport.waiting:
        assert on.unanswered <= 1  # one command at a time
        if on.unanswered:
            on.answer()
        on.transport.deliver()
    expected = [frame(payload, 0) for payload in payloads]
    assert on.commands == [packet for packet in expected if len(packet) <= WHOLE + 4]
    assert [bytes(s) for s in on.streams] == [p for p in expected if len(p) > WHOLE + 4]
    assert all(on.done)
    assert not on.buffered
    assert on.transport.reading
    assert not on.transport.written


@given(st.integers(1, 500), st.integers(1, 50))
def test_while_a_command_runs_no_more_is_kept_than_the_buffer_holds(count: int, size: int) -> None:
    on = Recorder()
    for _ in range(count):
        on.transport.feed(frame(b"\x0e", 0) * 9, size)
        assert on.buffered <= 2 * WHOLE + size
    answered = 0
    while on.unanswered:
        on.answer()
        answered += 1
        on.transport.deliver(size)
        assert on.buffered <= 2 * WHOLE + size
    assert answered == 9 * count
    assert on.transport.reading


@pytest.mark.parametrize("missing", range(7))
def test_a_packet_of_the_greatest_length_behind_a_command(missing: int) -> None:
    """The buffer is above its mark with a packet that is not complete: it must be read on."""
    on = Recorder()
    data = frame(b"\x0e", 0) + frame(b"x" * WHOLE, 0)
    on.connection._crowded = True  # as it is when more was there before
    on.transport.reading = False
    on.connection._busy = True
    on.unanswered = 1
    on.connection._buffer += data[5 : len(data) - missing]
    on.answer()
    assert on.transport.reading or on.unanswered
    on.transport.feed(data[len(data) - missing :] if missing else b"")
    assert on.commands == [data[5:]]


def test_a_segment_that_looks_like_a_packet_inside_another() -> None:
    on = Recorder(eager=True)
    inside = frame(b"\x0e", 0)
    packet = frame(b"\x03SELECT '" + inside + inside + b"'", 0)
    cut = packet.index(inside)
    for portion in (packet[:cut], inside, inside, packet[cut + 10 :]):
        on.transport.feed(portion)
    assert on.commands == [packet]


def test_a_command_waits_for_the_one_before_it() -> None:
    on = Recorder()
    for _ in range(3):
        on.transport.feed(frame(b"\x0e", 0))
        assert len(on.commands) == 1
    on.answer()
    on.transport.feed(frame(b"\x0e", 0))
    assert len(on.commands) == 2


def test_reading_goes_on_when_there_is_room_again_and_not_before() -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x0e" * 16, 0) * 8, 20)
    assert not on.transport.reading
    while on.buffered > WHOLE:
        assert not on.transport.reading
        on.answer()
    assert on.transport.reading


def test_a_long_command_is_passed_on_before_it_is_complete() -> None:
    on = Recorder()
    packet = frame(bytes(900), 0)
    on.transport.feed(packet[: WHOLE + 4])
    assert bytes(on.streams[0]) == packet[: WHOLE + 4]
    on.transport.feed(packet[WHOLE + 4 : 500], 70)
    assert bytes(on.streams[0]) == packet[:500]
    assert not on.buffered


# Limits.


@pytest.mark.parametrize("length", [1001, 5000, 0xFFFFFF])
def test_a_packet_above_the_limit_is_thrown_away_and_then_refused(length: int) -> None:
    """A client that still sends would not read the error."""
    on = Recorder()
    packet = frame(bytes(length), 0)
    for position in range(0, len(packet) - 1, 70_000):
        on.transport.feed(packet[position : min(position + 70_000, len(packet) - 1)])
        assert not on.transport.written
        assert not on.buffered
    on.transport.feed(packet[-1:])
    assert on.error.code == 1153
    assert on.transport.written[3] == 1 + (length == 0xFFFFFF)
    assert on.transport.closing
    assert not on.streams
    assert on.events == ["too long"]  # nothing had been passed on


def test_a_whole_packet_above_a_limit_below_what_is_taken_at_once() -> None:
    on = Recorder()
    on.connection = ClientConnection(Capability.CLIENT_PROTOCOL_41, 20)
    on.transport.protocol = on.connection
    on.connection.attach(on.transport, on)
    on.transport.feed(frame(b"x" * 20, 0))
    on.answer()
    on.transport.feed(frame(b"x" * 21, 0))
    assert len(on.commands) == 1
    assert on.error.code == 1153


def test_frames_that_add_up_to_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Recorder()
    on.connection = ClientConnection(Capability.CLIENT_PROTOCOL_41, 0xFFFFFF + 10)
    on.transport.protocol = on.connection
    on.connection.attach(on.transport, on)
    on.transport.feed(b"\xff\xff\xff\0" + bytes(0xFFFFFF) + b"\x0b\0\0\1")
    assert on.events == ["abandon"]
    assert not on.transport.written
    on.transport.feed(bytes(11))
    assert on.events == ["abandon", "too long"]
    assert on.error.code == 1153
    assert on.transport.written[3] == 2
    assert on.done == [False]


@pytest.mark.parametrize("data", [b"\x01\0\0\1\x0e", b"\x01\0\0\xff"])
@pytest.mark.parametrize("behind", [b"", frame(b"\x0e", 0)])
@pytest.mark.parametrize("size", [1, 100])
def test_what_is_no_command(data: bytes, size: int, behind: bytes) -> None:
    on = Recorder()
    on.transport.feed(data + behind, size)
    assert on.error.code == 1156
    assert on.transport.closing
    assert not on.commands


@pytest.mark.parametrize("size", [1, 100])
def test_an_empty_packet_is_taken_for_com_sleep(size: int) -> None:
    on = Recorder()
    on.transport.feed(b"\0\0\0\0", size)
    assert on.commands == [frame(b"\0", 0)]


# A client that does not read, a server that does not.


def test_a_client_that_does_not_read_is_not_served_on() -> None:
    on = Recorder(eager=True)
    on.connection.pause_writing()
    for _ in range(1000):
        on.transport.feed(frame(b"\x05", 0))
    assert not on.commands
    assert on.buffered <= 2 * WHOLE + 5
    assert not on.transport.reading
    on.connection.resume_writing()
    on.transport.deliver()
    assert len(on.commands) == 1000
    assert on.events == ["paused", "resumed"]


def test_a_client_that_stops_to_read_between_commands() -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x0e", 0) * 3)
    assert len(on.commands) == 1
    on.connection.pause_writing()
    on.answer()
    assert len(on.commands) == 1
    on.connection.resume_writing()
    assert len(on.commands) == 2


def test_a_server_that_takes_no_more_stops_the_client() -> None:
    on = Recorder(eager=True)
    on.connection.pause_reading()
    assert not on.transport.reading
    on.connection.ready()  # what was passed on before has ended
    assert not on.transport.reading
    on.connection.resume_writing()
    assert not on.transport.reading
    on.connection.resume_reading()
    assert on.transport.reading


def test_both_reasons_to_wait_must_end() -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x0e", 0) * 100, 50)
    assert not on.transport.reading
    on.connection.pause_reading()
    on.connection.resume_reading()
    assert not on.transport.reading
    on.connection.pause_reading()
    while on.unanswered:
        on.answer()
    assert not on.transport.reading
    on.connection.resume_reading()
    assert on.transport.reading


# A local file.


@given(
    st.lists(st.binary(min_size=1, max_size=200), max_size=5),
    st.integers(1, 100),
    st.booleans(),
)
def test_a_local_file_ends_with_an_empty_packet(
    parts: list[bytes], size: int, whole_behind: bool
) -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x03LOAD DATA", 0))
    on.streams.append(bytearray())
    on.done.append(False)
    on.connection.expect_infile()
    file = b"".join(frame(part, k + 2) for k, part in enumerate([*parts, b""]))
    behind = frame(b"\x0e", 0)
    on.transport.feed(file + (behind if whole_behind else behind[:3]), size)
    assert on.streams[-1] == file
    assert on.done[-1]
    on.unanswered = 1
    on.answer()
    if not whole_behind:
        on.transport.feed(behind[3:])
    assert on.commands == [frame(b"\x03LOAD DATA", 0), behind]


def test_a_local_file_may_be_longer_than_a_packet_may() -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x03LOAD DATA", 0))
    on.streams.append(bytearray())
    on.done.append(False)
    on.connection.expect_infile()
    for k in range(10):
        on.transport.feed(frame(bytes(900), k + 2))
    on.transport.feed(frame(bytes(5000), 12))
    on.transport.feed(frame(b"", 13))
    assert len(on.streams[-1]) == 10 * 904 + 5004 + 4
    assert not on.transport.closing


# The end.


def test_the_end() -> None:
    on = Recorder()
    on.transport.lose()
    assert on.events == ["lost"]
    on.connection.data_received(frame(b"\x0e", 0))
    on.connection.connection_lost(None)
    assert on.events == ["lost"]
    assert not on.commands
    assert on.connection.eof_received() is False


ENDS: dict[str, Callable[[ClientConnection], None]] = {
    "close": ClientConnection.close,
    "abort": ClientConnection.abort,
    "fail": lambda connection: connection.fail(ServerErrorCode.ER_SERVER_SHUTDOWN, "bye"),
}


@pytest.mark.parametrize("how", ENDS)
def test_after_it_was_closed_nothing_is_served_or_sent(how: str) -> None:
    """Over TLS bytes still arrive then."""
    on = Recorder()
    ENDS[how](on.connection)
    sent = len(on.transport.written)
    on.transport.closing = False
    on.transport.feed(frame(b"\x03DELETE FROM t", 0))
    on.connection.write(b"more")
    on.connection.fail(ServerErrorCode.ER_SERVER_SHUTDOWN, "again")
    assert not on.commands
    assert len(on.transport.written) == sent


def test_commands_behind_a_quit_are_not_taken() -> None:
    on = Recorder()
    on.transport.feed(frame(b"\x01", 0) + frame(b"\x03DELETE FROM t", 0))
    on.connection.close()
    on.connection.ready()
    assert on.commands == [frame(b"\x01", 0)]


def test_it_is_lent_only_while_it_is_open() -> None:
    on = Recorder()
    assert on.connection.lend() == (on.transport, False)
    on.connection.close()
    assert on.connection.lend() is None


def test_the_packet_end_is_that_of_the_stream() -> None:
    """What follows a long command in the same bytes is the next one."""
    on = Recorder()
    long, ping = frame(b"l" * 200, 0), frame(b"\x0e", 0)
    on.transport.feed(long + ping)
    assert bytes(on.streams[0]) == long
    assert PacketEnd().feed(long + ping) == len(long)
    on.answer()
    assert on.commands == [ping]


def test_a_client_that_has_left_gets_nothing_more() -> None:
    on = Recorder()
    on.connection.data_received(frame(b"\x03SELECT 1", 0))
    on.connection.write(b"a row")
    assert on.connection.eof_received() is False
    on.connection.write(b"another row")
    assert on.transport.written == b"a row"
