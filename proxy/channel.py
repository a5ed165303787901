"""Packets one at a time, for the slow path: handshakes and logins on either side.

Without TLS, the channel reads exactly the bytes that it is asked for. Bytes that the peer sends
right after them, a TLS ClientHello or a first command, stay in the transport for the protocol
object that takes over. Over TLS the channel takes what comes, since TLS delivers whole records. It
also reads ahead on connections to servers (`read_ahead`), since each read costs system calls, and a
server sends nothing on its own before a TLS handshake.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import MalformedPacketError, PacketOutOfOrderError, PacketTooLargeError
from protocol.packet import frame
from proxy.address import LOCALHOST, peer_name
from proxy.error_text import error_text
from proxy.former_protocol import forget_protocol
from proxy.thread_buffers import BUFFERS, CHUNK
from proxy.tls.transport import TlsTransport

if TYPE_CHECKING:
    import ssl

    from protocol.errors import ProtocolError
    from proxy.stream_protocol import StreamProtocol

_HEADER = 4


class ChannelClosedError(Exception):
    """The peer closed the connection, or it broke."""


class PacketChannel(asyncio.BufferedProtocol):
    """Reads and writes whole packets over a transport.

    Attributes:
        max_payload: the longest payload that a packet may have, bytes.
        sequence_id: the id of the next packet, in either direction.
        peer: the peer's address, kept when the connection has ended.
        user: the name that a client wants to log in with, once it has sent it.
        address: which of a server's addresses it leads to; empty where that does not matter.
    """

    def __init__(self, max_payload: int) -> None:
        self.max_payload = max_payload
        self.sequence_id = 0
        self.peer = self.user = self.address = ""
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._wanted = _HEADER
        self._enough: asyncio.Future[None] | None = None
        self._closed = False
        self._broken: ProtocolError | None = None
        self._tls = False
        self._ahead = False
        self._numbered = True
        self._unsent = b""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport below.

        Raises:
            ChannelClosedError: it is gone.
        """
        # A TLS handshake that fails closes the transport without calling `connection_lost`.
        if self._transport is None or self.closed:
            raise ChannelClosedError("the connection is closed")
        return self._transport

    @property
    def closed(self) -> bool:
        """Whether the connection has ended or is being closed."""
        return self._transport is None or self._closed or self._transport.is_closing()

    @property
    def secure(self) -> bool:
        """Whether TLS protects what is written."""
        return self._tls

    @property
    def private(self) -> bool:
        """Whether nobody else can read along: MySQL's "secure transport", TLS or a Unix socket."""
        return self._tls or self.peer == LOCALHOST

    async def read_packet(self) -> bytes:
        """Return the next packet's payload, joined from its frames.

        Raises:
            ChannelClosedError: no more will come.
            PacketOutOfOrderError: its sequence id is not the next one. Where the connection is
                compressed this is not checked here.
            PacketTooLargeError: it is longer than allowed.
            ProtocolError: it cannot be decompressed.
        """
        payload = bytearray()
        while True:
            header = await self._take(_HEADER)
            length = int.from_bytes(header[:3], "little")
            if header[3] != self.sequence_id and self._numbered:
                raise PacketOutOfOrderError(
                    f"packet {header[3]} came where {self.sequence_id} was expected"
                )
            if len(payload) + length > self.max_payload:
                raise PacketTooLargeError(f"a packet of more than {self.max_payload} bytes")
            self.sequence_id = (self.sequence_id + 1) & 0xFF
            payload += await self._take(length)
            if length < MAX_PACKET_PAYLOAD:
                return bytes(payload)

    async def read_some(self) -> bytes:
        """Return the bytes that have come, at least one; they need not be whole packets.

        Raises:
            ChannelClosedError: no more will come.
            ProtocolError: it cannot be decompressed.
        """
        if not self._received:
            await self._have(1)
        received = bytes(self._received)
        self._received.clear()
        return received

    async def read_exactly(self, size: int) -> bytes:
        """Return the next bytes, which need not be a packet.

        Raises:
            ChannelClosedError: no more will come.
            ProtocolError: it cannot be decompressed.
        """
        return await self._take(size)

    def put_back(self, data: bytes) -> None:
        """Let the last bytes that were read be read again, before any others."""
        self._received[:0] = data

    def read_ahead(self) -> None:
        """From now on read whatever comes, for this channel or for the next protocol object."""
        self._ahead = True

    def pause(self) -> None:
        """Read nothing until something is asked for that has not come."""
        self.transport.pause_reading()

    def write_packet(self, payload: bytes, *, follows: bool = False) -> None:
        """Send a packet, or keep it to be sent together with the next one, if that `follows`.

        Raises:
            ChannelClosedError: the connection is gone.
        """
        data = self._unsent + frame(payload, self.sequence_id)
        if follows:
            self._unsent = data
        else:
            self._unsent = b""
            self.transport.write(data)
        self.sequence_id = (self.sequence_id + 1 + len(payload) // MAX_PACKET_PAYLOAD) & 0xFF

    async def start_tls(
        self, context: ssl.SSLContext, *, server_side: bool, hostname: str | None
    ) -> None:
        """Turn the connection into a TLS connection; the caller limits the time that it takes.

        Raises:
            ssl.SSLError, OSError: the handshake failed.
            MalformedPacketError: the peer sent unencrypted bytes that nobody has read.
        """
        if self._received:
            raise MalformedPacketError("the peer sent unencrypted data where TLS was to begin")
        self._tls = self._ahead = True
        below = self.transport
        transport = TlsTransport(below, self, context, server_side=server_side, hostname=hostname)
        self._transport = cast("asyncio.Transport", transport)
        await transport.do_handshake()

    def adopt(self, transport: asyncio.Transport, sequence_id: int, *, secure: bool) -> None:
        """Take over a connection from another protocol object."""
        self._transport = transport
        self.peer = peer_name(transport)
        self._tls = self._ahead = secure
        # Compressed packets have sequence ids of their own, and peers check only those
        # (`protocol.compression`).
        self._numbered = not transport.get_extra_info("compressed", False)
        self.sequence_id = sequence_id
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()

    def hand_over(self, protocol: StreamProtocol) -> asyncio.Transport:
        """Give the connection to `protocol`, from the next byte on.

        Raises:
            ChannelClosedError: the connection is gone.
        """
        transport = self.transport
        transport.pause_reading()
        if not self._tls:  # else the transport below has done so
            forget_protocol(transport)
        # Compiled classes cannot inherit from asyncio's; its transports only call methods.
        transport.set_protocol(cast("asyncio.BaseProtocol", protocol))
        if self._received:
            # Deliver it later, when the protocol knows its transport; until then reading is paused.
            received = bytes(self._received)
            asyncio.get_running_loop().call_soon(_deliver, received, transport, protocol)
        else:
            transport.resume_reading()
        self._let_go()
        return transport

    def _let_go(self) -> None:
        """Drop what refers to this object."""
        self._transport = None
        self._broken = None

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        if self._transport is not None and not self._closed:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None and not self._closed:
            self._transport.abort()

    async def _take(self, size: int) -> bytes:
        await self._have(size)
        data = bytes(self._received[:size])
        del self._received[:size]
        self._wanted = _HEADER
        return data

    async def _have(self, size: int) -> None:
        self._wanted = size
        while len(self._received) < size:
            if self._broken is not None:
                raise self._broken
            self.transport.resume_reading()
            self._enough = asyncio.get_running_loop().create_future()
            try:
                await self._enough
            finally:
                self._enough = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_name(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes; unless it reads ahead, it holds only those missing."""
        missing = max(1, self._wanted - len(self._received))
        return memoryview(BUFFERS.chunk)[: CHUNK if self._ahead else min(missing, CHUNK)]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that came."""
        self.data_received(memoryview(BUFFERS.chunk)[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Keep the bytes that came, and pause reading when there are enough."""
        self._received += data
        received = len(self._received)
        if received >= (self.max_payload if self._ahead else self._wanted):
            self.transport.pause_reading()
        if received >= self._wanted:
            self._wake(None)

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Wake the reader."""
        self._closed = True
        cause = "the peer closed the connection" if error is None else error_text(error)
        self._wake(ChannelClosedError(cause))
        self._let_go()

    def protocol_broken(self, error: ProtocolError) -> None:
        """Raise the error in the reader."""
        self._broken = error
        self._wake(error)

    def _wake(self, error: Exception | None) -> None:
        if self._enough is None or self._enough.done():
            return
        if error is None:
            self._enough.set_result(None)
        else:
            self._enough.set_exception(error)


def _deliver(data: bytes, transport: asyncio.Transport, protocol: StreamProtocol) -> None:
    if not transport.is_closing():
        transport.resume_reading()
        protocol.data_received(data)
