"""Comparisons say what the judge says, read by read."""

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.day import Hours
from spark_jobs.verdict import Lapse
from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.lapses import plant
from tests.spark_jobs.looked import look, same
from tests.spark_jobs.routing_log import UUID, Run, move, save
from tests.spark_jobs.simulation import Simulation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.audit.deduplication import Deduplicated
    from spark_jobs.primaries.primary_history import History

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

P = UUID["primary"]


class Compared:
    """A log, judged by comparison and record by record."""

    def __init__(self, spark: "SparkSession", folder: Path, *runs: Run) -> None:
        from spark_jobs.records import take

        self._spark, self._folder = spark, folder
        save(folder / "log", *runs)
        (folder / "scratch").mkdir()
        segments = find_segments(folder / "log")
        self._lines = take.all_in(spark, segments, folder / "parsed")

    def look(self, period: Hours | None = None) -> "Deduplicated":
        """The first pass, and all records."""
        return look(self._spark, self._lines, self._folder / "scratch", period)

    def agree(
        self, period: Hours | None = None, clock_error_us: int = 0, *, divided: bool = False
    ) -> dict[tuple[str, int], str | None]:
        """Judge twice and compare; of each read, what was found by comparison, or None.

        Args:
            period: what is judged; None for all.
            clock_error_us: by how much clocks may differ at least, µs.
            divided: whether to compare once more, with groups divided by time, as those of a large
                log are; what is found then is in `self.divided`.
        """
        from spark_jobs.audit import judgement
        from spark_jobs.clocks import clocks
        from spark_jobs.primaries import primary_history
        from spark_jobs.procedure import procedure
        from spark_jobs.reads import consistency_audit, plain_reads
        from spark_jobs.records import ingest
        from spark_jobs.records.statement import judged_in

        once = self.look(period)
        out = self._folder / "out"
        found = clocks.learn(once.records)
        self.clocks = [it.ahead_us for it in found.found]
        error_us = max(found.error_us, clock_error_us)
        records = ingest.number(self._lines.parsed).where("repeat is null")
        if period is not None:
            records = records.withColumn("is_judged", judged_in(period))
        records = records.persist()
        assert same(once.records, records)
        timed = found.corrected(records)
        slow = primary_history.learn(timed, error_us)
        oracle = consistency_audit.transform(timed, slow, error_us, found.unsteady).collect()
        lapsed = procedure.transform(timed, self._folder / "all", error_us, found.unsteady)
        if period is not None:
            lapsed = lapsed.where(
                f"arrived_us >= {period.begin_us} and arrived_us < {period.end_us}"
            )
        lapsed = lapsed.persist()
        key = ("run", "seq")
        settled: list[dict[tuple[str, int], str | None]] = []
        with pytest.MonkeyPatch.context() as patched:
            for is_divided in (False, True) if divided else (False,):
                if is_divided:
                    patched.setattr(plain_reads, "_FEW", 0)
                scratch, persisted = out / f"scratch-{is_divided}", list["DataFrame"]()
                plain = judgement.reach(once, found, error_us, out, scratch, print, persisted)
                assert told(plain.history) == told(slow)
                rows = plain.reads.collect()
                assert {tuple(row[it] for it in key): row for row in rows} == {
                    tuple(row[it] for it in key): row for row in oracle
                }
                assert len(rows) == len(oracle)
                assert same(plain.lapsed, lapsed)
                assert plain.lapses == lapsed.count()
                left = {(row.run, row.seq) for row in plain.left.collect()}
                settled.append(
                    {
                        (row.run, row.seq): None if (row.run, row.seq) in left else row.finding
                        for row in oracle
                    }
                )
        self.divided = settled[-1]
        return settled[0]


def told(history: "History") -> tuple[object, ...]:
    """What of a history verdicts rest on."""
    gaps = {key: (its._times, its._marks) for key, its in history.gaps.items()}
    parts = (history.clusters, history.unplaced, history.terms, history.successions, gaps)
    past = history.past.where("what in ('mark', 'bound', 'lost', 'term')")
    return *parts, sorted(map(repr, past.collect()))


