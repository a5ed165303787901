"""Columns say what the judge says of simulated traffic by the hundred, without Spark."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.columns import piece
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs.by_columns import Settled, settled
from tests.spark_jobs.lapses import plant
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.simulation import Simulation
from tests.spark_jobs.small_histories import ROUGH, Step, play, steps
from tests.spark_jobs.without_spark import Audited, Key, audit

P = UUID["primary"]
pytestmark = pytest.mark.not_fast

FEW = range(12)
MANY = range(1000)
PLAIN = {Finding.NOTHING_WRITTEN, Finding.PRIMARY, Finding.WAITED, Finding.KNOWN}

seeds = pytest.mark.parametrize(
    "seeds",
    [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(7200)])],
    ids=["few", "many"],
)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What matters lies in another chunk than a read, mostly."""
    monkeypatch.setattr(piece, "ROWS", 37)


def agree(
    log: list[Record], folder: Path, clock_error_us: int = 0
) -> tuple[Settled, Audited] | None:
    """Judge twice and compare; None where clocks leave all to the judge."""
    by_columns = settled(log, folder, clock_error_us=clock_error_us)
    if by_columns is None:
        return None
    by_judge = audit(log, clock_error_us)
    assert by_columns.reads.keys() | by_columns.left == by_judge.reads.keys()
    for key, finding in by_columns.reads.items():
        said = by_judge.reads[key]
        right = Verdict.NO_PROMISE if finding == Finding.BEST_EFFORT else Verdict.OK
        assert (said.verdict, said.finding) == (right, finding), key
        assert said.since_write_us == by_columns.since_write[key], key
    for key, lapse in by_judge.lapses.items():
        if lapse == Lapse.CONTRADICTED:
            assert server_of(log, key) in by_columns.liars, key
        else:
            assert key in by_columns.suspects, key
    return by_columns, by_judge


def server_of(log: list[Record], key: Key) -> tuple[object, ...]:
    run = ("proxy", "worker", "run")
    (it,) = (it for it in log if (*(it[name] for name in run), it["seq"]) == key)
    return *key[:3], it["server_uuid"], it["incarnation"]


def mar(log: list[Record], random: Random) -> None:
    """Write some sets in another way than servers do, or as none."""
    for record in random.sample(log, len(log) // 15):
        name = random.choice(("observed", "observed", "proof_set", "own_gtids", "required"))
        text = record[name]
        if isinstance(text, str) and text:
            record[name] = random.choice((text.upper(), f"{text}:", text.replace("-", " - ")))


@seeds
def test_on_simulated_traffic(seeds: range, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        simulation = Simulation(seed, proxies=1 + seed % 2, sessions=9)
        simulation.run(200, failover=seed % 4 == 3)
        runs = simulation.finish()
        if seed % 3 == 1:
            simulation.spoil(seed % 5)
        if seed % 5 == 2:
            for lapse in Lapse:
                plant(lapse, runs, random, 1)
        if seed % 6 == 4:
            for run in runs:
                run.records[:] = [it for it in run.records if random.randrange(60)]
        log = [record for run in runs for record in run.records]
        if seed % 3 == 2:
            mar(log, random)
        if seed % 2:
            random.shuffle(log)
        both = agree(log, tmp_path / str(seed))
        if both is None:
            continue
        by_columns, _ = both
        found.update(by_columns.reads.values())
        found["left"] += len(by_columns.left)
        found["logs"] += 1
    assert found["logs"] > len(seeds) / 2
    assert set(found) >= PLAIN
    # That is what they are for.
    assert found["left"] < found.total() / 2


@seeds
def test_where_clocks_differ(seeds: range, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        simulation = Simulation(seed, proxies=2, sessions=9)
        simulation.run(200, failover=seed % 4 == 3)
        runs = simulation.finish()
        if seed % 3 == 1:
            simulation.spoil(seed % 5)
        if seed % 7 == 3:
            simulation.drift(1, random.choice((-300_000, -5_000, 20_000, 400_000)))
        elif seed % 4:
            simulation.skew(1, random.choice((-5_000_000, -3_000, -200, 200, 7_000, 80_000)))
        if seed % 6 == 4:
            for run in runs:
                run.records[:] = [it for it in run.records if random.randrange(60)]
        log = [record for run in runs for record in run.records]
        if seed % 5 == 2:
            mar(log, random)
        random.shuffle(log)
        error_us = random.choice((0, 0, 50, 2_000))
        both = agree(log, tmp_path / str(seed), error_us)
        if both is None:
            continue
        by_columns, by_judge = both
        found.update(by_columns.reads.values())
        found["left"] += len(by_columns.left)
        found["logs"] += 1
        found["corrected"] += bool(by_judge.clocks)
        found["unsteady"] += bool(by_judge.unsteady)
    assert found["logs"] > len(seeds) / 2
    assert found["corrected"] > len(seeds) / 5
    assert found["unsteady"]
    assert set(found) >= PLAIN


def test_a_read_before_the_first_record_of_a_clock_that_is_behind(tmp_path: Path) -> None:
    right, behind = Run("a1"), Run("b1", proxy="behind")
    right.write(1, f"{P}:11")
    miss = right.read(2, "r1", "none", level="STRONG", scope="proxy")
    right.write(1, f"{P}:12")
    right.write(1, f"{P}:13")
    behind.clock.now = right.clock.now - 7_000
    behind.probe("primary", f"{P}:1-13")
    behind.clock.now = right.clock.now
    behind.probe("primary", f"{P}:1-13")
    both = agree([*right.records, *behind.records], tmp_path)
    assert both is not None
    by_columns, by_judge = both
    assert by_judge.clocks == {"behind"}
    key = ("gate", 0, "a1", miss["seq"])
    assert by_judge.reads[key].verdict == Verdict.VIOLATION
    assert key in by_columns.left


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(plan=st.lists(steps(ROUGH), min_size=5, max_size=40))
def test_on_small_histories(tmp_path_factory: pytest.TempPathFactory, plan: list[Step]) -> None:
    runs = [Run("a1"), Run("a2", 1)]
    play(plan, *runs)
    log = [record for run in runs for record in run.records]
    if log:
        agree(log, tmp_path_factory.mktemp("log"))
