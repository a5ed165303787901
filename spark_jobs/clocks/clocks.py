"""Finds out from the log alone whether the clocks of its times were right.

There is no clock to compare them with, but three facts bound them:

*An answer with a set that has a GTID came after that GTID's write was sent.* *A set that lacks a
GTID was asked for before that GTID's write, or another set with it, was answered.* Where the two
times are of different clocks, they bound how far one is ahead of the other (`_bounds`). Only
answers of one primary in one incarnation are compared: a later incarnation may have lost
transactions and given their numbers to others.

*Statements are numbered as they end*, so where `ended_us` falls while `seq` rises, a clock was set
back; also where a statement ended before it began. The records after such a step count as having
another clock.

From the bounds, `clock_offsets` finds how far each clock is ahead, and by how much that may be off.
Clocks that nothing contradicts count as agreeing. The workers of a proxy share a clock if they ran
at the same time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.clocks import clock_evidence
from spark_jobs.clocks.clock_offsets import Offsets, solve
from spark_jobs.markdown import span
from spark_jobs.tables.schema import NUMBERED, RUN

_STEPS: Final = 16
"""Steps of one run's clock; with more, its records are taken to be out of order, and none
counts."""

_FALLS: Final = 1024
"""Falls of one run's times that are looked at; one step shows as many falls as statements were in
flight."""

_IN_FLIGHT_US: Final = 1_000_000
"""A statement that began at most so long after the latest time before a step may have been in
flight at the step."""

_TOLD: Final = 6
"""Clocks that the report's sentence names at most; the table has all."""

_BEGUN: Final = ("arrived_us", "dispatched_us")

_Run = tuple[str, int, str]


class Span(NamedTuple):
    """The times and the size of a run.

    Attributes:
        from_us: the earliest end of a record.
        to_us: the latest end of a record.
        records: how many records it has.
    """

    from_us: int
    to_us: int
    records: int


class Step(NamedTuple):
    """A run's clock was set back.

    Attributes:
        after: `seq` of the last statement that ended before the step; 0 if none did.
        seq: `seq` of the first statement that ended after the step.
        from_us: the latest time before the step: the end of the former statement, or the begin of
            the latter.
        to_us: end of the first statement after the step.
    """

    after: int
    seq: int
    from_us: int
    to_us: int


class Fall(NamedTuple):
    """A statement that ended before the one before it did, or before it began.

    Attributes:
        after: `seq` of the statement or proof before it; 0 if there is none.
        seq: its own `seq`.
        last_us: end of the statement or proof before it; 0 if there is none.
        begun_us: when it began.
        ended_us: when it ended.
    """

    after: int
    seq: int
    last_us: int
    begun_us: int
    ended_us: int


class Clock(NamedTuple):
    """CLOCKS without the error: how far a run's clock is ahead from `from_seq` to its next step."""

    proxy: str
    worker: int
    run: str
    from_seq: int
    back_us: int | None
    ahead_us: int


