"""What is entered of statements, one after the other, against what each is by itself."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Command as Code
from protocol.gtid import GtidSet
from protocol.packet import frame
from proxy.observe import families
from proxy.observe.ledger import Account, Ledger
from proxy.observe.metrics import Metrics
from routing.consistency.decision import (
    Decision,
    Level,
    Outcome,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import Rules, StatementRules
from routing.record import RecordStream
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server
from routing.session.session import Session
from routing.sql.classifier import Classifier

U = "11111111-1111-1111-1111-111111111111"
STATEMENTS = (b"SELECT 1 FROM t", b"UPDATE t SET n = 1")
RULES = [
    Rules(level, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
    for level in (Level.READ_OWN_WRITES, Level.STRONG)
]

CHOICES: tuple[tuple[Any, ...], ...] = (
    (0, 1, None),  # which server answered
    (Role.PRIMARY, Role.REPLICA),  # what it is by then
    (0, 1),  # how often it was restarted since
    (Reason.READ, Reason.WRITE, None),
    (Proof.KNOWN, Proof.PRIMARY, None),
    (Outcome.OK, Outcome.ERROR),
    tuple(RULES),
    STATEMENTS,
)

changes = st.integers(0, len(CHOICES) - 1).flatmap(
    lambda field: st.tuples(st.just(field), st.sampled_from(CHOICES[field]))
)
"""A statement is as the one before, but for this."""


class Worker:
    """A ledger with a log, and an account."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.records = RecordStream("edge", 0, "ab", 1 << 30)
        self.ledger = Ledger(self.metrics, self.records, "edge")
        self.account = self.open()

    def open(self) -> Account:
        state = Session(RULES[0], 0)
        state.user = "app"
        return self.ledger.open(7, state, query_attributes=False)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What is the same of records whenever they are made."""
        lines = [json.loads(line) for line in self.records.take(1 << 30).splitlines()]
        times = ("arrived_us", "dispatched_us", "ended_us", "seq", "ordinal")
        return [{name: line[name] for name in line if name not in times} for line in lines]

    @property
    def counts(self) -> dict[tuple[str, ...], float]:
        snapshot = self.metrics.snapshot()
        statements = snapshot["values"][families.STATEMENTS.name]
        counts = {tuple(labels): value for labels, value in statements}
        for name, series in snapshot["histograms"].items():
            counts |= {(name, *labels): sum(buckets) for labels, buckets, _ in series}
        return counts


@given(st.lists(changes, min_size=1, max_size=30))
def test_no_statement_is_taken_for_the_one_before(steps: list[tuple[int, Any]]) -> None:
    first, second = Worker(), Worker()
    servers = [Server("db1:3306", Role.PRIMARY), Server("db2:3306", Role.REPLICA)]
    course = [choices[0] for choices in CHOICES]
    for field, value in steps:
        course[field] = value
        index, role, restarts, reason, proof, ending, rules, sql = course
        server = None if index is None else servers[index]
        if server is not None:
            server.role = role
            for number in range(restarts):
                server.observe(U, (server.epoch + number + 1, 0), GtidSet(), GtidSet())
        statement = Classifier().classify(sql, 0)
        command = Command(
            Code.COM_QUERY,
            rules if rules is RULES[0] else StatementRules(rules),
            frame(b"\x03" + sql, 0),
            statement,
            statement.may_write,
        )
        outcome = CommandOutcome(command)
        outcome.reason, outcome.proof = reason, proof
        if server is not None:
            outcome.decision = Decision(server, Reason.READ, Proof.KNOWN, GtidSet.parse(f"{U}:1-9"))
        first.account.record(command, outcome, server, ending)
        second.ledger = Ledger(second.metrics, second.records, "edge")
        second.open().record(command, outcome, server, ending)
    assert first.lines == second.lines
    assert first.counts == second.counts


def test_sessions_share_what_is_the_same_of_their_statements() -> None:
    worker, server = Worker(), Server("db1:3306", Role.PRIMARY)
    statement = Classifier().classify(STATEMENTS[0], 0)
    command = Command(Code.COM_QUERY, RULES[0], b"", statement, False)
    outcome = CommandOutcome(command)
    course = worker.ledger.course(command, outcome, server, Outcome.OK)
    assert worker.ledger.course(command, outcome, server, Outcome.OK) is course
    server.role = Role.REPLICA
    assert worker.ledger.course(command, outcome, server, Outcome.OK) is not course
    worker.ledger.forget(server)
    server.role = Role.PRIMARY
    assert worker.ledger.course(command, outcome, server, Outcome.OK) is not course
