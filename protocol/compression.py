"""The compressed protocol: each compressed packet holds a part of the packet stream (fact 7.8).

Theory of operation
===================

From the OK of the login on, each side cuts what it sends into compressed packets wherever it likes.
Each has three bytes of length, a sequence id, three bytes of length before compression, and a body;
a length before compression of 0 means that the body is not compressed. The sequence ids of
compressed packets run through a command and its answer, and these are the ids that a server checks.
It ignores the ids of the packets inside: some clients begin commands with 1 there, and a server's
own ids start anew in odd places. So commands are renumbered here, and answers by
`protocol.frame_numbers`.

A command begins with id 0, in a compressed packet of its own: of several commands in one packet a
server runs only the first, and answers 1047 to the second. An answer continues from its command's
last id, and so does what a client sends in the middle of an answer: the content of a local file, or
a password.

2 KB may decompress to 16 MiB, so long packets are returned in slices while they are decompressed.
The last slice is returned only after the whole packet has proved to match its header: so a command
that ends in a damaged packet never runs.
"""

import zlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import zstandard

from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import PacketOutOfOrderError, PacketTooLargeError, UncompressError
from protocol.frame_numbers import FrameNumbers
from protocol.packet_end import PacketEnd

ZLIB_LEVEL: Final = 6
ZSTD_LEVEL: Final = 3
"""The levels that servers use by default."""
ZSTD_LEVELS: Final = range(1, 23)
"""The levels that a client may ask for."""

_HEADER: Final = 7
_WORTHWHILE: Final = 50
"""Fewer bytes are sent uncompressed, as by a server."""
_SLICE: Final = 1 << 16
"""A packet with more bytes is returned in slices of this size."""
_LONGEST_WINDOW: Final = 1 << 24
"""The largest window of a zstd frame, bytes: a whole packet, which the highest levels use."""


class Algorithm(StrEnum):
    """How to compress, as protocol_compression_algorithms names it."""

    ZLIB = "zlib"
    ZSTD = "zstd"
    UNCOMPRESSED = "uncompressed"


CAPABILITY: Final = {
    Algorithm.ZLIB: Capability.CLIENT_COMPRESS,
    Algorithm.ZSTD: Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    Algorithm.UNCOMPRESSED: Capability(0),
}
"""The capability with which a side says that it knows an algorithm."""


def agreed_algorithm(capabilities: Capability) -> Algorithm:
    """The algorithm of a connection, by both sides' capabilities; zlib comes first (fact 7.8)."""
    if capabilities & Capability.CLIENT_COMPRESS:
        return Algorithm.ZLIB
    if capabilities & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM:
        return Algorithm.ZSTD
    return Algorithm.UNCOMPRESSED


