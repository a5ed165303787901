"""Audits whose results lie where only Spark can write: they say what they say in a directory."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from spark_jobs import nightly
from spark_jobs.day import HOUR_US
from spark_jobs.findings.results import Results
from spark_jobs.paths import escape
from spark_jobs.records.segments import list_segments
from spark_jobs.state.states import States
from spark_jobs.storage import Remote
from spark_jobs.store.manifest import Manifest
from spark_jobs.store.store import Span, Store
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import FAULTS
from tests.spark_jobs.binary_log import binary_log
from tests.spark_jobs.found import summary
from tests.spark_jobs.mounted import mounted
from tests.spark_jobs.routing_log import UUID, Clock, Run
from tests.spark_jobs.test_day_audit import DAY, segment
from tests.spark_jobs.test_spark_session import log_with_everything

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]
_BEGUN: Final = re.compile("begun at .{19}")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Audits:
    """Audits of one log, whose results lie in a directory, and at a URI.

    Attributes:
        log: the log.
        here: the directory.
        there: what the URI shows.
        report: the directory for the reports of those at the URI.
    """

    def __init__(
        self, spark: "SparkSession", folder: Path, uri: str, printed: Callable[[], str]
    ) -> None:
        self.log, self.here, self.there = (folder / name for name in ("log", "here", "there"))
        self.report = folder / "report"
        self._spark = spark
        self._uri = uri
        self._printed = printed

    def in_a_directory(self, *options: str) -> tuple[int, str]:
        """Audit; return the exit code and what was printed."""
        status = nightly.main(["--log", str(self.log), "--out", str(self.here), *options])
        return status, self._printed().replace(str(self.here), "OUT")

    def at_the_uri(self, *options: str) -> tuple[int, str]:
        """Likewise."""
        report = ("--report", str(self.report))
        status = nightly.main(["--log", str(self.log), "--out", self._uri, *report, *options])
        return status, self._printed().replace(self._uri, "OUT").replace(str(self.report), "OUT")

    def tables(self, folder: Path) -> dict[str, Counter[str]]:
        """The rows of the tables in a folder."""
        places = (place for place in folder.iterdir() if next(place.glob("*.parquet"), None))
        return {
            place.name: Counter(
                str(sorted(row.asDict().items()))
                for row in self._spark.read.parquet(*escape([place])).collect()
            )
            for place in places
            if place.name != "scratch"
        }

    def compare(self, folder: str = ".") -> None:
        """Compare the tables in a folder, and the reports."""
        here = self.tables(self.here / folder)
        assert self.tables(self.there / folder) == here
        assert len(here) > 15
        summaries = [
            _BEGUN.sub("", (place / folder / "report.md").read_text().replace(str(place), "OUT"))
            for place in (self.here, self.report)
        ]
        assert summaries[0] == summaries[1]
        assert (self.report / folder / "report.html").exists()


@pytest.fixture
def audits(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Audits]:
    monkeypatch.setattr(nightly, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def printed() -> str:
        printed = capsys.readouterr()
        return printed.out + printed.err

    (tmp_path / "there").mkdir()
    with mounted(spark, tmp_path / "there") as uri:
        yield Audits(spark, tmp_path, uri, printed)


def test_a_whole_log(audits: Audits) -> None:
    log_with_everything(audits.log)
    here = audits.in_a_directory()
    assert here[0] == 1
    assert audits.at_the_uri() == here
    audits.compare()
    assert {path.name for path in audits.report.iterdir()} == {"lock", "report.html", "report.md"}
    assert len([*audits.there.glob("report.md/*/*.txt")]) == 1
    assert [path.suffix for path in audits.there.glob("scratch/[!._]*")] == [".parquet"]


def test_what_a_crash_left_is_taken_anew(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.store import parquet

    log, there = tmp_path / "log", tmp_path / "there"
    there.mkdir()
    run = Run(clock=Clock(DAY.begin_us + HOUR_US))
    run.write(7, f"{P}:1")
    records = segment(log, run, DAY, 1)
    with mounted(spark, there) as uri:
        place, reader = Remote(spark, uri), parquet.reader(spark)
        other = Store(place)
        with monkeypatch.context() as patched:
            patched.setattr(Manifest, "add", lambda *_: (_ for _ in ()).throw(OSError("killed")))
            with pytest.raises(OSError, match="killed"):
                other.take(list_segments(log).closed, reader)
        assert next(there.glob("records/take=1/part=records/date=*/hour=1/*.parquet"), None)
        half = there / "manifest/take=1.jsonl/characters=999/part-0.txt"
        half.parent.mkdir(parents=True)
        half.write_text('{"name": "date')

        run.write(7, f"{P}:2")
        records += segment(log, run, DAY, 2)
        with next(log.glob("*/*-2.jsonl")).open("a") as file:
            file.write("torn\n")
        store = Store(place)
        assert (store.manifest.newest, list(store.manifest.taken)) == (0, [])
        assert store.take(list_segments(log).closed, reader).segments == 2
        again = Store(place)
        assert again.take(list_segments(log).closed, reader).segments == 0
        assert again.deleted(Span(DAY)) == []
        parsed = parquet.read(spark, again, Span(DAY), [], tmp_path).parsed
        found = sorted((row.seq or 0, row.fault) for row in parsed.collect())
        assert found == [(0, "torn"), *((record["seq"], None) for record in records)]
        with pytest.raises(OSError, match=r"two audits wrote .*/take=1\.jsonl at once"):
            other.take(list_segments(log).closed, reader)


def test_judgements_and_states_count_once_they_are_whole(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.state.states.KEPT", 2)
    with mounted(spark, tmp_path) as uri:
        place = Remote(spark, uri)
        for number in (1, 2):
            results = Results(place)
            staged = results.stage(DAY)
            small_table.write([], FAULTS, staged / "faults")
            assert Results(place).next_number(DAY) == number
            results.keep(staged, DAY, summary(str(DAY), version=1, tables=2, judgement=number))
        newest = Results(place).newest(DAY)
        assert (newest and newest.judgement, Results(place).days()) == (2, [DAY])

        states, day = States(place / "states"), DAY
        for dies in (False, False, True, False):
            staged_state = states.stage(3)
            small_table.write([], FAULTS, staged_state.folder / "facts")
            if not dies:
                staged_state.finish(day, day.end_us)
                day = day.after
            states.keep(staged_state)
        assert [state.day for state in states.before(day)] == [day.before, day.before.before]
        assert {str(state.folder)[-7:] for state in states.before(day)} == {"state=2", "state=3"}


@pytest.mark.deep
def test_nights(spark: "SparkSession", audits: Audits, tmp_path: Path) -> None:
    run = Run(clock=Clock(DAY.begin_us + HOUR_US))
    run.probe("r1", f"{P}:1-5")
    sent = int(str(run.write(7, f"{P}:6")["dispatched_us"]))
    run.waited(7, "r1", f"{P}:6", required=f"{P}:6")
    segment(audits.log, run, DAY, 1)
    binlogs = tmp_path / "binlogs" / UUID["r1"]
    binlogs.mkdir(parents=True)
    (binlogs / "binlog.000001").write_bytes(binary_log([(6, sent + 300, sent + 310)]))
    late = Run("b2", proxy="gate2", clock=run.clock)
    late.write(8, f"{P}:7")
    late.known(8, "r1", f"{P}:1-6")
    run.clock.now = DAY.after.begin_us + HOUR_US
    run.known(7, "r1", f"{P}:1-6", required=f"{P}:6")

    date = f"--date={DAY}"
    options = (date, "--binlogs", str(binlogs.parent))
    here = audits.in_a_directory(*options)
    assert here[0] == 0
    assert audits.at_the_uri(*options) == here
    audits.compare(f"days/date={DAY}/judgement=1")
    assert len([*audits.there.glob("states/state=*/about.json/*/*.txt")]) == 1

    segment(audits.log, late, DAY, 1)
    segment(audits.log, run, DAY.after, 2)
    date = f"--date={DAY.after}"
    here = audits.in_a_directory(date)
    assert here[0] == 1
    assert f"Segments that came after {DAY} was judged" in here[1]
    assert audits.at_the_uri(date) == here
    audits.compare(f"days/date={DAY}/judgement=2")
    audits.compare(f"days/date={DAY.after}/judgement=1")
    report = (audits.report / "report.md").read_text()
    assert f"The judgement began with the state at the end of {DAY}." in report

    # As the page on the tables tells people to read them.
    page = (Path(__file__).parents[2] / "docs" / "audit-tables.md").read_text()
    program = page.partition("```python")[2].partition("```")[0]
    exec(program.replace("s3a://data/audit", str(audits.there)), {"spark": spark})  # noqa: S102 - ours
    newest = spark.sql("select * from newest natural join (select distinct date from verdicts)")
    assert {(row.date, row.judgement) for row in newest.collect()} == {
        (DAY.date, 2),
        (DAY.after.date, 1),
    }

    shutil.rmtree(audits.there / "store/records/take=2/part=records/date=2026-10-06")
    status, printed = audits.at_the_uri(date)
    assert (status, "no longer has its records of 2026-10-06T01" in printed) == (2, True)
