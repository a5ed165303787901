"""One client's connection in the command phase: commands in, answers out.

Theory of operation
===================

A client sends a command and waits, so the ordinary chunk is one whole packet, and it is given to
the session as it came. Everything else is rarer and goes through a buffer: packets in parts, and
commands that follow a command without an answer (COM_STMT_CLOSE, COM_STMT_PREPARE in one segment).
While a command runs, or the client does not take its answers, what arrives waits in the buffer, and
reading stops when that gets long.

A packet of more than `STREAM_ABOVE` bytes is not gathered: it goes to the primary part by part
(`streaming`), as does the content of a local file (`infile`), which ends with an empty packet. One
that is longer than allowed is read to its end and thrown away (`overlong`), as a server does it,
since a client that is still sending does not read the error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from protocol.constants import Command
from protocol.errors import ServerErrorCode
from protocol.frame_numbers import FrameNumbers
from protocol.packet import frame
from protocol.packet_end import PacketEnd
from protocol.response import ErrPacket

if TYPE_CHECKING:
    from protocol.constants import Capability
    from protocol.errors import ProtocolError

STREAM_ABOVE: Final = 1 << 20
"""Payload length, bytes, above which a packet is passed on in parts."""

_BUFFER_LIMIT: Final = 2 * STREAM_ABOVE

_LINGER_S = 30.0  # not Final, which would be compiled in: tests shorten it
"""How long a client may take to read what was sent before its connection was closed."""


class Commands(Protocol):
    """Who takes the client's commands."""

    @property
    def results(self) -> str:
        """Its character_set_results, if that is known; else empty."""

    def serve(self, packet: bytes) -> None:
        """Serve a whole command, header and payload."""

    def begin_stream(self, prefix: bytes) -> None:
        """Serve a command that comes in parts; `prefix` is how it begins, with header."""

    def stream(self, data: bytes, done: bool) -> None:
        """Pass on a part of a long command or of a local file."""

    def abandon(self) -> None:
        """The client broke off a command that was passed on in part."""

    def count_too_long(self) -> None:
        """The client is ended, since it has sent a packet that is longer than allowed."""

    def client_paused(self) -> None:
        """The client reads slower than the server sends."""

    def client_resumed(self) -> None:
        """The client reads again."""

    def client_lost(self) -> None:
        """The client is gone."""


class FastPath:
    """Is offered each whole command before it is served."""

    def serve(self, packet: bytes) -> bool:
        """Serve it, header and payload; False, with nothing done, if the session has to."""
        raise NotImplementedError


