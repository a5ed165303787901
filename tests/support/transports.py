"""A transport without a network: what is written is kept, what is fed is delivered when asked."""

import asyncio
from typing import Any, cast


class FakeTransport(asyncio.Transport):
    """Stands in for a connection.

    Attributes:
        written: all bytes that were sent.
        reading: whether `deliver` may.
        closing: it was closed, or aborted.
        unsent: what `get_write_buffer_size` says.
    """

    def __init__(self, protocol: object = None) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.protocol = protocol
        self.written = bytearray()
        self.reading = True
        self.closing = False
        self.aborted = False
        self.unsent = 0
        self._inbox = bytearray()

    # What protocols call.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closing:
            self.written += data

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return self.unsent

    # What tests call.

    def take(self) -> bytes:
        """What was written since the last call."""
        taken = bytes(self.written)
        self.written.clear()
        return taken

    def feed(self, data: bytes, size: int = 1 << 30) -> None:
        """Let bytes arrive, in portions of `size`, as far as the protocol reads."""
        self._inbox += data
        self.deliver(size)

    def deliver(self, size: int = 1 << 30) -> None:
        """Deliver what has arrived."""
        while self._inbox and self.reading and not self.closing:
            protocol = cast("Any", self.protocol)
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = cast("memoryview", protocol.get_buffer(-1))
                assert len(buffer), "an empty buffer breaks the connection"
                count = min(len(buffer), len(self._inbox), size)
                buffer[:count] = self._inbox[:count]
                del self._inbox[:count]
                protocol.buffer_updated(count)
            else:
                portion = bytes(self._inbox[:size])
                del self._inbox[:size]
                protocol.data_received(portion)

    @property
    def waiting(self) -> int:
        """Bytes that have arrived and were not delivered."""
        return len(self._inbox)

    def lose(self, error: Exception | None = None) -> None:
        """The connection ends."""
        self.closing = True
        cast("Any", self.protocol).connection_lost(error)
