"""information_schema.OPTIMIZER_TRACE shows a client its own statements alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from protocol.constants import Capability
from protocol.response import EOF_HEADER
from protocol.resultset import parse_text_row
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy

ENABLE = "SET optimizer_trace = 'enabled=on'"
SHOW = "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"
STATEMENTS = (
    "SELECT 1",
    "SELECT COUNT(*) FROM app.traced",
    "CREATE VIEW app.seen AS SELECT id FROM app.traced",
    "SELECT * FROM app.seen",
    "DROP VIEW app.seen",
    "INSERT INTO app.traced VALUES (1) ON DUPLICATE KEY UPDATE id = id",
    "INSERT INTO app.traced SELECT id + 1 FROM app.traced t ON DUPLICATE KEY UPDATE id = t.id",
    "UPDATE app.traced SET id = id",
    "DELETE FROM app.traced WHERE id > 50",
    "SELECT app.counts()",
    "CALL app.fills()",
    "BEGIN",
    "SELECT id FROM app.traced FOR UPDATE",
    "COMMIT",
    "CREATE TABLE app.made AS SELECT * FROM app.traced",
    "DROP TABLE app.made",
    "CREATE TEMPORARY TABLE app.passing (id INT)",
    "DROP TEMPORARY TABLE app.passing",
    "SET @x = 1",
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT()",
    "SHOW WARNINGS",
    "SELECT 1/0",
    "SELECT nothing",
    "DO 1",
    "SELECT id INTO @x FROM app.traced LIMIT 1",
    "EXPLAIN SELECT * FROM app.traced",
    "SHOW TABLES",
    "ANALYZE TABLE app.traced",
    "SELECT GET_LOCK('l', 0)",
    "SELECT RELEASE_LOCK('l')",
    "ROLLBACK",
)
SETTING = (
    *("SET sql_mode = 'ANSI'", "SELECT 3", "SET optimizer_switch = 'mrr=on'", "SET NAMES utf8mb4"),
    *("PREPARE s FROM 'SELECT 2'", "EXECUTE s", "SELECT 4"),
)
"""In front of these the proxy may have to restore its own settings."""


@pytest.fixture(scope="module", autouse=True)
def _objects(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    primary.query("CREATE USER tracer@'%' IDENTIFIED BY 'a'")
    primary.query("GRANT ALL ON *.* TO tracer@'%'")
    primary.query("CREATE TABLE app.traced (id INT PRIMARY KEY)")
    primary.query("SET GLOBAL log_bin_trust_function_creators = 1")
    primary.query(
        "CREATE FUNCTION app.counts() RETURNS INT READS SQL DATA"
        " RETURN (SELECT COUNT(*) FROM app.traced)"
    )
    primary.query("CREATE PROCEDURE app.fills() INSERT IGNORE INTO app.traced VALUES (9)")
    cluster.wait_caught_up()
    yield
    primary.query("DROP USER tracer@'%'")


CAPABILITIES = {
    "modern": Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK,
    "old": Capability(0),
}


def traces(
    address: str, capabilities: Capability, statements: Sequence[str]
) -> list[tuple[str, list[bytes | None]]]:
    """Each statement, and the texts of the statements that are traced behind it."""
    client = RawClient(address, "tracer", "a", capabilities, "app")
    found = []
    for sql in statements:
        client.query(sql)
        rows = [payload for _, payload in client.query(SHOW)][2:-1]
        found.append((sql, [parse_text_row(row)[0] for row in rows if row[0] != EOF_HEADER]))
    client.close()
    return found


SEVEN = "SET optimizer_trace_offset = -7, optimizer_trace_limit = 7"
RUNS = {"one": (ENABLE, *STATEMENTS, *SETTING), "seven": (ENABLE, SEVEN, *STATEMENTS)}


@pytest.fixture(params=["READ_OWN_WRITES", "READ_ALL_WRITES"])
def running(proxy: StartProxy, request: pytest.FixtureRequest) -> RunningProxy:
    return proxy(consistency=request.param, server_tls="disabled")


def test_traces_are_those_of_the_clients_own_statements(
    cluster: Cluster, running: RunningProxy
) -> None:
    for kind, capabilities in CAPABILITIES.items():
        for name, statements in RUNS.items():
            expected = traces(cluster.primary.address, capabilities, statements)
            assert traces(running.address, capabilities, statements) == expected, (kind, name)


def test_what_was_put_off_is_made_up_for(cluster: Cluster, running: RunningProxy) -> None:
    """Behind the traces, writes are tracked, and reads see them, as before."""
    capabilities = CAPABILITIES["modern"]
    end = "SET optimizer_trace = 'enabled=off'"
    client = RawClient(running.address, "tracer", "a", capabilities, "app")
    for sql in (ENABLE, *STATEMENTS, "USE mysql", end, "USE app"):
        client.query(sql)
    for number in range(1, 20):
        client.query("INSERT INTO traced SELECT MAX(id) + 100 FROM traced t")
        seen = client.query("SELECT COUNT(*) FROM traced WHERE id > 100")[2:-1]
        assert [parse_text_row(row) for _, row in seen] == [[str(number).encode()]]
    assert traces(running.address, capabilities, (ENABLE, "USE mysql", end)) == traces(
        cluster.primary.address, capabilities, (ENABLE, "USE mysql", end)
    )
    client.close()
