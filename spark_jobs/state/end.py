"""Writes the state at a day's end; Spark distributes the work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyspark.sql import functions as fn

from spark_jobs.columns.chunk import EVERYTHING, Chunk, Rules
from spark_jobs.columns.numbers import Runs
from spark_jobs.columns.piece import Piece, write
from spark_jobs.columns.survey import Run
from spark_jobs.day import Day, Period
from spark_jobs.reads import evidence
from spark_jobs.records.ingest import names
from spark_jobs.state import ageing, condense, cut, make
from spark_jobs.state.condense import Condensed
from spark_jobs.state.make import Made, Unbacked
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import PARSED, RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.columns.passes import Passes
    from spark_jobs.primaries.primary_history import History
    from spark_jobs.state.states import Staged

_WEIGHED: Final = 200_000
"""Up to so many reads, claims are weighed one by one; if there are more, none counts as shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit of a day has found out.

    Attributes:
        passes: the passes through its log.
        records: NUMBERED, in corrected times, including those that stand for the time before.
        history: the history of the primaries.
        laid: the folder of the series; None if none were written.
        day: the day, which is over.
        before: FACT of the state that it began with; None if there was none.
        live: files of records whose segments were still being written.
    """

    passes: "Passes"
    records: "DataFrame"
    history: "History"
    laid: str | None
    day: Period
    before: pa.Table | None
    live: Sequence[str]


def write_state(audited: Audited, staged: "Staged") -> None:
    """Write a state, unless incomplete segments hold records of its time.

    This runs jobs. Times in a state are not corrected, so clocks must agree.

    Args:
        audited: what the audit has found out.
        staged: takes the state.
    """
    passes, history, day = audited.passes, audited.history, audited.day
    early = pads.field("fault").is_null() & (pads.field("arrived_us") < day.end_us)
    if audited.live and pads.dataset(list(audited.live)).count_rows(filter=early):
        return
    folder = staged.folder
    found = passes.found
    terms = [term for its in history.terms.values() for term in its]
    until_us = cut.until(day.begin_us, day.end_us, terms, found.bound_us, history.since_us)
    look = partial(cut.late, rules=passes.rules, until_us=until_us, end_us=day.end_us)
    late = (passes.through(look) or cut.Late()).runs
    turns = make.turns(history, found.reigns, found.runs, until_us)
    plan = condense.Plan(
        rules=Rules(passes.rules.begin_us, day.end_us, day.begin_us, day.end_us),
        late=late,
        clusters=history.clusters,
        turns=turns,
        series=audited.laid,
        since_us=found.from_us,
    )
    work = partial(condense.condense, plan=plan, folder=passes.folder)
    condensed = passes.through(work) or Condensed()
    made = Made(
        folder=passes.folder,
        strange=passes.strange_folder,
        late=late,
        until_us=until_us,
        begin_us=day.begin_us,
        idle_us=day.end_us - ageing.IDLE_US,
    )
    unbacked = _unbacked(audited, condensed.unproved)
    facts = make.make(
        made,
        audited.before,
        turns,
        history.clusters,
        found.reigns,
        found.runs,
        unbacked,
    )
    folder.mkdir(parents=True)
    pq.write_table(facts, folder / "facts.parquet", compression="zstd")
    passes.through(partial(_tail, rules=plan.rules, late=late, folder=folder / "tail"))
    staged.finish(Day.of(day.begin_us), until_us)


def _unbacked(audited: Audited, count: int) -> Unbacked:
    """The parts of reads' claims that were not shown, where the columns cannot tell."""
    if not 0 < count <= _WEIGHED:
        return {}
    records = audited.records
    place = names([audited.passes.folder / "unproved"])[0]
    keys = fn.broadcast(records.sparkSession.read.parquet(place).select(*RUN, "seq"))
    reads = records.join(keys, [*RUN, "seq"], "left_semi")
    weighed = evidence.transform(records, audited.history, reads).join(keys, [*RUN, "seq"])
    rows = weighed.select(*RUN, "seq", "unbacked").collect()
    return {(it.proxy, it.worker, it.run, it.seq): it.unbacked for it in rows}


def _tail(piece: Piece, rules: Rules, late: Mapping[Run, int], folder: Path) -> Condensed:
    """Write the records of a piece that are not condensed."""
    schema = small_table.to_arrow(PARSED)
    found: list[pa.Table] = []
    with pq.ParquetFile(piece.path) as file:
        for group in piece.groups:
            its = file.read_row_group(group, [*RUN, "seq", "arrived_us", "fault"])
            for batch in its.combine_chunks().to_batches():
                chunk = Chunk(batch, EVERYTHING)
                arrived = chunk.number("arrived_us")
                kept = ~cut.is_before(Runs(chunk), chunk.number("seq"), late)
                kept &= (arrived >= rules.begin_us) & (arrived < rules.end_us)
                kept &= ~chunk.text("fault").known
                if kept.any():
                    every = file.read_row_group(group).take(pa.array(np.flatnonzero(kept)))
                    found.append(_as(every, schema))
    write(found, folder, piece)
    return Condensed()


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns of a schema; missing columns are null."""
    there = set(table.column_names)
    columns = [
        table.column(it.name).cast(it.type)
        if it.name in there
        else pa.nulls(table.num_rows, it.type)
        for it in schema
    ]
    return pa.table(columns, schema=schema)
