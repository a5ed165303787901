"""What a test needs is known by its fixtures, and `--fast` leaves out what needs a service."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.spark_session import what_is_missing
from tests.real_mysql.template import find_mysqld
from tests.support.services import hide, needs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
@needs("real_mysql")
def server() -> None:
    """Would start one."""


@pytest.fixture
def table(server: None) -> None:
    """Would make one there."""


def test_a_test_has_the_marker_of_what_its_fixtures_start(
    request: pytest.FixtureRequest, table: None
) -> None:
    assert request.node.get_closest_marker("real_mysql")
    assert not request.node.get_closest_marker("spark")


def test_a_fast_run_leaves_it_out() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--fast", __file__]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "test_a_fast_run_leaves_it_out" in run.stdout
    assert "test_a_test_has_the_marker_of_what_its_fixtures_start" not in run.stdout


def test_what_is_left_out_by_mistake_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_MYSQLD", "JAVA_HOME"):
        monkeypatch.setenv(name, "")  # brought back afterwards
    hide()
    found = find_mysqld()
    assert found is not None
    assert not found.exists()
    assert what_is_missing()
