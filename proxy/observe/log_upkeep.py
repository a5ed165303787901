"""Looks after the closed segments of one proxy's routing log: packs them, deletes the old ones.

By default they are packed by gzip, which Hadoop, Spark, Java and Python read without a library of
the platform. zstd is smaller and faster, where all readers have it.

It runs in a thread of its own, in the first worker for all workers. A closed segment never changes,
so no coordination is needed with the writer, or with an earlier process of the same proxy that is
still ending: packing a segment twice gives the same result, and a missing one is skipped.

A segment is packed into a file beside it, whose name ends in ``.open``. That file is synced to the
disk and renamed before the plain one is removed, so one of them is complete at any moment. If a
crash left both, the segment is packed again, since the origin of the packed one is not known; one
that was packed by another value of the option is removed then.
"""

import errno
import logging
import os
import re
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import zstandard

from proxy.config.log_keep import LogKeep
from proxy.config.words import LogCompression
from proxy.error_text import error_text
from proxy.observe.label_values import LogTask
from proxy.observe.metrics import Metrics

LOOK_INTERVAL_S = 60.0

_STOP_TIMEOUT_S: Final = 10.0
_COMPLAIN_EVERY_S: Final = 600.0
_STALE_S: Final = 3600.0
_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3
_CHUNK_BYTES: Final = 1 << 20
_REST: Final = 3.0
"""After each chunk it pauses this many times as long as the chunk took, so that it uses at most a
quarter of a core."""

