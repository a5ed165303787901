"""Finds where a packet of any length ends, without keeping its bytes."""

from protocol.constants import MAX_PACKET_PAYLOAD


class PacketEnd:
    """Walks the frames of one packet after another.

    Attributes:
        done: the packet is complete.
        length: payload bytes that its frame headers have announced so far.
        sequence_id: of its newest frame.
    """

    __slots__ = ("_header", "_last", "_left", "done", "length", "sequence_id")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Expect a new packet."""
        self._header = b""
        self._left = 0
        self._last = False
        self.done = False
        self.length = 0
        self.sequence_id = 0

    def feed(self, data: bytes, position: int = 0) -> int:
        """Walk `data` from `position`; return where the packet ended, or `len(data)`."""
        size = len(data)
        while position < size and not self.done:
            if self._left:
                step = min(self._left, size - position)
                self._left -= step
                position += step
            else:
                step = min(4 - len(self._header), size - position)
                self._header += data[position : position + step]
                position += step
                if len(self._header) < 4:
                    break
                length = int.from_bytes(self._header[:3], "little")
                self.sequence_id = self._header[3]
                self._header = b""
                self._left = length
                self.length += length
                self._last = length < MAX_PACKET_PAYLOAD
            self.done = self._last and self._left == 0
        return position
