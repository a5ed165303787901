"""Finds the files of a routing log, and makes them readable for Spark."""

import gzip
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

_SEGMENT: Final = re.compile(r"(date=[^/]+/[^/]+\.jsonl)(\.open|\.gz|\.zst)?")
_LIKE_A_SEGMENT: Final = re.compile(r"(?is)(.*\.jsonl).*|.*\.(gz|zst|bz2|xz|lz4|zip)")
_CHUNK: Final = 1 << 20
_RECENT_S: Final = 600.0
"""Age up to which the proxy may still compress a closed segment, which takes a minute or so."""


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
    """

    name: str
    path: Path
    source: Path
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a log, before any closed segment is opened.

    Attributes:
        closed: segments that the proxy has finished.
        live: copies of the segments that it was still writing, or was writing when it was killed.
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
    """

    closed: tuple[Segment, ...]
    live: tuple[Path, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segments:
    """The files of a log, as Spark can read them.

    Attributes:
        complete: segments that the proxy has finished.
        live: copies of the segments that it was still writing, or was writing when it was killed.
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
    """

    complete: tuple[Path, ...]
    live: tuple[Path, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that are to be read."""
        return self.complete + self.live


def make_readable(found: Listing, scratch: Path) -> Segments:
    """Make all that was listed readable.

    Raises:
        OSError: a file cannot be read; the message names it.
    """
    complete = tuple(readable(segment, scratch) for segment in found.closed)
    return Segments(complete, found.live, found.unread, found.unknown)


def list_segments(log: Path, scratch: Path, out: Path | None = None) -> Listing:
    """List a log that may be growing.

    The proxy renames a live segment when it is complete. So live segments are copied first, and a
    copy is dropped if its segment was renamed meanwhile. Recently completed segments are copied,
    too: the proxy may be about to compress them. All paths are below `scratch`, because the log may
    be in a directory whose name Hadoop would take for a pattern or for a URI.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/``.
        scratch: an empty directory.
        out: a directory whose files do not belong to the log, like ``_audit`` in `log`.

    Raises:
        OSError: a file cannot be read; the message names it.
    """
    live: dict[str, Path] = {}
    for path in sorted(log.glob("date=*/*.jsonl.open")):
        name = path.relative_to(log).as_posix()
        copy = scratch / "live" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, copy)
        except FileNotFoundError:
            continue  # renamed; it is among the complete ones below
        live[name.removesuffix(".open")] = copy
    (scratch / "log").symlink_to(log.resolve())
    closed: dict[str, Segment] = {}
    others: list[str] = []
    # In this order, a plain segment comes before its compressed form.
    for name in sorted(_files(log, {log / "_audit", out})):
        known = _SEGMENT.fullmatch(name)
        if known is None or (known[2] and known[1] in closed):
            others.append(name)
        elif known[2] != ".open":
            closed[known[1]] = _closed(log, name, known[1], scratch)
    told = {*closed, *live}
    unread = [
        name for name in others if (like := _LIKE_A_SEGMENT.fullmatch(name)) and like[1] not in told
    ]
    return Listing(
        closed=tuple(closed.values()),
        live=tuple(copy for name, copy in live.items() if name not in closed),
        unread=tuple(unread),
        unknown=tuple(name for name in others if name not in unread),
    )


def readable(segment: Segment, scratch: Path) -> Path:
    """A path at which Spark can read a segment: a ``.zst`` is unpacked to `scratch`.

    Raises:
        OSError: it cannot be read; the message names it.
    """
    if segment.source.suffix != ".zst":
        return segment.source
    plain = scratch / "unpacked" / segment.name
    plain.parent.mkdir(parents=True, exist_ok=True)
    with plain.open("wb") as file:
        file.writelines(content(segment.source))
    return plain


def content(path: Path) -> Iterator[bytes]:
    """Read the unpacked content of a segment, in pieces.

    Raises:
        OSError: it cannot be read, or is not what its name says; the message names it.
    """
    if path.suffix == ".zst":
        yield from _unpacked(path)
        return
    with opened(path) as file:
        while data := file.read(_CHUNK):
            yield data


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that `readable` returns: a plain one, or a ``.gz``.

    Raises:
        OSError: it cannot be read, or is not what its name says; the message names it.
    """
    if path.suffix != ".gz":
        with path.open("rb") as plain:
            yield plain
        return
    try:
        with gzip.open(path) as packed:
            yield packed  # type: ignore[misc]  # it has all of BinaryIO that is used
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OSError(f"{path} is cut short or damaged: {error}") from error


def _closed(log: Path, file: str, name: str, scratch: Path) -> Segment:
    path, source = log / file, scratch / "log" / file
    if path.suffix == ".jsonl":
        try:
            stat = path.stat()
            if time.time() - stat.st_mtime < _RECENT_S:
                source = scratch / "recent" / file
                source.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, source)
        except FileNotFoundError:  # it has been compressed since
            return _closed(log, f"{file}.zst", name, scratch)
    else:
        stat = path.stat()
    return Segment(name, path, source, stat.st_size, stat.st_mtime_ns)


def _files(log: Path, others: set[Path | None]) -> list[str]:
    """The paths of all files below `log`, relative to it, except in the directories `others`."""
    met = {path.resolve() for path in others if path is not None}
    found = []
    for folder, folders, names in os.walk(log, onerror=_raise, followlinks=True):
        here = Path(folder)
        if here.resolve() in met:
            folders.clear()
            continue
        met.add(here.resolve())
        found += [(here / name).relative_to(log).as_posix() for name in names]
    return found


def _raise(error: OSError) -> None:
    raise error


def _unpacked(path: Path) -> Iterator[bytes]:
    """Unpack a file of Zstandard frames; a file that is cut short is an error."""
    frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        with path.open("rb") as packed:
            while data := packed.read(_CHUNK):
                while data:
                    yield frame.decompress(data)
                    data, begun = frame.unused_data, not frame.eof
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise OSError(f"{path} is not what its name says: {error}") from error
    if begun or not path.stat().st_size:
        raise OSError(f"{path} is cut short.")
