"""Writes the state at a day's end."""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType

from spark_jobs.day import Day, Period
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.gtid_columns import Bounds
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.reads import backing, evidence
from spark_jobs.records.survey import Survey
from spark_jobs.scratch import rewritten
from spark_jobs.state import ageing, condense, cut, events, facts, records, turns
from spark_jobs.state.facts import FACT, HAD, RAN, SAW, SHOWED, SPOKE, UNREAD, WROTE
from spark_jobs.storage import Folder
from spark_jobs.tables.schema import NUMBERED, PARSED, RECORD, RUN

if TYPE_CHECKING:
    from spark_jobs.state.states import Staged

_WEIGHED: Final = 200_000
"""Up to so many reads, claims are weighed one by one; if there are more, none counts as shown."""

_LASTING: Final = (RAN, SPOKE, WROTE, SAW, SHOWED, HAD, UNREAD)
"""Facts of the state before that are kept; the others are found anew in the records made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit of a day has found out.

    Attributes:
        records: NUMBERED of the log itself, without repeats and without records that stand for the
            time before; their times are as logged.
        survey: of the log. Its servers and reigns include those that are named by the records
            which stand for the time before, its runs do not.
        history: the history of the primaries.
        bounds: the sources of GTIDs of each cluster.
        day: the day, which is over.
        before: FACT of the state that the audit began with; None if there was none.
        live: PARSED of segments that were still being written; None if there were none.
    """

    records: DataFrame
    survey: Survey
    history: History
    bounds: Bounds
    day: Period
    before: DataFrame | None
    live: DataFrame | None


def write_state(audited: Audited, staged: "Staged", scratch: Folder) -> None:
    """Write a state, unless incomplete segments hold records of its time.

    This runs jobs. Times in a state are not corrected, so clocks must agree.

    Args:
        audited: what the audit has found out.
        staged: takes the state.
        scratch: takes tables that the state is made of; all workers see it.
    """
    history, day = audited.history, audited.day
    early = fn.isnull("fault") & (fn.col("arrived_us") < day.end_us)
    if audited.live is not None and not audited.live.where(early).isEmpty():
        return
    terms = [term for terms in history.terms.values() for term in terms]
    bound_us = audited.survey.bound_us
    until_us = cut.until(day.begin_us, day.end_us, terms, bound_us, history.since_us)
    for name, table in make(audited, until_us, scratch)._asdict().items():
        table.write.option("compression", "zstd").parquet(str(staged.folder / name))
    staged.finish(Day.of(day.begin_us), until_us)


class Made(NamedTuple):
    """A state that was made.

    Attributes:
        facts: FACT, merged.
        tail: PARSED of the records that are not condensed.
    """

    facts: DataFrame
    tail: DataFrame


def make(audited: Audited, until_us: int, scratch: Folder, idle_us: int = ageing.IDLE_US) -> Made:
    """Make the state at a day's end. This runs jobs.

    Args:
        audited: what the audit has found out.
        until_us: everything that is condensed has ended by then.
        scratch: takes tables that the state is made of; all workers see it.
        idle_us: how long a session may be silent.
    """
    survey, day, before = audited.survey, audited.day, audited.before
    late = rewritten(cut.late(audited.records, until_us, day.end_us), scratch / "late")
    marked = cut.marked(audited.records.where(fn.col("arrived_us") < day.end_us), late)
    condensed = marked.where("not is_late").select(NUMBERED.names)
    known, every = condensed, audited.records.select(NUMBERED.names)
    if before is not None:
        standing = records.transform(before)
        known, every = known.unionByName(standing), every.unionByName(standing)
    changes = turns.turns(audited.history, survey, until_us)
    happened = rewritten(events.events(known), scratch / "events")
    opened = facts.merged(changes.renamed(events.opened(happened)))
    opened = rewritten(opened, scratch / "opened")
    shown = _shown(audited, condensed, every, scratch)
    parts = [shown, events.asked(happened, opened, changes)]
    if before is not None:
        parts.append(before.where(fn.col("what").isin(*_LASTING)))
    held = reduce(DataFrame.unionByName, parts).withColumn("turned", changes.held())
    held = held.unionByName(condense.transform(condensed, changes.code()))
    if changes.over:
        held = changes.cut(facts.merged(held, "turned"))
    others = opened.unionByName(events.reigned(survey, until_us, opened))
    united = held.select(FACT.names).unionByName(others)
    merged = rewritten(facts.merged(changes.renamed(united)), scratch / "merged")
    aged = ageing.transform(merged, survey.runs, day.begin_us, day.end_us - idle_us)
    nothing = fn.lit(None).cast("string")
    tail = marked.where("is_late").select(
        *RECORD.names, "file", nothing.alias("fault"), nothing.alias("line")
    )
    return Made(facts.merged(aged), tail.select(PARSED.names))


def _shown(
    audited: Audited,
    condensed: DataFrame,
    every: DataFrame,
    scratch: Folder,
) -> DataFrame:
    """What replicas showed to the reads that relied on what was known: FACT, not merged."""
    key = (*RUN, "seq")
    placed = every.withColumn("cluster", clusters.column(audited.history.clusters))
    bounded = audited.bounds.of(placed, "proof_set", "observed")
    backed = backing.weigh(bounded, audited.bounds).where("backed")
    backed = backed.selectExpr(*key, "true as is_backed")
    reads = condense.relying(condensed).join(backed, [*key], "left")
    reads = rewritten(reads, scratch / "relying")
    found = condense.shown(reads.where("is_backed and server_uuid is not null"), "proof_set")
    rest = reads.where("is_backed is null or server_uuid is null")
    count = rest.limit(_WEIGHED + 1).count()
    if not 0 < count <= _WEIGHED:
        return found
    weighed = evidence.transform(every, audited.history, rest).select(*key, "unbacked")
    # A claim that was not weighed counts as not shown.
    told = rest.join(weighed.where("unbacked is not null"), [*key])
    told = told.withColumn("shown", _minus("proof_set", "unbacked")).where("shown != ''")
    return found.unionByName(condense.shown(told, "shown"))


def _without(claim: str, rest: str) -> str:
    """The part of a claim that is not in the rest; "" if the claim is no set."""
    try:
        return parse(claim).minus(parse(rest)).text()
    except MalformedGtidSetError:
        return ""


_minus = fn.udf(_without, StringType(), useArrow=False)
