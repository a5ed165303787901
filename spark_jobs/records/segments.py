"""Finds the segments of a routing log: what is there, and what is finished.

Only names, sizes and times are looked at here. Spark's executors read what is in the files, each
where it lies (`take`).
"""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_jobs.paths import escape, without_scheme
from spark_jobs.storage import reaching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEGMENT: Final = re.compile(r"(date=[^/]+/[^/]+\.jsonl)(\.open|\.gz|\.zst)?")
_LIKE_A_SEGMENT: Final = re.compile(r"(?is)(.*\.jsonl).*|.*\.(gz|zst|bz2|xz|lz4|zip)")
_CLOSED: Final = ("", ".gz", ".zst")
FORMS: Final = 1 + len(_CLOSED)
"""How many paths `Segment.forms` has."""
LARGEST: Final = 128 << 20
"""Bytes of the largest file that is fetched from elsewhere: it must fit into Java's memory."""
_PACKED_TO: Final = 20
"""How many times as long a compressed segment is about when it is unpacked."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a log that holds records.

    Attributes:
        name: ``date=YYYY-MM-DD/….jsonl``, also if the file is compressed, or still being written.
        path: the file, as an absolute path or as a URI.
        size: size of the file, bytes.
        modified_ns: when the file was last changed, ns since the epoch.
        log: the log, as the operator named it.
        is_live: whether the proxy was still writing it, or was when it was killed. Then only its
            first `size` bytes count: the rest came after the log was listed.
    """

    name: str
    path: str
    size: int
    modified_ns: int
    log: str = ""
    is_live: bool = False

    @property
    def file(self) -> str:
        """The file as the log names it: ``date=YYYY-MM-DD/…``."""
        return f"{self.name.rpartition('/')[0]}/{self.file_name}"

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return self.path.rpartition("/")[2]

    @property
    def place(self) -> str:
        """The file as the operator would name it."""
        return f"{self.log}/{self.file}"

    @property
    def is_here(self) -> bool:
        """Whether it is in a directory of each machine that reads it."""
        return self.path.startswith("/")

    @property
    def is_too_large(self) -> bool:
        """Whether it cannot be fetched from where it is."""
        return not self.is_here and self.size > LARGEST

    @property
    def plain_size(self) -> int:
        """About how many bytes its content has; that of a compressed file is estimated."""
        return self.size * (_PACKED_TO if self.path.endswith(_CLOSED[1:]) else 1)

    @property
    def forms(self) -> list[str]:
        """Its file, and where it may be if that is gone: the proxy finishes and compresses it."""
        folder = self.path.rpartition("/")[0]
        plain = f"{folder}/{self.name.rpartition('/')[2]}"
        return [self.path, *(plain + suffix for suffix in _CLOSED)]


