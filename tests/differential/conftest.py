"""A cluster of its own, and a proxy before it, for sessions that are run twice."""

from collections.abc import Iterator

import pytest

from tests.differential.arena import Arena
from tests.differential.schema import prepare_cluster
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.required_mysqld import required_mysqld
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.services import needs


@pytest.fixture(scope="module")
@needs("real_mysql")
def cluster() -> Iterator[Cluster]:
    """A primary and two replicas with the accounts of the sessions."""
    with Cluster(required_mysqld()) as running:
        prepare_cluster(running)
        yield running


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[RunningProxy]:
    """Tidegate with its defaults; an exception that nobody handled is a failure."""
    running = RunningProxy(cluster, "differential", {})
    yield running
    running.stop()
    assert "Traceback" not in running.stderr, running.stderr


@pytest.fixture(scope="module")
def arena(cluster: Cluster, proxy: RunningProxy) -> Arena:
    """Where a session is run on the primary and through the proxy."""
    return Arena(cluster, proxy)
