"""A cluster of the mocker for each test, in a thread of its own."""

from collections.abc import Callable, Iterator

import pytest

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster

ACCOUNTS = {"demo": "demo", "nobody": ""}


@pytest.fixture
def mocker() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(lambda: Cluster(replicas=1, accounts=ACCOUNTS)) as running:
        yield running


@pytest.fixture
def primary(mocker: BackgroundCluster) -> Server:
    return mocker.cluster.primary


@pytest.fixture
def replica(mocker: BackgroundCluster) -> Server:
    return mocker.cluster.replicas[0]


@pytest.fixture
def connect(primary: Server) -> Iterator[Callable[..., RawClient]]:
    """Connects to the primary, or to the server that is named."""
    clients: list[RawClient] = []

    def start(server: Server = primary, **options: int | None) -> RawClient:
        clients.append(RawClient(server.port, **options))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[..., RawClient]) -> RawClient:
    return connect()
