"""Numbers the frames of a stretch of packets, whatever numbers they had.

A server that compresses numbers its packets anew wherever it flushes, behind each result and behind
the content of a local file, and a client that does so numbers that content by its own account. A
peer that does not compress goes by these numbers.
"""


class FrameNumbers:
    """Gives frames sequence ids that follow each other.

    Attributes:
        next: id of the next frame.
    """

    __slots__ = ("_header", "_left", "_length", "next")

    def __init__(self, first: int) -> None:
        self.begin(first)

    def begin(self, first: int) -> None:
        """Expect a new stretch, whose first frame gets the id `first`."""
        self.next = first & 0xFF
        self._header = 0  # bytes of a header that have passed
        self._length = 0  # what they said
        self._left = 0

    def renumber(self, data: bytes) -> bytes:
        """`data`, which goes on where the last call's ended, with the numbers in place."""
        out = bytearray(data)
        size = len(data)
        position = 0
        while position < size:
            if self._left:
                step = min(self._left, size - position)
                self._left -= step
                position += step
                continue
            if self._header < 3:
                self._length |= data[position] << 8 * self._header
                self._header += 1
            else:
                out[position] = self.next
                self.next = (self.next + 1) & 0xFF
                self._left = self._length
                self._header = 0
                self._length = 0
            position += 1
        return bytes(out)
