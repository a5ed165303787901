"""Generated sessions get the same packets from the mocker as from MySQL.

A failure names the seed. `TIDEGATE_SEEDS=1234` (or `1000-4000`) runs just these sessions:
``TIDEGATE_SEEDS=1234 ./dev test --deep tests/mysql_mocker/differential -k seeds``.
"""

import pytest

from tests.mysql_mocker.differential.accepted import accepted
from tests.mysql_mocker.differential.arena import Arena
from tests.mysql_mocker.differential.generator import Generator
from tests.support.judging import deep_seeds, judge_seeds


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(range(100), marks=pytest.mark.timeout(600), id="usual"),
        pytest.param(
            deep_seeds(1500),
            marks=[pytest.mark.deep, pytest.mark.timeout(0)],
            id="seeds",
        ),
    ],
)
@pytest.mark.real_mysql
def test_sessions(arena: Arena, chosen: range) -> None:
    known = judge_seeds(chosen, lambda seed: Generator(seed).session(), arena.judge, accepted)
    if len(chosen) >= 60:
        assert known < len(chosen) / 4, f"{known} sessions end in accepted disagreements"
