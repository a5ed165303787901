"""Generated sessions get the same packets from the mocker as from MySQL.

A failure names the seed. `TIDEGATE_SEEDS=1234` (or `1000-4000`) runs just these sessions:
``TIDEGATE_SEEDS=1234 ./dev test --deep tests/mysql_mocker/differential -k seeds``.
"""

import os

import pytest

from tests.differential.shrinking import shrink
from tests.mysql_mocker.differential.accepted import accepted
from tests.mysql_mocker.differential.arena import Arena
from tests.mysql_mocker.differential.generator import Generator

DEEP_SESSIONS = int(os.environ.get("TIDEGATE_SESSIONS", "1500"))
REPORTED = 10
"""So many disagreements are shrunk and shown; one kind of last step counts once."""


def seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(range(200), id="usual"),
        pytest.param(
            seeds(os.environ.get("TIDEGATE_SEEDS", f"1000-{999 + DEEP_SESSIONS}")),
            marks=[pytest.mark.deep, pytest.mark.timeout(0)],
            id="seeds",
        ),
    ],
)
@pytest.mark.real_mysql
def test_sessions(arena: Arena, chosen: range) -> None:
    reports: dict[str, str] = {}
    known = 0
    for seed in chosen:
        session = Generator(seed).session()
        found = arena.judge(session)
        if found is not None and accepted(session, found):
            known += 1
        elif found is not None:
            kind = repr(session.steps[found.step - 1]) if found.step else "the login"
            if kind not in reports:
                session, found = shrink(session, found, arena.judge)
                reports[kind] = f"seed {seed}:\n{session}\n{found}"
        if len(reports) == REPORTED:
            break
    assert not reports, "\n\n".join(reports.values())
    if len(chosen) >= 60:
        assert known < len(chosen) / 4, f"{known} sessions end in accepted disagreements"
