"""What may be asked about earlier statements is answered as by one server, wherever these ran."""

import time
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from protocol.command import com_query
from protocol.constants import Command
from protocol.packet import frame
from protocol.response import ERR_HEADER, ErrPacket, OkPacket
from protocol.resultset import parse_text_row
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.request import diagnostics
from routing.request.command import Command as ClientCommand
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server
from routing.session.diagnostics_area import NOT_KNOWN, ConnectionArea, DiagnosticsArea, rows_sql
from routing.sql.classifier import Classifier
from routing.sql.diagnostics import FOUND_ROWS
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.diagnostics_session import (
    COMMANDS,
    CURSOR,
    PREPARES_READ,
    QUESTIONS,
    READ,
    READS,
    SCHEMA,
    WRITES,
    DiagnosticsSession,
    Step,
    command,
    execute,
    prepare,
    sequence,
    text,
)
from tests.real_mysql.running_proxy import RunningProxy


@pytest.fixture(scope="module", autouse=True)
def _schema(cluster: Cluster, _empty_schema: None) -> None:
    with closing(cluster.primary.connect()) as client, client.cursor() as cursor:
        for sql in SCHEMA:
            cursor.execute(sql)
    cluster.wait_caught_up()


@pytest.fixture(scope="module")
def running(cluster: Cluster, _schema: None) -> Iterator[RunningProxy]:
    proxy = RunningProxy(cluster, "diagnostics-area", {"wait_budget": "10s"})
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr
        assert "broke the protocol" not in proxy.stderr, proxy.stderr


def differences(
    cluster: Cluster, address: str, steps: list[Step], deprecate_eof: bool = True
) -> str:
    """The first step that a proxy answers in another way than the primary; "" if there is none."""
    answers = []
    for server in (cluster.primary.address, address):
        with closing(DiagnosticsSession(server, deprecate_eof)) as session:
            answers.append(session.play(steps))
    for number, (expected, answer) in enumerate(zip(*answers, strict=False)):
        if expected != answer:
            before = [name for name, _ in steps[: number + 1]]
            pairs = [pair for pair in zip(expected, answer, strict=False) if pair[0] != pair[1]]
            return f"{before[-6:]}: {pairs or (expected, answer)}"
    return ""


# The rules, on a direct connection.

RULES = READS + WRITES + COMMANDS + QUESTIONS
UNSURE = [
    "reset connection",  # the session's part of it is `Session.reset`
    "execute no statement",
    "reset no statement",
    "reset statement",  # COM_STMT_RESET is about none here
    "fetch",
]
SETTING = "INSERT IGNORE INTO small VALUES (9999), (9999), (1)"


