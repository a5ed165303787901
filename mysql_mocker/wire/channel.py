"""A client's connection, as packets."""

import asyncio
import ssl
from typing import Final, cast

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import PacketOutOfOrderError, PacketTooLargeError
from protocol.packet import frame

MAX_ALLOWED_PACKET: Final = 64 << 20
_HEADER: Final = 4
_SPARE: Final = 1 << 14
_TLS_HANDSHAKE_SECONDS: Final = 10.0


class ConnectionGoneError(Exception):
    """The client left, or a fault ended the connection."""


class Channel(asyncio.BufferedProtocol):
    """Reads and writes packets.

    It never reads beyond the packet that was asked for, so a ClientHello right after an SSLRequest
    is left for TLS, and a client that sends faster than it is served has to wait.

    Attributes:
        sequence_id: of the next packet, in either direction.
        budget: bytes that may still be sent before the connection breaks; None for any number.
        secure: TLS is in use.
    """

    def __init__(self, server: "Accepts") -> None:
        self.sequence_id = 0
        self.budget: int | None = None
        self.secure = False
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._target = memoryview(bytearray())
        self._filled = 0
        self._spare = memoryview(bytearray(_SPARE))
        self._surplus = bytearray()
        self._full: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = False
        self._pending: list[bytes] = []

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected, or TLS is up."""
        self._transport = cast(asyncio.Transport, transport)
        if not self.secure:
            self._transport.pause_reading()
            self._server.accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._filled < len(self._target):
            return self._target[self._filled :]
        # Only TLS, which cannot be paused while it starts, reads more than is wanted.
        return self._spare

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._filled == len(self._target):
            self._surplus += self._spare[:nbytes]
            return
        self._filled += nbytes
        if self._filled == len(self._target):
            self._pause()
            if self._full is not None and not self._full.done():
                self._full.set_result(None)

    def eof_received(self) -> bool:
        """The client will send no more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._gone = True
        self._writable.set()
        if self._full is not None and not self._full.done():
            self._full.set_exception(ConnectionGoneError())

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has read."""
        self._writable.set()

    # What the server uses.

    @property
    def peer(self) -> str:
        """``address:port`` of the client."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else "unknown"

    async def read_packet(self) -> bytes:
        """The next packet's payload.

        Raises:
            ConnectionGoneError: there will be none.
            PacketOutOfOrderError: its sequence id is not the next one.
            PacketTooLargeError: it is longer than MAX_ALLOWED_PACKET.
        """
        payload = bytearray()
        while True:
            header = await self._read(_HEADER)
            length = int.from_bytes(header[:3], "little")
            if header[3] != self.sequence_id:
                raise PacketOutOfOrderError(f"{header[3]} came in place of {self.sequence_id}")
            self.sequence_id = (self.sequence_id + 1) & 0xFF
            if len(payload) + length > MAX_ALLOWED_PACKET:
                raise PacketTooLargeError("a packet is longer than max_allowed_packet")
            payload += await self._read(length)
            if length < MAX_PACKET_PAYLOAD:
                return bytes(payload)

    async def _read(self, count: int) -> memoryview:
        if not count:
            return memoryview(b"")
        if self._gone or self._transport is None:
            raise ConnectionGoneError
        data = self._surplus[:count]
        del self._surplus[:count]
        self._target, self._filled = memoryview(bytearray(count)), len(data)
        self._target[: len(data)] = data
        if self._filled < count:
            self._full = asyncio.get_running_loop().create_future()
            self._transport.resume_reading()
            await self._full
        if self._server.frozen:
            await self._server.awake()
        return self._target

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def add(self, payload: bytes) -> None:
        """Adds a packet to those that the next `flush` sends."""
        self._pending.append(frame(payload, self.sequence_id))
        self.sequence_id = (self.sequence_id + 1 + len(payload) // MAX_PACKET_PAYLOAD) & 0xFF

    async def flush(self) -> None:
        """Sends what was added, and waits while the client does not read.

        Raises:
            ConnectionGoneError: the connection is closed, or its budget is used up.
        """
        data = b"".join(self._pending)
        self._pending.clear()
        await self.send(data)

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are.

        Raises:
            ConnectionGoneError: the connection is closed, or its budget is used up.
        """
        if self._server.frozen:
            await self._server.awake()
        if self._gone or self._transport is None:
            raise ConnectionGoneError
        if self.budget is not None:
            data, self.budget = data[: self.budget], self.budget - len(data)
        self._transport.write(data)
        if self.budget is not None and self.budget < 0:
            self._transport.close()
            raise ConnectionGoneError
        await self._writable.wait()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Turns the connection into one with TLS.

        Raises:
            ConnectionGoneError: the handshake failed.
        """
        if self._transport is None:
            raise ConnectionGoneError
        below, self._transport = self._transport, None
        self.secure = True
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(
                below, self, context, server_side=True,
                ssl_handshake_timeout=_TLS_HANDSHAKE_SECONDS,
            )  # fmt: skip
        except (OSError, TimeoutError) as error:
            raise ConnectionGoneError from error
        if transport is None:
            raise ConnectionGoneError
        self._transport = transport
        self._pause()

    def close(self) -> None:
        """Closes the connection when all that was sent has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._transport.abort()


class Accepts:
    """Takes new connections."""

    @property
    def frozen(self) -> bool:
        """Whether nothing is read and nothing is sent."""
        raise NotImplementedError

    async def awake(self) -> None:
        """Waits while it is frozen."""
        raise NotImplementedError

    def accept(self, channel: Channel) -> None:
        """A client connected."""
        raise NotImplementedError
