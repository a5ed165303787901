"""Writes the routing log to files, in a thread of its own.

The event loop only appends a rendered line to a bounded queue (`routing.record.RecordStream`).
Every `FLUSH_INTERVAL_S` the thread writes the lines that are there, in slices so small that it
never holds the interpreter's lock for long. Lines that a full or failing disk does not take stay in
the queue; those beyond its bound are dropped, and a record says how many. No error of the disk
reaches a statement. `proxy.observe.log_upkeep` packs and deletes complete files.

A file is ``DIR/date=YYYY-MM-DD/<proxy>-<worker>-<run>-<n>.jsonl``; its name ends in ``.open`` while
it is written, and its writer holds a lock on it, so that the next start of the same proxy can tell
which files a dead run left behind.
"""

import fcntl
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from proxy.error_text import error_text
from proxy.observe.metrics import Metrics
from routing.record import RecordStream

FLUSH_INTERVAL_S: Final = 0.2

_STOP_TIMEOUT_S: Final = 10.0
_SLICE_LINES: Final = 256
_COMPLAIN_EVERY_S: Final = 60.0
_OPEN_SUFFIX: Final = ".open"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """When the log's files end, and what may be lost.

    Attributes:
        max_pending_bytes: how many bytes may wait in memory.
        max_segment_bytes: the size from which on a file is complete.
        max_segment_age: the age from which on a file is complete, s.
        sync_interval: seconds after which what was written is brought to the disk at the latest; 0
            leaves that to the system until the file is complete.
    """

    max_pending_bytes: int = 64 << 20
    max_segment_bytes: int = 64 << 20
    max_segment_age: float = 300.0
    sync_interval: float = 1.0


DEFAULT_LIMITS: Final = LogLimits()


@dataclass(slots=True)
class _Segment:
    """The file that is being written."""

    path: Path
    fd: int
    date: str
    opened_at: float
    synced_at: float
    size: int = 0
    synced_size: int = 0


