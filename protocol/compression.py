"""The compressed protocol: packets that hold a stretch of the stream of packets (fact 7.8).

Theory of operation
===================

From the OK of the login on, what a side sends is cut into compressed packets wherever it likes.
Each has three bytes of length, a sequence id, three bytes of length before compression, and a body;
a length before compression of 0 means that the body is as it was. The sequence ids run through a
command and its answer and are those by which a server judges. The ids of the packets inside are of
no account to it: there are clients whose commands begin with 1 there, and a server's own start anew
in odd places. So commands are given ids here, and answers by `protocol.frame_numbers`.

A command begins with id 0, in a compressed packet of its own: a server takes only the first command
of a packet for one, and answers 1047 to the second. An answer goes on from its command's last id,
and so does what a client sends amid an answer: the content of a local file, a password.
"""

import zlib
from enum import StrEnum
from typing import Final

import zstandard

from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import PacketOutOfOrderError, UncompressError
from protocol.frame_numbers import FrameNumbers
from protocol.packet_end import PacketEnd

ZLIB_LEVEL: Final = 6
ZSTD_LEVEL: Final = 3
"""The levels that servers use unless told otherwise."""
ZSTD_LEVELS: Final = range(1, 23)
"""The levels that a client may ask for."""

_HEADER: Final = 7
_WORTHWHILE: Final = 50
"""Shorter stretches are sent as they are, bytes; so does a server."""


class Algorithm(StrEnum):
    """How to compress, by the words of protocol_compression_algorithms."""

    ZLIB = "zlib"
    ZSTD = "zstd"
    UNCOMPRESSED = "uncompressed"


CAPABILITY: Final = {
    Algorithm.ZLIB: Capability.CLIENT_COMPRESS,
    Algorithm.ZSTD: Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    Algorithm.UNCOMPRESSED: Capability(0),
}
"""What says that a side knows an algorithm."""


def agreed(capabilities: Capability) -> Algorithm:
    """The algorithm of a connection, by what both sides know; zlib comes first (fact 7.8)."""
    if capabilities & Capability.CLIENT_COMPRESS:
        return Algorithm.ZLIB
    if capabilities & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM:
        return Algorithm.ZSTD
    return Algorithm.UNCOMPRESSED


