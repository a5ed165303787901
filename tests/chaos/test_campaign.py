"""A campaign of two short faults on a real cluster."""

from pathlib import Path

import pytest

from routing.consistency.decision import Level
from tests.chaos.campaign import Campaign, Plan
from tests.real_mysql.required_mysqld import required_mysqld
from tests.support.services import needs

pytestmark = pytest.mark.real_mysql


@pytest.fixture
@needs("real_mysql")
def mysqld() -> Path:
    return required_mysqld()


@pytest.mark.timeout(300)
def test_two_faults_in_short(mysqld: Path) -> None:
    lines: list[str] = []
    faults = ("applier-stopped", "replica-connections-cut")
    outcome = Campaign(Plan(1, 0, faults, seconds=1.0), mysqld, lines.append).run()
    assert not outcome.findings, "\n".join(lines)
    assert set(outcome.rows) == set(faults)
    for row in outcome.rows.values():
        assert set(row.levels) == set(Level)
        assert row.writes
        assert row.on_replicas