@dataclass(frozen=True, slots=True)
class Clocks:
    """What was found out about the clocks.

    Attributes:
        found: the clocks that were set back, or are ahead of or behind the others.
        error_us: by how much the difference of two clocks may be off.
        steps: the steps of each run whose clock was set back, in order.
        unsteady: proxies whose own records may be out of order by `error_us`.
    """

    found: Sequence[Clock] = ()
    error_us: int = 0
    steps: Sequence[tuple[_Run, Sequence[Step]]] = ()
    unsteady: frozenset[str] = frozenset()

    @property
    def ahead(self) -> "tuple[tuple[_Run, int], ...] | None":
        """The runs whose clocks are ahead, and by how much; None if some clock was set back."""
        if self.steps:
            return None
        return tuple(
            ((clock.proxy, clock.worker, clock.run), clock.ahead_us)
            for clock in self.found
            if clock.ahead_us
        )

    @property
    def agree(self) -> bool:
        """Whether nothing in the log shows that clocks differ."""
        return not self.found and not self.error_us

    def rows(self) -> list[dict[str, object]]:
        """The rows of CLOCKS."""
        return [{**clock._asdict(), "error_us": self.error_us} for clock in self.found]

    @property
    def sentences(self) -> list[str]:
        """A sentence for the report; none if all clocks agree."""
        if not self.found:
            return []
        sentences = [_sentence(clock) for clock in self.found if clock.ahead_us or clock.back_us]
        more = f"; and {len(sentences) - _TOLD} more" if len(sentences) > _TOLD else ""
        return [
            f"Clocks do not agree, as the log itself shows: {'; '.join(sentences[:_TOLD])}{more}. "
            f"Times were corrected by that; corrected times may still be off by"
            f" {span(self.error_us)}."
        ]

    def corrected(self, records: DataFrame) -> DataFrame:
        """Subtract from all times what their clocks are ahead.

        Args:
            records: NUMBERED.

        Returns:
            NUMBERED.
        """
        if not self.found:
            return records
        ahead = {
            (clock.proxy, clock.worker, clock.run, clock.from_seq): clock.ahead_us
            for clock in self.found
        }
        steps = dict(self.steps)
        runs = dict.fromkeys((clock.proxy, clock.worker, clock.run) for clock in self.found)
        ahead_now = {
            run: [ahead.get((*run, seq), 0) for seq in _begins(steps.get(run, ()))] for run in runs
        }
        ahead_here, ahead_before = (
            _by_run(ahead_now, steps),
            _by_run(ahead_now, steps, earlier=True),
        )
        own = fn.col("ended_us")
        # A record that began before a step and ended after it has times of both clocks.
        begun = {
            name: fn.when(fn.col(name) > own, fn.col(name) - ahead_before).otherwise(
                fn.col(name) - ahead_here
            )
            for name in (*_BEGUN, "moment_us")
        }
        rest = {name: fn.col(name) - ahead_here for name in ("ended_us", "since_us")}
        return records.withColumns(begun | rest).select(NUMBERED.names)


def ahead_us(runs: Iterable[tuple[_Run, int]]) -> Column:
    """How far a record's clock is ahead, given that of some runs; 0 for other runs."""
    return _by_run({run: [ahead] for run, ahead in runs}, {})


def _sentence(clock: Clock) -> str:
    whose = f"{clock.proxy}, worker {clock.worker}, run {clock.run}"
    back = (
        ""
        if clock.back_us is None
        else f" was set back by {span(clock.back_us)} at seq {clock.from_seq}"
    )
    if not clock.ahead_us:
        return whose + back
    way = "ahead" if clock.ahead_us > 0 else "behind"
    return f"{whose}{back}{' and' if back else ''} is {span(abs(clock.ahead_us))} {way}"


def learn(
    records: DataFrame, spans: Mapping[_Run, Span] | None = None, *, is_steady: bool = False
) -> Clocks:
    """Find out about the clocks; this runs jobs.

    Args:
        records: NUMBERED without repeats.
        spans: of all runs; None to compute them.
        is_steady: it is known that no record ended before it began, or before an earlier statement.
    """
    if spans is None:
        spans = _spans(records)
    steps = {} if is_steady else _steps(records)
    numbers = _number(spans, steps)
    names = {number for clock_numbers in numbers.values() for number in clock_numbers}
    if len(names) < 2:
        return Clocks()
    bounds = _bounds(records, numbers, steps)
    for run, run_steps in steps.items():
        for step, (earlier, later) in zip(run_steps, pairwise(numbers[run]), strict=True):
            pair, fallen = (later, earlier), step.to_us - step.from_us
            bounds[pair] = min(fallen, bounds.get(pair, fallen))
    sizes: defaultdict[int, int] = defaultdict(int)
    for run, clocks in numbers.items():
        sizes[clocks[0]] += spans[run].records
    offsets = solve(sorted(names, key=lambda number: (-sizes[number], number)), bounds)
    # If the bounds contradict each other, any clock may be the wrong one.
    unsteady = frozenset(proxy for proxy, _, _ in (spans if offsets.slack_us else steps))
    found = list(_found(numbers, steps, offsets))
    error_us = offsets.error_us + _unseen_us(spans, numbers, offsets)
    return Clocks(found, error_us, list(steps.items()), unsteady)


