"""Which segments have been taken, and what was in them.

The manifest has one file of JSON Lines per take, ``take=N.jsonl``, which is written in one step and
never changed. A segment that it does not name has not been taken. A later line on a segment
replaces the earlier one: the segment was found again in another form (compressed, or moved to
another disk) with the same content.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from spark_jobs import storage
from spark_jobs.markdown import plain
from spark_jobs.records.content import Measured
from spark_jobs.records.segments import Segment

Measure = Callable[[Sequence[Segment]], Mapping[str, Measured]]
"""Reads segments, and returns what is in them, by their names; without those that are gone."""

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
    """The manifest in one folder."""

    def __init__(self, folder: storage.Folder) -> None:
        """Read the takes.

        Raises:
            OSError: one cannot be read, or is damaged; the message names it.
        """
        self._folder = folder
        self._taken: dict[str, Taken] = {}
        self.newest = 0
        found = {
            int(match[1]): (folder / name, text)
            for name, text in storage.texts(folder, "take=*.jsonl").items()
            if (match := _TAKE.fullmatch(name))
        }
        for number in sorted(found):
            for taken in _read(*found[number]):
                self._taken[taken.name] = taken
            self.newest = number

    @property
    def taken(self) -> Collection[Taken]:
        """All segments that have been taken."""
        return self._taken.values()

    def add(self, taken: Sequence[Taken]) -> None:
        """Add a take to the manifest, whole or not at all; its records must be in place already.

        Raises:
            OSError: it cannot be written.
        """
        text = "".join(f"{json.dumps(asdict(segment))}\n" for segment in taken)
        storage.write_text(self._folder, f"take={self.newest + 1}.jsonl", text)
        self._taken |= {segment.name: segment for segment in taken}
        self.newest += 1

    def compare(
        self, closed: Sequence[Segment], measure: Measure
    ) -> tuple[list[Segment], list[Taken]]:
        """Find the new segments of a log.

        Only files whose name, size or time has changed are read again.

        Args:
            closed: the log's segments.
            measure: reads segments.

        Returns:
            Segments that have not been taken, and new lines on those whose files have changed in
            form.

        Raises:
            ChangedSegmentError: some were changed after they were taken.
        """
        new = [segment for segment in closed if segment.name not in self._taken]
        other = [segment for segment in closed if not self._has(segment)]
        known = [segment for segment in other if segment.name in self._taken]
        found = measure(known) if known else {}
        again, changed = [], []
        for segment in known:
            before, here = self._taken[segment.name], found.get(segment.name)
            if here is None or here.damage is not None:
                continue  # nothing is lost: all its records were taken
            if (here.size, here.sha256) != (before.size, before.sha256):
                changed.append(segment.place)
            else:
                again.append(
                    replace(
                        before,
                        file=segment.file_name,
                        file_size=segment.size,
                        modified_ns=segment.modified_ns,
                    )
                )
        if changed:
            raise ChangedSegmentError(
                f"{', '.join(map(plain, changed))} changed after the audit had taken it, but a "
                "complete segment must never change. Put back the original, or see docs/audit.md "
                "for what the store has of it."
            )
        return new, again

    def _has(self, segment: Segment) -> bool:
        """Whether a segment was taken from this very file."""
        before = self._taken.get(segment.name)
        return before is not None and (before.file, before.file_size, before.modified_ns) == (
            segment.file_name,
            segment.size,
            segment.modified_ns,
        )


def _read(place: storage.Folder, text: str) -> Iterator[Taken]:
    names = [field.name for field in fields(Taken)]
    try:
        for line in text.splitlines():
            values = json.loads(line)
            yield Taken(**{name: values[name] for name in names})
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{place} is damaged: {error!r}") from error