class _Watched(DiagnosticsSession):
    """A session that tells the model what it does."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.area = ConnectionArea(Server("primary", Role.PRIMARY))
        self.model = DiagnosticsArea()
        self._classifier = Classifier()

    def watch(self, packet: bytes, payloads: list[bytes]) -> None:
        """A command was answered."""
        code = Command(packet[4])
        statement = None
        if code in (Command.COM_QUERY, Command.COM_STMT_PREPARE):
            statement = self._classifier.classify(packet[5:], 0)
        rules = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 1.0, TimeoutPolicy.PRIMARY)
        done = ClientCommand(code, rules, packet, statement)
        outcome = CommandOutcome(done)
        last = payloads[-1] if payloads else b""
        if last[:1] == bytes((ERR_HEADER,)):
            outcome.error = ErrPacket.parse(last).code
        elif code is Command.COM_STMT_PREPARE:
            outcome.warnings = payloads[0][10] | payloads[0][11] << 8
        elif last:
            outcome.warnings = OkPacket.parse(last, self.client.capabilities).warnings
        if payloads and payloads[0][0] not in (0, ERR_HEADER):
            outcome.rows = len(payloads) - 2 - payloads[0][0]
        diagnostics.on_end(self.model, self.area, done, outcome)


def _asked(session: DiagnosticsSession, sql: str) -> list[int]:
    packets = session.client.query(sql)
    return [int(value or b"0") for value in parse_text_row(packets[-2][1])]


@pytest.mark.parametrize(
    "sql", [name for name, _ in READS + WRITES + QUESTIONS if name.startswith(tuple("SIUDBCGTEP/"))]
)
def test_the_rules_for_statements_are_the_servers(cluster: Cluster, sql: str) -> None:
    """The model says of each statement what a server says of it."""
    with closing(_Watched(cluster.primary.address)) as session:
        for parts in (FOUND_ROWS, 0):
            for first in ("SET sql_mode = ''", "SELECT 1 UNION SELECT 2", SETTING, sql):
                packets = session.client.query(first)
                packet = frame(com_query(first.encode(), False), 0)
                session.watch(packet, [payload for _, payload in packets])
            model = session.model
            if parts == FOUND_ROWS:
                found, count = _asked(session, "SELECT FOUND_ROWS(), ROW_COUNT()")
                assert model.found_rows in (found, NOT_KNOWN)
                assert model.row_count in (count, NOT_KNOWN)
                # What is kept is not taken for what the server alone knows.
                assert found == 2 or model.found_rows != 2
            else:
                (number,) = _asked(session, "SELECT @@warning_count")
                assert model.conditions == number
        session.text("DELETE FROM sink")


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000, 1001, 20_000])
@pytest.mark.parametrize(
    "setting",
    [
        "sql_select_limit = 0",
        "sql_big_selects = 0, max_join_size = 1",
        "max_execution_time = 60000",
        "autocommit = 0",
        "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
        "cte_max_recursion_depth = 1",
    ],
)
def test_a_query_that_finds_so_many_rows(cluster: Cluster, rows: int, setting: str) -> None:
    with closing(DiagnosticsSession(cluster.primary.address)) as session:
        session.text(f"SET {setting}")
        answer = session.text(rows_sql(rows).decode())
        assert not answer[-1][3] & 1  # no transaction was begun
        assert _asked(session, "SELECT FOUND_ROWS() LIMIT 1") == [rows]


# Through the proxy.

CALC = "SELECT SQL_CALC_FOUND_ROWS a FROM rows3 LIMIT 1"
WARNS = "SELECT 'x' + a FROM rows3"
PING = command("ping", Command.COM_PING)
STATISTICS = ("statistics", dict(COMMANDS)["statistics"])
SUNK = (text("SELECT n FROM sink"), text("DELETE FROM sink"))

CASES: dict[str, list[Step]] = {
    "questions behind questions": [
        step
        for question in QUESTIONS[:10]
        for then in QUESTIONS[11:]
        for step in (text(READ), question, then)
    ],
    "a statement is prepared between": [
        step
        for then in QUESTIONS
        for step in (text("SELECT a FROM rows3 LIMIT 2"), prepare("SELECT b FROM rows3"), then)
    ],
    "a statement that cannot be prepared": [
        step for then in QUESTIONS for step in (prepare("SELECT nothing FROM rows3"), then)
    ],
    "prepared reads": [
        step
        for read in (execute(CALC), execute(CURSOR, 1), execute("SELECT a FROM rows3 LIMIT 1, 1"))
        for then in QUESTIONS
        for step in (read, then)
    ],
    "reads with warnings": [
        step
        for read in (text(WARNS), text("SELECT (SELECT a FROM rows3)"))
        for then in QUESTIONS
        for step in (read, then)
    ],
    "a fresh session's write": [
        text("INSERT INTO small VALUES (1)"),
        text("SET @n = FOUND_ROWS()"),
        text("SELECT @n"),
    ],
    "a fresh session": [text("SET @n = FOUND_ROWS(), @r = ROW_COUNT()"), text("SELECT @n, @r")],
    "a fresh session's question": [text("SELECT FOUND_ROWS(), ROW_COUNT()")],
    "a fresh session's warnings": [text("SHOW WARNINGS")],
    "COM_STATISTICS between": [text(READ), STATISTICS, text("SELECT ROW_COUNT()")],
    "a procedure that keeps what was found": [
        *(text(READ), text("CALL noop()"), text("SELECT FOUND_ROWS()")),
        *(text(READ), text("CALL silent()"), text("SELECT FOUND_ROWS()")),
        *(text(READ), text("CALL counts()"), text("SELECT ROW_COUNT()")),
        *(text("UPDATE rows3 SET b = b"), text("CALL noop()"), text("SELECT ROW_COUNT()")),
    ],
    "a statement is prepared in a transaction": [
        text("START TRANSACTION READ ONLY"),
        *(text("CALL shows()"), prepare("SELECT b FROM rows3"), text("SELECT ROW_COUNT()")),
        *(text("CALL counts()"), prepare("SELECT b FROM small"), text("SELECT FOUND_ROWS()")),
        text("ROLLBACK"),
    ],
    "a transaction begins between": [
        step
        for read in (text(READ), text(CALC), execute(CALC), execute(CURSOR, 1))
        for question in (
            *(text("SELECT FOUND_ROWS()"), execute("SELECT FOUND_ROWS()")),
            *(text("SELECT @@warning_count"), text("SHOW WARNINGS")),
        )
        for step in (read, text("BEGIN"), question, text("ROLLBACK"))
    ],
    "one question about two statements": [
        step
        for read in (text(READ), text(CALC), execute(CALC), text(WARNS))
        for step in (read, PING, text("SELECT FOUND_ROWS(), ROW_COUNT()"))
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_asked(cluster: Cluster, running: RunningProxy, case: str) -> None:
    assert not differences(cluster, running.address, CASES[case])


@pytest.mark.parametrize("name", ["ping", "init db", "set option"])
def test_the_warnings_that_an_ok_tells_of(
    cluster: Cluster, running: RunningProxy, name: str
) -> None:
    asks: Step = (name, dict(COMMANDS)[name])
    steps = [
        *(text(WARNS), asks, asks, text("SHOW WARNINGS"), asks),
        *(text(SETTING), text(READ), asks, execute(WARNS), asks),
        *(text("SELECT nothing FROM rows3"), asks, text("/* */"), asks),
    ]
    assert not differences(cluster, running.address, steps)


def test_the_proxys_own_questions_do_not_count(cluster: Cluster, proxy: StartProxy) -> None:
    steps = [
        step
        for first in (text("SHOW COLUMNS FROM rows3"), text(READ), text("UPDATE rows3 SET b = b"))
        for then in (text("SELECT FOUND_ROWS()"), text("SELECT FOUND_ROWS(), LAST_INSERT_ID()"))
        for step in (first, text("INSERT INTO small VALUES (1)"), then)
    ]
    running = proxy(consistency="READ_ALL_WRITES", scope="user", wait_budget="10s")
    assert not differences(cluster, running.address, steps)


def test_nothing_shows_in_a_trace(cluster: Cluster, running: RunningProxy) -> None:
    steps = [
        text("SET optimizer_trace = 'enabled=on', optimizer_trace_offset = 0"),
        text("SET optimizer_trace_limit = 100"),
        *(text("CALL noop()"), text("SELECT FOUND_ROWS()"), text("CALL counts()")),
        text("SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"),
    ]
    assert not differences(cluster, running.address, steps)


def test_a_question_whose_replica_is_gone(cluster: Cluster, proxy: StartProxy) -> None:
    """The session goes on: a text is run again; what was prepared cannot be known any more."""
    running = proxy(wait_budget="10s")
    for read in (text(CALC), execute(CALC), execute(WARNS)):
        with closing(DiagnosticsSession(running.address)) as session:
            read[1](session)
            for replica in cluster.replicas:
                replica.end_other_connections()
            for question in (text("SET @n = FOUND_ROWS()"), text("SELECT FOUND_ROWS()")):
                assert question[1](session)[-1][0] != ERR_HEADER
            assert session.text("SELECT 1")[2] == b"\x011"


LEVELS = {
    "default": "DO 0",
    "monotonic": "SET tidegate_consistency = 'MONOTONIC_READS'",
    "strong": "SET tidegate_consistency = 'STRONG'",
    "all": "SET tidegate_consistency = 'READ_ALL_WRITES', tidegate_scope = 'user'",
}


def _random(
    cluster: Cluster, running: RunningProxy, position: str, seeds: range, deprecate_eof: bool = True
) -> None:
    """Sequences of statements, commands and questions at a level, or without autocommit."""
    for seed in seeds:
        steps = sequence(Random(seed), 10)
        if position != "default":
            # Where it is prepared on a replica, the primary may have to be asked something.
            steps = [step for step in steps if step is not PREPARES_READ]
        if position in LEVELS:
            # A direct connection knows no levels: what comes first leaves the same there.
            first = text("SET @level = 1")

            def set_level(session: DiagnosticsSession) -> list[bytes]:
                level = running.address == session.address
                return session.text(LEVELS[position] if level else "SET @level = 1")[:0]

            steps = [first, ("level", set_level), text("DO 1"), *steps]
        else:
            steps = [text("SET autocommit = 0"), *steps, text("ROLLBACK")]
        found = differences(cluster, running.address, steps, deprecate_eof)
        assert not found, f"seed {seed}: {found}"


@pytest.mark.parametrize("position", [*LEVELS, "in transactions"])
def test_random_sequences(cluster: Cluster, running: RunningProxy, position: str) -> None:
    _random(cluster, running, position, range(12))


def test_random_sequences_of_an_old_client(cluster: Cluster, running: RunningProxy) -> None:
    _random(cluster, running, "default", range(100, 108), deprecate_eof=False)


@pytest.mark.deep
@pytest.mark.parametrize("position", [*LEVELS, "in transactions"])
def test_many_random_sequences(cluster: Cluster, running: RunningProxy, position: str) -> None:
    _random(cluster, running, position, range(1000, 1400))


@pytest.mark.deep
def test_sessions_that_rest(cluster: Cluster, proxy: StartProxy) -> None:
    """Sessions that give their connections back between statements."""
    running = proxy(connection_sharing="on", connection_sharing_delay="50ms", wait_budget="10s")
    for seed in range(40):
        random = Random(seed)
        resting: list[Step] = []
        for name, play in sequence(random, 5):
            resting.append((name, play))
            if random.random() < 0.3:
                resting.append(("rest", lambda _: time.sleep(0.2) or []))
        found = differences(cluster, running.address, resting)
        assert not found, f"seed {seed}: {found}"


@pytest.mark.parametrize("role", ["ALL", "DEFAULT", "ALL EXCEPT nobody", "nobody"])
@pytest.mark.parametrize("deprecate_eof", [True, False])
def test_the_question_which_roles_are_active_does_not_count(
    cluster: Cluster, running: RunningProxy, role: str, deprecate_eof: bool
) -> None:
    asks = ("SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS")
    before = (
        "SELECT a FROM rows3",
        "SELECT a FROM rows3 LIMIT 2",
        "SELECT 1/0",
        "UPDATE rows3 SET b = b",
    )
    for first in before:
        for ask in asks:
            steps = [text(sql) for sql in (first, f"SET ROLE {role}", ask, "SHOW WARNINGS")]
            assert not differences(cluster, running.address, steps, deprecate_eof)
