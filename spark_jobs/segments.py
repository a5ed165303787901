"""The files of a routing log: which are read, and which are not."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

_SEGMENT: Final = re.compile(r"(date=[^/]+/[^/]+\.jsonl)(\.open|\.gz|\.zst)?")
_LIKE_A_SEGMENT: Final = re.compile(r"(?is)(.*\.jsonl).*|.*\.(gz|zst|bz2|xz|lz4|zip)")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Segments:
    """The files of a log.

    Attributes:
        complete: segments that the proxy has finished.
        live: copies of the segments that it was still writing (or was killed over).
        unread: files, as the log names them, that seem to hold records and cannot be read.
        unknown: all other files.
    """

    complete: tuple[Path, ...]
    live: tuple[Path, ...]
    unread: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """What is to be read."""
        return self.complete + self.live


def find_segments(log: Path, scratch: Path, out: Path | None = None) -> Segments:
    """List a log that may be growing.

    A live segment is renamed when it is complete, so it is copied first, and its copy dropped if
    the rename came between. A segment may be compressed: Spark reads ``.gz``, and ``.zst`` is
    unpacked here. Everything is named by a path below `scratch`: a log may be in a directory whose
    name Hadoop would take for a pattern or for a URI.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/``.
        scratch: an empty directory.
        out: a directory whose files are not the log's; ``_audit`` in `log` never is.

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
    complete: dict[str, Path] = {}
    others: list[str] = []
    # In this order a segment comes before what it was compressed to.
    for name in sorted(_files(log, {log / "_audit", out})):
        known = _SEGMENT.fullmatch(name)
        if known is None or (known[2] and known[1] in complete):
            others.append(name)
        elif known[2] == ".zst":
            complete[known[1]] = _unpacked(log / name, scratch / "unpacked" / known[1])
        elif known[2] != ".open":
            complete[known[1]] = scratch / "log" / name
    told = {*complete, *live}
    unread = [
        name for name in others if (like := _LIKE_A_SEGMENT.fullmatch(name)) and like[1] not in told
    ]
    return Segments(
        complete=tuple(complete.values()),
        live=tuple(copy for name, copy in live.items() if name not in complete),
        unread=tuple(unread),
        unknown=tuple(name for name in others if name not in unread),
    )


def _files(log: Path, others: set[Path | None]) -> list[str]:
    """Every file below a directory, as named from there, except in other directories."""
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


def _unpacked(path: Path, to: Path) -> Path:
    """Unpack a file of Zstandard frames; one that is cut short is an error."""
    to.parent.mkdir(parents=True, exist_ok=True)
    frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        with path.open("rb") as packed, to.open("wb") as plain:
            while data := packed.read(_CHUNK):
                while data:
                    plain.write(frame.decompress(data))
                    data, begun = frame.unused_data, not frame.eof
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise OSError(f"{path} is not what its name says: {error}") from error
    if begun or not path.stat().st_size:
        raise OSError(f"{path} is cut short.")
    return to