class RoutingLog:
    """The routing log of one worker.

    Args:
        directory: where the files go.
        proxy: the proxy's name, with which file names begin.
        worker: the worker's number, from 0.
        metrics: the worker's counts.
        limits: when a file is complete and on the disk, and how much may wait for that.
        clock: gives seconds since the epoch.

    Attributes:
        run: hex name of this start of this worker.
        records: takes the records to be written; never blocks.

    """

    def __init__(
        self,
        directory: Path,
        proxy: str,
        worker: int,
        metrics: Metrics,
        *,
        limits: LogLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.run = secrets.token_hex(6)
        self.records = RecordStream(
            proxy, worker, self.run, limits.max_pending_bytes, self._on_drop
        )
        self._directory = directory
        self._proxy = proxy
        self._stem = f"{proxy}-{worker}-{self.run}"
        self._metrics = metrics
        self._limits = limits
        self._clock = clock
        self._segment: _Segment | None = None
        self._segments = 0
        self._unwritten = memoryview(b"")
        self._unwritten_lines = 0
        self._written_lines = 0
        self._abandoned = False  # the thread's last records were counted as lost
        self._complained_at = float("-inf")
        self._complained = False  # and has not written since
        self._drop_logged_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="routing-log", daemon=True)

    def start(self) -> None:
        """Make the directory, finish what dead runs left behind, and start the thread.

        Raises:
            OSError: the directory cannot be made or written.

        """
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise PermissionError(13, os.strerror(13), str(self._directory))
        self._recover()
        self._thread.start()

    def configure(self, sync_interval: float) -> None:
        """Sync what is written to the disk this often from now on, s; 0: whole files only."""
        self._limits = replace(self._limits, sync_interval=sync_interval)

    def stop(self) -> None:
        """Write what is left and complete the file; call it after the last record."""
        self.records.finish()
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            self._abandoned = True
            records = self.records
            lost = records.seq - records.dropped - self._written_lines
            self._metrics.routing_log_dropped(lost)
            _log.error("routing log: the disk did not take the last %d records in time", lost)

    def _run(self) -> None:
        while not self._stopping.wait(FLUSH_INTERVAL_S):
            self.flush()
        self.flush()
        lost = self._unwritten_lines + self.records.take(1 << 62).count("\n")
        if lost and not self._abandoned:
            self._metrics.routing_log_dropped(lost)
            _log.error("routing log: %d records could not be written before the stop", lost)
        try:
            self._complete()
        except OSError as error:
            self._complain(error)

    def flush(self) -> None:
        """Write what is in the queue; called by the thread. A failing disk does not raise."""
        try:
            while True:
                if not self._unwritten:
                    if self._segment is not None and self._is_due(self._segment):
                        self._complete()
                    if not self._take():
                        break
                self._write()
            self._sync()
        except OSError as error:
            self._complain(error)
        else:
            if self._complained:
                self._complained = False
                _log.info("routing log: records are written again; those that waited are, too")

    def _on_drop(self) -> None:
        """Count a record for which there was no room; called where the records are made.

        The thread may be waiting for the disk, for as long as that hangs.
        """
        self._metrics.routing_log_dropped(1)
        now = time.monotonic()
        if now - self._drop_logged_at >= _COMPLAIN_EVERY_S:
            self._drop_logged_at = now
            _log.error(
                "routing log: records are dropped, since the disk did not take the %d bytes that"
                " wait in memory; see what keeps %s",
                self._limits.max_pending_bytes,
                self._directory,
            )

    def _take(self) -> bool:
        text = self.records.take(_SLICE_LINES)
        self._unwritten = memoryview(text.encode("ascii"))
        self._unwritten_lines = text.count("\n")
        return bool(text)

    def _write(self) -> None:
        # After an error the next attempt goes on where this one stopped, so that no line is torn.
        if self._segment is None:
            self._segment = self._open()
        while self._unwritten:
            written = os.write(self._segment.fd, self._unwritten)
            self._segment.size += written
            self._metrics.routing_log_grown(written)
            rest = self._unwritten[written:]
            left = bytes(rest).count(b"\n")
            self._metrics.routing_log_written(self._unwritten_lines - left)
            self._written_lines += self._unwritten_lines - left
            self._unwritten, self._unwritten_lines = rest, left

    def _sync(self) -> None:
        segment = self._segment
        if segment is None or not self._limits.sync_interval or segment.size == segment.synced_size:
            return
        now = self._clock()
        # A clock that was set back must not delay it.
        if not 0 <= now - segment.synced_at < self._limits.sync_interval:
            # Noted before the call, so that an error is reported once for each piece: after an
            # error the system does not try to write the piece again.
            segment.synced_at, segment.synced_size = now, segment.size
            os.fsync(segment.fd)

    def _is_due(self, segment: _Segment) -> bool:
        now = self._clock()
        return (
            segment.size >= self._limits.max_segment_bytes
            or now - segment.opened_at >= self._limits.max_segment_age
            or segment.date != _date(now)
        )

    def _open(self) -> _Segment:
        now = self._clock()
        date = _date(now)
        self._segments += 1
        folder = self._directory / f"date={date}"
        folder.mkdir(mode=0o750, exist_ok=True)
        path = folder / f"{self._stem}-{self._segments}.jsonl{_OPEN_SUFFIX}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        _lock(fd)
        return _Segment(path, fd, date, now, now)

    def _complete(self) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        try:
            os.fsync(segment.fd)
            # Renamed while it is locked: no other process may take it for a dead run's.
            segment.path.rename(segment.path.with_suffix(""))
        except FileNotFoundError:
            self._metrics.routing_log_failed()
            _log.error(
                "routing log: %s was removed or renamed by another program before it was complete",
                segment.path,
            )
        finally:
            os.close(segment.fd)

    def _recover(self) -> None:
        """Rename the files that dead runs of this proxy left open."""
        name = re.compile(
            rf"{re.escape(self._proxy)}-[0-9]+-[0-9a-f]+-[0-9]+\.jsonl{re.escape(_OPEN_SUFFIX)}"
        )
        for path in self._directory.glob(f"date=*/*{_OPEN_SUFFIX}"):
            if not name.fullmatch(path.name):
                continue
            try:
                fd = os.open(path, os.O_RDWR)
                try:
                    if _lock(fd):
                        path.rename(path.with_suffix(""))
                        _log.info("routing log: %s was left by a run that died", path.name)
                finally:
                    os.close(fd)
            except OSError as error:
                _log.warning("routing log: %s cannot be completed: %s", path, error_text(error))

    def _complain(self, error: OSError) -> None:
        self._metrics.routing_log_failed()
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_EVERY_S:
            self._complained_at = now
            self._complained = True
            _log.error(
                "routing log: %s; records wait in memory, then are dropped", error_text(error)
            )


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _lock(fd: int) -> bool:
    """Try to take the lock that a living writer holds until its file is complete."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # another holds it, or the file system has no locks
    return True
