"""The store of a log: where its parts are, and how they get there.

::

    manifest/take=N.jsonl                      the segments of a take, see `manifest`
    records/take=N/date=…/hour=…/*.parquet     their records, by time of arrival (UTC)
    quarantine/take=N/*.parquet                their other lines, with file and line number
    staged/                                    a take that is being made

A take is made in `staged`, moved when it is complete, and counts as soon as the manifest names it.
A crash leaves something in `staged`, or a take that the manifest does not name. The next audit
removes either, and takes the segments again.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from spark_jobs.day import DAY_US, HOUR_US, Day, Period, hour_us
from spark_jobs.disk import sync, sync_all
from spark_jobs.records.segments import Readable, Segment, readable
from spark_jobs.store.manifest import Digest, Manifest, Taken

_DATE: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)/")

BATCH_BYTES: Final = 8 << 30
"""About how many bytes of unpacked segments are taken at once; this bounds the disk space."""


@dataclass(frozen=True, slots=True)
class Span:
    """The hours of a log that an audit reads.

    Attributes:
        judged: the period that is judged.
        warm_up_us: how long before that period it begins to read.
        begin_us: when it begins to read.
        end_us: an hour after the judged period: in this hour, a new primary may show what became of
            the period's last writes.
    """

    judged: Period
    warm_up_us: int = DAY_US

    @property
    def begin_us(self) -> int:
        """See above."""
        return self.judged.begin_us - self.warm_up_us

    @property
    def end_us(self) -> int:
        """See above."""
        return self.judged.end_us + HOUR_US

    @property
    def dates(self) -> tuple[str, str]:
        """The first and the last day of the judged period."""
        return str(Day.of(self.judged.begin_us)), str(Day.of(self.judged.end_us - 1))

    def may_read(self, file: str) -> bool:
        """Whether a file of the log, by its name, is of a day that an audit of the span reads."""
        match = _DATE.match(file)
        first, last = str(Day.of(self.begin_us)), str(Day.of(self.end_us - 1))
        return match is None or first <= match[1] <= last

    def may_need(self, file: str) -> bool:
        """Whether a file of the log, by its name, may hold records from before the span's end.

        A write that ended long before the span may be owed to reads in it.
        """
        match = _DATE.match(file)
        return match is None or match[1] <= str(Day.of(self.end_us - 1))

    def has(self, hour: str) -> bool:
        """Whether an hour, ``YYYY-MM-DDTHH``, is in the span."""
        return self.begin_us <= hour_us(hour) < self.end_us

    def has_faults(self, taken: Taken) -> bool:
        """Whether a segment is of the judged days and has lines that are no record."""
        first, last = self.dates
        return bool(taken.faults) and first <= taken.date <= last

    def concerns(self, taken: Taken) -> bool:
        """Whether a segment has records in the span, or `has_faults`."""
        return self.has_faults(taken) or any(map(self.has, taken.hours))


class Counts(NamedTuple):
    """The lines of one segment: records by hour, and other lines by fault."""

    hours: dict[str, int]
    faults: dict[str, int]


class Took(NamedTuple):
    """How many segments were taken, and those that were not, since they are damaged."""

    segments: int
    damaged: Sequence[Readable]


Stage = Callable[[Sequence[Path], Path], dict[str, Counts]]
"""Writes the records and the quarantine of files to a folder; returns each segment's counts."""


