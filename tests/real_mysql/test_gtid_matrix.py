"""MySQL reports GTIDs where the mocker's tests say so."""

from collections.abc import Iterator

import pytest

from tests.mysql_mocker.gtid_matrix import MATRIX, Row, check, lay_out
from tests.mysql_mocker.raw_client import RawClient
from tests.real_mysql.cluster import Cluster

USER, PASSWORD = "matrix", "matrix-secret"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    for statement in (
        f"CREATE USER IF NOT EXISTS {USER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON *.* TO {USER}",
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE DATABASE IF NOT EXISTS test",
    ):
        cluster.primary.query(statement)
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
@pytest.mark.parametrize("row", MATRIX, ids=str)
def test_row(client: RawClient, row: Row, mode: str) -> None:
    lay_out(client)
    check(client, row, mode, unused_number(client))
