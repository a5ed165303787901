"""Logs of proxies that do what they should, as they are and spoilt; large ones, too."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from protocol.gtid import GtidSet
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.lapses import plant
from tests.spark_jobs.routing_log import UUID, Run, save
from tests.spark_jobs.simulation import PROMISES, Simulation
from tests.spark_jobs.test_many_seeds import CLEAN, simulated
from tests.spark_jobs.without_spark import Key, Said, audit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

P = UUID["primary"]


def judge(spark: "SparkSession", log: Path, scratch: Path) -> tuple["DataFrame", "DataFrame"]:
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest

    parsed = ingest.parse(lines_of(spark, log))
    records = ingest.number(parsed).persist()
    history = primary_history.learn(records)
    judged = consistency_audit.transform(records, history).persist()
    return judged, primary_history.lost(history.past)


def simulate(
    spark: "SparkSession", tmp_path: Path, seeds: dict[int, tuple[bool, int]], steps: int
) -> None:
    """Audit several clusters in one log; of each seed, whether it fails over and what is spoilt."""
    planted: dict[tuple[object, object], str] = {}
    lost: dict[str, GtidSet] = {}
    for seed, (failover, each) in seeds.items():
        simulation = Simulation(seed, sessions=max(60, steps // 1000))
        simulation.run(steps, failover=failover)
        runs = simulation.finish()
        spoilt = simulation.spoil(each)
        assert len(spoilt) == each * len(PROMISES)
        for path in save(tmp_path / "log", *runs):
            path.write_text(own(seed, path.read_text()))
        planted |= {key: own(seed, text) for key, text in spoilt.items()}
        for run in runs:
            lost[run.proxy] = GtidSet.parse(own(seed, simulation.lost.text))
    (tmp_path / "scratch").mkdir()
    judged, gone = judge(spark, tmp_path / "log", tmp_path / "scratch")

    rows = judged.collect()
    assert said_of(rows) == audit(logged(tmp_path / "log")).reads
    found = {(row.run, row.seq): row.missing for row in rows if row.verdict == Verdict.VIOLATION}
    assert found == planted
    verdicts = Counter(row.verdict for row in rows)
    assert set(verdicts) <= {Verdict.OK, Verdict.NO_PROMISE, Verdict.VIOLATION}
    assert {(row.level, row.scope) for row in rows if row.proof == "known"} >= set(PROMISES)
    findings = {row.finding for row in rows}
    assert findings >= {Finding.KNOWN, Finding.WAITED, Finding.PRIMARY, Finding.NOTHING_WRITTEN}
    assert sum(row.understated for row in rows) == 0
    told = gone.collect()
    assert {row.proxy for row in told} <= {proxy for proxy, gtids in lost.items() if gtids}
    assert len(told) == sum(failover for failover, _ in seeds.values())
    for row in told:
        assert GtidSet.parse(row.gtids) <= lost[row.proxy]


def logged(log: Path) -> list[dict[str, object]]:
    """All records of a log."""
    lines = (line for path in log.rglob("*.jsonl") for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines]


def said_of(rows: "list[Row]") -> dict[Key, Said]:
    """What JUDGED says of each read."""
    return {
        (row.proxy, row.worker, row.run, row.seq): Said(
            row.verdict, row.finding, row.missing, row.since_write_us
        )
        for row in rows
    }


def own(seed: int, text: str) -> str:
    """The UUIDs of a seed's own cluster."""
    return text.replace("-e53d-", f"-{seed:04x}-")


def test_exactly_what_was_planted_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    seeds = {1: (True, 0), 2: (False, 2), 3: (True, 2)}
    simulate(spark, tmp_path, seeds, steps=3600)


WRONG_CLOCKS: dict[str, Callable[[Simulation], None]] = {
    "ahead": lambda log: log.skew(1, 10_000),
    "set back": lambda log: log.set_back(0, 0.5, 60_000),
    "both": lambda log: _both(log),
}