_SUFFIXES: Final[Mapping[LogCompression, str]] = {"gzip": ".gz", "zstd": ".zst"}
_OPEN: Final = ".open"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A closed segment; it got its last record at `written_ns`."""

    path: Path
    size: int
    written_ns: int


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class LogUpkeep:
    """The upkeep of one proxy's segments.

    Args:
        directory: the directory of the routing log.
        proxy: the proxy's name; segments of other proxies are left alone.
        metrics: the worker's counts.
        compression: how closed segments are compressed.
        keep: which of them are kept.
        clock: gives seconds since the epoch.
    """

    def __init__(
        self,
        directory: Path,
        proxy: str,
        metrics: Metrics,
        *,
        compression: LogCompression,
        keep: LogKeep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._metrics = metrics
        self._compression: LogCompression = compression
        self._keep = keep
        self._clock = clock
        stem = rf"{re.escape(proxy)}-[0-9]+-[0-9a-f]+-[0-9]+\.jsonl"
        # Packed by another value of the option, or by an earlier version, it is kept as long.
        packed = "|".join(map(re.escape, _SUFFIXES.values()))
        self._closed = re.compile(rf"{stem}({packed})?")
        self._unfinished = re.compile(rf"{stem}\.[0-9a-f]+({packed}){re.escape(_OPEN)}")
        self._run_name = secrets.token_hex(6)
        self._complained_at: dict[LogTask, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="routing-log-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def configure(self, *, compression: LogCompression, keep: LogKeep) -> None:
        """Go on with other values of what it was made with, at its next look."""
        self._compression = compression
        self._keep = keep

    def stop(self) -> None:
        """End the thread; a segment that is being packed stays plain until the next start."""
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            self.look()
            if self._stopping.wait(LOOK_INTERVAL_S):
                return

    def look(self) -> None:
        """Delete segments that are not to be kept, pack plain ones; disk errors are not raised."""
        try:
            kept = self._delete(self._segments())
            compression = self._compression  # which another thread may replace
            if compression != "off":
                kept = self._packed(kept, compression)
            self._metrics.routing_log_stored(sum(segment.size for segment in kept))
        except OSError as error:
            self._failed("list", error)

    def _segments(self) -> list[_Segment]:
        """The closed segments, oldest first; remains of interrupted packing are removed."""
        found = []
        for path in self._directory.glob("date=*/*"):
            closed = self._closed.fullmatch(path.name)
            if not closed and not self._unfinished.fullmatch(path.name):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if closed:
                found.append(_Segment(path, status.st_size, status.st_mtime_ns))
            elif self._clock() - status.st_mtime > _STALE_S:
                path.unlink(missing_ok=True)
        return sorted(found, key=lambda segment: (segment.written_ns, segment.path))

    def _delete(self, segments: list[_Segment]) -> list[_Segment]:
        """Delete the segments that are too old or too many; return the others."""
        keep = self._keep  # which another thread may replace
        excess = sum(segment.size for segment in segments) - (keep.size or 0)
        kept = []
        for segment in segments:
            old = keep.age is not None and (self._clock() - segment.written_ns / 1e9 >= keep.age)
            if not old and (keep.size is None or excess <= 0):
                kept.append(segment)
                continue
            try:
                segment.path.unlink(missing_ok=True)
            except OSError as error:
                self._failed("delete", error)
                kept.append(segment)
                continue
            excess -= segment.size
            self._metrics.routing_log_deleted()
            self._remove_folder(segment.path.parent)
        return kept

    def _remove_folder(self, folder: Path) -> None:
        """Remove the folder of a day that is over, if nothing is left in it."""
        today = time.strftime("date=%Y-%m-%d", time.gmtime(self._clock()))
        if folder.name < today:
            try:
                folder.rmdir()
            except OSError:
                return  # not empty

    def _packed(self, segments: list[_Segment], compression: LogCompression) -> list[_Segment]:
        """Pack the plain segments; return those that exist then."""
        now = []
        replaced: set[Path] = set()
        full = False
        for segment in segments:
            if segment.path.suffix in _SUFFIXES.values() or full or self._stopping.is_set():
                now.append(segment)
                continue
            try:
                packed = self._pack(segment, compression)
            except (OSError, zstandard.ZstdError) as error:
                if isinstance(error, FileNotFoundError) and not segment.path.exists():
                    continue  # it was removed, or packed by another process
                self._failed("compress", error)
                # The other segments need room, too.
                full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
                packed = None
            now.append(segment if packed is None else packed)
            if packed is not None:
                replaced.update(_in_other_forms(segment.path, packed.path))
        now = [segment for segment in now if segment.path not in replaced]
        return list({segment.path: segment for segment in now}.values())

    def _pack(self, segment: _Segment, compression: LogCompression) -> _Segment | None:
        """Replace a plain segment by a packed one; None if the stop came first.

        Raises:
            OSError, zstandard.ZstdError: the segment stays as it is.
        """
        plain, suffix = segment.path, _SUFFIXES[compression]
        packed = plain.with_name(plain.name + suffix)
        # Another process may be packing it, too; so the name has this run in it.
        unfinished = plain.with_name(f"{plain.name}.{self._run_name}{suffix}{_OPEN}")
        try:
            if not self._write_packed(plain, unfinished, compression):
                return None
            # Its age is counted from its last record.
            os.utime(unfinished, ns=(segment.written_ns, segment.written_ns))
            size = unfinished.stat().st_size
            unfinished.rename(packed)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync_folder(packed.parent)
        # The plain one goes last: after a crash here, all this is done again.
        for other in _in_other_forms(plain, packed):
            other.unlink(missing_ok=True)
        plain.unlink(missing_ok=True)
        self._metrics.routing_log_compressed(size)
        return _Segment(packed, size, segment.written_ns)

    def _write_packed(self, plain: Path, to: Path, compression: LogCompression) -> bool:
        """Write the packed file and bring it to the disk; False if the stop came first."""
        with plain.open("rb") as source:
            status = os.fstat(source.fileno())
            fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, status.st_mode & 0o777)
            with open(fd, "wb") as target:  # noqa: PTH123 - a descriptor has no path
                compressor = _compressor(compression, status.st_size)
                while chunk := source.read(_CHUNK_BYTES):
                    began = time.monotonic()
                    target.write(compressor.compress(chunk))
                    if self._stopping.wait(_REST * (time.monotonic() - began)):
                        return False
                if source.tell() != status.st_size:
                    raise OSError(f"{plain} changed while it was compressed")
                target.write(compressor.flush())
                target.flush()
                os.fsync(fd)
        return True

    def _failed(self, task: LogTask, error: Exception) -> None:
        self._metrics.routing_log_upkeep_failed(task)
        now = time.monotonic()
        if now - self._complained_at.get(task, float("-inf")) >= _COMPLAIN_EVERY_S:
            self._complained_at[task] = now
            _log.error(
                "routing log: cannot %s closed segments: %s; they stay as they are",
                task,
                error_text(error),
            )


def _in_other_forms(plain: Path, packed: Path) -> list[Path]:
    """What a segment's packed file may be called by other values of the option."""
    every = (plain.with_name(plain.name + suffix) for suffix in _SUFFIXES.values())
    return [path for path in every if path != packed]


def _compressor(compression: LogCompression, size: int) -> _Compressor:
    """Make a compressor for so many bytes; equal bytes become equal files, each with a checksum."""
    if compression == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, wbits=16 + zlib.MAX_WBITS)
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj(size=size)


def _sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
