"""Which segments have been taken, and what was in them.

The manifest has one file of JSON Lines per take, ``take=N.jsonl``, which is written in one step and
never changed. A segment that it does not name has not been taken. A later line on a segment
replaces the earlier one: the segment was found again in another form (compressed, or moved to
another disk) with the same content.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Final

from spark_jobs.disk import write_whole
from spark_jobs.markdown import plain
from spark_jobs.records.segments import DamagedError, Segment, content

_TAKE: Final = re.compile(r"take=([1-9][0-9]*)\.jsonl")


class ChangedSegmentError(OSError):
    """Segments have changed since they were taken; the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A segment that was taken.

    Attributes:
        name: ``date=YYYY-MM-DD/….jsonl``.
        take: the number of the take that holds its records.
        size: bytes, uncompressed.
        sha256: SHA-256 of the uncompressed bytes, in hex.
        file: name of its file, with the suffix of its compression.
        file_size: bytes of the file.
        modified_ns: when the file was last changed, ns since the epoch.
        taken_us: when it was taken, UTC µs.
        records: how many records it holds.
        torn: how many lines are torn.
        damaged: how many lines are damaged.
        foreign: how many lines are of another version or kind.
        hours: how many records arrived in each hour, ``YYYY-MM-DDTHH``.
    """

    name: str
    take: int
    size: int
    sha256: str
    file: str
    file_size: int
    modified_ns: int
    taken_us: int
    records: int = 0
    torn: int = 0
    damaged: int = 0
    foreign: int = 0
    hours: Mapping[str, int]

    @property
    def faults(self) -> int:
        """How many lines are no record."""
        return self.torn + self.damaged + self.foreign

    @property
    def date(self) -> str:
        """The day of its folder in the log."""
        return self.name.partition("/")[0].removeprefix("date=")


class Manifest:
    """The manifest in one directory."""

    def __init__(self, folder: Path) -> None:
        """Read the takes.

        Raises:
            OSError: one cannot be read, or is damaged; the message names it.
        """
        self._folder = folder
        self._taken: dict[str, Taken] = {}
        self.newest = 0
        found = {
            int(match[1]): path
            for path in (folder.iterdir() if folder.is_dir() else ())
            if (match := _TAKE.fullmatch(path.name))
        }
        for number in sorted(found):
            for taken in _read(found[number]):
                self._taken[taken.name] = taken
            self.newest = number

    @property
    def taken(self) -> Collection[Taken]:
        """All segments that have been taken."""
        return self._taken.values()

    @property
    def takes(self) -> set[int]:
        """Numbers of the takes that hold something."""
        return {segment.take for segment in self.taken}

    def add(self, taken: Sequence[Taken]) -> None:
        """Add a take to the manifest, whole or not at all; its records must be in place already.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / f"take={self.newest + 1}.jsonl"
        write_whole(place, (f"{json.dumps(asdict(segment))}\n" for segment in taken))
        self._taken |= {segment.name: segment for segment in taken}
        self.newest += 1

    def compare(self, closed: Iterable[Segment]) -> tuple[list[Segment], list[Taken]]:
        """Find the new segments of a log.

        Only files whose name, size or time has changed are read again.

        Returns:
            Segments that have not been taken, and new lines on those whose files have changed in
            form.

        Raises:
            ChangedSegmentError: some were changed after they were taken.
        """
        new, again, changed = [], [], []
        for segment in closed:
            before = self._taken.get(segment.name)
            if before is None:
                new.append(segment)
                continue
            file = (segment.path.name, segment.size, segment.modified_ns)
            if file == (before.file, before.file_size, before.modified_ns):
                continue
            try:
                found = digest(segment.source)
            except DamagedError:
                continue  # nothing is lost: all its records were taken
            if found != (before.size, before.sha256):
                changed.append(segment.place)
            else:
                name, size, modified_ns = file
                again.append(replace(before, file=name, file_size=size, modified_ns=modified_ns))
        if changed:
            raise ChangedSegmentError(
                f"{', '.join(map(plain, changed))} changed after the audit had taken it, but a "
                "complete segment must never change. Put back the original, or see docs/audit.md "
                "for what the store has of it."
            )
        return new, again


def digest(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a segment's uncompressed content.

    Raises:
        DamagedError: it cannot be read to its end.
    """
    found = Digest()
    for data in content(path):
        found.update(data)
    return found.value


class Digest:
    """Computes the size and the SHA-256 of what it is given."""

    def __init__(self) -> None:
        self._size = 0
        self._sha256 = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Add bytes."""
        self._size += len(data)
        self._sha256.update(data)

    @property
    def value(self) -> tuple[int, str]:
        """Size in bytes, and SHA-256 in hex."""
        return self._size, self._sha256.hexdigest()


def _read(path: Path) -> Iterator[Taken]:
    names = [field.name for field in fields(Taken)]
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            values = json.loads(line)
            yield Taken(**{name: values[name] for name in names})
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{path} is damaged: {error!r}") from error
