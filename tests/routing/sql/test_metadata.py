"""Statements that show the data dictionary or a plan, and which servers may answer them."""

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Reason
from routing.policy import choose
from routing.servers.topology import Topology
from routing.sql.statement import StatementClass, StatementReason, classify
from tests.routing.test_policy import NOW, U, session_at


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SHOW TABLES", StatementReason.METADATA),
        ("SHOW FULL COLUMNS FROM t WHERE Field = @a", StatementReason.METADATA),
        ("SHOW CREATE VIEW v", StatementReason.METADATA),
        ("DESC t 'a%'", StatementReason.METADATA),
        ("SELECT * FROM t JOIN information_schema.tables", StatementReason.METADATA),
        ("SELECT @a, table_rows FROM `INFORMATION_SCHEMA`.tables", StatementReason.METADATA),
        ("(TABLE information_schema.views)", StatementReason.METADATA),
        ("EXPLAIN SELECT * FROM information_schema.tables", StatementReason.METADATA),
        ("EXPLAIN SELECT * FROM t", StatementReason.PLAN),
        ("EXPLAIN ANALYZE FORMAT=TREE SELECT @a FROM t", StatementReason.PLAN),
        ("EXPLAIN VALUES ROW(1)", StatementReason.PLAN),
        ("SELECT information_schema FROM t", StatementReason.NOTHING),
        ("SELECT 'information_schema.tables' FROM t", StatementReason.NOTHING),
    ],
)
def test_reads_that_show_it(sql: str, reason: StatementReason) -> None:
    statement = classify(sql.encode())
    assert statement.kind is StatementClass.READ
    assert statement.reason is reason
    assert ("@a" in sql) == bool(statement.user_variables)


@pytest.mark.parametrize(
    "sql",
    [
        *("EXPLAIN DELETE FROM t", "EXPLAIN FOR CONNECTION 5", "SHOW STATUS", "SHOW EVENTS"),
        *("EXPLAIN SELECT f(1)", "SHOW TABLES WHERE f(1)", "EXPLAIN SELECT * FROM t FOR UPDATE"),
        *("SELECT * FROM performance_schema.threads", "EXPLAIN INTO @a SELECT 1", "TABLE sys.x"),
    ],
)
def test_others_are_no_reads(sql: str) -> None:
    assert classify(sql.encode()).kind is not StatementClass.READ


def test_the_primary_answers_what_is_left_to_it() -> None:
    for left in (StatementReason.METADATA, StatementReason.PLAN):
        topology = Topology("p:1", ["r:1"], for_primary=frozenset({left}))
        for server in topology.servers:
            server.observe(U, (0, 0), EMPTY, GtidSet.parse(f"{U}:1-9"))
        session = session_at()
        for sql in ("SHOW TABLES", "EXPLAIN SELECT * FROM t", "SELECT * FROM t"):
            statement = classify(sql.encode())
            decision = choose(session, statement, topology, NOW)
            assert (decision.server is topology.primary) == (statement.reason is left), sql
            if statement.reason is left:
                assert decision.reason is Reason.SESSION
