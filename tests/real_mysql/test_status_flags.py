"""The server status that a client is told is the primary's, wherever a statement ran."""

from __future__ import annotations

from contextlib import closing
from itertools import product

import pytest

from protocol.constants import Capability
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

BEGINS = (
    "SET autocommit = 0",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
)
ENDS = (
    *("ROLLBACK", "COMMIT", "COMMIT AND CHAIN", "SET autocommit = 1"),
    *("BEGIN", "START TRANSACTION READ ONLY", "CREATE TABLE app.flags (id INT)", "DO 1"),
)
ASKS = (
    *("SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS"),
    *("SELECT @@warning_count", "SELECT LAST_INSERT_ID()", "SELECT COUNT(*) FROM app.read_here"),
)
LEVELS = ("READ COMMITTED", "REPEATABLE READ")


@pytest.mark.parametrize("deprecates_eof", [True, False])
def test_a_question_about_the_statement_before_tells_the_primary_s_status(
    cluster: Cluster, proxy: StartProxy, deprecates_eof: bool
) -> None:
    """Also where the replica that knows the answer has not the session's autocommit."""
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.read_here (id INT PRIMARY KEY)")
    cluster.primary.query("REPLACE INTO app.read_here VALUES (1), (2), (3), (4)")
    cluster.wait_caught_up()
    running = proxy()
    capabilities = Capability.CLIENT_DEPRECATE_EOF if deprecates_eof else Capability(0)
    read = "TABLE read_here ORDER BY id LIMIT 3"
    for level, begin, end in product(LEVELS, BEGINS, ENDS):
        session = [
            f"SET SESSION TRANSACTION ISOLATION LEVEL {level}",
            *(begin, read, end, *ASKS, read, *ASKS[:2], "COMMIT", *ASKS[:2]),
            "DROP TABLE IF EXISTS app.flags",
        ]
        found = []
        for address in (cluster.primary.address, running.address):
            with closing(RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app")) as client:
                found.append([(sql, client.query(sql)) for sql in session])
        assert found[0] == found[1], session


def test_answers_of_tidegate_itself_where_autocommit_is_off_by_default(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """A server says that it is on until the session sets it."""
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.read_here (id INT PRIMARY KEY)")
    cluster.primary.query("SET GLOBAL autocommit = OFF")
    cluster.wait_caught_up()
    running = proxy()
    own = "SET tidegate_wait_budget = '3s'"
    steps = ("", "SELECT 1", "TABLE read_here", "COMMIT", "BEGIN", "ROLLBACK")
    steps += ("SET autocommit = 0", "SET autocommit = 1", "SET autocommit = 0")
    found = []
    for address, sql in ((cluster.primary.address, "SET @budget = '3s'"), (running.address, own)):
        with closing(RawClient(address, APP_USER, APP_PASSWORD, Capability(0), "app")) as client:
            found.append([(step, client.query(step), client.query(sql)) for step in steps])
    assert found[0] == found[1]
