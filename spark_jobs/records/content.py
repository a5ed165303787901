"""The content of a segment: unpacked, with its size and checksum, and as far as it can be trusted.

A file that is damaged costs only its own records. If it just ends too early, its content up to
there is what the proxy wrote. If the compressed bytes are wrong, anything since the last checksum
may be: nothing of that counts.
"""

import hashlib
import zlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from spark_jobs.markdown import counted
from spark_jobs.records.segments import LARGEST, Segment

_CHUNK: Final = 1 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS

_ZSTD_CHUNK: Final = 1 << 10
"""Bytes that are unpacked at once: four may stand for 128 KiB, and all of it comes in one piece."""

_LONGEST: Final = 64 << 20
"""Bytes of a line at most: it must fit into memory, and a proxy's segment has no more."""


class Readable(Protocol):
    """What is read: a file, or bytes in memory."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none at the end."""


class DamagedError(OSError):
    """A segment cannot be read to its end; the message says why, but not which it is.

    Attributes:
        certain: how many bytes of its unpacked content are certainly those that were written.
    """

    def __init__(self, why: str, certain: int = 0) -> None:
        super().__init__(why)
        self.certain = certain


class Measured(NamedTuple):
    """A content that was read to its end, or as far as it can be read.

    Attributes:
        size: bytes, unpacked.
        sha256: SHA-256 of these bytes, in hex.
        certain: how many of them are certainly those that were written.
        damage: why this is not all of the content; None if it is.
    """

    size: int
    sha256: str
    certain: int
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a segment.

    Attributes:
        file: the file in which it was found, as the log names it.
        measured: its content.
        hours: how many records arrived in each hour, ``YYYY-MM-DDTHH``.
        faults: how many other lines it has, by `fault` of PARSED.
    """

    file: str
    measured: Measured
    hours: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)


RECORDS: Final = "part=records"
"""The folder of records among what is written of segments."""

QUARANTINE: Final = "part=quarantine"
"""The folder of lines that are no record."""

Contents = dict[str, Content]
"""By the names of segments; without those that are gone, or cannot be read at all."""


def lacking(segments: Iterable[Segment], found: Container[str]) -> dict[str, str]:
    """Why segments that were not found were not read, by their files' names in the log."""
    return {
        segment.file: f"larger than {LARGEST >> 20} MiB; none of it counts"
        if segment.is_too_large
        else "deleted meanwhile, or Spark cannot read it; none of it counts"
        for segment in segments
        if segment.name not in found
    }


def unreadable(error: OSError) -> Measured:
    """What is known of a file that cannot be opened."""
    nothing = hashlib.sha256().hexdigest()
    return Measured(0, nothing, 0, f"{error.strerror or error}; none of it counts")


def measure(file: Readable, suffix: str, upto: int | None = None) -> Measured:
    """Read a content once, to know what it is worth.

    Args:
        file: as for `unpacked`.
        suffix: as for `unpacked`.
        upto: how many bytes of the content are read at most; None for all.
    """
    size, digest = 0, hashlib.sha256()
    certain, damage = None, None
    try:
        for data in _counted(unpacked(file, suffix), upto):
            size += len(data)
            digest.update(data)
    except DamagedError as error:
        certain = error.certain
        first = counted(certain, "byte")
        damage = f"{error}; {f'its first {first} count' if certain else 'none of it counts'}"
    return Measured(size, digest.hexdigest(), size if certain is None else certain, damage)


def _counted(pieces: Iterator[bytes], upto: int | None) -> Iterator[bytes]:
    """Pass on the bytes that count.

    Raises:
        DamagedError: there is no end of a line.
    """
    size = end = 0
    for piece in pieces:
        data = piece if upto is None else piece[: upto - size]
        end = size + data.rfind(b"\n") + 1 if b"\n" in data else end
        size += len(data)
        yield data
        if size == upto:
            return
        if size - end > _LONGEST:
            raise DamagedError(f"a line has more than {_LONGEST >> 20} MiB", end)


def unpacked(file: Readable, suffix: str) -> Iterator[bytes]:
    """Read the unpacked content of a segment, in pieces.

    Args:
        file: the bytes of the file.
        suffix: of its name: ``.gz``, ``.zst``, or another for what is not compressed.

    Raises:
        DamagedError: it cannot be read to its end.
    """
    size = certain = 0
    reader = {".gz": _gunzipped, ".zst": _unzstd}.get(suffix, _plain)
    try:
        for data, is_certain in reader(file):
            size += len(data)
            if is_certain:
                certain = size
            yield data
    except EOFError as error:
        raise DamagedError("cut short", size) from error
    except ValueError as error:
        raise DamagedError(f"damaged, {error}", certain) from error
    except OSError as error:
        raise DamagedError(error.strerror or str(error), size) from error


def _plain(file: Readable) -> Iterator[tuple[bytes, bool]]:
    """Read pieces, and whether all up to the end of each is certainly what was written."""
    while data := file.read(_CHUNK):
        yield data, True


def _gunzipped(file: Readable) -> Iterator[tuple[bytes, bool]]:
    """Unpack a file of gzip members, as `_plain` reads; it may be padded with zeros.

    Raises:
        EOFError: the file ends within a member, or has none.
        ValueError: it is no gzip, or damaged.
    """
    member, is_begun, is_empty = zlib.decompressobj(_GZIP), False, True
    try:
        while packed := file.read(_CHUNK):
            while packed := packed if is_begun else packed.lstrip(b"\0"):
                if not is_begun:
                    member = zlib.decompressobj(_GZIP)
                data, is_empty = member.decompress(packed, _CHUNK), False
                is_begun = not member.eof
                packed = member.unconsumed_tail if is_begun else member.unused_data
                yield data, member.eof
        if is_begun:
            yield member.flush(), False
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if is_begun or is_empty:
        raise EOFError


def _unzstd(file: Readable) -> Iterator[tuple[bytes, bool]]:
    """Unpack a file of Zstandard frames, as `_plain` reads.

    Raises:
        EOFError: the file ends within a frame, or has none.
        ValueError: it is no zstd, or damaged, or nothing here can read it.
    """
    try:
        import zstandard
    except ImportError as error:
        raise ValueError("no package zstandard is installed to read it") from error

    frame, is_begun, is_empty = zstandard.ZstdDecompressor().decompressobj(), False, True
    try:
        while data := file.read(_ZSTD_CHUNK):
            while data:
                is_empty = False
                unpacked, is_whole = frame.decompress(data), frame.eof
                data, is_begun = frame.unused_data, not is_whole
                if is_whole:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield unpacked, is_whole
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if is_begun or is_empty:
        raise EOFError
