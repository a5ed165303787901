"""A transport that compresses, between an asyncio transport and the protocol object that uses it.

To the transport below (TCP or TLS) it is the protocol object, to the protocol object above it is
the transport. The protocol object above may be replaced, as with any other transport: a login takes
one packet at a time, the command phase takes whatever comes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import ProtocolError
from proxy.channel import PacketChannel
from proxy.stream_protocol import StreamProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.compression import Compression

_READ_AHEAD: Final = 1 << 18
"""Bytes that are read from below while the protocol above has paused, so that the end of the
connection is still noticed."""


class CompressedProtocol(StreamProtocol, Protocol):
    """Takes a compressed connection over from a channel."""

    def protocol_broken(self, error: ProtocolError) -> None:
        """Take note that the data cannot be decompressed; nothing more will be delivered."""


def compress(
    channel: PacketChannel,
    compression: Compression,
    broken: Callable[[], None] | None = None,
) -> CompressedTransport:
    """Switch a channel's connection to compression; `set_protocol` then sets the protocol above.

    `broken` is called when the peer breaks the protocol, before the protocol object above is told.
    During a login only the login's channel is told.

    Raises:
        ChannelClosedError: the connection is gone.
    """
    transport = CompressedTransport(compression, broken)
    transport.begin(channel.hand_over(transport))
    return transport


class CompressedTransport(asyncio.Transport):
    """Compresses what the protocol above writes, and decompresses what comes from below."""

    def __init__(self, compression: Compression, broken: Callable[[], None] | None) -> None:
        super().__init__()
        self._compression = compression
        self._broken = broken
        self._below: asyncio.Transport | None = None
        self._above: CompressedProtocol | PacketChannel | None = None
        self._plain = b""  # not yet taken by the protocol above
        self._paused = False
        self._crowded = False
        self._delivering = False
        self._ending = False  # the rest is delivered to a login even while reading is paused
        self._over = False

    def begin(self, below: asyncio.Transport) -> None:
        """Take the transport below."""
        self._below = below

    # What the protocol above calls

    def set_protocol(self, protocol: asyncio.BaseProtocol | CompressedProtocol) -> None:
        """Deliver to `protocol` from now on; a login's limit holds for compressed packets, too."""
        self._compression.most = (
            protocol.max_payload + 4 if isinstance(protocol, PacketChannel) else MAX_PACKET_PAYLOAD
        )
        self._above = cast("CompressedProtocol | PacketChannel", protocol)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send bytes."""
        if self._below is not None:
            self._below.write(self._compression.send(bytes(data)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send bytes, compressed together."""
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Stop delivering."""
        self._paused = True

    def resume_reading(self) -> None:
        """Deliver again, soon."""
        if self._paused:
            self._paused = False
            # As other transports do: never from within the call.
            asyncio.get_running_loop().call_soon(self._deliver)

    def is_reading(self) -> bool:
        """Whether data is delivered to the protocol above."""
        return not self._paused

    def is_closing(self) -> bool:
        """Whether the connection has ended or is being closed."""
        if self._below is None:
            return True
        return self._below.is_closing() and not self._ending

    def can_write_eof(self) -> bool:
        """Nobody needs that here."""
        return False

    def close(self) -> None:
        """Close after what was written is sent."""
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._below is not None:
            self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Compressed bytes that wait to be sent."""
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What the transport below returns for `name`; for `compressed`, True."""
        if name == "compressed":
            return True
        return default if self._below is None else self._below.get_extra_info(name, default)

    # What the transport below calls

    def data_received(self, data: bytes) -> None:
        """Take compressed bytes."""
        if self._over:
            return
        self._compression.receive_data(data)
        self._deliver()

    def eof_received(self) -> bool:
        """Take the peer's half-close."""
        return False if self._above is None else self._above.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Deliver the rest to a login, then the end of the connection."""
        if isinstance(self._above, PacketChannel):
            self._ending = True
            self._deliver()
            self._ending = False
        self._over = True
        above = self._above
        self._above = self._broken = None  # both refer to this transport
        if above is not None:
            above.connection_lost(error)

    def pause_writing(self) -> None:
        """The peer reads slower than it is written to."""
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """The peer can be written to again."""
        if self._above is not None:
            self._above.resume_writing()

    # From below to above

    def _deliver(self) -> None:
        if self._delivering or self._over:
            return
        self._delivering = True
        try:
            while self._may_give() and (self._plain or self._next_plain()):
                self._give()
        except ProtocolError as error:
            self._over = True
            # A login raises the error itself, and its caller counts it.
            if self._broken is not None and not isinstance(self._above, PacketChannel):
                self._broken()
            if self._above is not None:
                self._above.protocol_broken(error)
        finally:
            self._delivering = False
        self._regulate()

    def _may_give(self) -> bool:
        """Whether the protocol above still takes data; it may stop at the first of many packets."""
        return self._ending or not (self._paused or self.is_closing())

    def _next_plain(self) -> bool:
        """Decompress one packet, or a slice of it; False if there is none."""
        plain = self._compression.next_plain()
        self._plain = plain or b""
        return plain is not None

    def _give(self) -> None:
        above = self._above
        plain = self._plain
        if isinstance(above, PacketChannel):
            room = above.get_buffer(len(plain))
            count = min(len(room), len(plain))
            room[:count] = plain[:count]
            self._plain = plain[count:]
            if count:
                above.buffer_updated(count)
        elif above is not None:
            self._plain = b""
            if plain:
                above.data_received(plain)

    def _regulate(self) -> None:
        """Pause reading from the peer while the protocol above has paused and much is buffered."""
        crowded = self._paused and self._compression.buffered > _READ_AHEAD
        if self._below is None or crowded == self._crowded or self.is_closing():
            return
        self._crowded = crowded
        if crowded:
            self._below.pause_reading()
        else:
            self._below.resume_reading()
