"""A cluster for each test that asks for one.

In a `conftest.py`: ``pytest_plugins = ["tidegate.mysql_mocker.pytest_plugin"]``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mysql_mocker import BlockingCluster


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", "mysql_cluster(**options): the arguments of MockCluster for this test"
    )


@pytest.fixture
def mysql_cluster(request: pytest.FixtureRequest) -> "Iterator[BlockingCluster]":
    """A primary and two replicas for this test alone; the marker `mysql_cluster` takes options."""
    from mysql_mocker import MockCluster  # loaded for tests that use it, not for all

    marker = request.node.get_closest_marker("mysql_cluster")
    options = {} if marker is None else marker.kwargs
    with MockCluster(**options) as cluster:
        yield cluster
