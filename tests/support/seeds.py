"""Seeds of random tests: few for every run, many for the deep one."""

from typing import Any

import pytest


def seeds(usual: int, deep: int) -> list[Any]:
    """Numbers from 0, for `parametrize`: `usual` of them, and in the deep run `deep`."""
    marked = [pytest.param(seed, marks=pytest.mark.deep) for seed in range(usual, deep)]
    return [*range(usual), *marked]
