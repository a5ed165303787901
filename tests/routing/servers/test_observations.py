"""What the primary had at past moments: the oldest state within a bound, and how old a state is."""

import gc
import tracemalloc
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.servers import observations as module
from routing.servers.observations import Observation, Observations, Staleness

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"


def first(count: int) -> GtidSet:
    """The first `count` transactions."""
    return GtidSet.parse(f"{U}:1-{count}") if count else EMPTY


@pytest.fixture
def observations() -> Observations:
    found = Observations()
    for moment in (10.0, 11.0, 12.0):
        found.add(moment, first(int(moment)))
    return found


@pytest.mark.parametrize(
    ("moment", "count"),
    [(0.0, 10), (10.0, 10), (10.5, 11), (11.0, 11), (11.1, 12), (12.0, 12)],
)
def test_the_oldest_within_the_bound(observations: Observations, moment: float, count: int) -> None:
    assert observations.since(moment) == first(count)


def test_an_observation_beyond_the_bound_is_none(observations: Observations) -> None:
    assert observations.since(12.5) is None
    assert Observations().since(0.0) is None


def test_an_answer_that_was_overtaken_is_not_kept(observations: Observations) -> None:
    observations.add(11.5, first(11))
    assert observations.since(11.5) == first(12)


def test_two_questions_of_one_moment(observations: Observations) -> None:
    observations.add(12.0, first(13))
    assert observations.since(12.0) == first(12)


def test_another_primary_begins_anew(observations: Observations) -> None:
    observations.clear()
    assert observations.since(0.0) is None
    assert observations.age(EMPTY, 20.0) is None
    observations.add(5.0, first(1))
    assert observations.since(0.0) == first(1)


@pytest.mark.parametrize(("count", "age"), [(0, 10.0), (9, 10.0), (10, 9.0), (11, 8.0), (12, 0.0)])
def test_how_old_a_state_is(observations: Observations, count: int, age: float) -> None:
    """The age is how long ago the primary was first seen to have something that the state lacks."""
    assert observations.age(first(count), 20.0) == age


def test_a_state_beyond_all_that_was_seen_is_not_old(observations: Observations) -> None:
    assert observations.age(first(99), 20.0) == 0


def test_what_is_kept_is_bounded() -> None:
    observations = Observations()
    for moment in range(5000):
        observations.add(float(moment), first(moment))
    assert observations.since(0.0) == first(5000 - 3600)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=30),
    st.integers(0, 40),
    st.integers(0, 10),
)
def test_a_bound_is_kept(commits: list[tuple[int, int]], now: int, bound: int) -> None:
    """A server that has what is required has all that was committed longer ago than the bound."""
    times = sorted(moment for moment, _ in commits)

    def executed(moment: int) -> GtidSet:
        return first(bisect_right(times, moment))

    # Each commit is followed by a question; the answers come in another order.
    answered = sorted((at + delay, at) for at, delay in commits if at + delay <= now)
    observations = Observations()
    kept: list[int] = []
    for _, asked_at in answered:
        observations.add(float(asked_at), executed(asked_at))
        if not kept or asked_at >= kept[-1]:
            kept.append(asked_at)
    within = [asked_at for asked_at in kept if asked_at >= now - bound]
    required = observations.since(float(now - bound))
    assert required == (executed(within[0]) if within else None)
    if required is not None:
        assert executed(now - bound - 1) <= required


def looked(*logged: bool) -> Observations:
    """Observations at 10 s, 11 s …, all of the same state; `logged` says which are in the log."""
    found = Observations()
    for number, is_logged in enumerate(logged):
        found.take(Observation(10.0 + number, first(5), logged=is_logged))
    return found


def test_what_a_read_relies_on_is_logged_once() -> None:
    found = looked(False, False, False)
    proof = found.to_log(10.5, first(5))
    assert proof is not None
    assert proof.asked_at == 12.0, "the newest that says the same serves longest"
    assert found.to_log(10.5, first(5)) is None
    assert found.to_log(11.9, first(5)) is None
    found.take(Observation(13.0, first(5), logged=False))
    assert found.to_log(11.9, first(5)) is None
    proof = found.to_log(12.1, first(5))
    assert proof is not None
    assert proof.asked_at == 13.0


def test_what_is_logged_already_will_do() -> None:
    found = looked(False, True, False)
    assert found.to_log(10.0, first(5)) is None
    assert found.to_log(11.0, first(5)) is None
    assert found.to_log(11.1, first(5)) is not None


