"""Makes the passes through a log, in the right order; Spark distributes the work."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from spark_jobs import tasks
from spark_jobs.arrays import Numbers
from spark_jobs.columns import calm, doubts, hashes, plan, series, settle, survey, tellings
from spark_jobs.columns.chunk import Rules
from spark_jobs.columns.doubts import Doubted, Marks
from spark_jobs.columns.numbers import SESSION_STRETCH, STRETCH
from spark_jobs.columns.piece import Piece, pieces
from spark_jobs.columns.settle import Settled
from spark_jobs.columns.survey import Run, Survey
from spark_jobs.columns.tellings import Told
from spark_jobs.primaries.primary_history import Known, Reign
from spark_jobs.tables.schema import RUN, TELLING
from spark_jobs.tasks import Total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.primaries.primary_history import History

_ROWS: Final = 500_000
"""About how many rows a piece has."""

_ROWS_OF_TASK: Final = 100_000
"""About how many rows a task has at least: as long as they take, a worker takes to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records are.

    Attributes:
        files: files of `schema.PARSED`, in any order.
        rules: which of their rows are read, and which reads are judged.
        dates: the first and the last day of the segments whose lines that are no record count; None
            for all segments.
        before: a folder with what is known of the time before (`state.records.lay`); None if
            nothing is.
    """

    files: Sequence[str]
    rules: Rules
    dates: tuple[str, str] | None = None
    before: Path | None = None


class Passes:
    """The passes through one log.

    Attributes:
        found: what the first pass found.
        rules: which records are read, and how their times are corrected.
        folder: the folder of intermediate files.
        strange_folder: where `strange` is written when it is first used.
    """

    def __init__(self, spark: "SparkSession", source: Source, folder: Path) -> None:
        """Make the first pass; this runs jobs.

        Args:
            spark: a session.
            source: the log.
            folder: takes intermediate files; all workers see it.
        """
        self._spark, self._source, self.folder = spark, source, folder
        self.rules = source.rules
        self.strange_folder = folder / "strange"
        self._slices = max(2, spark.sparkContext.defaultParallelism * 2)
        self._pieces = list(pieces(source.files, _ROWS))
        work = partial(survey.survey, rules=source.rules, dates=source.dates, folder=folder)
        self.found = self._total(self._pieces, work) or Survey()
        self._before: list[Piece] = []
        if source.before is not None:
            self._begin_with(source.before)

    def correct(self, ahead: tuple[tuple[Run, int], ...], error_us: int) -> None:
        """From now on, correct times by what is known of the clocks.

        Args:
            ahead: the runs whose clocks differ from the others, and how far they are ahead, µs.
            error_us: by how much clocks may still differ, µs.
        """
        self.rules = self.rules._replace(ahead=ahead, error_us=error_us)

    @property
    def _since_us(self) -> int:
        """Times in series are counted from then."""
        return self.rules.since_us(self.found.from_us)

    def _begin_with(self, before: Path) -> None:
        """Add what is known of the time before."""
        self._before = list(pieces([str(before / "records.parquet")], _ROWS))
        known = self._total(self._before, partial(survey.before, rules=self._source.rules))
        if known is not None:
            self.found.add(known)
        for name, place in (("stretches", "stretches"), ("sessions", "session_stretches")):
            (self.folder / place).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(before / f"{name}.parquet", self.folder / place / "before.parquet")

    def through(self, work: Callable[[Piece], Total]) -> Total | None:
        """Go through the log once more."""
        return self._total(self._pieces, work)

    def _total(self, items: Sequence[Piece], work: Callable[[Piece], Total]) -> Total | None:
        return tasks.total(self._spark, items, work, self._tasks_for(items, self._slices))

    @staticmethod
    def _tasks_for(items: Sequence[Piece], most: int) -> int:
        """How many tasks to make of some pieces."""
        return max(1, min(most, sum(piece.rows for piece in items) // _ROWS_OF_TASK))

    def _read(self, name: str) -> "DataFrame":
        from spark_jobs.records.ingest import names

        return self._spark.read.parquet(names([self.folder / name])[0])

    def _see_to(self, name: str, schema: pa.Schema) -> None:
        """Make sure that a table exists, even if the log has no record."""
        if not (self.folder / name).is_dir():
            (self.folder / name).mkdir(parents=True)
            pq.write_table(schema.empty_table(), self.folder / name / "none.parquet")

    def _made(self, name: str) -> list[Piece]:
        """The pieces of the table that was written under a name."""
        its = sorted((self.folder / name).glob("*.parquet"))
        return list(pieces(list(map(str, its)), _ROWS))

    # Numbers

    @cached_property
    def strange(self) -> "DataFrame":
        """The strange numbers, from `numbering.of_stretches`; this runs a job."""
        from spark_jobs.records import numbering
        from spark_jobs.records.ingest import names

        self._see_to("stretches", STRETCH)
        self._see_to("session_stretches", SESSION_STRETCH)
        stretches, sessions = self._read("stretches"), self._read("session_stretches")
        strange = numbering.of_stretches(stretches, sessions)
        if self._source.before is not None:
            place = names([self._source.before / "records.parquet"])[0]
            known = numbering.of_records(self._spark.read.parquet(place))
            strange = strange.unionByName(known.select(strange.columns))
        strange.write.parquet(str(self.strange_folder))
        return self._read("strange")

    @cached_property
    def _strange(self) -> pads.Dataset:
        """The same, as an Arrow dataset."""
        _ = self.strange
        return pads.dataset(self.strange_folder, format="parquet")

    def _has_strange(self, flag: str) -> bool:
        return bool(self._strange.count_rows(filter=pads.field(flag)))

    @cached_property
    def is_repeated(self) -> bool:
        """Whether some records occur more than once, or several have the same number."""
        return self._has_strange("repeated")

    @cached_property
    def is_steady(self) -> bool:
        """Whether nothing shows that a clock was set back."""
        fallen = any(run.fallen for run in self.found.runs.values())
        return not fallen and not self._has_strange("unsteady")

    @cached_property
    def _holes(self) -> Numbers:
        its = self._strange.to_table([*RUN, "seq"], filter=pads.field("hole"))
        proxy, run = (hashes.of_column(its.column(name)) for name in ("proxy", "run"))
        runs = hashes.mixed(proxy, its.column("worker").to_numpy(), run)
        return np.sort(hashes.mixed(runs, its.column("seq").to_numpy()))

    def missing(self) -> dict[Run, tuple[int, int]]:
        """By run: how many numbers no record has, and how many of these are reported as dropped.

        Only gaps before records of the judged period count.
        """
        rules, arrived = self._source.rules, pads.field("arrived_us")
        within = (arrived >= rules.judge_from_us) & (arrived < rules.judge_to_us)
        names = [*RUN, "missing", "dropped"]
        gaps = self._strange.to_table(names, filter=(pads.field("missing") > 0) & within)
        owned = pc.min_element_wise(gaps.column("missing"), gaps.column("dropped"))
        sums = gaps.append_column("declared", owned).group_by(list(RUN))
        rows = sums.aggregate([("missing", "sum"), ("declared", "sum")]).to_pylist()
        return {
            (row["proxy"], row["worker"], row["run"]): (row["missing_sum"], row["declared_sum"])
            for row in rows
        }

    # Tellings

    def tell(self, clusters: Mapping[str, str], *, plainly: bool) -> Told:
        """Make the second pass, which writes tellings.

        Args:
            clusters: the cluster of each proxy.
            plainly: write tellings of groups, too, from which `settle` judges reads.
        """
        wants = tellings.Plan(
            rules=self.rules,
            clusters=clusters,
            wanted=self.found.wanted if plainly else {},
            holes=self._holes,
            since_us=self._since_us,
        )
        told = Told()
        # Records that stand for the time before need no correction: a state is only written if
        # clocks agree.
        apart = replace(wants, rules=self.rules._replace(ahead=()))
        for its, plan_ in ((self._pieces, wants), (self._before, apart)):
            work = partial(tellings.tell, plan=plan_, folder=self.folder)
            told.add(self._total(its, work) or Told())
        return told

    def _lay(self, name: str, into: str) -> str:
        """Sort tellings and write them as series; returns the folder."""
        self._see_to(name, series.TELLING)
        tellings_, sorted_ = self.folder / name, self.folder / f"{into}.sorted"
        most = self._tasks_for(self._made(name), 2 * self._slices)
        series.sort(self._spark, tellings_, sorted_, most)
        files = sorted(map(str, sorted_.glob("*.parquet")))
        parts = [it for it in tasks.each(self._spark, files, series.look) if it is not None]
        folder = self.folder / into
        tasks.each(self._spark, series.plan(parts, folder), series.lay)
        for spent in (tellings_, sorted_):
            shutil.rmtree(spent)
        return str(folder)

    # What is known of primaries

    def known(
        self,
        records: "DataFrame",
        clusters: Mapping[str, str],
        unplaced: frozenset[str],
        told: Told,
        laid: str,
    ) -> Known:
        """What `primary_history.learn` need not find out itself; this runs jobs.

        Args:
            records: NUMBERED without repeats.
            clusters: the cluster of each proxy.
            unplaced: clusters that may be part of any other.
            told: the result of `tell`.
            laid: the folder of the series.
        """
        primaries: defaultdict[str, set[survey.Server]] = defaultdict(set)
        for run, server, role in self.found.servers:
            if role == "primary":
                primaries[clusters[run[0]]].add(server)
        work = partial(
            calm.rough,
            clusters=clusters,
            sources={name: frozenset(its) for name, its in told.wrote.items()},
            since_us=self._since_us,
            folder=laid,
        )
        lacking = self._total(self._made("tides"), work) if told.tides else None
        rough = told.rough | (lacking.clusters if lacking is not None else set())
        quiet = {name for name, its in primaries.items() if len(its) == 1} - rough
        loud = set(primaries) - quiet
        ahead = dict(self.rules.ahead)
        reigns = [
            Reign(*run, *server, it.from_us - ahead.get(run, 0), it.to_us - ahead.get(run, 0))
            for (run, server), it in sorted(self.found.reigns.items(), key=repr)
            if it.from_us <= it.to_us
        ]
        return Known(
            clusters,
            unplaced,
            reigns,
            frozenset(quiet),
            self._telling(records, told, loud, clusters),
        )

    def _telling(
        self,
        records: "DataFrame",
        told: Told,
        loud: Collection[str],
        clusters: Mapping[str, str],
    ) -> "DataFrame | None":
        """TELLING of the records that may matter for the primaries' history; None if none do."""
        from functools import reduce

        from pyspark.sql import DataFrame
        from pyspark.sql import functions as fn

        from spark_jobs.clocks.clocks import ahead_us
        from spark_jobs.primaries.clusters import column

        parts: list[DataFrame] = []
        if self._strange.count_rows(filter=pads.field("missing") > 0):
            ahead = ahead_us(self.rules.ahead)
            times = {name: fn.col(name) - ahead for name in ("since_us", "ended_us")}
            gaps = self.strange.where("missing > 0").withColumns(times)
            parts.append(gaps.select(*RUN, "seq", "missing", "since_us", "ended_us"))
        if told.opened:
            holes = self.strange.where("hole").select(*RUN, "seq", "hole")
            opened = self._read("opened").drop("is_named", "user", "application", "class")
            parts.append(opened.join(fn.broadcast(holes), [*RUN, "seq"], "left"))
        if loud:
            wrote = (fn.col("kind") == "statement") & (fn.col("named") != "")
            wrote &= (fn.col("role") == "primary") & column(clusters).isin(*loud)
            names = [it for it in TELLING.names if it not in ("missing", "hole", "since_us")]
            its = records.where(wrote).select(*names)
            parts.append(its.drop("is_unnamed", "whole"))
        if told.tides and (parts or loud):
            parts.append(self._read("tides").drop("user", "application", "class"))
        if not parts:
            return None
        nothing = {"missing": fn.lit(0), "hole": fn.lit(False), "since_us": fn.lit(0)}
        nothing |= {"is_unnamed": fn.lit(False), "named": fn.lit(""), "own_gtids": fn.lit("")}
        nothing |= {"session": fn.lit(0), "kind": fn.lit("")}
        every = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
        for name in set(TELLING.names) - set(every.columns):
            every = every.withColumn(name, fn.lit(None).cast(TELLING[name].dataType))
        return every.withColumns(
            {name: fn.coalesce(name, value) for name, value in nothing.items()}
        ).select(TELLING.names)

    # Verdicts

    def settle(self, told: Told, laid: str, history: "History", reads: Path) -> Settled:
        """Make the third pass, which judges plain reads; this runs jobs.

        Args:
            told: the result of `tell`.
            laid: the folder of the series.
            history: the history of the primaries.
            reads: takes JUDGED of the settled reads, as people query it, as Parquet.
        """
        marks = self._marks(history)
        doubted, doubts_ = self._doubted(told, history, marks)
        known = plan.make(
            self.found,
            told,
            history,
            rules=self.rules,
            marks=marks,
            doubted=doubted,
            laid=plan.Laid(self._since_us, laid, doubts_),
        )
        work = partial(settle.settle, plan=known, folder=self.folder, reads=reads)
        return self._total(self._pieces, work) or Settled()

    # Tables

    def during(self, table: "DataFrame", column: str) -> "DataFrame":
        """The rows of a table in the judged period."""
        begin, end = self._source.rules.judge_from_us, self._source.rules.judge_to_us
        return table.where(f"{column} >= {begin} and {column} < {end}")

    def lay(self) -> str:
        """Write the series of the second pass; returns their folder.

        Raises:
            SeriesError: there are too many, or some time is out of range.
        """
        return self._lay("tellings", "series")

    @property
    def left(self) -> "DataFrame":
        """The reads that are left to the judge: `settle.LEFT`."""
        return self._read("left")

    @property
    def suspects(self) -> "DataFrame":
        """The reads that may show a lapse: RUN and `seq`."""
        return self._read("suspects")

    def _marks(self, history: "History") -> dict[str, Marks]:
        rows = history.past.where("what = 'mark'").select("cluster", "mark", "at_us", "gtids")
        return doubts.marks(map(tuple, rows.collect()))

    def _doubted(
        self, told: Told, history: "History", marks: Mapping[str, Marks]
    ) -> tuple[Doubted, str | None]:
        """Write series of what was left open; the folder is None if nothing was."""
        from pyspark.sql import functions as fn

        if not told.opened:
            return Doubted(), None
        holes = self.strange.where("hole").select(*RUN, "seq", "hole")
        bounds = history.past.where("what = 'bound'").select(*RUN, "seq", "mark")
        (
            self._read("opened")
            .join(fn.broadcast(holes), [*RUN, "seq"], "left")
            .join(bounds, [*RUN, "seq"], "left")
            .withColumn("hole", fn.coalesce("hole", fn.lit(False)))
            .select(*doubts.COLUMNS)
            .write.parquet(str(self.folder / "doubtful"))
        )
        work = partial(
            doubts.tell,
            clusters=history.clusters,
            wanted=self.found.wanted,
            known=marks,
            since_us=self._since_us,
            error_us=self.rules.error_us,
            folder=self.folder / "doubts.told",
        )
        doubted = self._total(self._made("doubtful"), work) or Doubted()
        if not doubted.tellings:
            return doubted, None
        return doubted, self._lay("doubts.told", "doubts")
