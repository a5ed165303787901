"""Statements by digest, and the log of slow ones."""

import logging

import pytest

from protocol.constants import Command as Code
from protocol.packet import frame
from proxy.observe.digests import GENERATION, OTHERS, Digests, text_of
from proxy.observe.ledger import Ledger
from proxy.observe.metrics import Metrics
from proxy.observe.slow_log import LINES_PER_S, SlowLog
from proxy.shared.administration import digest_rows
from routing.consistency.decision import Decision, Outcome, Proof, Reason
from routing.consistency.rules import Rules
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.sql.lexer import MODE_UTF8
from tests.faults.client import attributed
from tests.proxy.test_ledger import RULES

CLASSIFIER = Classifier()


def of(sql: bytes, packet: bytes = b"", rules: Rules = RULES[0]) -> Command:
    return Command(
        Code.COM_QUERY,
        rules,
        packet or frame(b"\x03" + sql, 0),
        CLASSIFIER.classify(sql, MODE_UTF8),
        arrived_us=1,
    )


def digest_of(command: Command) -> str:
    assert command.statement is not None
    return command.statement.digest


@pytest.mark.parametrize(
    "packet",
    [
        b"\x03SELECT 1",
        b"\x03\x00\x01SELECT 1",
        attributed("SELECT 1", tidegate_consistency="STRONG"),
    ],
)
def test_the_text_is_found_behind_attributes(packet: bytes) -> None:
    command = of(b"SELECT 1", frame(packet, 0))
    assert text_of(digest_of(command), command, MODE_UTF8) == "SELECT ?"


def test_counts() -> None:
    metrics = Metrics()
    digests = Digests()
    ledger = Ledger(metrics, None, "edge", digests)
    account = ledger.open(1, Session(RULES[0], 0), query_attributes=False)
    replica, primary = Server("r:1", Role.REPLICA), Server("p:1", Role.PRIMARY)
    for number, server in ((1, replica), (2, primary), (3, replica)):
        command = of(b"SELECT a FROM t WHERE b = %d" % number)
        outcome = CommandOutcome(command, Decision(server, Reason.READ, Proof.KNOWN))
        outcome.wait_us = 5000 if number == 3 else 0
        result = Outcome.ERROR if number == 2 else Outcome.OK
        account.record(command, outcome, server, result, 0, number)
    (row,) = digests.rows
    shown = dict(zip(digest_rows.COLUMNS, row, strict=True))
    assert shown["text"] == "SELECT a FROM t WHERE b = ?"
    assert (shown["count"], shown["rows"], shown["on_replicas"]) == (3, 6, 2)
    assert (shown["waits"], shown["wait_sum_ms"], shown["errors"]) == (1, 5.0, 1)
    command = Command(Code.COM_STMT_PREPARE, RULES[0], b"", CLASSIFIER.classify(b"SELECT 2", 4))
    account.record(command, CommandOutcome(command), primary, Outcome.OK)
    assert len(digests.rows) == 1


def test_the_table_is_bounded() -> None:
    digests = Digests()
    often = of(b"SELECT often FROM t")
    total = 3 * GENERATION
    for number in range(total):
        for command in (of(b"SELECT c%d FROM t" % number), often):
            digest = digest_of(command)
            entry = digests.young.get(digest) or digests.find(digest, command, MODE_UTF8)
            entry.add(10, 1, False, 0, False)
    rows = digests.rows
    assert len(rows) <= 2 * GENERATION + 1
    assert rows[0][0] == OTHERS
    counts = {row[0]: row[2] for row in rows}
    assert counts[digest_of(often)] == total
    assert sum(count for count in counts.values() if isinstance(count, int)) == 2 * total


def test_workers_are_added_up() -> None:
    rows = digest_rows.merged(
        [
            [
                ["others", None, 1, 900.0, 9.0, 0, 0, 0, 0.0, 0],
                ["a", "A", 2, 4.0, 3.0, 2, 1, 0, 0.0, 0],
            ],
            [["a", "A", 2, 2.0, 5.0, 1, 2, 1, 0.5, 1], ["b", "B", 1, 7.0, 7.0, 1, 0, 0, 0.0, 0]],
        ]
    )
    assert [row[0] for row in rows] == ["b", "a", "others"]
    assert rows[1] == ["a", "A", 4, 6.0, 5.0, 3, 3, 1, 0.5, 1, 0.75]


def test_slow_statements(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = [5.0]
    slow_log = SlowLog(1000, lambda: now[0])
    state = Session(RULES[0], 0)
    state.user = "app"
    account = Ledger(Metrics(), None, "edge", None, slow_log).open(1, state, query_attributes=False)
    server = Server("r:1", Role.REPLICA)

    def run(count: int = 1) -> None:
        for _ in range(count):
            command = of(b"SELECT 'secret' FROM t")
            outcome = CommandOutcome(command, Decision(server, Reason.READ, Proof.WAITED))
            outcome.wait_us = 250_000
            account.record(command, outcome, server, Outcome.OK)

    run()
    (line,) = caplog.messages
    assert "waited 0.250 s, COM_QUERY of user 'app' on r:1, reason read, proof waited, ok" in line
    assert "SELECT ? FROM t" in line
    assert "secret" not in line
    run(100)
    assert len(caplog.messages) == LINES_PER_S
    now[0] += 1
    run()
    assert "91 slow statements before it were not logged" in caplog.messages[-1]
    caplog.clear()
    quick = Ledger(Metrics(), None, "edge", None, SlowLog(1 << 62, lambda: 0.0)).open(
        1, state, query_attributes=False
    )
    command = of(b"SELECT 1")
    quick.record(command, CommandOutcome(command), server, Outcome.OK)
    assert caplog.messages == []
