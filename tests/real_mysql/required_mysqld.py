"""The server program, for fixtures: where there is none, tests are skipped."""

from pathlib import Path

import pytest

from tests.real_mysql.template import NO_MYSQLD, find_mysqld


def required_mysqld() -> Path:
    """Where mysqld is; without one the test is skipped."""
    mysqld = find_mysqld()
    if mysqld is None:
        pytest.skip(NO_MYSQLD)
    return mysqld
