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
from spark_jobs.records.content import Content, Contents, lacking
from spark_jobs.records.segments import Segment
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
        take: writes the records and the quarantine of those that are whole to a folder, and returns
            what is in all of them.
    """

    measure: Measure
    take: Callable[[Sequence[Segment], Path], Contents]


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

    def _take(self, batch: Sequence[Segment], reader: Reader) -> dict[Segment, str]:
        """Take segments; return why some were not taken."""
        number = self.manifest.newest + 1
        self._clear()
        self._staged.mkdir()
        try:
            found = reader.take(batch, self._staged)
        except Exception:
            self._clear()  # the disk may be full
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
            sync_all(self._staged)
            for kept in (self._quarantine, self.records):
                staged = self._staged / kept.name
                if staged.exists():
                    staged.rename(kept / f"take={number}")
                    sync(kept)
            self.manifest.add(taken)
        self._clear()
        return damaged

    def _clear(self) -> None:
        if self._staged.exists():
            shutil.rmtree(self._staged)


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