def name_of(file: str) -> str:
    """The name of the segment in a file, which is given as the log names it."""
    return re.sub(r"(?<=\.jsonl)(\.open|\.gz|\.zst)$", "", file)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a log, before any of them is read.

    Attributes:
        closed: segments that the proxy has finished.
        live: segments that it was still writing, or was writing when it was killed.
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
        damaged: why segments cannot be read, by their files' names in the log.
    """

    closed: tuple[Segment, ...]
    live: tuple[Segment, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    def plain_size(self, dates: Collection[str] = ()) -> int:
        """About how many bytes of JSON the log holds; compressed segments are estimated.

        Args:
            dates: days (``YYYY-MM-DD``); only their closed segments count. If empty, all do.
        """
        folders = {f"date={date}" for date in dates}
        return sum(
            segment.plain_size
            for segment in (*self.closed, *self.live)
            if segment.is_live or not folders or segment.name.partition("/")[0] in folders
        )


def list_log(spark: "SparkSession", log: Path | str, out: Path | None = None) -> Listing:
    """List a log wherever it is; see `list_segments` and `list_remote`."""
    return list_remote(spark, log) if isinstance(log, str) else list_segments(log, out)


def list_segments(log: Path, out: Path | None = None) -> Listing:
    """List a log on this machine that may be growing.

    The proxy renames a live segment when it is complete. So live segments are listed first, and
    what was renamed meanwhile is among the others.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/``.
        out: a directory whose files do not belong to the log, like ``_audit`` in `log`.

    Raises:
        OSError: `log` cannot be listed.
    """
    damaged: dict[str, str] = {}
    live = [path.relative_to(log).as_posix() for path in log.glob("date=*/*.jsonl.open")]
    files = _divide({*live, *_files(log, {log / "_audit", out}, damaged)})
    place = log.resolve()
    found: list[Segment] = []
    for segment, file in files.segments.items():
        try:
            str(place / file).encode()
            status, path = _found(place / file)
        except UnicodeEncodeError:
            damaged[file] = "its path is not UTF-8, so Spark cannot read it; none of it counts"
            continue
        except OSError as error:
            damaged[file] = f"{error.strerror or error}; none of it counts"
            continue
        found.append(
            Segment(
                name=segment,
                path=str(path),
                size=status.st_size,
                modified_ns=status.st_mtime_ns,
                log=str(log),
                is_live=path.suffix == ".open",
            )
        )
    return _listing(found, files, damaged)


def list_remote(spark: "SparkSession", uri: str) -> Listing:
    """List a log that only Spark can read (``s3a:``, ``hdfs:`` and the like).

    Args:
        spark: a session.
        uri: URI of the directory that holds ``date=YYYY-MM-DD/``, as Hadoop reads it.

    Raises:
        OSError: Spark lacks its library for S3.
        PySparkException: the log cannot be listed; Py4J may raise an error of its own instead.
    """
    from pyspark.sql import functions as fn

    with reaching(spark, uri):
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        # The content is not read: Spark leaves out what is not selected.
        rows = (
            files.load(*escape([uri.rstrip("/")]))
            .select("path", "length", fn.unix_micros("modificationTime").alias("modified_us"))
            .collect()
        )
    # Hadoop may tell of another authority than the URI names.
    above = len(without_scheme(uri.rstrip("/"))) + 1
    there = {without_scheme(row.path)[above:]: row for row in rows}
    listed = _divide(there)
    found = [
        Segment(
            name=segment,
            path=there[file].path,
            size=there[file].length,
            modified_ns=there[file].modified_us * 1000,
            log=uri,
            is_live=file.endswith(".open"),
        )
        for segment, file in listed.segments.items()
    ]
    return _listing(found, listed, {})


class _Files(NamedTuple):
    """Files of a log, by what their names say.

    Attributes:
        segments: the file of each segment.
        others: all other files.
    """

    segments: dict[str, str]
    others: list[str]


def _divide(files: Iterable[str]) -> _Files:
    """Tell segments from other files. A segment that is there in several forms is read once."""
    live: dict[str, str] = {}
    closed: dict[str, str] = {}
    others: list[str] = []
    # In this order, a plain segment comes before its compressed form.
    for file in sorted(files):
        known = _SEGMENT.fullmatch(file)
        if known is None or (known[2] != ".open" and known[1] in closed):
            others.append(file)
        else:
            (live if known[2] == ".open" else closed)[known[1]] = file
    return _Files(live | closed, others)


def _listing(found: Iterable[Segment], files: _Files, damaged: Mapping[str, str]) -> Listing:
    segments = sorted(found, key=lambda segment: segment.name)
    unread = [
        name
        for name in files.others
        if (like := _LIKE_A_SEGMENT.fullmatch(name)) and like[1] not in files.segments
    ]
    return Listing(
        closed=tuple(segment for segment in segments if not segment.is_live),
        live=tuple(segment for segment in segments if segment.is_live),
        unread=tuple(unread),
        unknown=tuple(name for name in files.others if name not in unread),
        damaged=damaged,
    )


def _found(path: Path) -> tuple[os.stat_result, Path]:
    """Look at a file, or at the one that it has become.

    Raises:
        OSError: it is gone, or no file, or cannot be read.
    """
    plain = name_of(path.name)
    for place in (path, *(path.with_name(plain + suffix) for suffix in _CLOSED)):
        try:
            status = place.stat()
            if not stat.S_ISREG(status.st_mode):
                raise OSError("not a regular file")
            with place.open("rb"):
                return status, place
        except FileNotFoundError:
            continue
    raise OSError("deleted meanwhile")


def _files(log: Path, others: set[Path | None], damaged: dict[str, str]) -> Iterator[str]:
    """The paths of all files below `log`, relative to it, except in the directories `others`.

    Directories that cannot be listed are added to `damaged`.
    """

    def on_error(error: OSError) -> None:
        folder = Path(error.filename)
        if folder == log:
            raise error
        damaged[f"{folder.relative_to(log).as_posix()}/"] = error.strerror or str(error)

    met = {path.resolve() for path in others if path is not None}
    for folder, folders, names in os.walk(log, onerror=on_error, followlinks=True):
        here = Path(folder)
        if here.resolve() in met:
            folders.clear()
            continue
        met.add(here.resolve())
        for name in names:
            yield (here / name).relative_to(log).as_posix()