class Compression:
    """One side of a compressed connection.

    Call `receive_data` with what arrives, and `next_plain` until it returns None.

    Attributes:
        most: how long a client's compressed packet may be, compressed and uncompressed, bytes.
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
        "_slices",
        "_wanted",
        "_wraps",
        "_zstd",
        "most",
    )

    def __init__(self, algorithm: Algorithm, level: int, server: bool) -> None:
        """`level` is for what this side sends; `server` says that the peer is a client."""
        self._zstd = algorithm is Algorithm.ZSTD
        self._level = level
        self._server = server
        self._next = 0  # id of the next compressed packet that is sent
        self.most = MAX_PACKET_PAYLOAD
        self._buffer = bytearray()
        self._slices: Iterator[bytes] | None = None  # the rest of a long packet
        # What a client sends: where its packet ends, whether that packet is incomplete, the id with
        # which it continues, what renumbers its frames, whether it is a command, and whether what
        # comes next continues an answer, so that it is no command.
        self._end = PacketEnd()
        self._inside = False
        self._received = 0
        self._numbers = FrameNumbers(0)
        self._commands = True
        self._replies = False
        # What this side sends: the beginning of an incomplete frame, and how many bytes it needs.
        self._held = bytearray()
        self._wanted = 4
        # Commands to a server: whether the next frame has the id 0 because the last one had 255,
        # and the ids that answers may begin with.
        self._wraps = False
        self._answers = {0}

    @property
    def buffered(self) -> int:
        """Bytes received that `next_plain` has not taken yet."""
        return len(self._buffer)

    # Receiving

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._buffer += data

    def next_plain(self) -> bytes | None:
        """The content of the next compressed packet, or a slice of it; None if more must come.

        It has 64 KiB at most, however long the whole is. The frames of a client's commands are
        numbered from 0 on.

        Raises:
            PacketOutOfOrderError: its sequence id is not one that may come.
            PacketTooLargeError: it is longer than `most`; like a server, this does not wait for the
                body.
            UncompressError: its body does not match its header.
        """
        plain = None
        if self._slices is not None:
            plain = next(self._slices, None)
        if plain is None:
            self._slices = None
            plain = self._next_packet()
        if plain is None or not self._server:
            return plain
        return self._walk(plain)

    def _next_packet(self) -> bytes | None:
        """The content of the next compressed packet, or its first slice."""
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
        too_large = self._server and max(length, size) > self.most
        if len(buffer) < _HEADER + length and not too_large:
            return None
        self._next = self._received = (sequence_id + 1) & 0xFF
        if too_large:
            raise PacketTooLargeError(f"a compressed packet of more than {self.most} bytes")
        with memoryview(buffer) as view:
            body = bytes(view[_HEADER : _HEADER + length])
        del buffer[: _HEADER + length]
        if max(length, size) <= _SLICE:
            plain = body if size == 0 else self._decompress(body, size)
        else:
            self._slices = self._sliced(body, size)
            plain = next(self._slices)
        if self._server and sequence_id == 0 and not self._inside:
            self._replies = False
        return plain

    def _may_come(self, sequence_id: int) -> bool:
        if self._server:
            if self._inside:
                return sequence_id == self._received
            # A command, or what the answer asked for, such as the content of a local file.
            return sequence_id == 0 or sequence_id == self._next
        # Commands that were written back to back are answered one by one.
        return sequence_id == self._next or sequence_id in self._answers

    def _walk(self, plain: bytes) -> bytes:
        """The client's packets; commands get the ids that they would have without compression."""
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
        return b"".join(self._sliced(body, size))

    def _sliced(self, body: bytes, size: int) -> Iterator[bytes]:
        """A body's content in slices; an error in place of the last if the header is wrong."""
        if size == 0:
            return _cut(body)
        return _from_zstd(body, size) if self._zstd else _from_zlib(body, size)

    # Sending

    def send(self, plain: bytes) -> bytes:
        """Compressed packets with the frames that `plain` completes.

        The beginning of a frame, at most 16 MiB, is held back until its rest is sent: there are
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
                # Only a local file's content has more than 256 frames; an empty one ends it.
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


def _cut(body: bytes) -> Iterator[bytes]:
    for begin in range(0, len(body), _SLICE):
        yield body[begin : begin + _SLICE]


def _from_zlib(body: bytes, size: int) -> Iterator[bytes]:
    inflater = zlib.decompressobj()
    end = len(body)
    position = 0
    data = b""  # not yet consumed
    held = b""
    made = 0
    try:
        while not inflater.eof:
            if not data:
                data = body[position : position + _SLICE]
                position += len(data)
            piece = inflater.decompress(data, _SLICE)
            data = inflater.unconsumed_tail
            made += len(piece)
            is_cut = not piece and not data and position == end and not inflater.eof
            if made > size or is_cut:
                raise _mismatch(size)
            if piece:
                if held:
                    yield held
                held = piece
    except zlib.error as error:
        raise UncompressError(f"a compressed packet: {error}") from error
    if made != size or position < end or inflater.unused_data:
        raise _mismatch(size)
    yield held


def _from_zstd(body: bytes, size: int) -> Iterator[bytes]:
    held = b""
    made = 0
    try:
        frame = zstandard.get_frame_parameters(body)
        # A frame may announce how long its content is, and that would be allocated.
        if frame.content_size not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise _mismatch(size)
        # The reader would stop silently at a frame's end, and where a frame is cut off.
        blocks = zstandard.frame_header_size(body)
        if _end_of_blocks(body, blocks) + 4 * frame.has_checksum != len(body):
            raise _mismatch(size)
        inflater = zstandard.ZstdDecompressor(max_window_size=_LONGEST_WINDOW)
        reader = inflater.stream_reader(body)
        while piece := reader.read(_SLICE):
            made += len(piece)
            if made > size:
                raise _mismatch(size)
            if held:
                yield held
            held = piece
    except zstandard.ZstdError as error:
        raise UncompressError(f"a compressed packet: {error}") from error
    if made != size:
        raise _mismatch(size)
    yield held


def _end_of_blocks(body: bytes, position: int) -> int:
    """Where a zstd frame's blocks end, by their headers (RFC 8878, 3.1.1.2).

    That is beyond the body's end if the body is cut off.
    """
    while position + 3 <= len(body):
        header = body[position] | body[position + 1] << 8 | body[position + 2] << 16
        is_run = header >> 1 & 3 == 1  # one byte, which is repeated
        position += 3 + (1 if is_run else header >> 3)
        if header & 1:
            return position
    return len(body) + 1


def _mismatch(size: int) -> UncompressError:
    return UncompressError(f"a compressed packet does not hold the {size} bytes it claims")