def _both(log: Simulation) -> None:
    log.skew(1, -30_000)
    log.set_back(0, 0.3, 80_000)


@pytest.mark.deep  # the same is judged without Spark, on many seeds, in test_many_seeds.py
@pytest.mark.parametrize("failover", [False, True])
def test_wrong_clocks_cause_no_alarm_and_hide_nothing(
    spark: "SparkSession", tmp_path: Path, failover: bool
) -> None:
    from spark_jobs.clocks import clocks
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest

    planted: dict[tuple[object, object], str] = {}
    lost: dict[str, GtidSet] = {}
    for seed, spoil in enumerate(WRONG_CLOCKS.values(), 11):
        simulation = Simulation(seed)
        simulation.run(2400, failover=failover)
        runs = simulation.finish()
        spoilt = simulation.spoil(1)
        spoil(simulation)
        for path in save(tmp_path / "log", *runs):
            path.write_text(own(seed, path.read_text()))
        planted |= {key: own(seed, text) for key, text in spoilt.items()}
        lost |= {run.proxy: GtidSet.parse(own(seed, simulation.lost.text)) for run in runs}
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    records = ingest.number(parsed).persist()
    found = clocks.learn(records)
    timed = found.corrected(records)
    history = primary_history.learn(timed, found.error_us)
    judged = consistency_audit.transform(
        timed, history, found.error_us, unsteady=found.unsteady
    ).collect()
    alone = audit(logged(tmp_path / "log"))
    assert alone.error_us == found.error_us
    assert said_of(judged) == alone.reads

    assert {it.proxy[:-1] for it in found.found} == {"gate11", "gate12", "gate13"}
    assert {it.proxy for it in found.found if it.back_us} == {"gate120", "gate130"}
    assert 0 < found.error_us < 5_000
    said = {(row.run, row.seq): (row.verdict, row.missing) for row in judged}
    for key, gtids in planted.items():
        verdict, missing = said.pop(key)
        assert verdict in (Verdict.VIOLATION, Verdict.NOT_JUDGED)
        assert gtids == missing or verdict == Verdict.NOT_JUDGED
    verdicts = Counter((row.verdict, row.finding) for row in judged)
    others = {verdict for verdict, _ in said.values()}
    assert others <= {Verdict.OK, Verdict.NO_PROMISE, Verdict.NOT_JUDGED}
    undecided = {why: n for (verdict, why), n in verdicts.items() if verdict == Verdict.NOT_JUDGED}
    assert set(undecided) <= {Finding.CLOCKS, Finding.UNNAMED_WRITE}
    assert sum(undecided.values()) < len(judged) / 20
    found_out = sum(n for (verdict, _), n in verdicts.items() if verdict == Verdict.VIOLATION)
    assert found_out > len(planted) * 0.8
    for row in primary_history.lost(history.past).collect():
        assert GtidSet.parse(row.gtids) <= lost[row.proxy]


@pytest.mark.deep
def test_a_night(spark: "SparkSession", tmp_path: Path) -> None:
    simulate(spark, tmp_path, {4: (False, 5), 5: (True, 5)}, steps=100_000)