class ClientConnection:
    """An `asyncio.Protocol` for the command phase.

    Attributes:
        capabilities: what client and proxy agreed on.
        numbers: what numbers the packets of answers, where servers may not do so.
        compressed: the transport compresses.
        closed: nothing more can be sent.
        fast: is offered commands first; None if nobody is.
    """

    def __init__(self, capabilities: Capability, max_allowed_packet: int) -> None:
        self.capabilities = capabilities
        self.numbers: FrameNumbers | None = None
        self.compressed = False
        self.peer = ""
        self.closed = False
        self.fast: FastPath | None = None
        self._own_limit = self._server_limit = self._max_allowed_packet = max_allowed_packet
        self._most_at_once = min(STREAM_ABOVE, max_allowed_packet)
        self._transport: asyncio.Transport | None = None
        self._session: Commands | None = None
        self._buffer = bytearray()
        self._busy = False
        self._crowded = False  # the buffer is long
        self._server_full = False  # the server takes no more for now
        self._client_full = False  # the client takes no more for now
        self._infile = False
        self._pumping = False
        self._streaming = False
        self._overlong = False
        self._end = PacketEnd()
        self._linger: asyncio.TimerHandle | None = None

    def attach(self, transport: asyncio.Transport, session: Commands) -> None:
        """Start to serve commands."""
        self._transport = transport
        self._session = session

    def detach(self) -> None:
        """The session has ended."""
        self._session = self.fast = None

    def server_allows(self, max_allowed_packet: int) -> None:
        """Refuse what the primary would, which hangs up while the rest is still being sent."""
        self._server_limit = max_allowed_packet - 1
        self._limit_packets()

    def configure(self, max_allowed_packet: int) -> None:
        """Another limit counts, but not for a command of which a part has been passed on."""
        if not self._streaming:
            self._own_limit = max_allowed_packet
            self._limit_packets()

    def _limit_packets(self) -> None:
        self._max_allowed_packet = min(self._own_limit, self._server_limit)
        self._most_at_once = min(STREAM_ABOVE, self._max_allowed_packet)

    def write(self, data: bytes) -> None:
        """Send bytes of an answer."""
        if self._transport is not None and not self.closed:
            if self.numbers is not None and self._busy:
                data = self.numbers.renumber(data)
            self._transport.write(data)

    def answer(self, data: bytes) -> None:
        """Send the whole answer to the command, and take the next one."""
        self.write(data)
        self.ready()

    def send_error(self, error: ErrPacket, sequence_id: int = 1) -> None:
        """Answer the command with an ERR packet."""
        if self._session is not None:
            error = error.in_character_set(self._session.results)
        self.write(frame(error.serialise(self.capabilities), sequence_id))

    def fail(self, code: ServerErrorCode, message: str, sequence_id: int = 1) -> None:
        """Tell the client why, and close."""
        self.send_error(ErrPacket(code.code, code.sqlstate, message), sequence_id)
        self.close()

    def close(self) -> None:
        """Close after what was written is sent."""
        transport = self._transport
        if transport is not None and not self.closed:
            self.closed = True
            transport.close()
            if transport.get_write_buffer_size():
                loop = asyncio.get_running_loop()
                self._linger = loop.call_later(_LINGER_S, transport.abort)

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self.closed = True
            self._transport.abort()

    def lend(self) -> tuple[asyncio.Transport, bool] | None:
        """The transport and whether it is TLS, for a login over the same connection."""
        if self._transport is None or self.closed:
            return None
        return self._transport, self._transport.get_extra_info("ssl_object") is not None

    def pause_reading(self) -> None:
        """The server takes no more for now."""
        self._server_full = True
        self._regulate()

    def resume_reading(self) -> None:
        """The server takes more."""
        if self._server_full:
            self._server_full = False
            self._regulate()

    def _regulate(self) -> None:
        """Read, or let the client wait."""
        waits = self._busy or self._client_full
        most = STREAM_ABOVE if self._crowded else _BUFFER_LIMIT
        self._crowded = waits and len(self._buffer) > most
        if self._transport is not None and not self.closed:
            # Over compression a command must not be taken in before the last one's answer is out:
            # the two would get each other's sequence ids.
            commands = self._busy and not self._streaming and not self._infile
            if self._crowded or self._server_full or (self.compressed and commands):
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def expect_infile(self) -> None:
        """The server asked for a local file: what comes now is its content."""
        self._infile = True
        self._end.begin()
        self._pump()
        if self.compressed:
            self._regulate()

    def ready(self) -> None:
        """The command is done; take the next one."""
        self._busy = self._streaming = self._infile = False
        if self._buffer:
            self._pump()
        if self._crowded or self.compressed:
            self._regulate()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Take a command, or part of one."""
        session = self._session
        if session is None or self.closed:
            return
        if not self._busy and not self._buffer and not self._client_full:
            size = len(data)
            if size > 4:
                length = data[0] | data[1] << 8 | data[2] << 16
                if length + 4 == size and length <= self._most_at_once and data[3] == 0:
                    if self.numbers is None and not self.compressed:
                        self._busy = True
                    else:
                        self._begin_command()
                    if self.fast is None or not self.fast.serve(data):
                        session.serve(data)
                    return
        self._buffer += data
        self._pump()
        if len(self._buffer) > _BUFFER_LIMIT:
            self._regulate()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; only a connection that changes its protocol object gets here."""
        self._transport = cast("asyncio.Transport", transport)

    def protocol_broken(self, error: ProtocolError) -> None:
        """What the client sends cannot be decompressed."""
        self.fail(error.error, f"Got a bad compressed packet: {error}")

    def eof_received(self) -> bool:
        """Let the transport close; otherwise it would log each later write of an answer."""
        self.closed = True
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self.closed = True
        if self._linger is not None:
            self._linger.cancel()
        session = self._session
        self._session = self.fast = None
        if session is not None:
            session.client_lost()

    def pause_writing(self) -> None:
        """The client reads slower than the servers send."""
        self._client_full = True
        if self._session is not None:
            self._session.client_paused()

    def resume_writing(self) -> None:
        """The client can be written to again."""
        self._client_full = False
        if self._session is not None:
            self._session.client_resumed()
        self._pump()
        if self._crowded:
            self._regulate()

    def _begin_command(self) -> None:
        self._busy = True
        if self.numbers is not None:
            self.numbers.begin(1)
        if self.compressed and not self._streaming:
            self._regulate()

    # What is not one whole packet per chunk

    def _pump(self) -> None:
        """Take what can be taken from the buffer."""
        if self._pumping:
            return  # a command that has no answer made the connection ready; the loop below goes on
        self._pumping = True
        while self._buffer and not self.closed:
            if self._streaming or self._infile:
                data = bytes(self._buffer)
                self._buffer.clear()
                self._stream(data)
            elif self._busy or self._client_full or not self._take_command():
                break
        self._pumping = False

    def _take_command(self) -> bool:
        """Take a command from the buffer, or a long one's beginning; False if there is none."""
        buffer = self._buffer
        if len(buffer) < 4:
            return False
        length = int.from_bytes(buffer[:3], "little")
        if buffer[3] != 0:
            self.fail(
                ServerErrorCode.ER_NET_PACKETS_OUT_OF_ORDER,
                "Got packets out of order: a command's first packet has sequence id 0",
            )
            return False
        if length == 0:  # a server takes it for COM_SLEEP
            buffer[:4] = frame(bytes((Command.COM_SLEEP,)), 0)
            length = 1
        if length > self._max_allowed_packet:
            self._streaming = self._overlong = True
            self._begin_command()
            self._end.begin()
            return True
        session = self._session
        if session is None or len(buffer) < min(length, STREAM_ABOVE) + 4:
            return False
        if length <= STREAM_ABOVE:
            self._begin_command()
            packet = bytes(buffer[: length + 4])
            del buffer[: length + 4]
            if self.fast is None or not self.fast.serve(packet):
                session.serve(packet)
        else:
            self._streaming = True
            self._begin_command()
            self._end.begin()
            session.begin_stream(bytes(buffer))
        return True

    def _too_long(self) -> str:
        message = "Got a packet bigger than 'max_allowed_packet' bytes"
        if self._max_allowed_packet < self._own_limit:
            return message  # as the server says it
        return f"{message} (Tidegate's max-allowed-packet is {self._own_limit})"

    def _stream(self, data: bytes) -> None:
        """Pass on parts of a packet, up to its last byte."""
        session = self._session
        if session is None:
            return
        end = self._end.feed(data)
        too_long = self._end.length > self._max_allowed_packet and not self._infile
        if too_long and not self._overlong:
            self._overlong = True
            session.abandon()
        if self._end.done and self.numbers is not None:
            self.numbers.begin(self._end.sequence_id + 1)
        if self._overlong:
            if self._end.done:
                session.count_too_long()
                self.fail(
                    ServerErrorCode.ER_NET_PACKET_TOO_LARGE,
                    self._too_long(),
                    sequence_id=self._end.sequence_id + 1,
                )
            return
        if self._end.done:
            self._buffer[:0] = data[end:]
            # A local file is a run of packets that an empty one ends.
            done = not self._infile or self._end.length == 0
            if done:
                self._streaming = self._infile = False
                if self.compressed:
                    self._regulate()
            self._end.begin()
            session.stream(data[:end], done)
        else:
            session.stream(data, False)
