"""A log whose segments name hours, and audits that only count them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import nightly
from spark_jobs.day import Day
from spark_jobs.findings.findings import Findings
from spark_jobs.records.content import RECORDS, Content, Contents, Measured, measure
from spark_jobs.records.segments import Segment
from spark_jobs.store.store import Reader
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Verdict

if TYPE_CHECKING:
    from spark_jobs.audit.log import Log


class NoSpark:
    def stop(self) -> None:
        pass


class Nights:
    """A log whose segments name hours, and audits that count the segments of a day.

    A day is violated if it has more than two.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.out = self.log / "_audit"
        self.judged: list[str] = []

    def write(self, name: str, *hours: str) -> Path:
        path = self.log / "date=2026-11-30" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(hours))
        return path

    def audit(self, day: Day, *options: str) -> int:
        self.judged.clear()
        return nightly.main(["--log", str(self.log), "--date", str(day), *options])

    def reader(self, _spark: object) -> Reader:
        return Reader(self._measure, self._take)

    def _measure(self, segments: Sequence[Segment]) -> dict[str, Measured]:
        found = {}
        for segment in segments:
            with Path(segment.path).open("rb") as file:
                found[segment.name] = measure(file, Path(segment.path).suffix)
        return found

    def _take(self, segments: Sequence[Segment], folder: Path) -> Contents:
        found: Contents = {}
        for segment in segments:
            (measured,) = self._measure([segment]).values()
            hours = {}
            if measured.damage is None:
                hours = dict.fromkeys(Path(segment.path).read_text().split(), 1)
            found[segment.name] = Content(segment.file, measured, hours)
            for hour in hours:
                date, _, number = hour.partition("T")
                where = folder / RECORDS / f"date={date}" / f"hour={int(number)}"
                where.mkdir(parents=True, exist_ok=True)
        return found

    def judge(
        self,
        _spark: object,
        log: "Log",
        out: Path,
        clock_error_us: int,
        min_coverage: float,
        stage: Callable[[str], None],
    ) -> Findings:
        stage("judging reads")
        assert [*out.iterdir()] == []
        self.judged.append(str(log.period))
        verdict, finding = Verdict.OK, Finding.WAITED
        if log.complete > 2:
            verdict, finding = Verdict.VIOLATION, Finding.NO_PROOF
        read = {"level": "STRONG", "scope": "proxy", "verdict": verdict, "finding": finding}
        run = dict.fromkeys(("from_us", "to_us", "missing", "conflicting", "proofs"), 0)
        texts = {"proxy": "gate", "run": "a1", "worker": 0, "declared": 0, "repeated": 0}
        return Findings(
            log=log.name,
            complete=log.complete,
            live=log.live,
            faults=[],
            runs=[Row(run | texts | {"statements": log.complete})] if log.complete else [],
            verdicts=[Row(read | {"reads": log.complete})] if log.complete else [],
            lost=[],
            undecided=[],
            understated=0,
            lag=[],
            replication=[],
            mix=[],
            fallbacks=[],
            errors=[],
            min_coverage=min_coverage,
            damaged=log.damaged,
            notes=[*log.notes, "A clock is wrong."],
            clock_error_us=clock_error_us + 7,
        )