class Store:
    """The store in one directory.

    Attributes:
        manifest: which segments have been taken.
        records: the folder of the records.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store; what a crash left behind is removed.

        Raises:
            OSError: it cannot be read or written.
        """
        self.records = folder / "records"
        self._quarantine = folder / "quarantine"
        self._staged = folder / "staged"
        self.manifest = Manifest(folder / "manifest")
        known = {f"take={number}" for number in self.manifest.takes}
        for kept in (self.records, self._quarantine):
            kept.mkdir(parents=True, exist_ok=True)
            for path in kept.iterdir():
                if path.name not in known:
                    shutil.rmtree(path)
        self._clear()

    def take(self, closed: Iterable[Segment], scratch: Path, stage: Stage) -> Took:
        """Take what has not been taken yet.

        Damaged segments are not taken: somebody may still put back the originals.

        Args:
            closed: the log's segments.
            scratch: directory in which they can be unpacked.
            stage: writes them as Parquet.

        Raises:
            ChangedSegmentError: some were changed after they were taken.
            OSError: the store or `scratch` cannot be written, or a segment changed meanwhile.
        """
        new, again = self.manifest.compare(closed)
        if again:
            self.manifest.add(again)
        damaged: list[Readable] = []
        for batch in _batches(new, scratch, damaged):
            self._take(batch, stage)
        return Took(len(new) - len(damaged), damaged)

    def folders(self, span: Span) -> tuple[list[str], list[str]]:
        """The folders of records, and those of the quarantine, that an audit of a span reads."""
        concerned = [segment for segment in self.manifest.taken if span.concerns(segment)]
        records = {segment.take for segment in concerned if any(map(span.has, segment.hours))}
        faults = {segment.take for segment in concerned if span.has_faults(segment)}
        return (
            [str(self.records / f"take={take}") for take in sorted(records)],
            [str(self._quarantine / f"take={take}") for take in sorted(faults)],
        )

    def not_taken(self, damaged: Mapping[str, str]) -> dict[str, str]:
        """The damaged files, by their names in the log, whose records the store does not have."""
        names = {segment.name for segment in self.manifest.taken}
        return {
            file: why
            for file, why in damaged.items()
            if f"{file.rpartition('.jsonl')[0]}.jsonl" not in names
        }

    def deleted(self, span: Span) -> list[str]:
        """Hours of a span whose records were taken and have been deleted since, sorted."""
        return sorted(
            {
                hour
                for segment in self.manifest.taken
                for hour in filter(span.has, segment.hours)
                if not (self.records / f"take={segment.take}" / _folder(hour)).is_dir()
            }
        )

    def segments(self, period: Period) -> int:
        """How many segments have records of a period."""
        return sum(
            any(period.begin_us <= hour_us(hour) < period.end_us for hour in segment.hours)
            for segment in self.manifest.taken
        )

    def prune(self, before_us: int) -> None:
        """Delete the records of hours that ended by `before_us`; the manifest keeps its lines.

        Raises:
            OSError: they cannot be deleted.
        """
        for segment in self.manifest.taken:
            for hour in segment.hours:
                folder = self.records / f"take={segment.take}" / _folder(hour)
                if hour_us(hour) + HOUR_US <= before_us and folder.is_dir():
                    shutil.rmtree(folder)

    def late(self, day: Day, take: int) -> list[str]:
        """Names of the segments that concern a day and were taken after a take, sorted."""
        span = Span(day)
        return sorted(
            segment.name
            for segment in self.manifest.taken
            if segment.take > take and span.concerns(segment)
        )

    def _take(self, batch: "Sequence[_Whole]", stage: Stage) -> None:
        number = self.manifest.newest + 1
        self._clear()
        self._staged.mkdir()
        try:
            counts = stage([readable.path for readable in batch], self._staged)
        except Exception:
            self._clear()  # the disk may be full
            raise
        taken = [
            readable.taken(number, counts.pop(readable.segment.name, Counts({}, {})))
            for readable in batch
        ]
        if counts:
            raise OSError(f"There are records of {', '.join(counts)}, which is no listed segment.")
        sync_all(self._staged)
        for kept in (self._quarantine, self.records):
            staged = self._staged / kept.name
            if staged.exists():
                staged.rename(kept / f"take={number}")
                sync(kept)
        self.manifest.add(taken)
        self._clear()

    def _clear(self) -> None:
        if self._staged.exists():
            shutil.rmtree(self._staged)


def _folder(hour: str) -> str:
    """The folder, within a take, of the records of an hour, ``YYYY-MM-DDTHH``."""
    date, _, number = hour.partition("T")
    return f"date={date}/hour={int(number)}"


class _Whole(NamedTuple):
    """A segment that can be read to its end.

    Attributes:
        segment: the segment.
        path: where it can be read.
        content: size and SHA-256 of its uncompressed content.
    """

    segment: Segment
    path: Path
    content: tuple[int, str]

    def taken(self, number: int, counts: Counts) -> Taken:
        return Taken(
            name=self.segment.name,
            take=number,
            size=self.content[0],
            sha256=self.content[1],
            file=self.segment.path.name,
            file_size=self.segment.size,
            modified_ns=self.segment.modified_ns,
            taken_us=time.time_ns() // 1000,
            records=sum(counts.hours.values()),
            hours=counts.hours,
            **counts.faults,
        )


def _batches(
    segments: Iterable[Segment], scratch: Path, damaged: list[Readable]
) -> Iterator[list[_Whole]]:
    """Make segments readable, in batches of about BATCH_BYTES; the others are `damaged`."""
    batch: list[_Whole] = []
    size = 0
    for segment in segments:
        content = Digest()
        made = readable(segment, scratch, content.update)
        if made.damage is not None:
            damaged.append(made)
            continue
        batch.append(_Whole(segment, made.path, content.value))
        size += batch[-1].content[0]
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
            shutil.rmtree(scratch / "unpacked", ignore_errors=True)
    if batch:
        yield batch
