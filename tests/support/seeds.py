"""Seeds of random tests: few for the fast run, some for every other, many for the deep one."""

from typing import Any

import pytest


def seeds(usual: int, deep: int, *, fast: int | None = None) -> list[Any]:
    """Numbers from 0, for `parametrize`: `usual` of them, and in the deep run `deep`.

    Args:
        usual: how many most runs have.
        deep: how many the deep one has.
        fast: how many the fast one has; None: as many as others.
    """
    always = usual if fast is None else fast
    further = [pytest.param(seed, marks=pytest.mark.not_fast) for seed in range(always, usual)]
    marked = [pytest.param(seed, marks=pytest.mark.deep) for seed in range(usual, deep)]
    return [*range(always), *further, *marked]
