"""MySQL reports GTIDs where the mocker's tests say so."""

from collections.abc import Iterator

import pytest

from tests.mysql_mocker.gtid_matrix import MATRIX, OF_SERVERS, Row, check, lay_out
from tests.mysql_mocker.raw_client import RawClient
from tests.real_mysql.cluster import Cluster

USER, PASSWORD = "matrix", "matrix-secret"


@pytest.fixture(scope="module")
def _account(cluster: Cluster) -> None:
    cluster.primary.query(f"CREATE USER IF NOT EXISTS {USER} IDENTIFIED BY '{PASSWORD}'")
    cluster.primary.query(f"GRANT ALL ON *.* TO {USER}")


@pytest.fixture
def client(cluster: Cluster, _account: None) -> Iterator[RawClient]:
    cluster.primary.query("CREATE DATABASE IF NOT EXISTS test")
    with RawClient(cluster.primary.port, USER, PASSWORD) as client:
        yield client
        for statement in ("ROLLBACK", "UNLOCK TABLES", "XA ROLLBACK 'x'"):
            client.query(statement)
    cluster.primary.query("DROP USER IF EXISTS somebody")


def unused_number(client: RawClient) -> int:
    executed = client.executed()
    uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    return next(n for n in range(1, 10_000) if f"{uuid}:{n}" not in executed)


@pytest.mark.parametrize("mode", ["OFF", "OWN_GTID", "ALL_GTIDS"])
@pytest.mark.parametrize("row", [*MATRIX, *OF_SERVERS], ids=str)
def test_row(client: RawClient, row: Row, mode: str) -> None:
    lay_out(client)
    check(client, row, mode, unused_number(client))