def test_what_says_more_than_the_read_relies_on_will_not() -> None:
    found = looked(False)
    found.take(Observation(11.0, first(6)))
    proof = found.to_log(10.0, first(5))
    assert proof is not None
    assert proof.asked_at == 10.0


def test_nothing_is_logged_of_an_earlier_primary() -> None:
    found = looked(True)
    assert found.to_log(10.0, first(5)) is None
    found.clear()
    found.take(Observation(11.0, first(5), logged=False))
    assert found.to_log(10.0, first(5)) is not None


def gaps(count: int, until: int) -> str:
    """Text of so many intervals; the last ends at `until`."""
    return f"{U}:{':'.join(f'{3 * k}-{3 * k + 1}' for k in range(1, count))}:{3 * count}-{until}"


@pytest.mark.not_fast
@pytest.mark.not_plain
@pytest.mark.parametrize(("count", "times"), [(10_000, 300), (100_000, 30)])
def test_an_observation_takes_the_memory_of_what_is_new(count: int, times: int) -> None:
    texts = [gaps(count, 3 * count + k).encode() for k in range(1, 4)]
    observations = Observations()
    state = GtidSet.parse(texts[0])
    tracemalloc.start()
    try:
        for k in range(times):
            if k % (times // 3) == 0:
                state = GtidSet.parse(texts[k * 3 // times], state)  # others are as before
            observations.add(float(k), state)
            state |= GtidSet({U: [(10**12 + k, 10**12 + k + 1)]})
            observations.add(float(k), state)
        found = observations.since(times / 2)
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert found is not None
    assert observations.since(0.0) is not None
    whole = 8 * 2 * count + len(texts[0])  # of which there may be the newest, and the one asked for
    assert took < 3 * whole + 1000 * 2 * times


@pytest.mark.not_fast
@pytest.mark.not_plain
def test_states_that_have_nothing_in_common_are_bounded_by_bytes() -> None:
    observations = Observations()
    intervals = [[(3 * k + n, 3 * k + n + 1) for k in range(1, 5001)] for n in range(3)]
    tracemalloc.start()
    try:
        for moment in range(80):  # so many are more than the bound
            state = GtidSet({U: intervals[moment % 3]})
            observations.add(float(moment), state)
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert took < 10 << 20
    assert observations.memory <= 4 << 20
    assert observations.since(79.0) == state
    assert observations.since(0.0) is not None


STATES = st.lists(
    st.tuples(st.sets(st.integers(1, 12), max_size=12), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=12,
)


@given(STATES, st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=8))
def test_states_are_found_again(
    states: list[tuple[set[int], bool, int]], questions: list[tuple[int, bool]]
) -> None:
    """Whatever was asked for before, and whether states grow or lose something."""
    observations = Observations()
    kept: list[tuple[float, GtidSet]] = []
    at = 0.0
    for numbers, grows, step in states:
        at += step
        state = GtidSet({U: [(n, n + 1) for n in numbers]})
        if grows and kept:
            state |= kept[-1][1]
        observations.add(at, state)
        kept.append((at, state))
        for moment, lags in questions:
            within = [executed for asked_at, executed in kept if asked_at >= moment]
            assert observations.since(float(moment)) == (within[0] if within else None)
            applied = GtidSet({U: [(1, moment + 1)]}) if lags and moment else EMPTY
            expected = Staleness(EMPTY, 0.0, known=True)
            for number, (asked_at, executed) in reversed(list(enumerate(kept))):
                if executed <= applied:
                    break
                expected = Staleness(executed - applied, at - asked_at, known=number > 0)
            assert observations.staleness(applied) == expected
            age = expected.least + 20.0 - at if expected.missing else 0.0
            assert observations.age(applied, 20.0) == age


def test_what_was_found_is_not_carried_past_what_was_given_up() -> None:
    observations = Observations()
    for moment in range(10):
        observations.add(float(moment), first(moment + 1))
    assert observations.since(1.0) == first(2)
    for moment in range(10, 3620):
        observations.add(float(moment), first(moment + 1))
    assert observations.since(25.0) == first(26)


class WholeStates:
    """The same, as plainly as can be: every observation is kept whole, and each question a loop."""

    def __init__(self) -> None:
        self.kept: list[Observation] = []
        self.in_log: Observation | None = None

    def take(self, observation: Observation) -> None:
        if not self.kept or observation.asked_at >= self.kept[-1].asked_at:
            self.kept = [*self.kept, observation][-module._MOST :]

    def since(self, moment: float) -> GtidSet | None:
        return next((o.executed for o in self.kept if o.asked_at >= moment), None)

    def staleness(self, applied: GtidSet) -> Staleness | None:
        newer, oldest = Staleness(EMPTY, 0.0, known=True), self.kept and self.kept[0]
        for found in reversed(self.kept):
            if found.executed <= applied:
                break
            least = self.kept[-1].asked_at - found.asked_at
            newer = Staleness(found.executed - applied, least, known=found is not oldest)
        return newer if self.kept else None

    def is_logged(self, moment: float, required: GtidSet) -> bool:
        record = self.in_log
        return record is not None and record.asked_at >= moment and record.executed <= required

    def to_log(self, moment: float, required: GtidSet) -> Observation | None:
        if self.is_logged(moment, required):
            return None
        self.in_log = None
        for found in self.kept:
            if found.asked_at < moment:
                continue
            if not found.executed <= required:
                break
            self.in_log = found
            if found.logged:
                break
        if self.in_log is None or self.in_log.logged:
            return None
        self.in_log.logged = True
        return self.in_log


NUMBERS = st.sets(st.integers(1, 9), max_size=9)


def set_of(numbers: set[int], others: set[int]) -> GtidSet:
    return GtidSet({U: [(n, n + 1) for n in numbers], V: [(n, n + 1) for n in others]})


@st.composite
def answers(draw: st.DrawFn) -> Iterator[Observation]:
    """What a primary answers, one after the other: mostly more, or the same, than before."""
    found: list[Observation] = []
    executed, asked_at = EMPTY, 0
    for number in range(draw(st.integers(1, 14))):
        change = draw(st.sampled_from(("more", "same", "other")))
        if change != "same":
            state = set_of(draw(NUMBERS), draw(NUMBERS))
            executed = executed | state if change == "more" else state
        asked_at += draw(st.integers(-1, 2))
        found.append(
            Observation(
                *(float(asked_at), executed, number % 3, 10 * number, 10 * number + 1),
                logged=draw(st.booleans()),
            )
        )
    return iter(found)


@given(answers(), st.lists(st.tuples(st.integers(-1, 15), NUMBERS, NUMBERS), max_size=6))
def test_columns_say_what_whole_states_say(
    answers: Iterator[Observation], questions: list[tuple[int, set[int], set[int]]]
) -> None:
    """With a bound that is passed, any changes, and questions in any order."""
    most, module._MOST = module._MOST, 6  # type: ignore[misc]
    try:
        found, model = Observations(), WholeStates()
        for answer in answers:
            found.take(replace(answer))
            model.take(answer)
            for moment, numbers, others in questions:
                state = set_of(numbers, others)
                assert found.since(float(moment)) == model.since(float(moment))
                assert found.staleness(state) == model.staleness(state)
                for required in (state, model.since(float(moment)) or EMPTY):
                    logged = model.is_logged(moment, required)
                    assert found.is_logged(moment, required) is logged
                    record, expected = (o.to_log(moment, required) for o in (found, model))
                    assert record is None if expected is None else same(record, expected)
    finally:
        module._MOST = most  # type: ignore[misc]


def same(found: Observation | None, other: Observation) -> bool:
    fields = ("asked_at", "executed", "epoch", "asked_us", "answered_us", "logged")
    return all(getattr(found, field) == getattr(other, field) for field in fields)


def test_an_hour_leaves_no_objects_behind() -> None:
    """Each would keep 1 MB from being given back, of which it may be the only thing that is left.

    One interval is added at each look but for each tenth, where nothing is.
    """
    found = Observations()
    found.add(0.0, first(1))
    tracemalloc.start()
    try:
        for second in range(1, 3600):
            state = GtidSet.parse(f"{U}:1-{1000 + second - (second % 10 == 0)}")
            found.add(float(second), state)
        gc.collect()
        statistics = tracemalloc.take_snapshot().statistics("filename")
    finally:
        tracemalloc.stop()
    assert sum(statistic.count for statistic in statistics) < 1000
    assert sum(statistic.size for statistic in statistics) < 400_000
    assert found.since(30.0) == first(1029)
