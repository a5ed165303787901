"""Transactions that may write: at READ COMMITTED they read from replicas until they do."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest
from pymysql.err import MySQLError

from protocol.constants import Capability
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import NOTHING, Packet, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.real_mysql.test_read_only_transactions import COUNT, numbers, served, value

__all__ = ["numbers"]

COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
OPEN = "SELECT COUNT(*) FROM information_schema.innodb_trx"


def none_is_open(cluster: Cluster) -> None:
    """Wait until no replica has a transaction open."""
    while any(replica.value(OPEN) != "0" for replica in cluster.replicas):
        time.sleep(0.15)  # what is asked again within 0.1 s is answered as before


def test_each_read_is_one_by_itself(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    primary = numbers.primary.address
    with running.connect() as client, running.connect() as other:
        client.query(COMMITTED)
        client.query("INSERT INTO numbers VALUES (2)")
        client.query("BEGIN")
        assert value(client, COUNT) == 2  # own writes, before the transaction
        assert served(client) != primary
        other.query("INSERT INTO numbers VALUES (3)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 3
        assert served(client) != primary
        client.query("INSERT INTO numbers VALUES (4)")
        assert client.server_status & 0x2003 == 0x0003
        none_is_open(numbers)
        assert value(client, COUNT) == 4
        assert served(client) == primary
        client.query("COMMIT AND CHAIN")
        assert value(client, COUNT) == 4
        assert served(client) != primary
        client.query("ROLLBACK")
        none_is_open(numbers)
        assert value(client, COUNT) == 4
        assert client.server_status & 0x2003 == 0x0002


@pytest.mark.parametrize(
    "sql",
    [
        *("SAVEPOINT s", "SELECT n FROM numbers FOR UPDATE", "SELECT n FROM numbers FOR SHARE"),
        *("DELETE FROM numbers WHERE n = 99", "SET @a = 1", "SET sql_mode = ''"),
        *("SELECT @a := 1", "DO 1", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    ],
)
def test_what_is_no_plain_read_keeps_the_rest_on_the_primary(
    sql: str, numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy()
    with running.connect() as client:
        client.query(COMMITTED)
        client.query("START TRANSACTION")
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address
        client.query(sql)
        assert value(client, COUNT) == 1
        if sql != "DO 1":  # computes, and no more
            assert served(client) == numbers.primary.address
        client.query("COMMIT")
        none_is_open(numbers)


@pytest.mark.parametrize(
    "begin",
    [
        ["BEGIN"],  # REPEATABLE READ
        [COMMITTED, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN"],
        [COMMITTED, "START TRANSACTION WITH CONSISTENT SNAPSHOT"],
        [COMMITTED, "SET tidegate_transaction_reads = 'primary'", "BEGIN"],
        [COMMITTED, "SET session_track_transaction_info = 'STATE'", "BEGIN"],
    ],
)
def test_others_read_from_the_primary(
    begin: list[str], numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy()
    with running.connect() as client:
        for sql in begin:
            client.query(sql)
        assert value(client, COUNT) == 1
        assert served(client) == numbers.primary.address


def test_without_autocommit_a_read_begins_one(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    primary = numbers.primary.address
    with running.connect() as client, running.connect() as other:
        client.query(COMMITTED)
        client.query("SET autocommit = 0")
        assert value(client, "SELECT 1") == 1
        for end in ("COMMIT", "ROLLBACK"):
            assert value(client, COUNT) in {1, 2}
            assert served(client) != primary
            client.ping()
            assert client.server_status & 0x2003 == 1
            other.query("REPLACE INTO numbers VALUES (2)")
            numbers.wait_caught_up()
            assert value(client, COUNT) in {2, 3}
            assert served(client) != primary
            client.query(end)
            assert client.server_status & 0x2003 == 0
            none_is_open(numbers)
        value(client, COUNT)
        client.query("INSERT INTO numbers VALUES (9)")
        assert client.server_status & 0x2003 == 1
        value(client, COUNT)
        assert served(client) == primary
        client.query("COMMIT")
        value(client, COUNT)
        with pytest.raises(MySQLError) as failed:
            client.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert failed.value.args[0] == 1568
        client.query("ROLLBACK")


SCRIPT = """SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
BEGIN
SELECT n FROM numbers
SELECT n FROM missing
SHOW WARNINGS
SELECT n FROM numbers WHERE n = 1
SELECT FOUND_ROWS()
USE app
SELECT n FROM numbers
UPDATE numbers SET n = 5
SELECT n FROM numbers
ROLLBACK
SELECT n FROM numbers
SET autocommit = 0
SELECT 1
SELECT n FROM numbers
SELECT n FROM missing
SELECT n FROM numbers
ROLLBACK
SELECT n FROM numbers
SET TRANSACTION READ ONLY
COMMIT
SET TRANSACTION READ ONLY
SELECT n FROM numbers
INSERT INTO numbers VALUES (7)
COMMIT
SELECT n FROM numbers
SET autocommit = 1
SELECT n FROM numbers
START TRANSACTION READ WRITE
SELECT n FROM numbers
BEGIN
SELECT n FROM numbers
CREATE TABLE by_the_way (n INT)
SELECT n FROM numbers
BEGIN
SELECT n FROM numbers
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ
SELECT n FROM numbers
COMMIT
DROP TABLE by_the_way""".splitlines()


CAPABILITIES = (
    NOTHING,
    Capability.CLIENT_DEPRECATE_EOF,
    Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK,
)


def check_same_bytes(
    script: list[str], cluster: Cluster, running: RunningProxy, capabilities: Capability
) -> None:
    """A client is answered the same through the proxy as directly: every byte and status."""
    if capabilities & Capability.CLIENT_SESSION_TRACK:
        script = script[: script.index("SET autocommit = 0")]  # a tracker tells of what it ends

    def played(address: str) -> list[tuple[str, list[Packet]]]:
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            return [(sql, client.query(sql)) for sql in script]

    direct = played(cluster.primary.address)
    cluster.wait_caught_up()
    assert played(running.address) == direct


@pytest.mark.parametrize("capabilities", CAPABILITIES)
@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS"])
def test_a_client_cannot_tell(
    level: str, capabilities: Capability, numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(consistency=level)
    check_same_bytes(SCRIPT, numbers, running, capabilities)
    assert running.metric("tidegate_statements_total", role="replica", reason="read") >= 5


def test_a_replica_that_is_lost_takes_nothing_along(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client:
        client.query(COMMITTED)
        client.query("BEGIN")
        assert value(client, COUNT) == 1
        for replica in numbers.replicas:
            replica.end_other_connections()
        assert value(client, COUNT) == 1
        assert client.server_status & 0x2003 == 0x0003
        client.query("INSERT INTO numbers VALUES (2)")
        client.query("COMMIT")
        assert value(client, COUNT) == 2


@pytest.mark.parametrize(
    "modes",
    [
        (COMMITTED,),
        ("SET tidegate_transaction_reads = 'snapshot'",),
        ("SET SESSION TRANSACTION READ ONLY",),
    ],
    ids=["split", "snapshot", "read only"],
)
@pytest.mark.parametrize("sql", ["SAVEPOINT s", "CALL sets(0)", "CALL sets(1)"])
def test_a_savepoint_that_no_status_flag_tells_of_stays(
    modes: tuple[str, ...], sql: str, numbers: Cluster, proxy: StartProxy
) -> None:
    """With autocommit off it can be set before the transaction's first read."""
    primary = numbers.primary
    primary.query("DROP PROCEDURE IF EXISTS app.sets")
    primary.query(
        "CREATE PROCEDURE app.sets(fails INT)"
        " BEGIN SAVEPOINT s; IF fails THEN SIGNAL SQLSTATE '45000'; END IF; END"
    )
    numbers.wait_caught_up()
    running = proxy()
    with running.connect() as client:
        for mode in (*modes, "SET autocommit = 0"):
            client.query(mode)
        assert value(client, COUNT) == 1
        assert served(client) != primary.address
        client.query("COMMIT")
        with pytest.raises(MySQLError) if sql.endswith("(1)") else nullcontext():
            client.query(sql)
        assert value(client, "SELECT 1") == 1  # its status flags tell of no transaction
        assert value(client, COUNT) == 1
        client.query("DO 1")
        if "READ ONLY" not in modes[0]:
            client.query("INSERT INTO numbers VALUES (2)")
        client.query("ROLLBACK TO s")
        assert value(client, COUNT) == 1
        client.query("RELEASE SAVEPOINT s")
        client.query("COMMIT")  # names no GTID, since what was written was undone
        assert value(client, COUNT) == 1
        client.query("COMMIT")
        assert value(client, COUNT) == 1
        assert served(client) != primary.address
