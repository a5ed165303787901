"""Days of some logs one after the other, each judged with the state of the day before.

Judges run without Spark (`without_spark`), log by log. Spark makes the states, of all logs at once:
each log has its own proxies and servers (`apart`).
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark.sql import Row

from spark_jobs.day import Hours
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.records.survey import Reign, RunSurvey, Survey
from spark_jobs.state import cut, end, records
from spark_jobs.state.facts import FACT
from spark_jobs.tables.schema import NUMBERED, PAST
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.without_spark import Audited, Before, _us, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Logs = Mapping[int, Sequence[Record]]
"""Logs by their numbers."""


def apart(log: Iterable[Record], number: int) -> list[Record]:
    """Give a log proxies and servers of its own."""
    texts = (json.dumps(record | {"proxy": f"{number}-{record['proxy']}"}) for record in log)
    return [json.loads(named(text, number)) for text in texts]


def named(text: str, number: int) -> str:
    """The same text with the servers of a log that `apart` returned."""
    return text.replace("-02fc", f"-{number:04x}")


def number_of(row: Mapping[str, object] | Row) -> int:
    """The number of the log that a record or fact belongs to."""
    return int(str(row["proxy"]).partition("-")[0])


@dataclass
class State:
    """What is known at a day's end.

    Attributes:
        facts: rows of FACT.
        tail: the records behind what is condensed, as they are in the log, by log.
        until_us: what is condensed had ended by then.
        standing: NUMBERED of the records that stand for the facts.
        numbers: `records.numbers` of the facts.
    """

    facts: list[Row] = field(default_factory=list)
    tail: dict[int, list[Record]] = field(default_factory=dict)
    until_us: int = 0
    standing: list[Row] = field(default_factory=list)
    numbers: list[Row] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        spark: "SparkSession",
        facts: list[Row],
        tail: dict[int, list[Record]],
        until_us: int,
    ) -> "State":
        """A state with these facts."""
        table = spark.createDataFrame(facts, FACT)
        standing, numbers = records.transform(table).collect(), records.numbers(table).collect()
        return cls(facts, tail, until_us, standing, numbers)

    def before(self, log: int) -> Before:
        """The state as `audit` takes it, for one log."""
        runs: dict[object, tuple[int, int]] = {}
        sessions: dict[object, int] = {}
        for row in self.numbers:
            run = row.proxy, row.worker, row.run
            if row.session is None:
                runs[run] = row.seq, row.ended_us
            else:
                sessions[*run, row.session] = row.ordinal
        standing = [row.asDict() for row in self.standing if number_of(row) == log]
        return Before(standing, runs, sessions, self.until_us)


@dataclass
class Night:
    """A day that was judged.

    Attributes:
        begin_us: of the day.
        end_us: of the day.
        said: what the judge says of each log, who is given the state and the day.
        state: at its end.
    """

    begin_us: int
    end_us: int
    said: dict[int, Audited]
    state: State


def nights(
    spark: "SparkSession",
    logs: Logs,
    days: Sequence[int],
    tail_us: int,
    after_us: int = 0,
    idle_us: int = 2**60,
) -> Iterator[Night]:
    """Judge logs day by day.

    Args:
        spark: makes the states.
        logs: where clocks agree.
        days: when each day begins, and when the last one ends.
        tail_us: how long before a day's end nothing is condensed.
        after_us: how much of the next day is read.
        idle_us: how long a session may be silent.
    """
    state = State()
    for begin, to in pairwise(days):
        its = {number: [*state.tail.get(number, [])] for number in logs}
        for number, log in logs.items():
            its[number] += (it for it in log if begin <= _us(it, "arrived_us") < to + after_us)
        said = {
            number: audit(log, 0, (begin, to), state.before(number)) for number, log in its.items()
        }
        if to < days[-1]:
            state = _made(spark, its, state, said, Hours(begin, to), tail_us, idle_us)
        yield Night(begin, to, said, state)


def _made(
    spark: "SparkSession",
    its: Logs,
    before: State,
    said: Mapping[int, Audited],
    day: Hours,
    tail_us: int,
    idle_us: int,
) -> State:
    """The state at a day's end."""
    every = list(chain.from_iterable(one.learned.records for one in said.values()))
    history = _history(spark, said, every, before.until_us)
    survey = _survey(every, day)
    terms = list(chain.from_iterable(history.terms.values()))
    until_us = cut.until(*day, terms, survey.bound_us, before.until_us, tail_us)
    own = [tuple(it.get(name) for name in NUMBERED.names) for it in every if _us(it, "seq") > 0]
    audited = end.Audited(
        records=spark.createDataFrame(own, NUMBERED, verifySchema=False),
        survey=survey,
        history=history,
        bounds=_bounds(own, history.clusters),
        day=day,
        before=spark.createDataFrame(before.facts, FACT) if before.facts else None,
        live=None,
    )
    with TemporaryDirectory() as scratch:
        made = end.make(audited, until_us, Path(scratch), idle_us)
        facts = made.facts.collect()
        kept = made.tail.select("proxy", "worker", "run", "seq").collect()
    keys = {tuple(row) for row in kept}
    tail = {
        number: [it for it in log if tuple(it[name] for name in kept[0].__fields__) in keys]
        for number, log in (its.items() if kept else ())
    }
    return State.of(spark, facts, tail, until_us)


_PROXY, _PROOF_SET = (NUMBERED.names.index(name) for name in ("proxy", "proof_set"))


def _bounds(own: Sequence[tuple[object, ...]], clusters: Mapping[str, str]) -> Bounds:
    """The sources that servers have shown, by cluster."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in own:
        found[clusters[str(record[_PROXY])]] |= _sources(record[_PROOF_SET])
    return Bounds(found)


def _sources(text: object) -> set[str]:
    with suppress(MalformedGtidSetError):
        return {tsid for tsid, _, _ in parse(str(text or ""))}
    return set()


def _history(
    spark: "SparkSession", said: Mapping[int, Audited], every: Sequence[Record], since_us: int
) -> History:
    its = [one.learned for one in said.values()]
    names = {(str(it["proxy"]), it["server_uuid"], it["role"]) for it in every}
    found, unplaced = clusters.group(names)  # type: ignore[arg-type]  # as in the log
    past = [row._replace(writes=None) for one in its for row in one.past]
    return History(
        found,
        unplaced,
        dict(chain.from_iterable(one.history.terms.items() for one in its)),
        {},
        {},
        dict(chain.from_iterable(one.history.successions.items() for one in its)),
        spark.createDataFrame([tuple(row) for row in past], PAST),
        since_us,
    )


def _survey(every: Iterable[Record], day: Hours) -> Survey:
    found = Survey()
    for it in every:
        run = str(it["proxy"]), _us(it, "worker"), str(it["run"])
        if _us(it, "seq") > 0:
            found.runs.setdefault(run, RunSurvey())
        if it["role"] == "primary" and it["outcome"] != "lost":
            server = it["server_uuid"], it["incarnation"]
            reign = found.reigns.setdefault((run, server), Reign())  # type: ignore[arg-type]  # likewise
            reign.from_us = min(reign.from_us, _us(it, "dispatched_us"))
            reign.to_us = max(reign.to_us, _us(it, "dispatched_us"))
        is_told = day.begin_us <= _us(it, "arrived_us") < day.end_us
        if it["is_read"] and it["level"] == "BOUNDED_STALENESS" and is_told:
            found.bound_us = max(found.bound_us, _us(it, "bound_us"))
    return found
