"""Fixtures on a real MySQL cluster, and a Tidegate process before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.required_mysqld import required_mysqld
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.services import needs


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("real_mysql")


@pytest.fixture(scope="session")
@needs("real_mysql")
def cluster() -> Iterator[Cluster]:
    """One cluster for the whole run. Each test finds it healed, each module finds `app` empty."""
    with Cluster(required_mysqld()) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _empty_schema(cluster: Cluster) -> None:
    cluster.heal()
    cluster.clear()


@pytest.fixture(autouse=True)
def _healed(cluster: Cluster, _empty_schema: None) -> None:
    cluster.heal()


class StartProxy(Protocol):
    """What the fixture `proxy` gives: a function that starts a proxy."""

    def __call__(self, *, module: str = "proxy.cli", **options: str | None) -> RunningProxy: ...


_names = (f"proxy{number}" for number in count(1))


@contextmanager
def proxies_before(cluster: Cluster, **defaults: str | None) -> Iterator[StartProxy]:
    """A function that starts proxies before a cluster, with these options and what it is given.

    Whatever a proxy wrote about an exception that nobody handled fails the test.
    """
    started: list[RunningProxy] = []

    def start(*, module: str = "proxy.cli", **options: str | None) -> RunningProxy:
        started.append(RunningProxy(cluster, next(_names), defaults | options, module))
        return started[-1]

    yield start
    for running in started:
        running.stop()
    for running in started:
        assert "Traceback" not in running.stderr, running.stderr


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[StartProxy]:
    """Starts Tidegate before the cluster: ``proxy(wait_budget="50ms", on_timeout="error")``.

    Options are those of ``tidegate run``; None leaves one of the fixture's own out. `module` is
    run in its place.
    """
    with proxies_before(cluster) as start:
        yield start


@pytest.fixture
def late_replicas(cluster: Cluster) -> Iterator[None]:
    """They have what the module's tables began with, and nothing that is written from now on."""
    for replica in cluster.replicas:
        replica.query("STOP REPLICA SQL_THREAD")
    yield
    for replica in cluster.replicas:
        replica.query("START REPLICA")
