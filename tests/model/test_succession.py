"""Workers agree on who the primary is, and no write goes to another server (`succession`)."""

from collections import Counter

import pytest

from tests.model.mutants import OF_SUCCESSION, SuccessionMutant
from tests.model.succession import SuccessionSimulation
from tests.support.seeds import seeds

STEPS = 1500
MOST_RUNS = 200


@pytest.mark.parametrize("seed", seeds(60, 60, fast=20))
def test_random_steps(seed: int) -> None:
    assert SuccessionSimulation(seed).run(STEPS) == []


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many_random_steps(seed: int) -> None:
    assert SuccessionSimulation(seed).run(4000) == []


def test_all_kinds_of_things_happen() -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        simulation = SuccessionSimulation(seed)
        simulation.run(STEPS)
        counts += simulation.counts
    kinds = ["promoted", "followed", "withheld", "written", "came back writable"]
    kinds += ["replica opened", "worker began again"]
    assert [kind for kind in kinds if counts[kind] < 3] == []


@pytest.mark.plain
@pytest.mark.parametrize("mutant", OF_SUCCESSION, ids=lambda mutant: mutant.__name__)
def test_it_is_caught(mutant: SuccessionMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(MOST_RUNS):
        if SuccessionSimulation(seed).run(STEPS):
            return
    pytest.fail(f"not caught in {MOST_RUNS * STEPS} steps")