def _spans(records: DataFrame) -> dict[_Run, Span]:
    found = records.groupBy(*RUN).agg(
        fn.min("ended_us"), fn.max("ended_us"), fn.count("*").alias("records")
    )
    return {(row.proxy, row.worker, row.run): Span(*tuple(row)[3:]) for row in found.collect()}


def _found(
    numbers: dict[_Run, list[int]], steps: dict[_Run, list[Step]], offsets: Offsets
) -> Iterable[Clock]:
    for run, clock_numbers in sorted(numbers.items()):
        stepped = steps.get(run, ())
        if not stepped and not offsets.ahead_us[clock_numbers[0]]:
            continue
        backs = [None, *(step.from_us - step.to_us for step in stepped)]
        for number, seq, back in zip(clock_numbers, _begins(stepped), backs, strict=True):
            yield Clock(*run, seq, back, offsets.ahead_us[number])


def _begins(steps: Sequence[Step]) -> list[int]:
    return [1, *(step.seq for step in steps)]


def _behind(steps: Sequence[Step]) -> Column:
    """How many steps lie before a record. Proofs are not always numbered in the order they end."""
    count = fn.lit(0)
    for step in steps:
        early = (fn.col("seq") > step.after) & (fn.col("ended_us") <= step.to_us)
        count = count + ((fn.col("seq") >= step.seq) | early).cast("int")
    return count


def _steps(records: DataFrame) -> dict[_Run, list[Step]]:
    """Find where the clocks of runs were set back."""
    in_run = Window.partitionBy(*RUN).orderBy("seq")
    before = in_run.rowsBetween(Window.unboundedPreceding, -1)
    since = Window.partitionBy(*RUN, "after").orderBy("seq")
    statement, ended = fn.col("kind") == "statement", fn.col("ended_us")
    newest = fn.max(fn.struct(ended, "seq")).over(since.rowsBetween(Window.unboundedPreceding, -1))
    fallen = (
        records.select(*RUN, "seq", "ended_us", fn.greatest(*_BEGUN).alias("begun_us"), "kind")
        .withColumns(
            {
                "after": fn.last(fn.when(statement, fn.col("seq")), True).over(before),
                "last_us": fn.last(fn.when(statement, ended), True).over(before),
            }
        )
        .withColumn("proof", newest)
        .where(
            (ended < fn.col("begun_us"))
            | (statement & (ended < fn.greatest("last_us", "proof.ended_us")))
        )
        .withColumn("place", fn.row_number().over(in_run))
        .where(fn.col("place") <= _FALLS)
    )
    found: defaultdict[_Run, list[Fall]] = defaultdict(list)
    for row in fallen.orderBy(*RUN, "seq").collect():
        after, last_us = row.after or 0, row.last_us or 0
        if row.proof is not None:
            after, last_us = later(
                (after, last_us), row.proof.seq, row.proof.ended_us, row.ended_us
            )
        fall = Fall(after, row.seq, last_us, row.begun_us, row.ended_us)
        found[row.proxy, row.worker, row.run].append(fall)
    return {run: steps for run, falls in found.items() if len(steps := stepped(falls)) <= _STEPS}


def later(before: tuple[int, int], seq: int, proof_us: int, ended_us: int) -> tuple[int, int]:
    """`seq` and end of the last record before a step: of `before`, or of a proof that followed it.

    Proofs are not always numbered in the order they end, but a record with a lower number than a
    proof ended before the proof was entered.

    Args:
        before: `seq` and end of the last statement.
        seq: of the proof.
        proof_us: end of the proof.
        ended_us: end of the statement after the step.
    """
    return (seq, max(before[1], proof_us)) if proof_us > ended_us else before


