"""Days that begin with the state of the day before are judged as if the whole log were read."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyspark")

from spark_jobs.state import facts
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs.lapses import troubled
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.small_histories import LEVELS, MOST, NOTHING, ROUGH, SCOPES, Step, play
from tests.spark_jobs.states import Logs, Night, State, apart, named, nights, number_of
from tests.spark_jobs.without_spark import Audited, Key, _us, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(900)]

FEW = (4, 7)
"""A violation and missing records; a change of the primary, a violation, and each lapse."""
MANY = range(60)
DAYS = 3
"""The last one begins with a state that was made with a state."""
TAIL_US = 6_000
EARLY = (Verdict.NOT_JUDGED, Finding.MISSING_RECORDS, None)
PRIMARY = (Verdict.OK, Finding.PRIMARY, None)

seeds = pytest.mark.parametrize(
    "seeds",
    [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(14_400)])],
    ids=["few", "many"],
)


def simulated(seed: int, steps: int = 600) -> list[Record]:
    """A log with failovers, lost and unnamed writes, violations, lapses, or missing records."""
    runs = troubled(seed, Random(seed), steps)
    return [record for run in runs for record in run.records]


def days_of(logs: Logs, count: int = DAYS) -> list[int]:
    """When each day begins, and when the last one ends."""
    arrived = [_us(it, "arrived_us") for log in logs.values() for it in log]
    begin, end = min(arrived), max(arrived) + 1
    return [begin + (end - begin) * number // count for number in range(count)] + [end]


def whole(log: Iterable[Record], night: Night, after_us: int) -> Audited:
    """What is said of a day if all of the log up to then is read."""
    until_us = night.end_us + after_us
    its = [it for it in log if _us(it, "arrived_us") < until_us]
    return audit(its, 0, (night.begin_us, night.end_us))


CALM = [it for it in ROUGH if it != "fail over"]
"""Changes of the primary by the second are left out: a state is for days."""


def asking_before(log: Iterable[Record], since_us: int) -> set[Key]:
    """The reads whose bound reaches back behind a moment."""
    return {
        (it["proxy"], it["worker"], it["run"], it["seq"])
        for it in log
        if it["bound_us"] and _us(it, "arrived_us") - _us(it, "bound_us") < since_us
    }


def compare(
    spark: "SparkSession",
    logs: Logs,
    days: list[int],
    after_us: int,
    tail_us: int = TAIL_US,
    *,
    is_random: bool = False,
    unlike: int | None = None,
) -> list[Night]:
    """Judge each day of each log both ways; the log `unlike` is judged otherwise with a state."""
    every = list(nights(spark, logs, days, tail_us, after_us))
    since_us = 0
    for night in every:
        for number in logs.keys() - {unlike}:
            log = logs[number]
            right = whole(log, night, after_us)
            early = asking_before(log, since_us)
            _agree(night.said[number], right, early, is_random, night.begin_us > days[1])
        since_us = night.state.until_us
    return every


def _agree(said: Audited, right: Audited, early: set[Key], is_random: bool, is_later: bool) -> None:
    """Compare what is said with a state and without.

    Args:
        said: with a state.
        right: without.
        early: reads whose bound reaches back behind what is known in its order.
        is_random: whether the history is a random one.
        is_later: whether the state before began with a state.
    """
    assert right.error_us == said.error_us == 0
    assert said.reads.keys() == right.reads.keys()
    for key, one in right.reads.items():
        # It has been asked since then, though there was no need to note when.
        confirmed = one.finding == Finding.PRIMARY_CHANGED and is_later
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


@seeds
def test_days_of_simulated_traffic(spark: "SparkSession", seeds: Sequence[int]) -> None:
    found: Counter[str] = Counter()
    logs = {seed: apart(simulated(seed), seed) for seed in seeds}
    logs = {seed: log for seed, log in logs.items() if not audit(log).error_us}
    days = days_of(logs)
    for night in compare(spark, logs, days, (days[1] - days[0]) // 8)[1:]:
        for its in night.said.values():
            found.update(said.verdict for said in its.reads.values())
            found["lost"] += len(its.lost)
            found["lapses"] += len(its.lapses)
        found["condensed"] += len(night.state.facts) > 0
    assert found["condensed"] == DAYS - 1
    assert min(found[it] for it in (Verdict.OK, Verdict.VIOLATION, Verdict.NOT_JUDGED)) > 0
    assert min(found["lost"], found["lapses"]) > 0


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

    def log(self) -> list[Record]:
        """Its records; on all of them the primary is asked, and somebody writes."""
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
        return run.records


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


NUMBERS = {name: number for number, name in enumerate(STORIES)}
SNAPSHOT, REPLACED = len(STORIES), len(STORIES) + 1
DAYS_OF_STORIES = [Run().clock.now + day * DAY_US for day in range(5)]


def old_snapshot() -> list[Record]:
    """A read shares a snapshot that is older than what is known in its order."""
    run = Run()
    run.probe("r1", f"{P}:1-5")
    write(run)
    taken_us = run.clock.now
    run.clock.now = DAYS_OF_STORIES[1] + 1
    run.known(9, "r1", f"{P}:1-5", level="STRONG", snapshot_us=taken_us)
    return run.records


def replaced_runs() -> list[Record]:
    """Each day, another run is in the place of the one before."""
    first = Run("a1")
    first.probe("primary", f"{P}:1-5")
    write(first)
    first.probe("r1", f"{P}:1-5")
    log = [*first.records]
    for day in range(1, 4):
        run = Run(f"b{day}", clock=first.clock)
        run.clock.now = DAYS_OF_STORIES[day] + 1
        run.probe("primary", f"{P}:1-{9 + day}")
        write(run, f"{P}:{10 + day}")
        run.waited(9, "r1", f"{P}:1-5:11", scope="user")
        log += run.records
    return log


@pytest.fixture(scope="module")
def told(spark: "SparkSession") -> list[Night]:
    """The nights of all stories."""
    logs = {number: apart(STORIES[name].log(), number) for name, number in NUMBERS.items()}
    logs[SNAPSHOT] = apart(old_snapshot(), SNAPSHOT)
    logs[REPLACED] = apart(replaced_runs(), REPLACED)
    return compare(spark, logs, DAYS_OF_STORIES, 0, SHORT_US, unlike=SNAPSHOT)


def last_of(said: Audited) -> tuple[str, str | None]:
    (read,) = said.reads.values()
    return read.finding, read.missing


def expected(name: str) -> tuple[str, str | None]:
    story = STORIES[name]
    return story.finding, named(story.missing, NUMBERS[name]) if story.missing else None


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_days_ago_counts(told: list[Night], name: str) -> None:
    assert last_of(told[-1].said[NUMBERS[name]]) == expected(name)


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
    spark: "SparkSession", told: list[Night], what: int, name: str
) -> None:
    state, number = told[-1].state, NUMBERS[name]
    left = [row for row in state.facts if row.what != what and number_of(row) == number]
    without = State.of(spark, left, state.tail, state.until_us)
    log = [*state.tail.get(number, []), *story_of_the_last_day(name)]
    said = audit(log, 0, (DAYS_OF_STORIES[3], DAYS_OF_STORIES[4]), without.before(number))
    assert last_of(said) != expected(name)


def story_of_the_last_day(name: str) -> list[Record]:
    log = apart(STORIES[name].log(), NUMBERS[name])
    return [it for it in log if _us(it, "arrived_us") >= DAYS_OF_STORIES[3]]


def test_a_snapshot_older_than_what_is_known_in_order(told: list[Night]) -> None:
    said = told[1].said[SNAPSHOT]
    assert [read.finding for read in said.reads.values()] == ["missing records"]
    assert not said.lapses


def test_runs_in_whose_place_there_are_others_leave_what_was_written(told: list[Night]) -> None:
    reads = told[-1].said[REPLACED].reads
    assert [read.missing for read in reads.values()] == [named(f"{P}:6:12-13", REPLACED)]
    assert {row.run for row in told[-1].state.facts if number_of(row) == REPLACED} == {"", "b2"}


def test_a_session_that_was_silent_for_long_is_over(spark: "SparkSession") -> None:
    story = STORIES["written by its user"]
    log = story._replace(last=lambda run: (story.last(run), known(run))).log()
    logs = {0: apart(log, 0)}
    days = [*DAYS_OF_STORIES[:2], *DAYS_OF_STORIES[3:]]
    every = list(nights(spark, logs, days, SHORT_US, idle_us=DAY_US))
    assert [sessions(night) for night in every[:-1]] == [{7}, {8}]
    its, own = every[-1].said[0].reads.values()
    # Of its own statements nobody can tell; what its user wrote is not forgotten.
    assert {its.finding, own.finding} == {story.finding, "missing records"}


def sessions(night: Night) -> set[int]:
    spoke = {row.session for row in night.state.facts if row.what == facts.SPOKE}
    tail = night.state.tail.get(0, [])
    return spoke | {_us(it, "session") for it in tail if it["kind"] == "statement"}


@pytest.mark.deep
def test_a_state_does_not_grow_with_the_days(spark: "SparkSession") -> None:
    logs = {0: apart(simulated(5, 900), 0)}
    states = [night.state.facts for night in nights(spark, logs, days_of(logs, 6), 2_000)]
    sizes = [(len(rows), sum(len(row.gtids) for row in rows)) for rows in states]
    assert sizes[-1][0] < 1.5 * sizes[1][0]
    assert sizes[-1][1] < 2 * sizes[1][1]


def step(random: Random) -> Step:
    """A step of a small history."""
    front = frozenset(range(1, random.randint(0, MOST) + 1))
    some = frozenset(random.sample(range(1, MOST + 1), random.randint(0, MOST)))
    return Step(
        what=random.choice(CALM),
        session=random.randint(1, 2),
        server=random.choice(("r1", "r2")),
        level=random.choice(LEVELS),
        scope=random.choice(SCOPES),
        after_us=random.randint(0, 4),
        takes_us=random.randint(1, 6),
        bound_us=random.randint(1, 12),
        shown=random.choice((front, some)),
        observed=random.choice((NOTHING, front, some)),
    )


@pytest.mark.deep
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_days_of_small_histories(spark: "SparkSession", first: int) -> None:
    logs = {}
    for seed in range(first, first + 100):
        random = Random(seed)
        runs = [Run("a1"), Run("a2", 1)]
        play([step(random) for _ in range(random.randint(25, 40))], *runs)
        log = apart([record for run in runs for record in run.records], seed)
        if not audit(log).error_us:
            logs[seed] = log
    assert len(logs) > 50
    days = days_of(logs, 3)
    compare(spark, logs, days, days[1] - days[0], 13 + first % 13, is_random=True)
