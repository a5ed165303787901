"""Days of a log one after the other, each judged with the state of the one before: no Spark."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.columns.chunk import EVERYTHING, Rules
from spark_jobs.state import condense, cut, facts, make, records
from tests.spark_jobs.by_columns import Settled, settled
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.without_spark import Audited, Before, _run, _us, audit


@dataclass
class State:
    """What is known at a day's end.

    Attributes:
        found: FACT.
        tail: the records behind what is condensed, as they are in the log.
        until_us: what is condensed had ended by then.
    """

    found: pa.Table = field(default_factory=facts.FACT.empty_table)
    tail: list[Record] = field(default_factory=list)
    until_us: int = 0

    @property
    def before(self) -> Before:
        """It, as `audit` takes it."""
        runs, sessions = (it.to_pylist() for it in records.stretches(self.found))
        return Before(
            records.of_facts(self.found).to_pylist(),
            {_run(it): (_us(it, "last_seq"), _us(it, "last_ended_us")) for it in runs},
            {(*_run(it), it["session"]): _us(it, "last_ordinal") for it in sessions},
            self.until_us,
        )


@dataclass
class Night:
    """A day that was judged.

    Attributes:
        begin_us: of the day.
        end_us: of the day.
        by_judge: what the judge says, who is given the state and the day.
        by_columns: what columns say of the same.
        state: at its end.
    """

    begin_us: int
    end_us: int
    by_judge: Audited
    by_columns: Settled
    state: State


def nights(
    log: Iterable[Record],
    days: Sequence[int],
    folder: Path,
    tail_us: int,
    after_us: int = 0,
    idle_us: int = 2**60,
) -> Iterator[Night]:
    """Judge a log day by day.

    Args:
        log: where clocks agree.
        days: when each day begins, and when the last one ends.
        folder: takes what is made on the way.
        tail_us: how long before a day's end nothing is condensed.
        after_us: how much of the next day is read.
        idle_us: how long a session may be silent.
    """
    every = list(log)
    state = State()
    for number, (begin, end) in enumerate(pairwise(days)):
        its = [*state.tail]
        its += (it for it in every if begin <= _us(it, "arrived_us") < end + after_us)
        if not its:
            continue
        before, place = state.before, folder / str(number)
        condensed = None
        if state.found.num_rows:
            condensed = folder / f"{number}.parquet"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(records.of_facts(state.found), condensed)
        period = (begin, end)
        said = audit(its, 0, period, before)
        by_columns = settled(its, place, 2, 0, period, before, condensed)
        assert by_columns is not None
        state = _condensed(its, state, said, by_columns, place, period, tail_us, idle_us)
        yield Night(begin, end, said, by_columns, state)


def _condensed(
    its: Sequence[Record],
    before: State,
    said: Audited,
    settled_: Settled,
    folder: Path,
    day: tuple[int, int],
    tail_us: int,
    idle_us: int,
) -> State:
    """The state at a day's end."""
    passed, (begin, end) = settled_.passed, day
    history, found = passed.learned, passed.found
    terms = [term for its_terms in history.terms.values() for term in its_terms]
    until = cut.until(begin, end, terms, found.bound_us, before.until_us, tail_us)
    late = cut.Late()
    for piece in passed.pieces:
        late.add(cut.late(piece, EVERYTHING, until, end))
    turns = make.turns(history, found.reigns, found.runs, until)
    plan = condense.Plan(
        rules=Rules(EVERYTHING.begin_us, end, begin, end),
        late=late.runs,
        clusters=history.clusters,
        turns=turns,
        series=passed.laid,
        since_us=found.from_us,
    )
    for piece in passed.pieces:
        condense.condense(piece, plan, folder)
    made = make.Made(
        folder=folder,
        strange=folder / "strange",
        late=late.runs,
        until_us=until,
        begin_us=begin,
        idle_us=end - idle_us,
    )
    rest = _unbacked(said, folder)
    old = before.found if before.found.num_rows else None
    table = make.make(made, old, turns, history.clusters, found.reigns, found.runs, rest)
    tail = [
        it
        for it in its
        if _us(it, "seq") >= late.runs.get(_run(it), 2**62) and _us(it, "arrived_us") < end  # type: ignore[arg-type]  # as in the log
    ]
    return State(table, tail, until)


def _unbacked(audited: Audited, folder: Path) -> dict[tuple[str, int, str, int], str | None]:
    """What evidence says of reads whose claims columns cannot tell to be backed."""
    tables = [pq.read_table(it) for it in sorted((folder / "unproved").glob("*.parquet"))]
    keys = {(*_run(row), row["seq"]) for table in tables for row in table.to_pylist()}
    its = audited.learned.backing
    return {key: its[key]["unbacked"] for key in keys if key in its}  # type: ignore[misc]  # as in the log
