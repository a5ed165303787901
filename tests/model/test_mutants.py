"""Each mutant is caught within a limited number of steps, and the real code is not."""

import pytest

from tests.model.mutants import ALL, Mutant
from tests.model.options import Options
from tests.model.simulation import Simulation

MOST_RUNS = 400
STEPS = 1000


def complaints(options: Options, seed: int) -> list[str]:
    simulation = Simulation(options)
    simulation.run(seed, STEPS)
    return [str(complaint) for complaint in simulation.judge()]


@pytest.mark.plain
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_it_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    with monkeypatch.context() as patch:
        mutant.patch(patch)
        for seed in range(mutant.seed, mutant.seed + MOST_RUNS):
            seeds.append(seed)
            if complaints(mutant.options, seed):
                break
        else:
            pytest.fail(f"not caught in {MOST_RUNS * STEPS} steps")
    for seed in seeds:
        assert complaints(mutant.options, seed) == []
