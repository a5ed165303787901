"""Simulated traffic by the hundred, judged without Spark: found is what was planted.

Each kind of finding is planted by itself, in logs of many seeds; logs of proxies that did what they
should are clean, whatever their clocks and however much of them is missing.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

pytest.importorskip("pyspark")

from protocol.gtid import GtidSet
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs import plants
from tests.spark_jobs.lapses import plant as plant_lapses
from tests.spark_jobs.plants import Planted
from tests.spark_jobs.simulation import Simulation
from tests.spark_jobs.without_spark import Audited, audit

pytestmark = pytest.mark.not_fast

FEW = range(8)
MANY = range(1000)
STEPS = 120

seeds = pytest.mark.parametrize(
    "seeds",
    [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(3600)])],
    ids=["few", "many"],
)

RIGHT = {Verdict.OK, Verdict.NO_PROMISE}


def simulated(seed: int, steps: int = STEPS) -> Simulation:
    simulation = Simulation(seed, proxies=2 + seed % 2)
    simulation.run(steps, failover=seed % 3 == 0)
    simulation.finish()
    return simulation


# Clean logs


def _most_us(log: Simulation) -> int:
    """By how much a clock may be wrong: less than the shortest of its primaries' terms lasts."""
    return 10_000 if log.term else 60_000


def _skewed(log: Simulation, random: Random) -> None:
    log.skew(1, random.choice((-1, 1)) * random.randrange(1_000, _most_us(log)))


def _set_back(log: Simulation, random: Random) -> None:
    log.set_back(
        random.randrange(2), random.uniform(0.1, 0.9), random.randrange(3_000, _most_us(log))
    )


def _both(log: Simulation, random: Random) -> None:
    _skewed(log, random)
    _set_back(log, random)


def _dropped(log: Simulation, random: Random) -> None:
    for run in log.runs:
        for _ in range(random.randrange(3)):
            place = random.randrange(len(run.records))
            del run.records[place : place + random.randrange(1, 4)]


def _cut(log: Simulation, random: Random) -> None:
    """Crashes took the ends of runs, and whoever cleans up the begin of one."""
    for run in log.runs:
        del run.records[len(run.records) - random.randrange(4) :]
    del log.runs[0].records[: random.randrange(20)]


CLEAN: dict[str, Callable[[Simulation, Random], None]] = {
    "as it is": lambda log, random: None,
    "skewed": _skewed,
    "set back": _set_back,
    "skewed and set back": _both,
    "dropped": _dropped,
    "cut": _cut,
}


@seeds
@pytest.mark.parametrize("kind", CLEAN)
def test_clean_logs_are_clean(kind: str, seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        log = simulated(seed, 300)
        CLEAN[kind](log, Random(seed))
        found = audit(log.records())
        verdicts = Counter(said.verdict for said in found.reads.values())
        counts += verdicts
        others = set(verdicts) - RIGHT - {Verdict.NOT_JUDGED}
        assert not others, (seed, *_wrong(found))
        assert not found.lapses, (seed, found.lapses)
        for proxy, gtids in found.lost:
            assert GtidSet.parse(gtids) <= log.lost, (seed, proxy)
    print(f"{len(seeds)} logs, {kind}: {dict(counts)}")
    undecided = counts[Verdict.NOT_JUDGED] / counts.total()
    assert undecided < 0.001 if kind == "as it is" else undecided < 0.25


def _wrong(found: Audited) -> list[object]:
    return [it for it in found.reads.items() if it[1].verdict not in RIGHT][:3]


# What was planted

READS = (
    *(Finding.KNOWN_TOO_SMALL, Finding.WAITED_TOO_SMALL, Finding.NO_PROOF),
    *(Finding.MALFORMED_PROOF, Finding.UNBACKED),
)
PLANTS: dict[str, Callable[[Simulation, Random], Planted]] = {
    **{finding.value: plants.read(finding) for finding in READS},
    **{finding.value: plants.scene(finding) for finding in plants.SCENES},
    Finding.CLOCKS.value: plants.perhaps_late,
    Finding.UNKNOWN_CLUSTER.value: plants.stranger,
    "lost": plants.lost,
}


@seeds
@pytest.mark.parametrize("kind", PLANTS)
def test_exactly_what_was_planted_is_found(kind: str, seeds: range) -> None:
    count = 0
    for seed in seeds:
        log = simulated(seed)
        planted = PLANTS[kind](log, Random(seed))
        found = audit(planted.records or log.records(), planted.clock_error_us)
        said = {
            key[2:]: (it.verdict, it.finding)
            for key, it in found.reads.items()
            if it.verdict not in RIGHT
            # The simulation's proxies may read from a new primary before they ask it.
            and (key[2:] in planted.reads or it.finding != Finding.PRIMARY_CHANGED)
        }
        if planted.clock_error_us:  # there others are in doubt, too
            others = {it for key, it in said.items() if key not in planted.reads}
            doubts = {Finding.CLOCKS, Finding.UNNAMED_WRITE}
            assert others <= {(Verdict.NOT_JUDGED, doubt) for doubt in doubts}, seed
            said = {key: it for key, it in said.items() if key in planted.reads}
        assert said == planted.reads, seed
        lost = [GtidSet.parse(gtids) for _, gtids in found.lost]
        rest = [gtids for gtids in lost if not gtids <= log.lost]
        assert rest == ([planted.lost] if planted.lost else []), seed
        count += len(planted.reads) + bool(planted.lost)
    print(f"{len(seeds)} logs, {kind}: {count} planted and found")
    assert count >= len(seeds)


@seeds
@pytest.mark.parametrize("lapse", list(Lapse))
def test_exactly_what_was_left_out_is_found(lapse: Lapse, seeds: range) -> None:
    count = 0
    for seed in seeds:
        log = simulated(seed)
        planted = plant_lapses(lapse, log.runs, Random(seed), 3)
        found = audit(log.records())
        assert {key[2:] for key in found.lapses} == planted, seed
        assert set(found.lapses.values()) <= {lapse}, seed
        count += len(planted)
    print(f"{len(seeds)} logs, {lapse}: {count} planted and found")
    assert count > len(seeds) // 10