class Compression:
    """One side of a connection that is compressed.

    Call `receive_data` with what arrives, and `next_plain` until it gives None.
    """

    __slots__ = (
        "_answers",
        "_buffer",
        "_commands",
        "_end",
        "_held",
        "_inside",
        "_level",
        "_next",
        "_numbers",
        "_received",
        "_replies",
        "_server",
        "_wanted",
        "_wraps",
        "_zstd",
    )

    def __init__(self, algorithm: Algorithm, level: int, server: bool) -> None:
        """`level` is that of what is sent; `server` says that the peer is a client."""
        self._zstd = algorithm is Algorithm.ZSTD
        self._level = level
        self._server = server
        self._next = 0  # id of the next compressed packet that is sent
        self._buffer = bytearray()
        # Of what a client sends: where in a packet it stands, the id that goes on from there, what
        # numbers the packet's frames, and whether it is a command. What goes on from an answer is
        # none.
        self._end = PacketEnd()
        self._inside = False
        self._received = 0
        self._numbers = FrameNumbers(0)
        self._commands = True
        self._replies = False
        # Of what is sent: a frame that is not there whole, and from which size on it is.
        self._held = bytearray()
        self._wanted = 4
        # Of commands to a server: whether the next frame's id is 0 because 255 was before it, and
        # the ids that answers may begin with.
        self._wraps = False
        self._answers = {0}

    @property
    def buffered(self) -> int:
        """Bytes received that `next_plain` has not taken yet."""
        return len(self._buffer)

    # What comes

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the peer."""
        self._buffer += data

    def next_plain(self) -> bytes | None:
        """What the next compressed packet holds, or None until more has been received.

        It has less than 16 MiB, whatever was sent. The frames of a client's commands are numbered
        from 0 on.

        Raises:
            PacketOutOfOrderError: its sequence id is not one that may come.
            UncompressError: its body is not what its header says.
        """
        buffer = self._buffer
        if len(buffer) < _HEADER:
            return None
        sequence_id = buffer[3]
        if not self._may_come(sequence_id):
            raise PacketOutOfOrderError(
                f"compressed packet {sequence_id} came where {self._next} was expected"
            )
        length = buffer[0] | buffer[1] << 8 | buffer[2] << 16
        size = buffer[4] | buffer[5] << 8 | buffer[6] << 16
        if len(buffer) < _HEADER + length:
            return None
        body = bytes(buffer[_HEADER : _HEADER + length])
        del buffer[: _HEADER + length]
        plain = body if size == 0 else self._decompress(body, size)
        self._next = self._received = (sequence_id + 1) & 0xFF
        if not self._server:
            return plain
        if sequence_id == 0 and not self._inside:
            self._replies = False
        return self._walk(plain)

    def _may_come(self, sequence_id: int) -> bool:
        if self._server:
            if self._inside:
                return sequence_id == self._received
            # A command, or what an answer asked for: the content of a local file.
            return sequence_id == 0 or sequence_id == self._next
        # Commands that were written back to back are answered one by one.
        return sequence_id == self._next or sequence_id in self._answers

    def _walk(self, plain: bytes) -> bytes:
        """The client's packets, numbered as without compression if they are commands."""
        out: list[bytes] = []
        position = 0
        while position < len(plain):
            begin = position
            if not self._inside:
                self._end.begin()
                self._numbers.begin(0)
                self._commands = not self._replies
            position = self._end.feed(plain, position)
            self._inside = not self._end.done
            part = plain[begin:position]
            out.append(self._numbers.renumber(part) if self._commands else part)
        return b"".join(out)

    def _decompress(self, body: bytes, size: int) -> bytes:
        """Never gives or makes more than `size` bytes and one."""
        if self._zstd:
            return _decompress_zstd(body, size)
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(body, size + 1)
        except zlib.error as error:
            raise UncompressError(f"a compressed packet: {error}") from error
        if len(plain) != size or not inflater.eof or inflater.unused_data:
            raise UncompressError(f"a compressed packet does not hold the {size} bytes it claims")
        return plain

    # What goes

    def send(self, plain: bytes) -> bytes:
        """Compressed packets that hold what `plain` completes of a stretch of packets.

        The beginning of a frame is held back until its rest is sent, less than 16 MiB: there are
        clients that cannot join a packet from more than two compressed ones.
        """
        held = self._held
        held += plain
        size = len(held)
        if size < self._wanted:
            return b""
        out = b""
        run = 0
        position = 0
        self._wanted = 4
        while size - position >= 4:
            length = held[position] | held[position + 1] << 8 | held[position + 2] << 16
            end = position + 4 + length
            if end > size:
                self._wanted = end - position
                break
            if not self._server:
                number = held[position + 3]
                if number == 0 and not self._wraps:
                    out += self._packets(bytes(held[run:position]))
                    run = position
                    self._next = 0
                # More than 256 frames are a local file's content, which ends with an empty one.
                self._wraps = number == 0xFF and length > 0
            position = end
        out += self._packets(bytes(held[run:position]))
        del held[:position]
        return out

    def _packets(self, plain: bytes) -> bytes:
        out = b""
        self._replies = self._server
        for begin in range(0, len(plain), MAX_PACKET_PAYLOAD):
            stretch = plain[begin : begin + MAX_PACKET_PAYLOAD]
            size = 0
            body = stretch
            if len(stretch) >= _WORTHWHILE:
                compressed = self._compress(stretch)
                if len(compressed) < len(stretch):
                    size = len(stretch)
                    body = compressed
            out += len(body).to_bytes(3, "little") + bytes((self._next,))
            out += size.to_bytes(3, "little") + body
            self._next = (self._next + 1) & 0xFF
        if not self._server:
            self._answers.add(self._next)
        return out

    def _compress(self, plain: bytes) -> bytes:
        if self._zstd:
            return zstandard.ZstdCompressor(level=self._level).compress(plain)
        return zlib.compress(plain, self._level)


def _decompress_zstd(body: bytes, size: int) -> bytes:
    try:
        # A frame may say how much it holds, and so much would be allocated.
        says = zstandard.get_frame_parameters(body).content_size
        if says not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise UncompressError(f"a compressed packet does not hold the {size} bytes it claims")
        plain = zstandard.ZstdDecompressor().decompress(
            body, max_output_size=size, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise UncompressError(f"a compressed packet: {error}") from error
    if len(plain) != size:
        raise UncompressError(f"a compressed packet does not hold the {size} bytes it claims")
    return plain
