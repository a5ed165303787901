"""Independent reads in a model, whose mutants are caught premise by premise."""

import pytest

from tests.model.independence import Model
from tests.model.independence_mutants import MUTANTS
from tests.support.seeds import seeds

STEPS = 250
RUNS = 20
MOST_RUNS = 2_000


def complaints(seed: int) -> list[str]:
    model = Model(seed)
    model.run(STEPS)
    return model.complaints


@pytest.mark.parametrize("seed", seeds(5, 500))
def test_no_independent_read_lacks_a_write(seed: int) -> None:
    for run in range(RUNS):
        assert not complaints(seed * RUNS + run)


def test_reads_are_independent() -> None:
    independent = 0
    for seed in range(RUNS):
        model = Model(seed)
        model.run(STEPS)
        independent += model.independent
    assert independent > RUNS // 2


@pytest.mark.plain
@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_a_premise_a_read_lacks_a_write(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(*MUTANTS[mutant])
        found = next((seed for seed in range(MOST_RUNS) if complaints(seed)), None)
    assert found is not None
    assert not complaints(found)
