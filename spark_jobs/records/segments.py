"""Finds the files of a routing log, and makes them readable for Spark.

A file that is damaged costs only its own records. If it just ends too early, its content up to
there is what the proxy wrote. If the compressed bytes are wrong, anything since the last checksum
may be: nothing of that counts.
"""

import gzip
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from spark_jobs.markdown import counted

_SEGMENT: Final = re.compile(r"(date=[^/]+/[^/]+\.jsonl)(\.open|\.gz|\.zst)?")
_LIKE_A_SEGMENT: Final = re.compile(r"(?is)(.*\.jsonl).*|.*\.(gz|zst|bz2|xz|lz4|zip)")
_CHUNK: Final = 1 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS
_PACKED: Final = (".gz", ".zst")
_PACKED_TO: Final = 20
"""How many times as long a compressed segment is about when it is unpacked."""
_RECENT_S: Final = 600.0
"""Age up to which the proxy may still compress a closed segment, which takes a minute or so."""


class DamagedError(OSError):
    """A segment cannot be read to its end; the message says why, but not which it is.

    Attributes:
        certain: how many bytes of its unpacked content are certainly those that were written.
    """

    def __init__(self, why: str, certain: int = 0) -> None:
        super().__init__(why)
        self.certain = certain


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that the proxy has finished.

    Attributes:
        name: ``date=YYYY-MM-DD/….jsonl``, also if the file is compressed.
        path: the file.
        source: the path by which to read it: the same file below the listing's scratch directory,
            or a copy of it there.
        size: size of the file, bytes.
        modified_ns: when the file was last changed, ns since the epoch.
        log: the log, as the operator named it.
    """

    name: str
    path: Path
    source: Path
    size: int
    modified_ns: int
    log: str = ""

    @property
    def file(self) -> str:
        """The file as the log names it: ``date=YYYY-MM-DD/…``."""
        return f"{self.name.rpartition('/')[0]}/{self.path.name}"

    @property
    def place(self) -> str:
        """The file as the operator would name it."""
        return f"{self.log}/{self.file}"


@dataclass(frozen=True, slots=True)
class Readable:
    """A segment whose content can be read.

    Attributes:
        segment: the segment.
        path: where its content can be read, plain or as ``.gz``.
        damage: why this is not all of its content; None if it is.
    """

    segment: Segment
    path: Path
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a log, before any closed segment is opened.

    Attributes:
        closed: segments that the proxy has finished.
        live: copies of the segments that it was still writing, or was writing when it was killed.
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
        damaged: why segments cannot be read to their ends, by their files' names in the log.
    """

    closed: tuple[Segment, ...]
    live: tuple[Path, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    def plain_size(self, dates: Collection[str] = ()) -> int:
        """About how many bytes of JSON the log holds; compressed segments are estimated.

        Args:
            dates: days (``YYYY-MM-DD``); only their closed segments count. If empty, all do.
        """
        folders = {f"date={date}" for date in dates}
        closed = [
            segment
            for segment in self.closed
            if not folders or segment.name.partition("/")[0] in folders
        ]
        packed = sum(segment.size for segment in closed if segment.path.suffix != ".jsonl")
        plain = sum(segment.size for segment in closed if segment.path.suffix == ".jsonl")
        return plain + _PACKED_TO * packed + sum(path.stat().st_size for path in self.live)


@dataclass(frozen=True, slots=True)
class Segments:
    """The files of a log, as Spark can read them.

    Attributes:
        complete: segments that the proxy has finished.
        live: copies of the segments that it was still writing, or was writing when it was killed.
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
        damaged: why segments cannot be read to their ends, by their files' names in the log.
        parts: what can be read of finished segments that are damaged.
    """

    complete: tuple[Path, ...]
    live: tuple[Path, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that are to be read."""
        return self.complete + self.parts + self.live


def make_readable(found: Listing, scratch: Path) -> Segments:
    """Make all that was listed readable.

    Raises:
        OSError: `scratch` cannot be written.
    """
    # Unpacking leaves the interpreter to other threads.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(partial(readable, scratch=scratch), found.closed))
    return Segments(
        complete=tuple(readable.path for readable in made if readable.damage is None),
        live=found.live,
        unread=found.unread,
        unknown=found.unknown,
        damaged={**found.damaged, **damages(made)},
        parts=tuple(readable.path for readable in made if readable.damage is not None),
    )


def damages(made: Iterable[Readable]) -> dict[str, str]:
    """Why segments cannot be read to their ends, by their files' names in the log."""
    return {
        readable.segment.file: readable.damage for readable in made if readable.damage is not None
    }


def readable_parts(made: Iterable[Readable], files: Container[str]) -> list[Path]:
    """What can be read of the segments with these files, given by their names in the log."""
    return [part.path for part in made if part.segment.file in files]


def list_segments(
    log: Path, scratch: Path, out: Path | None = None, name: str | None = None
) -> Listing:
    """List a log that may be growing.

    The proxy renames a live segment when it is complete. So live segments are copied first, and a
    copy is dropped if its segment was renamed meanwhile. Recently completed segments are copied,
    too: the proxy may be about to compress them. All paths are below `scratch`, because the log may
    be in a directory whose name Hadoop would take for a pattern or for a URI.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/``.
        scratch: an empty directory.
        out: a directory whose files do not belong to the log, like ``_audit`` in `log`.
        name: the log as the operator named it; None if that is `log`.

    Raises:
        OSError: `log` cannot be listed, or `scratch` cannot be written.
    """
    damaged: dict[str, str] = {}
    live: dict[str, Path] = {}
    for path in sorted(log.glob("date=*/*.jsonl.open")):
        file = path.relative_to(log).as_posix()
        copy = scratch / "live" / file
        try:
            _copy(path, copy)
        except DamagedError as error:
            if _is_gone(error):
                continue  # renamed; it is among the complete ones below
            damaged[file] = _damage(error)
        live[file.removesuffix(".open")] = copy
    (scratch / "log").symlink_to(log.resolve())
    closed: dict[str, Segment] = {}
    others: list[str] = []
    # In this order, a plain segment comes before its compressed form.
    for file in sorted(_files(log, {log / "_audit", out}, damaged)):
        known = _SEGMENT.fullmatch(file)
        if known is None or (known[2] and known[1] in closed):
            others.append(file)
        elif known[2] != ".open":
            try:
                segment = _closed(log, file, known[1], scratch)
            except DamagedError as error:
                damaged[file] = _damage(DamagedError(str(error)))
            else:
                closed[known[1]] = replace(segment, log=str(log) if name is None else name)
    told = {*closed, *live}
    unread = [
        name for name in others if (like := _LIKE_A_SEGMENT.fullmatch(name)) and like[1] not in told
    ]
    return Listing(
        closed=tuple(closed.values()),
        live=tuple(copy for name, copy in live.items() if name not in closed),
        unread=tuple(unread),
        unknown=tuple(name for name in others if name not in unread),
        damaged=damaged,
    )


def readable(
    segment: Segment, scratch: Path, on_data: Callable[[bytes], object] | None = None
) -> Readable:
    """Make a segment readable: a ``.zst``, and what is left of a damaged one, goes to `scratch`.

    Args:
        segment: the segment.
        scratch: the listing's scratch directory.
        on_data: is called with the unpacked content, piece by piece. Without it, a plain segment is
            not read.

    Raises:
        OSError: `scratch` cannot be written.
    """
    source, pieces = segment.source, content(segment.source)
    if on_data is not None:
        pieces = _noted(pieces, on_data)
    try:
        if source.suffix == ".zst":
            plain = scratch / "unpacked" / segment.name
            _write(plain, pieces)
            return Readable(segment, plain)
        if source.suffix == ".gz" or on_data is not None:
            for _ in pieces:
                pass
        else:
            next(pieces, None)
    except DamagedError as error:
        part = scratch / "damaged" / segment.name
        _write(part, _first(source, error.certain))
        return Readable(segment, part, _damage(error))
    return Readable(segment, source)


def content(path: Path) -> Iterator[bytes]:
    """Read the unpacked content of a segment, in pieces.

    Raises:
        DamagedError: it cannot be read to its end.
    """
    size = certain = 0
    unpacked = {".gz": _gunzipped, ".zst": _unzstd}.get(path.suffix, _plain)
    try:
        with path.open("rb") as file:
            for data, is_certain in unpacked(file):
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


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that `readable` returns: a plain one, or a ``.gz``.

    Raises:
        DamagedError: it cannot be read, or not to its end.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                yield packed  # type: ignore[misc]  # it has all of BinaryIO that is used
        else:
            with path.open("rb") as plain:
                yield plain
    except (EOFError, zlib.error) as error:
        raise DamagedError(f"damaged, {error}") from error
    except OSError as error:
        raise DamagedError(error.strerror or str(error)) from error


def _closed(log: Path, file: str, name: str, scratch: Path) -> Segment:
    """Describe a closed segment; one that may be compressed at any moment is copied.

    Raises:
        DamagedError: it is gone, or no file.
        OSError: `scratch` cannot be written.
    """
    path, source = log / file, scratch / "log" / file
    try:
        status = _status(path)
        if path.suffix == ".jsonl" and time.time() - status.st_mtime < _RECENT_S:
            source = _copied(path, scratch / "recent" / file, source)
    except DamagedError as error:
        if not _is_gone(error):
            raise
    else:
        return Segment(name, path, source, status.st_size, status.st_mtime_ns)
    for suffix in _PACKED if path.suffix == ".jsonl" else ():
        if path.with_name(f"{path.name}{suffix}").exists():  # it has been compressed since
            return _closed(log, f"{file}{suffix}", name, scratch)
    raise DamagedError("deleted meanwhile")


def _copied(path: Path, copy: Path, source: Path) -> Path:
    """Copy a segment; `source` if it cannot be read to its end, which its reader will notice.

    Raises:
        DamagedError: it is gone.
        OSError: the copy cannot be written.
    """
    try:
        _copy(path, copy)
    except DamagedError as error:
        if _is_gone(error):
            raise
        return source
    return copy


def _status(path: Path) -> os.stat_result:
    try:
        status = path.stat()
    except OSError as error:
        raise DamagedError(error.strerror or str(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise DamagedError("not a regular file")
    return status


def _is_gone(error: DamagedError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)


def _files(log: Path, others: set[Path | None], damaged: dict[str, str]) -> list[str]:
    """The paths of all files below `log`, relative to it, except in the directories `others`.

    Directories that cannot be listed are added to `damaged`.
    """

    def on_error(error: OSError) -> None:
        folder = Path(error.filename)
        if folder == log:
            raise error
        damaged[f"{folder.relative_to(log).as_posix()}/"] = error.strerror or str(error)

    met = {path.resolve() for path in others if path is not None}
    found = []
    for folder, folders, names in os.walk(log, onerror=on_error, followlinks=True):
        here = Path(folder)
        if here.resolve() in met:
            folders.clear()
            continue
        met.add(here.resolve())
        found += [(here / name).relative_to(log).as_posix() for name in names]
    return found


def _plain(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Read pieces, and whether all up to the end of each is certainly what was written."""
    while data := file.read(_CHUNK):
        yield data, True


def _gunzipped(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
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


def _unzstd(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
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
        while data := file.read(_CHUNK):
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


def _noted(pieces: Iterator[bytes], on_data: Callable[[bytes], object]) -> Iterator[bytes]:
    for data in pieces:
        on_data(data)
        yield data


def _first(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of a segment's unpacked content."""
    if not size:
        return
    for data in content(path):
        yield data[:size]
        size -= len(data)
        if size <= 0:
            return


def _copy(path: Path, to: Path) -> None:
    """Copy a plain segment.

    Raises:
        DamagedError: it cannot be read to its end; `to` has what could be read.
        OSError: the copy cannot be written.
    """
    _write(to, content(path))


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(pieces)


def _damage(error: DamagedError) -> str:
    """Say what is wrong with a segment, and how much of it counts."""
    first = counted(error.certain, "byte")
    return f"{error}; {f'its first {first} count' if error.certain else 'none of it counts'}"
