"""Which state a day begins with: the newest that is whole, and that knows all segments before."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import nightly
from spark_jobs.audit import audit
from spark_jobs.day import Day
from spark_jobs.findings.findings import Findings
from spark_jobs.state.states import KEPT, VERSION, DeletedError, States, choose
from spark_jobs.store.store import Store
from tests.spark_jobs.nights import Nights, NoSpark

if TYPE_CHECKING:
    from spark_jobs.audit.log import Log

DAY = Day.parse("2026-10-05")
WARM_UP = "2026-10-04 was read as a warm-up"


class NightsWithStates(Nights):
    """Audits that keep states, and note what each day began with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began: dict[str, str | None] = {}
        self.read: dict[str, int] = {}
        self.dies = False

    def judge(self, _spark: object, log: "Log", *others: object) -> Findings:
        found = super().judge(_spark, log, *others)  # type: ignore[arg-type]  # likewise
        assert log.span is not None
        self.began[str(log.period)] = None if log.before is None else log.before.about.date
        self.read[str(log.period)] = log.span.begin_us
        if log.ends is not None and isinstance(log.period, Day):
            assert isinstance(log.ends.folder, Path)
            (log.ends.folder / "facts").write_text(f"of {log.period}")
            if self.dies:
                raise RuntimeError("it dies")
            log.ends.finish(log.period, log.period.end_us - 1)
        return found

    @property
    def states(self) -> Path:
        return self.out / "states"

    def days(self) -> list[str]:
        return sorted(it.name for it in self.states.glob("date=*"))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NightsWithStates:
    pytest.importorskip("pyspark")
    from spark_jobs.store import parquet

    its = NightsWithStates(tmp_path)
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(parquet, "reader", its.reader)
    monkeypatch.setattr(parquet, "read", lambda *_: None)
    monkeypatch.setattr(audit, "judge", its.judge)
    return its