@pytest.mark.deep
@pytest.mark.parametrize("backed", [True, False])
def test_a_session_with_many_writes(spark: "SparkSession", tmp_path: Path, backed: bool) -> None:
    # Every other transaction is another session's, so the required set has 50,000 intervals.
    # Judging it anew for each of the 50,000 reads would take days.
    run = Run()
    if backed:
        run.probe("r1", f"{P}:1-100000")
    # Evidence in as many pieces, and a claim that goes beyond it.
    for number in range(1, 20_000, 2):
        run.waited(8, "r1", f"{P}:{number}")
    missing = []
    for number in range(2, 100_001, 2):
        run.write(7, f"{P}:{number}")
        if number % 10_000:
            run.known(7, "r1", f"{P}:1-100000")
        else:
            missing.append(run.known(7, "r1", f"{P}:1-{number - 1}")["seq"])
    save(tmp_path / "log", run)
    (tmp_path / "scratch").mkdir()
    judged = judge(spark, tmp_path / "log", tmp_path / "scratch")[0].where("session = 7")

    counts = {
        (row.verdict, row.finding): row["count"]
        for row in (judged.groupBy("verdict", "finding").count().collect())
    }
    rest = (Verdict.OK, Finding.KNOWN) if backed else (Verdict.NOT_JUDGED, Finding.UNBACKED)
    assert counts == {rest: 49_990, (Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL): 10}
    found = judged.where("verdict = 'violation'").orderBy("seq").collect()
    assert [row.seq for row in found] == missing
    assert [row.missing for row in found] == [f"{P}:{n}" for n in range(10_000, 100_001, 10_000)]


def lying_waits() -> Run:
    """A replica lacks what each WAIT told, so the proxy takes it for a new incarnation."""
    run = Run("f1", proxy="lied")
    run.probe("r1", f"{P}:1-5")
    for number in range(1, 5):
        own = f"{P}:{5 + number}"
        run.write(7, own)
        run.waited(7, "r1", own, required=own, incarnation=number)
        run.known(7, "r1", own, required=own, incarnation=number)
        run.probe("r1", f"{P}:1-5", incarnation=number + 1)
    return run


@pytest.mark.deep  # the same is judged without Spark in test_many_seeds.py
def test_what_was_left_out_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.audit import causes
    from spark_jobs.procedure import procedure
    from spark_jobs.records import ingest

    planted: dict[tuple[object, object], str] = {}
    for seed, lapse in enumerate((None, *Lapse), 41):
        simulation = Simulation(seed)
        simulation.run(900, failover=seed % 2 == 0)
        runs = simulation.finish()
        if lapse is not None:
            planted |= dict.fromkeys(plant(lapse, runs, Random(seed), 3), lapse.value)
        save(tmp_path / "log", *runs)
    lied = lying_waits()
    save(tmp_path / "log", lied)
    reads = [it for it in lied.records if it["class"] == "read"]
    planted |= {(lied.name, it["seq"]): Lapse.CONTRADICTED.value for it in reads}
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    found = procedure.transform(ingest.number(parsed), tmp_path / "scratch").persist()
    told = {(row.run, row.seq): row.finding for row in found.collect()}
    assert told == planted
    assert {key[3] for key in audit(lied.records).lapses} == {it["seq"] for it in reads}
    assert set(planted.values()) == {lapse.value for lapse in Lapse}
    by_cause: Counter[str] = Counter()
    for part in causes.of_lapses(found):
        by_cause[part.cause] += part.reads
    assert by_cause == Counter(planted.values())


@pytest.mark.deep  # as above
def test_clocks_set_back_and_torn_ends_are_told_apart_as_without_spark(
    spark: "SparkSession", tmp_path: Path
) -> None:
    # Their steps show by begins and by proofs; 263 lacks a question that a crash took.
    from spark_jobs.clocks import clocks
    from spark_jobs.procedure import procedure
    from spark_jobs.records import ingest

    for kind, seed in (("set back", 846), ("set back", 862), ("set back", 504), ("cut", 263)):
        log = simulated(seed, 300)
        CLEAN[kind](log, Random(seed))
        for path in save(tmp_path / "log", *log.runs):
            path.write_text(own(seed, path.read_text()))
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    records = ingest.number(parsed).persist()
    found = clocks.learn(records)
    alone = audit(logged(tmp_path / "log"))
    assert {it.proxy for it in found.found} == alone.clocks != set()
    assert found.error_us == alone.error_us
    timed = found.corrected(records)
    assert (
        procedure.transform(timed, tmp_path / "scratch", found.error_us, found.unsteady).count()
        == 0
    )
