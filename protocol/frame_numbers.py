"""Renumbers the frames of consecutive packets, whatever sequence ids they had.

Over a compressed connection, a server starts the ids of its packets anew wherever it flushes: after
each result, and after the content of a local file. A client numbers that content in its own way. A
peer over a connection without compression checks these ids.
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
        """Expect new packets, whose first frame gets the id `first`."""
        self.next = first & 0xFF
        self._header = 0  # bytes of a header that have passed
        self._length = 0  # the payload's length, as far as they tell it
        self._left = 0

    def renumber(self, data: bytes) -> bytes:
        """`data`, which continues where the last call's ended, with the new ids."""
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
