"""Finds packets in what a peer sends."""

from typing import Final

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import PacketOutOfOrderError, PacketTooLargeError

_HEADER: Final = 4


class PacketReader:
    """Finds packets in what a peer sends, however it is cut.

    A frame's header is judged as soon as it is there, so no more is kept than `max_payload` and
    the newest chunk. After an error the reader gives that error for ever.

    Attributes:
        sequence_id: id that the next packet's first frame must have; a new command sets it to 0.
    """

    __slots__ = ("_buffer", "_frames", "_max_payload", "_payload_size", "_scanned", "sequence_id")

    def __init__(self, max_payload: int, sequence_id: int = 0) -> None:
        """`max_payload` is the longest joined payload to accept, bytes."""
        self._max_payload = max_payload
        self.sequence_id = sequence_id
        self._buffer = bytearray()
        # Of the packet at the buffer's start: frames that are there whole, and their size.
        self._scanned = 0
        self._frames = 0
        self._payload_size = 0

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the peer."""
        self._buffer += data

    def next_packet(self) -> bytes | None:
        """The next packet's payload, or None until more has been received.

        Raises:
            PacketOutOfOrderError: a frame's sequence id is not the next one.
            PacketTooLargeError: the payload is longer than `max_payload`.
        """
        buffer = self._buffer
        while len(buffer) - self._scanned >= _HEADER:
            header = self._scanned
            length = buffer[header] | buffer[header + 1] << 8 | buffer[header + 2] << 16
            expected = (self.sequence_id + self._frames) & 0xFF
            if buffer[header + 3] != expected:
                raise PacketOutOfOrderError(
                    f"frame {buffer[header + 3]} came where {expected} was expected"
                )
            if self._payload_size + length > self._max_payload:
                raise PacketTooLargeError(f"a packet is longer than {self._max_payload} bytes")
            end = header + _HEADER + length
            if len(buffer) < end:
                return None
            self._scanned = end
            self._frames += 1
            self._payload_size += length
            if length < MAX_PACKET_PAYLOAD:
                return self._take_packet()
        return None

    def take_rest(self) -> bytes:
        """Give up all bytes of packets not yet returned, for whoever reads on."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._forget()
        return rest

    def _take_packet(self) -> bytes:
        if self._frames == 1:
            payload = bytes(self._buffer[_HEADER : self._scanned])
        else:
            step = _HEADER + MAX_PACKET_PAYLOAD
            payload = b"".join(
                self._buffer[begin + _HEADER : min(begin + step, self._scanned)]
                for begin in range(0, self._scanned, step)
            )
        del self._buffer[: self._scanned]
        self.sequence_id = (self.sequence_id + self._frames) & 0xFF
        self._forget()
        return payload

    def _forget(self) -> None:
        self._scanned = 0
        self._frames = 0
        self._payload_size = 0
