"""A segment is taken once, whole or not at all, and one that changes afterwards is an error."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard

from spark_jobs.day import Day
from spark_jobs.records.content import (
    QUARANTINE,
    RECORDS,
    Content,
    Contents,
    Measured,
    measure,
    unpacked,
)
from spark_jobs.records.segments import Segment, list_segments
from spark_jobs.store.manifest import ChangedSegmentError, Manifest
from spark_jobs.store.store import BATCH_BYTES, Reader, Span, Store, Took

DAY = Day.parse("2026-11-30")
TEXT = "one\ntwo\n"


class Taker:
    """Stands in for Spark: a line is an hour, or a fault. Fails when told to."""

    def __init__(self) -> None:
        self.staged: list[list[str]] = []
        self.error: BaseException | None = None

    def measure(self, segments: Sequence[Segment]) -> dict[str, Measured]:
        found = {}
        for segment in segments:
            path = Path(segment.path)
            if path.exists():
                with path.open("rb") as file:
                    found[segment.name] = measure(file, path.suffix)
        return found

    def take(self, segments: Sequence[Segment], folder: Path) -> Contents:
        self.staged.append([segment.name for segment in segments])
        found: Contents = {}
        for segment in segments:
            for measured in self.measure([segment]).values():
                here = found[segment.name] = Content(segment.file, measured)
                if measured.damage is None:
                    self._write(segment, here, folder)
        if self.error is not None:
            raise self.error
        return found

    def _write(self, segment: Segment, here: Content, folder: Path) -> None:
        path = Path(segment.path)
        with path.open("rb") as file:
            lines = b"".join(unpacked(file, path.suffix)).decode().split()
        for line in lines:
            of = here.faults if line in ("torn", "damaged", "foreign") else here.hours
            of[line] = of.get(line, 0) + 1
        if here.faults:
            (folder / QUARANTINE).mkdir(exist_ok=True)
        for hour in here.hours:
            date, _, number = hour.partition("T")
            place = folder / RECORDS / f"date={date}/hour={int(number)}"
            place.mkdir(parents=True, exist_ok=True)
        (folder / RECORDS / path.name).mkdir(parents=True)
        (folder / RECORDS / path.name / "part.parquet").write_text("?")


class Night:
    """A log, and audits that take its segments."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.mkdir()
        self.store = folder / "store"
        self.taker = Taker()
        self.took = Took(0, {})

    def write(self, name: str, text: str = "2026-11-30T04") -> Path:
        path = self.log / "date=2026-11-30" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def take(self) -> Store:
        store = Store(self.store)
        closed = list_segments(self.log).closed
        self.took = store.take(closed, Reader(self.taker.measure, self.taker.take))
        return store

    def files(self) -> dict[str, tuple[int, bytes]]:
        return {
            path.relative_to(self.store).as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
            for path in self.store.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


def test_a_segment_is_taken_once(night: Night) -> None:
    night.write("a.jsonl", "2026-11-30T04 2026-11-30T04 2026-11-30T05 torn")
    night.write("b.jsonl.open")
    store = night.take()
    (taken,) = store.manifest.taken
    assert (taken.name, taken.take, taken.size) == ("date=2026-11-30/a.jsonl", 1, 46)
    assert (taken.records, taken.torn, taken.damaged, taken.faults) == (3, 1, 0, 1)
    assert taken.hours == {"2026-11-30T04": 2, "2026-11-30T05": 1}
    before = night.files()
    assert sorted(before) == [
        "manifest/take=1.jsonl",
        "records/take=1/a.jsonl/part.parquet",
    ]
    night.take()
    assert night.files() == before
    assert night.taker.staged == [["date=2026-11-30/a.jsonl"]]


def test_the_manifest_says_what_was_taken(night: Night) -> None:
    night.write("a.jsonl", "2026-11-30T04")
    night.take()
    line = json.loads((night.store / "manifest" / "take=1.jsonl").read_text())
    assert line["sha256"] == "575d496313ba265c51c288a9d1edd7fece5d1edb6abcc2d12ff7dd0a9ddb6774"
    assert line["taken_us"] > 0


def test_a_segment_may_have_any_name(night: Night) -> None:
    name = "gate\u2028\x85\n.jsonl"
    night.write(name)
    night.take()
    assert [it.name for it in night.take().manifest.taken] == [f"date=2026-11-30/{name}"]
    assert len(night.taker.staged) == 1


def test_late_segments_are_taken_by_the_next_audit(night: Night) -> None:
    night.write("a.jsonl")
    first = night.take().manifest.newest
    night.write("b.jsonl", "2026-11-29T01")
    night.write("c.jsonl", "2026-12-01T00")
    night.write("d.jsonl", "2026-12-01T01")
    night.write("e.jsonl", "damaged")
    store = night.take()
    assert store.late(DAY, first) == [f"date=2026-11-30/{name}.jsonl" for name in "bce"]
    assert store.late(DAY, store.manifest.newest) == []
    assert store.late(DAY.before, first) == ["date=2026-11-30/b.jsonl"]
    # d has nothing that a judgement of this day looks at, but the day behind it needs it.
    assert "date=2026-11-30/d.jsonl" in store.late(DAY.after, first)


def test_a_day_has_the_takes_of_its_hours(night: Night) -> None:
    for number, text in enumerate(("2026-11-29T23", "2026-12-01T00", "2026-12-01T01", "torn")):
        night.write(f"{number}.jsonl", text)
        store = night.take()
    records, quarantine = store.folders(Span(DAY))
    takes = [str(night.store / "records" / f"take={number}") for number in (1, 2, 3)]
    assert records == takes[:2]
    assert quarantine == [str(night.store / "quarantine" / "take=4")]
    assert store.folders(Span(DAY.after.after)) == (
        takes[1:],
        [],
    )
    assert store.segments(DAY) == 0
    assert store.segments(DAY.after) == 2


def test_a_segment_that_changed_is_an_error_that_names_it(night: Night) -> None:
    path = night.write("a.jsonl")
    night.write("b.jsonl")
    night.take()
    path.write_text("2026-11-30T05")
    night.write("c.jsonl")
    before = night.files()
    with pytest.raises(ChangedSegmentError, match=r"a\.jsonl changed") as caught:
        night.take()
    assert "b.jsonl" not in str(caught.value)
    assert night.files() == before


def test_a_segment_may_be_compressed_touched_or_deleted(night: Night) -> None:
    path = night.write("a.jsonl")
    night.write("b.jsonl")
    (night.write("c.jsonl")).touch()
    night.take()
    packed = path.with_name("a.jsonl.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    path.with_name("b.jsonl").unlink()
    store = night.take()
    assert len(night.taker.staged) == 1
    assert {it.name[-7:]: it.take for it in store.manifest.taken} == dict.fromkeys(
        ("a.jsonl", "b.jsonl", "c.jsonl"), 1
    )
    # It is known by its new form, and not read a third time.
    packed_as = next(it for it in store.manifest.taken if it.name.endswith("a.jsonl"))
    assert packed_as.file == "a.jsonl.zst"
    before = night.files()
    night.take()
    assert night.files() == before
    packed.write_bytes(zstandard.compress(b"2026-11-30T05"))
    with pytest.raises(ChangedSegmentError, match=r"a\.jsonl\.zst changed"):
        night.take()


def test_a_crash_while_a_take_is_made_leaves_nothing(night: Night) -> None:
    night.write("a.jsonl")
    night.taker.error = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        night.take()
    assert not (night.store / "staged").exists()
    night.taker.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        night.take()
    assert (night.store / "staged" / RECORDS).exists()
    assert list(Store(night.store).manifest.taken) == []
    assert not (night.store / "staged").exists()
    night.taker.error = None
    assert len(night.take().manifest.taken) == 1


def test_a_crash_before_the_manifest_takes_nothing_twice(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.write("a.jsonl", "2026-11-30T04 torn")
    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "add", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            night.take()
    for kept in ("records", "quarantine"):
        assert (night.store / kept / "take=1").exists()
    night.write("b.jsonl")
    store = night.take()
    assert {it.take for it in store.manifest.taken} == {1}
    assert sorted(path.name for path in night.store.glob("records/*/*.jsonl")) == [
        "a.jsonl",
        "b.jsonl",
    ]


def test_a_manifest_that_was_being_written_does_not_count(night: Night) -> None:
    night.write("a.jsonl")
    night.take()
    (night.store / "manifest" / "take=2.jsonl.staged").write_text('{"name": "dat')
    assert night.take().manifest.newest == 1
    (night.store / "manifest" / "take=2.jsonl").write_text('{"name": "dat')
    with pytest.raises(OSError, match=r"take=2\.jsonl is damaged"):
        night.take()


def test_much_is_taken_in_parts(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BATCH_BYTES > 1 << 30
    monkeypatch.setattr("spark_jobs.store.store.BATCH_BYTES", 500)
    for name in "abc":
        path = night.write(f"{name}.jsonl.zst")
        path.write_bytes(zstandard.compress(b"2026-11-30T04"))
    store = night.take()
    assert [len(names) for names in night.taker.staged] == [2, 1]
    assert {it.name[-7:]: it.take for it in store.manifest.taken} == {
        "a.jsonl": 1,
        "b.jsonl": 1,
        "c.jsonl": 2,
    }


def test_an_empty_segment_is_taken_too(night: Night) -> None:
    night.write("a.jsonl", "")
    (taken,) = night.take().manifest.taken
    assert (taken.records, taken.size, dict(taken.hours)) == (0, 0, {})


def test_records_that_were_deleted_are_missed(night: Night) -> None:
    night.write("a.jsonl", "2026-11-28T23 2026-11-29T04 2026-11-29T14 2026-12-01T00 2026-12-01T01")
    store = night.take()
    assert store.deleted(Span(DAY)) == []
    for folder in (night.store / "records" / "take=1").glob("date=*/hour=*"):
        if folder.name != "hour=14":
            folder.rmdir()
    store = Store(night.store)
    assert store.deleted(Span(DAY)) == ["2026-11-29T04", "2026-12-01T00"]
    assert store.deleted(Span(DAY.after.after)) == ["2026-12-01T00", "2026-12-01T01"]


def test_a_damaged_segment_is_taken_once_it_is_whole(night: Night) -> None:
    night.write("a.jsonl")
    whole = gzip.compress(b"2026-11-30T05 " * 1000)
    path = night.write("b.jsonl.gz")
    path.write_bytes(whole[:-9])
    store = night.take()
    assert [it.name for it in store.manifest.taken] == ["date=2026-11-30/a.jsonl"]
    ((broken, why),) = night.took.damaged.items()
    assert (night.took.segments, broken.file) == (1, "date=2026-11-30/b.jsonl.gz")
    assert why.startswith("cut short; its first ")
    # Nothing is taken of it, even if it is alone.
    night.take()
    assert (night.took.segments, store.manifest.newest) == (0, 1)
    path.write_bytes(whole)
    assert len(night.take().manifest.taken) == 2
    assert (night.took.segments, night.took.damaged) == (1, {})


def test_a_segment_that_is_damaged_after_it_was_taken_costs_nothing(night: Night) -> None:
    path = night.write("a.jsonl.gz")
    path.write_bytes(gzip.compress(b"2026-11-30T04"))
    night.take()
    before = night.files()
    path.write_bytes(path.read_bytes()[:-3])
    night.take()
    path.unlink()
    path.symlink_to("nothing")
    night.take()
    assert (night.took.damaged, night.files()) == ({}, before)


def test_damage_concerns_the_days_that_are_read() -> None:
    span = Span(DAY)
    assert [span.may_read(f"date=2026-{day}/a.jsonl") for day in ("11-28", "11-29", "12-01")] == [
        *(False, True, True)
    ]
    assert not span.may_read("date=2026-12-02/")
    assert span.may_read("date=?/")
