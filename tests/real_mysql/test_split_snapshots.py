"""REPEATABLE READ transactions that may write: from a replica's snapshot until they do."""

from __future__ import annotations

import pytest
from pymysql.err import MySQLError

from protocol.constants import Capability
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.test_read_only_transactions import COUNT, numbers, served, value
from tests.real_mysql.test_split_transactions import (
    CAPABILITIES,
    SCRIPT,
    check_same_bytes,
    none_is_open,
)

__all__ = ["numbers"]

SNAPSHOT = {"transaction_reads": "snapshot"}
FAMILY = "tidegate_split_conflicts_total"


def test_reads_share_a_snapshot_also_behind_the_first_write(
    numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(**SNAPSHOT)
    primary = numbers.primary.address
    with running.connect() as client:
        client.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        client.query("BEGIN")
        for _ in range(2):
            assert value(client, COUNT) == 2
            assert served(client) != primary
            assert client.server_status & 0x2003 == 0x0003
        client.query("INSERT INTO numbers VALUES (3)")
        none_is_open(numbers)
        assert value(client, COUNT) == 3
        assert served(client) == primary
        client.query("COMMIT")
        assert client.server_status & 0x2003 == 0x0002
        assert value(client, COUNT) == 3
    assert running.metric(FAMILY) == 0


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0"])
def test_others_writes_are_a_conflict_behind_the_first_own(
    begin: str, numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(**SNAPSHOT)
    primary = numbers.primary.address
    with running.connect() as client, running.connect() as other:
        client.query(begin)
        assert value(client, COUNT) == 1
        assert served(client) != primary
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 1
        client.query("UPDATE numbers SET n = n + 10")
        assert client.affected_rows() == 2  # as on one server
        assert value(client, "SELECT COUNT(*) FROM numbers FOR UPDATE") == 2
        with pytest.raises(MySQLError) as failed:
            value(client, COUNT)
        assert failed.value.args[0] == 1213
        client.ping()
        assert client.server_status & 0x0001 == 0
        assert value(other, "SELECT MAX(n) FROM numbers") == 2
        client.query("ROLLBACK")
        if begin == "BEGIN":
            client.query(begin)
        assert value(client, COUNT) == 2
        assert served(client) == primary
        client.query("UPDATE numbers SET n = n + 10")
        assert value(client, "SELECT MAX(n) FROM numbers") == 12
        client.query("COMMIT")
        assert value(other, "/* tidegate consistency=STRONG */ SELECT MAX(n) FROM numbers") == 12
    assert running.metric(FAMILY, policy="error") == 1


def test_a_conflict_can_be_allowed(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy(**SNAPSHOT, on_split_conflict="allow")
    with running.connect() as client, running.connect() as other:
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        other.query("INSERT INTO numbers VALUES (2)")
        client.query("INSERT INTO numbers VALUES (3)")
        assert value(client, COUNT) == 3
        other.query("INSERT INTO numbers VALUES (4)")
        assert value(client, COUNT) == 3  # one snapshot again, another one
        client.query("COMMIT")
    assert running.metric(FAMILY, policy="allow") == 2


def test_the_primary_s_snapshot_is_taken_before_the_first_write(
    numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(**SNAPSHOT)
    with running.connect() as client, running.connect() as other:
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        client.query("INSERT INTO numbers VALUES (2)")
        other.query("INSERT INTO numbers VALUES (3)")
        assert value(client, COUNT) == 2
        client.query("COMMIT")
        assert value(client, COUNT) == 3
    assert running.metric(FAMILY) == 0


def test_a_lost_replica_ends_no_transaction(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy(**SNAPSHOT)
    with running.connect() as client:
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        for replica in numbers.replicas:
            replica.end_other_connections()
        assert value(client, COUNT) == 1
        assert served(client) == numbers.primary.address
        client.query("INSERT INTO numbers VALUES (2)")
        assert value(client, COUNT) == 2
        client.query("COMMIT")
    assert running.metric(FAMILY) == 0


@pytest.mark.parametrize("capabilities", CAPABILITIES)
@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS"])
def test_a_client_cannot_tell(
    level: str, capabilities: Capability, numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(consistency=level, **SNAPSHOT)
    check_same_bytes(SCRIPT[1:], numbers, running, capabilities)
    assert running.metric("tidegate_statements_total", role="replica") >= 4