def test_a_day_begins_with_the_state_of_the_one_before(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04", "2026-10-08T04")
    nights.audit(DAY)
    assert nights.began == {str(DAY): None}
    assert WARM_UP in (nights.out / "report.md").read_text()
    nights.audit(DAY.after)
    assert (nights.began[str(DAY.after)], nights.read[str(DAY.after)]) == (
        str(DAY),
        DAY.after.begin_us,
    )
    report = (nights.out / "report.md").read_text()
    assert f"The judgement began with the state at the end of {DAY}." in report
    assert "warm-up" not in report
    # A day that nobody asked for is read as a warm-up.
    last = DAY.after.after.after
    nights.audit(last)
    assert (nights.began[str(last)], nights.read[str(last)]) == (
        str(DAY.after),
        DAY.after.end_us,
    )
    assert "2026-10-07 was read as a warm-up" in (nights.out / "report.md").read_text()
    for date, began in (("2026-10-12", "2026-10-08"), ("2026-10-17", None)):
        nights.audit(Day.parse(date))
        assert nights.began[date] == began


def test_a_day_that_is_not_over_has_no_end(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-05T04")
    nights.audit(Day.parse("today"))
    assert nights.days() == []


def spoiled(nights: Nights, date: str) -> Path:
    """A compressed segment of a date that has a wrong byte, so that none of it counts."""
    packed = bytearray(gzip.compress(b"2026-10-04T05", mtime=0))
    packed[-6] ^= 1
    path = nights.log / f"date={date}" / "spoiled.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return path


@pytest.mark.parametrize("date", ["2026-10-01", "2026-10-04", "2026-10-05"])
def test_a_day_has_no_state_while_a_damaged_segment_may_belong_to_it(
    nights: NightsWithStates, date: str
) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04", "2026-10-07T04")
    path = spoiled(nights, date)
    for day in (DAY, DAY.after, DAY.after.after):
        assert nights.audit(day) == 2
        assert nights.began[str(day)] is None
        report = (nights.out / "report.md").read_text()
        assert f"Not read to the end: `date={date}/spoiled.jsonl.gz` (damaged" in report
    assert nights.days() == []
    # The original is put back.
    path.unlink()
    path.with_suffix("").write_text("2026-10-04T05")
    assert nights.audit(DAY.after) == 0
    assert str(DAY) in nights.judged
    assert nights.began[str(DAY.after)] == str(DAY)


def test_a_damaged_segment_that_comes_late_is_named_behind_a_state(
    nights: NightsWithStates,
) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04", "2026-10-07T04")
    assert nights.audit(DAY) == 0
    path = spoiled(nights, str(DAY))
    for day in (DAY.after, DAY.after.after):
        assert nights.audit(day) == 2
        report = (nights.out / "report.md").read_text()
        assert f"Not read to the end: `date={DAY}/spoiled.jsonl.gz` (damaged" in report
    assert nights.days() == [f"date={DAY}"]
    path.unlink()
    path.with_suffix("").write_text("2026-10-05T05")
    assert nights.audit(DAY.after.after) == 0
    assert nights.days() == [f"date={it}" for it in (DAY, DAY.after, DAY.after.after)]


def test_a_damaged_segment_of_a_later_day_is_nothing_to_a_day(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04")
    spoiled(nights, "2026-10-07")
    assert nights.audit(DAY) == 0
    assert nights.days() == [f"date={DAY}"]


def test_a_segment_that_is_damaged_after_it_was_taken_hides_nothing(
    nights: NightsWithStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.records import segments

    written = nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04")
    written.parent.rename(nights.log / f"date={DAY}")
    assert nights.audit(DAY) == 0
    listed = segments.list_segments

    def unreadable(*arguments: Any) -> segments.Listing:
        damaged = {f"date={DAY}/a.jsonl": "Input/output error"}
        return replace(listed(*arguments), closed=(), damaged=damaged)

    monkeypatch.setattr(segments, "list_segments", unreadable)
    assert nights.audit(DAY.after) == 0
    assert nights.days() == [f"date={DAY}", f"date={DAY.after}"]


def test_late_segments_make_states_anew(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04", "2026-10-07T04")
    for day in (DAY, DAY.after):
        nights.audit(day)
    nights.write("b", "2026-10-05T05")
    nights.audit(DAY.after.after)
    # The day itself, and the one of which it is the day before, with its new state.
    assert nights.judged == ["2026-10-05", "2026-10-06", "2026-10-07"]
    assert nights.began == {
        "2026-10-05": None,
        "2026-10-06": "2026-10-05",
        "2026-10-07": "2026-10-06",
    }
    takes = [json.loads(it.read_text())["take"] for it in nights.states.glob("*/about.json")]
    assert takes == [2, 2, 2]


def test_a_state_that_lacks_segments_is_passed_over(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04", "2026-10-07T04")
    for day in (DAY, DAY.after, DAY.after.after):
        nights.audit(day)
    nights.write("b", "2026-10-05T05")
    nights.audit(DAY.after.after.after)
    # The 7th is not judged anew; so it is read once more.
    assert nights.began["2026-10-08"] == "2026-10-06"
    assert nights.read["2026-10-08"] == DAY.after.end_us


def test_with_a_state_the_records_before_it_may_go(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04")
    nights.audit(DAY)
    store = Store(nights.out / "store")
    store.prune(DAY.end_us)
    assert nights.audit(DAY.after) == 0
    assert nights.began[str(DAY.after)] == str(DAY)
    # Of the day before nothing is known.
    assert nights.audit(DAY) == 2
    # What comes late then is not in the state, which is said.
    nights.write("b", "2026-10-05T05")
    nights.audit(DAY.after)
    report = (nights.out / "report.md").read_text()
    assert (
        "Segments that came later, and are not in this state: `date=2026-11-30/b.jsonl`" in report
    )
    assert "The day is not judged anew" in report


def test_a_state_is_there_whole_or_not_at_all(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-05T04", "2026-10-06T04")
    nights.dies = True
    assert nights.audit(DAY) == 2
    assert nights.days() == []
    nights.dies = False
    nights.audit(DAY.after)
    assert nights.began[str(DAY.after)] is None
    assert nights.days() == ["date=2026-10-06"]
    facts = nights.states / "date=2026-10-06" / "facts"
    assert facts.read_text() == "of 2026-10-06"


def test_a_state_outlives_an_audit_that_dies_behind_it(
    nights: NightsWithStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs import day_audit

    nights.write("a", "2026-10-05T04", "2026-10-06T04")
    with monkeypatch.context() as broken:
        broken.setattr(day_audit, "summarize", lambda *_, **__: 1 / 0)
        assert nights.audit(DAY) == 2
    assert nights.days() == ["date=2026-10-05"]
    nights.audit(DAY)
    nights.audit(DAY.after)
    assert nights.began == {str(DAY): None, str(DAY.after): str(DAY)}


def test_a_state_of_another_version_is_made_anew(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04", "2026-10-06T04")
    nights.audit(DAY)
    about = nights.states / f"date={DAY}" / "about.json"
    about.write_text(about.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    nights.audit(DAY.after)
    assert nights.began[str(DAY.after)] is None
    about.write_text("{")
    assert nights.audit(DAY.after) == 2


def test_old_states_are_deleted(tmp_path: Path) -> None:
    states, store = States(tmp_path / "states"), Store(tmp_path / "store")
    day = DAY
    for _ in range(KEPT + 2):
        staged = states.stage(0)
        staged.finish(day, day.end_us)
        states.keep(staged)
        day = day.after
    kept = [it.day for it in states.before(day)]
    assert (len(kept), kept[0]) == (KEPT, day.before)
    state = choose(states, store, day)
    assert state is not None
    assert state.day == day.before
    assert choose(states, store, DAY) is None


def test_records_that_are_gone(nights: NightsWithStates) -> None:
    nights.write("a", "2026-10-04T04", "2026-10-05T04")
    nights.audit(DAY)
    store = Store(nights.out / "store")
    store.prune(DAY.begin_us)
    with pytest.raises(DeletedError, match="2026-10-04T04"):
        choose(States(nights.out / "none"), store, DAY)
