"""Days that begin with the state of the day before are judged as if the whole log were read."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.arrays import Numbers
from spark_jobs.columns import piece
from spark_jobs.state import facts
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs.lapses import plant
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.simulation import Simulation
from tests.spark_jobs.small_histories import ROUGH, Step, play, steps
from tests.spark_jobs.states import Night, nights
from tests.spark_jobs.without_spark import Audited, Key, _us, audit

pytestmark = pytest.mark.not_fast

FEW = (4, 6, 7)
"""A violation and missing records; nothing; a change of the primary, a violation, each lapse."""
MANY = range(400)
DAYS = 4
TAIL_US = 6_000
EARLY = (Verdict.NOT_JUDGED, Finding.MISSING_RECORDS, None)
PRIMARY = (Verdict.OK, Finding.PRIMARY, None)

seeds = pytest.mark.parametrize(
    "seeds",
    [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(14_400)])],
    ids=["few", "many"],
)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes one fact lies in several chunks."""
    monkeypatch.setattr(piece, "ROWS", 37)


def simulated(seed: int, steps: int = 600) -> list[Record]:
    """A log with failovers, lost and unnamed writes, violations, lapses, or missing records."""
    random = Random(seed)
    simulation = Simulation(seed, proxies=1 + seed % 2, sessions=9)
    simulation.run(steps, failover=seed % 4 == 3)
    runs = simulation.finish()
    if seed % 3 == 1:
        simulation.spoil(seed % 5)
    if seed % 5 == 2:
        for lapse in Lapse:
            plant(lapse, runs, random, 1)
    if seed % 6 == 4:
        for run in runs:
            run.records[:] = [it for it in run.records if random.randrange(60)]
    return [record for run in runs for record in run.records]