def stepped(falls: Iterable[Fall]) -> list[Step]:
    """The steps of one run's clock; statements in flight at a step all show that one step."""
    found: list[Step] = []
    for fall in falls:
        last = found[-1] if found else None
        if last is not None:
            in_flight = (
                fall.ended_us >= fall.last_us and fall.begun_us <= last.from_us + _IN_FLIGHT_US
            )
            # Or a proof after the statement before this one has shown the step already.
            if in_flight or fall.after < last.seq:
                found[-1] = last._replace(from_us=max(last.from_us, fall.last_us, fall.begun_us))
                continue
        found.append(Step(fall.after, fall.seq, max(fall.last_us, fall.begun_us), fall.ended_us))
    return found


def _number(spans: Mapping[_Run, Span], steps: dict[_Run, list[Step]]) -> dict[_Run, list[int]]:
    """Number the clocks: one for each run, and one more after each step."""
    count = 0
    numbers: dict[_Run, list[int]] = {}
    for runs in _at_one_time(spans):
        backs = [steps.get(run, []) for run in runs]
        alike = len({len(run_steps) for run_steps in backs}) == 1 and all(
            max(step.to_us for step in same) <= min(step.from_us for step in same)
            for same in zip(*backs, strict=True)
        )
        for run, run_steps in zip(runs, backs, strict=True):
            if not alike or run == runs[0]:
                first, count = count, count + len(run_steps) + 1
            numbers[run] = list(range(first, first + len(run_steps) + 1))
    return numbers


def _at_one_time(spans: Mapping[_Run, Span]) -> Iterable[list[_Run]]:
    """Group the runs of each proxy that overlap in time."""
    together: list[_Run] = []
    until_us = 0
    for run, row in sorted(spans.items(), key=lambda item: (item[0][0], item[1].from_us)):
        if together and (together[0][0] != run[0] or row.from_us > until_us):
            yield together
            together, until_us = [], 0
        together.append(run)
        until_us = max(until_us, row.to_us)
    if together:
        yield together


def _unseen_us(
    spans: Mapping[_Run, Span], numbers: Mapping[_Run, Sequence[int]], offsets: Offsets
) -> int:
    """The largest step of a clock that one run shows and another run at the same time does not."""
    ahead = offsets.ahead_us
    return max(
        (
            ahead[earlier] - ahead[later]
            for runs in _at_one_time(spans)
            if len({len(numbers[run]) for run in runs}) > 1
            for run in runs
            for earlier, later in pairwise(numbers[run])
        ),
        default=0,
    )


def _bounds(
    records: DataFrame, numbers: dict[_Run, list[int]], steps: dict[_Run, list[Step]]
) -> dict[tuple[int, int], int]:
    """By (a, b): how far clock a is ahead of b at most, by the answers of primaries."""
    return clock_evidence.bounds(records.withColumn("clock", _by_run(numbers, steps)))


def _by_run(
    values: Mapping[_Run, Sequence[int]],
    steps: Mapping[_Run, Sequence[Step]],
    *,
    earlier: bool = False,
) -> Column:
    """The value of a record's run after the newest step before the record.

    With `earlier`, the value before that step.
    """
    key = fn.concat_ws("\0", *RUN)
    plain = {run: run_values[0] for run, run_values in values.items() if not steps.get(run)}
    column = fn.lit(0)
    if plain:
        pairs = ((fn.lit(_key(run)), fn.lit(value)) for run, value in plain.items())
        column = fn.coalesce(fn.create_map(*chain.from_iterable(pairs))[key], column)
    for run, run_steps in steps.items():
        if run in values:
            step_count = fn.greatest(_behind(run_steps) - int(earlier), fn.lit(0))
            values_of_run = fn.array(*(fn.lit(value) for value in values[run]))
            column = fn.when(key == _key(run), values_of_run[step_count]).otherwise(column)
    return column


def _key(run: _Run) -> str:
    return "\0".join(map(str, run))