def simulated(*seeds: int, steps: int = 900) -> list[Run]:
    """Clusters of one log; of an odd seed one that fails over."""
    runs: list[Run] = []
    for seed in seeds:
        simulation = Simulation(seed, sessions=60)
        simulation.run(steps, failover=seed % 2 == 1)
        runs += simulation.finish()
        simulation.spoil(seed % 3)
        for run in simulation.runs:
            move(run, f"{seed:04x}")
    return runs


def thin(runs: Sequence[Run], one_in: int) -> None:
    """Lose some records, the same ones each time."""
    random = Random(one_in)
    for run in runs:
        run.records[:] = [it for it in run.records if random.randrange(one_in)]


def test_a_clean_log_is_judged_without_python(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from spark_jobs.audit import judgement
    from spark_jobs.clocks import clocks
    from spark_jobs.reads import plain_reads

    run = Run()
    run.probe("primary", f"{P}:1-10")
    run.write(1, f"{P}:11")
    run.waited(1, "r1", f"{P}:1-11")
    once = Compared(spark, tmp_path, run).look()
    found = clocks.learn(once.records)
    timed, known = judgement.prepared(once, found, 0, tmp_path / "scratch", [])
    settled = plain_reads.settle(timed, known, plain_reads.unbacked(timed, known))
    settled.explain(mode="extended")
    plan = capsys.readouterr().out
    assert "Window" in plan
    assert not re.search("Python|Arrow|UDT?F", plan)


@pytest.mark.deep
@pytest.mark.parametrize("seeds", [(2, 4, 5)])
def test_on_simulated_traffic(
    spark: "SparkSession", tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    found = Compared(spark, tmp_path, *simulated(*seeds)).agree()
    settled = [finding for finding in found.values() if finding]
    assert {"known", "waited", "primary", "nothing written"} <= set(settled)


@pytest.mark.deep
@pytest.mark.parametrize("one_in", [20, 400])
def test_where_records_are_missing(spark: "SparkSession", tmp_path: Path, one_in: int) -> None:
    runs = simulated(6, 7)
    thin(runs, one_in)
    found = Compared(spark, tmp_path, *runs).agree()
    assert {"known", "waited"} <= set(found.values())


@pytest.mark.deep
def test_where_steps_were_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    runs: list[Run] = []
    for seed, lapse in enumerate((None, *Lapse), 41):
        simulation = Simulation(seed)
        simulation.run(600, failover=seed % 2 == 0)
        its = simulation.finish()
        if lapse is not None:
            assert plant(lapse, its, Random(seed), 3)
        for run in its:
            move(run, f"{seed:04x}")
        runs += its
    Compared(spark, tmp_path, *runs).agree()


@pytest.mark.deep
@pytest.mark.parametrize("seed", [8, 9])
def test_where_clocks_differ(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    simulation = Simulation(seed, proxies=2, sessions=30)
    simulation.run(600, failover=seed % 2 == 1)
    runs = list(simulation.finish())
    simulation.spoil(2)
    simulation.skew(1, 7_000)
    thin(runs, 300)
    compared = Compared(spark, tmp_path, *runs)
    found = compared.agree(clock_error_us=500)
    assert compared.clocks
    assert {"known", "waited"} <= set(found.values())


@pytest.mark.deep
def test_what_is_beside_a_period_counts_and_is_not_judged(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from spark_jobs.primaries import primary_history
    from spark_jobs.procedure import procedure
    from spark_jobs.reads import consistency_audit

    compared = Compared(spark, tmp_path, *simulated(2, 4, 5))
    records = compared.look().records
    times = sorted(row.arrived_us for row in records.select("arrived_us").collect())
    period = Hours(times[len(times) // 3], times[2 * len(times) // 3])
    within = f"arrived_us >= {period.begin_us} and arrived_us < {period.end_us}"
    found = compared.agree(period)
    narrowed = compared.look(period).records
    whole = primary_history.learn(records)
    of_all = consistency_audit.transform(records, whole).where(within)
    assert same(consistency_audit.transform(narrowed, whole), of_all)
    assert 0 < of_all.count() == len(found)
    lapsed = procedure.transform(narrowed, tmp_path / "narrowed").where(within)
    assert same(lapsed, procedure.transform(records, tmp_path / "records").where(within))