def days_of(log: list[Record], count: int = DAYS) -> list[int]:
    """When each begins, and when the last one ends."""
    begin = min(_us(it, "arrived_us") for it in log)
    end = max(_us(it, "arrived_us") for it in log) + 1
    return [begin + (end - begin) * number // count for number in range(count)] + [end]


def whole(log: list[Record], night: Night, after_us: int) -> Audited:
    """What is said of a day if all of the log up to then is read."""
    until_us = night.end_us + after_us
    its = [it for it in log if _us(it, "arrived_us") < until_us]
    return audit(its, 0, (night.begin_us, night.end_us))


CALM = [it for it in ROUGH if it != "fail over"]
"""Changes of the primary by the second are left out: a state is for days."""


def asking_before(log: list[Record], since_us: int) -> set[Key]:
    """The reads whose bound reaches back behind a moment."""
    return {
        (it["proxy"], it["worker"], it["run"], it["seq"])
        for it in log
        if it["bound_us"] and _us(it, "arrived_us") - _us(it, "bound_us") < since_us
    }


def compare(
    log: list[Record],
    folder: Path,
    days: list[int],
    after_us: int,
    tail_us: int = TAIL_US,
    *,
    is_random: bool = False,
) -> list[Night]:
    """Judge each day both ways; columns say the same of what they settle."""
    every = list(nights(log, days, folder, tail_us, after_us))
    since_us = 0
    for night in every:
        right, said = whole(log, night, after_us), night.by_judge
        early, since_us = asking_before(log, since_us), night.state.until_us
        assert right.error_us == said.error_us == 0
        assert said.reads.keys() == right.reads.keys()
        for key, one in right.reads.items():
            # It has been asked since then, though there was no need to note when.
            confirmed = one.finding == Finding.PRIMARY_CHANGED and night.begin_us > days[1]
            assert (
                said.reads[key][:3] == one[:3]
                or (confirmed and said.reads[key][:3] == PRIMARY)
                or (key in early and said.reads[key][:3] == EARLY)
            )
        assert sorted(said.lost) == sorted(right.lost)
        # What answered before all that is known in its order is not asked about.
        other = {Lapse.LEFT, Lapse.CONTRADICTED} if is_random else {Lapse.LEFT}
        left = {key for key, lapse in right.lapses.items() if lapse in other}
        # Nothing is known of what a server had before the tail, so its first loss there counts
        # among those that are too many (`false_proofs`).
        more = dict(said.lapses.items() - right.lapses.items())
        # Of a read that was a violation it may be told, too, that the primary was not asked.
        alarms = {key for key, lapse in more.items() if lapse != Lapse.CONTRADICTED}
        assert all(right.reads[key].verdict == Verdict.VIOLATION for key in alarms)
        assert is_random or not more
        assert right.lapses.keys() - said.lapses.keys() <= left | early
        for key, finding in night.by_columns.reads.items():
            verdict = Verdict.NO_PROMISE if finding == Finding.BEST_EFFORT else Verdict.OK
            assert (said.reads[key].verdict, said.reads[key].finding) == (verdict, finding)
        assert night.by_columns.reads.keys() | night.by_columns.left == said.reads.keys()
    return every


@seeds
def test_days_of_simulated_traffic(seeds: Sequence[int], tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in seeds:
        log = simulated(seed)
        if audit(log).error_us:
            continue
        days = days_of(log)
        after_us = (days[1] - days[0]) // 8
        for night in compare(log, tmp_path / str(seed), days, after_us)[1:]:
            found.update(said.verdict for said in night.by_judge.reads.values())
            found["lost"] += len(night.by_judge.lost)
            found["lapses"] += len(night.by_judge.lapses)
            found["left"] += len(night.by_columns.left)
            found["condensed"] += night.state.found.num_rows > 0
    assert found["condensed"] > len(seeds)
    assert min(found[it] for it in (Verdict.OK, Verdict.VIOLATION, Verdict.NOT_JUDGED)) > 0
    assert min(found["lost"], found["lapses"]) > 0
    assert found["left"] < found[Verdict.OK] / 2


# Stories: what happens on the first day, and a read on the fourth

P = UUID["primary"]
DAY_US = 1_000_000
SHORT_US = 100_000
SEES = {"level": "MONOTONIC_READS"}


class Story(NamedTuple):
    """What happens first and last, and what is said of the last read."""

    first: Callable[[Run], object]
    last: Callable[[Run], object]
    finding: str
    missing: str | None = None

    def log(self) -> tuple[list[Record], list[int]]:
        """Its records, and its days; on all of them the primary is asked, and somebody writes."""
        run = Run()
        begin = run.clock.now
        run.probe("primary", f"{P}:1-5")
        run.probe("r1", f"{P}:1-5")
        self.first(run)
        for day in range(1, 4):
            run.clock.now = begin + day * DAY_US + 1
            run.probe("primary", f"{P}:1-{9 + day}")
            run.write(8, f"{P}:{10 + day}", user="other")
        self.last(run)
        return run.records, [begin + day * DAY_US for day in range(5)]


def write(run: Run, own: str = f"{P}:6") -> object:
    return run.write(7, own)


def known(run: Run, claim: str = f"{P}:1-5") -> object:
    return run.known(7, "r1", claim)


def sees(run: Run) -> None:
    run.waited(7, "r1", f"{P}:1-8", **SEES)


STORIES = {
    "written": Story(write, known, "known set too small", f"{P}:6"),
    "written by its user": Story(
        write,
        lambda run: run.known(9, "r1", f"{P}:1-5", scope="user"),
        "known set too small",
        f"{P}:6",
    ),
    "written by anybody": Story(
        write,
        lambda run: run.known(9, "r1", f"{P}:1-5:11-13", level="STRONG"),
        "known set too small",
        f"{P}:6-10",
    ),
    "no set": Story(lambda run: write(run, "no set"), known, "malformed own set"),
    "seen on the primary": Story(
        lambda run: run.read(7, "primary", "primary", observed=f"{P}:1-9", **SEES),
        sees,
        "waited set too small",
        f"{P}:9",
    ),
    "seen on another replica": Story(
        lambda run: run.waited(7, "r2", f"{P}:1-9", **SEES), sees, "waited set too small", f"{P}:9"
    ),
    "seen on the same replica": Story(
        lambda run: run.waited(7, "r1", f"{P}:1-9", **SEES), sees, "waited"
    ),
    "shown": Story(
        lambda run: (write(run), run.probe("r1", f"{P}:1-6")),
        lambda run: known(run, f"{P}:1-6"),
        "known",
    ),
    "unnamed": Story(lambda run: run.unnamed(7), known, "unnamed write"),
    "unnamed, and made up for": Story(
        lambda run: run.unnamed(7),
        lambda run: (run.probe("r1", f"{P}:1-10"), known(run)),
        "nothing written",
    ),
    "statements are missing": Story(
        lambda run: (run.gap(7), write(run, "")), known, "missing records"
    ),
    "records are missing": Story(
        lambda run: run.gap(9),
        lambda run: run.waited(6, "r1", f"{P}:1-5:11-13", scope="proxy"),
        "missing records",
    ),
    "nothing is missing": Story(
        write, lambda run: run.waited(9, "r1", f"{P}:1-13", scope="proxy"), "waited"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_days_ago_counts(tmp_path: Path, name: str) -> None:
    story = STORIES[name]
    log, days = story.log()
    *_, last = compare(log, tmp_path, days, 0, SHORT_US)
    (said,) = last.by_judge.reads.values()
    assert (said.finding, said.missing) == (story.finding, story.missing)


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (facts.WROTE, "written"),
        (facts.UNREAD, "no set"),
        (facts.SAW, "seen on the primary"),
        (facts.SHOWED, "seen on another replica"),
        (facts.HAD, "shown"),
        (facts.UNNAMED, "unnamed"),
        (facts.ASKED, "unnamed, and made up for"),
        (facts.SKIPPED, "statements are missing"),
        (facts.MISSED, "records are missing"),
        (facts.SPOKE, "seen on the same replica"),
        (facts.RAN, "nothing is missing"),
    ],
)
def test_each_kind_of_fact_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: int, name: str
) -> None:
    merged = facts.merged

    def forget(found: pa.Table, *more: Numbers) -> pa.Table:
        its = merged(found, *more)
        return its.filter(pa.array(facts.number(its, "what") != what))

    monkeypatch.setattr(facts, "merged", forget)
    log, days = STORIES[name].log()
    *_, last = nights(log, days, tmp_path, SHORT_US)
    (said,) = last.by_judge.reads.values()
    assert (said.finding, said.missing) != (STORIES[name].finding, STORIES[name].missing)


def test_a_snapshot_older_than_what_is_known_in_order(tmp_path: Path) -> None:
    run = Run()
    begin = run.clock.now
    run.probe("r1", f"{P}:1-5")
    write(run)
    taken_us = run.clock.now
    run.clock.now = begin + DAY_US + 1
    run.known(9, "r1", f"{P}:1-5", level="STRONG", snapshot_us=taken_us)
    days = [begin, begin + DAY_US, begin + 2 * DAY_US]
    *_, last = nights(run.records, days, tmp_path, SHORT_US)
    assert [said.finding for said in last.by_judge.reads.values()] == ["missing records"]
    assert not last.by_judge.lapses
    assert last.by_columns.left == last.by_judge.reads.keys()


def test_a_session_that_was_silent_for_long_is_over(tmp_path: Path) -> None:
    story = STORIES["written by its user"]
    log, days = story._replace(last=lambda run: (story.last(run), known(run))).log()
    every = list(nights(log, days, tmp_path, SHORT_US, idle_us=DAY_US))
    assert [sessions(night) for night in every] == [{7}, {8}, {8}, {7, 8, 9}]
    its, own = every[-1].by_judge.reads.values()
    # Of its own statements nobody can tell; what its user wrote is not forgotten.
    assert {its.finding, own.finding} == {story.finding, "missing records"}


def sessions(night: Night) -> set[int]:
    its = night.state.found
    spoke = facts.number(its, "what") == facts.SPOKE
    every = {*facts.number(its, "session")[spoke].tolist()}
    return every | {_us(it, "session") for it in night.state.tail if it["kind"] == "statement"}


def test_runs_in_whose_place_there_are_others_leave_what_was_written(tmp_path: Path) -> None:
    first = Run("a1")
    begin = first.clock.now
    first.probe("primary", f"{P}:1-5")
    write(first)
    first.probe("r1", f"{P}:1-5")
    log = [*first.records]
    for day in range(1, 4):
        run = Run(f"b{day}", clock=first.clock)
        run.clock.now = begin + day * DAY_US + 1
        run.probe("primary", f"{P}:1-{9 + day}")
        write(run, f"{P}:{10 + day}")
        run.waited(9, "r1", f"{P}:1-5:11", scope="user")
        log += run.records
    days = [begin + day * DAY_US for day in range(5)]
    *_, third, last = compare(log, tmp_path, days, 0, SHORT_US)
    assert [said.missing for said in last.by_judge.reads.values()] == [f"{P}:6:12-13"]
    assert {*third.state.found.column("run").to_pylist()} == {"", "b2"}


def test_a_state_does_not_grow_with_the_days(tmp_path: Path) -> None:
    log = simulated(5, 900)
    sizes = [
        (night.state.found.num_rows, night.state.found.nbytes)
        for night in nights(log, days_of(log, 8), tmp_path, 2_000)
    ]
    assert sizes[-1][0] < 1.5 * sizes[2][0]
    assert sizes[-1][1] < 2 * sizes[2][1]


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(plan=st.lists(steps(CALM), min_size=10, max_size=40), tail_us=st.integers(13, 25))
def test_days_of_small_histories(
    tmp_path_factory: pytest.TempPathFactory, plan: list[Step], tail_us: int
) -> None:
    runs = [Run("a1"), Run("a2", 1)]
    play(plan, *runs)
    log = [record for run in runs for record in run.records]
    if log and not audit(log).error_us:
        days = days_of(log, 3)
        place = tmp_path_factory.mktemp("log")
        compare(log, place, days, days[1] - days[0], tail_us, is_random=True)
