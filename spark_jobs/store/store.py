"""The store of a log: where its parts are, and how they get there.

::

    manifest/take=N.jsonl                      the segments of a take, see `manifest`
    records/take=N/date=…/hour=…/*.parquet     their records, by time of arrival (UTC)
    quarantine/take=N/*.parquet                their other lines, with file and line number
    staged/                                    a take that is being made

A take is made in `staged`, moved when it is complete, and counts as soon as the manifest names it.
A crash leaves something in `staged`, or a take that the manifest does not name. The next take
replaces either, and takes the segments again.

At a URI, where nothing can be moved, a take is made in ``records/take=N``: its records stay in
``part=records`` there, its other lines in ``part=quarantine``.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from spark_jobs import storage
from spark_jobs.day import DAY_US, HOUR_US, Day, Period, hour_us
from spark_jobs.records.content import QUARANTINE, RECORDS, Content, Contents, lacking
from spark_jobs.records.segments import Segment
from spark_jobs.storage import Folder
from spark_jobs.store.manifest import Manifest, Measure, Taken

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


class Took(NamedTuple):
    """How many segments were taken, and those that were not, and why: they are damaged."""

    segments: int
    damaged: Mapping[Segment, str]


class Reader(NamedTuple):
    """What reads segments.

    Attributes:
        measure: reads them, and takes nothing.
        take: writes the RECORDS and the QUARANTINE of those that are whole to a folder, and returns
            what is in all of them.
    """

    measure: Measure
    take: Callable[[Sequence[Segment], Folder], Contents]


class Store:
    """The store in one folder.

    Attributes:
        manifest: which segments have been taken.
        records: the folder of the records.
    """

    def __init__(self, folder: Folder) -> None:
        """Open the store; what a crash left behind in a directory is removed.

        Raises:
            OSError: it cannot be read or written.
        """
        self.records = folder / "records"
        self._folder = folder
        self._hours: dict[int, set[str]] = {}
        self.manifest = Manifest(folder / "manifest")
        if isinstance(folder, Path):
            storage.remove(folder / "staged")

    def take(self, closed: Sequence[Segment], reader: Reader) -> Took:
        """Take what has not been taken yet.

        Damaged segments are not taken: somebody may still put back the originals.

        Args:
            closed: the log's segments.
            reader: reads them.

        Raises:
            ChangedSegmentError: some were changed after they were taken.
            OSError: the store cannot be written.
        """
        new, again = self.manifest.compare(closed, reader.measure)
        if again:
            self.manifest.add(again)
        damaged: dict[Segment, str] = {}
        for batch in _batches(new):
            damaged |= self._take(batch, reader)
        return Took(len(new) - len(damaged), damaged)

    def folders(self, span: Span) -> tuple[list[str], list[str]]:
        """The folders of records, and those of the quarantine, that an audit of a span reads."""
        concerned = [segment for segment in self.manifest.taken if span.concerns(segment)]
        records = {segment.take for segment in concerned if any(map(span.has, segment.hours))}
        faults = {segment.take for segment in concerned if span.has_faults(segment)}
        return (
            [str(self._place(take, RECORDS)) for take in sorted(records)],
            [str(self._place(take, QUARANTINE)) for take in sorted(faults)],
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
                if _folder(hour) not in self._hours_of(segment.take)
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
                if hour_us(hour) + HOUR_US <= before_us:
                    self._hours.pop(segment.take, None)
                    storage.remove(self._place(segment.take, RECORDS) / _folder(hour))

    def late(self, day: Day, take: int) -> list[str]:
        """Names of the segments that concern a day and were taken after a take, sorted."""
        span = Span(day)
        return sorted(
            segment.name
            for segment in self.manifest.taken
            if segment.take > take and span.concerns(segment)
        )

    def _take(self, batch: Sequence[Segment], reader: Reader) -> dict[Segment, str]:
        """Take segments; return why some were not taken."""
        number = self.manifest.newest + 1
        staged = storage.emptied(self._staged(number))
        try:
            found = reader.take(batch, staged)
        except Exception:
            storage.discard(staged)  # the disk may be full
            raise
        gone = lacking(batch, found)
        damaged = {}
        taken = []
        for segment in batch:
            here = found.get(segment.name)
            why = gone[segment.file] if here is None else here.measured.damage
            if here is None or why is not None:
                damaged[segment] = str(why)
            else:
                taken.append(_taken(segment, number, here))
        if taken:
            for part in (QUARANTINE, RECORDS):
                storage.put(staged / part, self._place(number, part))
            self.manifest.add(taken)
        storage.discard(staged)
        return damaged

    def _staged(self, take: int) -> Folder:
        """Where a take is made."""
        if isinstance(self._folder, Path):
            return self._folder / "staged"
        return self.records / f"take={take}"

    def _place(self, take: int, part: str) -> Folder:
        """Where a part of a take belongs."""
        if isinstance(self._folder, Path):
            return self._folder / part.removeprefix("part=") / f"take={take}"
        return self._staged(take) / part

    def _hours_of(self, take: int) -> set[str]:
        """The folders of hours, within a take, whose records are there."""
        if take not in self._hours:
            self._hours[take] = storage.hours(self._place(take, RECORDS))
        return self._hours[take]


def _folder(hour: str) -> str:
    """The folder, within a take, of the records of an hour, ``YYYY-MM-DDTHH``."""
    date, _, number = hour.partition("T")
    return f"date={date}/hour={int(number)}"


def _taken(segment: Segment, number: int, found: Content) -> Taken:
    size, sha256, *_ = found.measured
    return Taken(
        name=segment.name,
        take=number,
        size=size,
        sha256=sha256,
        file=found.file.rpartition("/")[2],
        file_size=segment.size,
        modified_ns=segment.modified_ns,
        taken_us=time.time_ns() // 1000,
        records=sum(found.hours.values()),
        hours=found.hours,
        **found.faults,
    )


def _batches(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Divide segments into batches of about BATCH_BYTES."""
    batch: list[Segment] = []
    size = 0
    for segment in segments:
        batch.append(segment)
        size += segment.plain_size
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
